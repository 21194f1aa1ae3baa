"""What a build would ask a language model, and what that would cost, before it is asked.

The build is rehearsed in a transaction that is rolled back: files are taken in, sources read,
concepts resolved, and the prompts that follow are those of the build itself. What the model has
said of a source comes from the replies kept; of any other, the grammar's reading stands in. So how
many pages an unread source brings is a guess, corrected by how many concepts the model found in
those that it has read. How long replies are comes from the ledger, or from a rule of thumb.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

from pydantic import BaseModel

from kbwiki.engines import Engine
from kbwiki.engines.asker import CallRecord, prompt_sha, reply_key
from kbwiki.engines.chat import Chat, Usage
from kbwiki.engines.late import LateChat
from kbwiki.engines.llm import (
    WINDOW_TOKENS,
    LlmEngine,
    extract_prompt,
    less,
    same_prompt,
    worded,
    write_prompt,
)
from kbwiki.engines.local import LocalEngine
from kbwiki.engines.prices import price
from kbwiki.engines.replies import BadReply, parse_reply
from kbwiki.engines.tokens import count_tokens
from kbwiki.engines.windows import Window, cut_windows, halves
from kbwiki.errors import InputError, ModelError
from kbwiki.prompts.extract import ExtractReply
from kbwiki.prompts.same import SameReply
from kbwiki.prompts.write import WriteReply
from kbwiki.records import (
    Answer,
    Article,
    Brief,
    Document,
    Extraction,
    Pair,
    Passage,
    Statement,
)
from kbwiki.stages import classify_edges, extract, ingest, link, resolve, write
from kbwiki.stages.stage import Services

READ_RATIO = 0.45
"""Tokens of a reply for each token of a part that is read, while the ledger is empty."""
PAGE_TOKENS = 350
"""Tokens of a page, while the ledger is empty."""
VERDICT_TOKENS = 12
"""Tokens of the answer whether two names are one, while the ledger is empty."""
_GUESSED = "guess"
MAX_COMPARED = 50
"""Sources that were read already and are compared with what the grammar finds in them."""

Told = Callable[[str, int], None]
"""Hears the stage and how many more of its items were looked at."""


@dataclass(frozen=True, slots=True)
class StagePlan:
    """What a stage would ask; ``usd`` is None where the model's price is not known.

    ``guessed`` of the pages to write rest on sources that no model has read: how many concepts it
    will find in them is the grammar's guess. Names to compare and edges follow from these.
    """

    stage: str
    calls: int
    cached: int
    input_tokens: int
    output_tokens: int
    usd: float | None
    guessed: int = 0


@dataclass(slots=True)
class _Count:
    """Calls that a stage would make, those that the replies kept answer, and tokens of prompts."""

    calls: int = 0
    cached: int = 0
    tokens: int = 0
    n_read: int = 0
    """Tokens of the parts that would be read, without what stands around them in the prompt."""
    n_pairs: int = 0
    """Names to compare."""


@dataclass(slots=True)
class _Rehearsal:
    """What is known of the calls to come; ``guessed`` are the sources whose reading stands in."""

    services: Services
    provider: str
    model: str
    reading: _Count = field(default_factory=_Count)
    comparing: _Count = field(default_factory=_Count)
    guessed: set[int] = field(default_factory=set)
    last_concept: int = 0
    correction: float = 1.0
    failures: list[str] = field(default_factory=list)


class _Undo(Exception):
    """Ends the rehearsal, and with it its transaction."""


def plan_build(
    services: Services, provider: str, model: str, on_progress: Told = lambda stage, n: None
) -> tuple[list[StagePlan], list[str]]:
    """Return what reading and writing would ask for the services' paths and all that is stale.

    The second list says which files cannot be read. Nothing is stored and nothing asked.
    """
    ratios = {row["task"]: row for row in services.database.dicts("read_ratios")}
    plan = _Rehearsal(services, provider, model)
    plan.services = replace(services, engine=_StandIn(plan, services.engine), memo={})
    with suppress(_Undo), services.database.transaction():
        plan.last_concept = services.database.value("last_concept")
        _ingest(plan, on_progress)
        _extract(plan, on_progress)
        if plan.guessed:
            _correct(plan)
        resolve.run(plan.services)
        known, guessed = _write(plan, on_progress)
        link.run(plan.services)
        edges, n_edges = _classify(plan)
        raise _Undo
    plans = [
        _price_reading(plan, ratios.get("extract")),
        _price_comparing(plan, ratios.get("same")),
        _price_writing(plan, known, guessed, ratios.get("write")),
        _priced(plan, "classify-edges", edges, 2 * n_edges * classify_edges.ANSWER_TOKENS),
    ]
    return plans, plan.failures


def _ingest(plan: _Rehearsal, on_progress: Told) -> None:
    skip: list[str] = []
    while items := ingest.pending(plan.services, skip):
        for item in items:
            try:
                read = ingest.work(plan.services, item)
            except InputError as error:
                skip.append(item.uri)
                plan.failures.append(str(error))
                continue
            ingest.save(plan.services, item, read)
        on_progress("ingest", len(items))
    ingest.finish(plan.services)


def _extract(plan: _Rehearsal, on_progress: Told) -> None:
    while rows := extract.pending(plan.services, []):
        for row in rows:
            result = extract.work(plan.services, row)
            extract.save(plan.services, row, result)
            if result[0].engine == _GUESSED:
                plan.guessed.add(row.id)
        on_progress("extract", len(rows))


def _classify(plan: _Rehearsal) -> tuple[_Count, int]:
    """Count the prompts on edges, each twice: in both orders of the ends; and the edges in them.

    Those whose answer is no direction are not asked again, so this is the most it can be.
    """
    prompts, n_edges, n_answered = classify_edges.rehearse(plan.services, plan.model)
    tokens = sum(map(count_tokens, prompts))
    return _Count(2 * len(prompts), n_answered, 2 * tokens), n_edges


def _correct(plan: _Rehearsal) -> None:
    """Compare what the model found in sources that it has read with what the grammar finds."""
    database = plan.services.database
    rows = database.rows("list_read", extract.SourceRow, {"limit": MAX_COMPARED})
    rows = [row for row in rows if row.id not in plan.guessed]
    sources = {"sources": [row.id for row in rows]}
    known = database.value("count_concepts_in", sources)
    if not known:
        return
    local = replace(plan.services, engine=LocalEngine())
    with suppress(_Undo), database.transaction():
        for source_id in plan.guessed:
            database.run("delete_extraction", {"source_id": source_id})
        for row in rows:
            extract.save(local, row, extract.work(local, row))
        resolve.run(local)
        guessed = database.value("count_concepts_in", sources)
        if guessed:
            plan.correction = known / guessed
        raise _Undo


def _write(plan: _Rehearsal, on_progress: Told) -> tuple[_Count, _Count]:
    """Return the calls for pages whose sources were all read, and those that rest on a guess."""
    known, guessed = _Count(), _Count()
    new = 0
    skip: list[str] = []
    while items := write.pending(plan.services, skip):
        for item in items:
            skip.append(write.STAGE.key(item))
            brief, evidence = worded(item.brief)
            stands_in = [s for s in brief.statements if s.source_id in plan.guessed]
            if not evidence:
                continue
            if not stands_in:
                _count_page(plan, known, brief, evidence)
                continue
            guessed.calls += 1
            guessed.tokens += count_tokens(write_prompt(brief, evidence))
            # The model words each claim once more.
            guessed.tokens += sum(count_tokens(s.text) for s in evidence if s in stands_in)
            new += item.concept_id is not None and item.concept_id > plan.last_concept
        on_progress("write", len(items))
    if guessed.calls:
        factor = 1 + new * (plan.correction - 1) / guessed.calls
        guessed.calls, guessed.tokens = (
            round(guessed.calls * factor),
            round(guessed.tokens * factor),
        )
    return known, guessed


def _count_page(plan: _Rehearsal, count: _Count, brief: Brief, evidence: list[Statement]) -> None:
    """Count the calls for a page: more than one where a kept reply was cut."""
    while evidence:
        prompt = write_prompt(brief, evidence)
        kept = _kept(plan, "write", prompt, WriteReply)
        if kept is None:
            count.calls += 1
            count.tokens += count_tokens(prompt)
            return
        count.cached += 1
        evidence = less(evidence) if kept == "" else []


def _count_window(
    plan: _Rehearsal, count: _Count, document: Document, window: Window, number: str, total: str
) -> None:
    """Count the calls for a part of a source: its halves too where a kept reply was cut."""
    prompt = extract_prompt(document, window, number, total)
    kept = _kept(plan, "extract", prompt, ExtractReply)
    if kept is None:
        count.calls += 1
        count.tokens += count_tokens(prompt)
        count.n_read += count_tokens(document.text[window.start : window.end])
        return
    count.cached += 1
    for at, piece in enumerate(halves(document, window) if kept == "" else []):
        _count_window(plan, count, document, piece, f"{number}.{at + 1}", total)


def _kept(plan: _Rehearsal, task: str, prompt: str, kind: type[BaseModel]) -> str | None:
    """Return the reply that is kept for a prompt; None where there is none that can be read."""
    call = CallRecord(task, plan.provider, plan.model, "", prompt_sha(prompt))
    rows = plan.services.database.dicts("find_reply", {"key": reply_key(call, kind)})
    if not rows:
        return None
    reply: str = rows[0]["reply"]
    try:
        if reply:
            parse_reply(reply, kind)
    except BadReply:
        return None
    return reply


def _price_reading(plan: _Rehearsal, ratio: dict[str, float] | None) -> StagePlan:
    count = plan.reading
    n_out = count.tokens * ratio["output_per_input"] if ratio else count.n_read * READ_RATIO
    return _priced(plan, "extract", count, round(n_out))


def _price_comparing(plan: _Rehearsal, ratio: dict[str, float] | None) -> StagePlan:
    count = plan.comparing
    n_out = count.calls * ratio["output_tokens"] if ratio else count.n_pairs * VERDICT_TOKENS
    return _priced(plan, "resolve", count, round(n_out))


def _price_writing(
    plan: _Rehearsal, known: _Count, guessed: _Count, ratio: dict[str, float] | None
) -> StagePlan:
    n_guessed = guessed.calls * ratio["input_tokens"] if ratio else guessed.tokens
    both = _Count(known.calls + guessed.calls, known.cached, known.tokens + round(n_guessed))
    n_out = both.calls * (ratio["output_tokens"] if ratio else PAGE_TOKENS)
    return replace(_priced(plan, "write", both, round(n_out)), guessed=guessed.calls)


def _priced(plan: _Rehearsal, stage: str, count: _Count, n_out: int) -> StagePlan:
    usd = price(plan.model, Usage(count.tokens, n_out))
    return StagePlan(stage, count.calls, count.cached, count.tokens, n_out, usd)


def _refuse() -> Chat:
    raise ModelError("plan: a reply that was kept is gone.")


class _Shelf:
    """The replies kept, and nothing else: no call is admitted and none is written down."""

    def __init__(self, plan: _Rehearsal) -> None:
        self._database = plan.services.database

    def find(self, key: str) -> tuple[str, str] | None:
        rows = self._database.dicts("find_reply", {"key": key})
        return (rows[0]["model"], rows[0]["reply"]) if rows else None

    def begin(self, call: CallRecord, input_tokens: int, output_tokens: int) -> int:
        return 0

    def end(self, number: int, call: CallRecord, key: str, reply: str | None) -> None:
        """Keep nothing."""

    def forget(self, number: int) -> None:
        """Keep nothing."""

    def note(self, call: CallRecord) -> None:
        """Keep nothing."""

    def drop(self, what: str) -> None:
        """Count nothing."""


class _StandIn:
    """Reads as the replies kept say, else as the grammar does; asks nobody."""

    model = ""
    is_paid = True

    def __init__(self, plan: _Rehearsal, engine: Engine) -> None:
        self.name = engine.name
        self._plan = plan
        self._replayed = LlmEngine(LateChat(plan.provider, plan.model, _refuse), _Shelf(plan))

    def extract(self, document: Document, item: str = "") -> Extraction:
        windows = cut_windows(document, WINDOW_TOKENS)
        asked = _Count()
        for number, window in enumerate(windows, 1):
            _count_window(self._plan, asked, document, window, f"{number}", f"{len(windows)}")
        reading = self._plan.reading
        reading.calls += asked.calls
        reading.cached += asked.cached
        reading.tokens += asked.tokens
        reading.n_read += asked.n_read
        if not asked.calls:
            return self._replayed.extract(document, item)
        return replace(LocalEngine().extract(document, item), engine=_GUESSED)

    def write(self, brief: Brief, item: str = "") -> Article:
        raise AssertionError(item)

    def same(self, pairs: Sequence[Pair], item: str = "") -> list[bool | None]:
        prompt = same_prompt(pairs)
        kept = _kept(self._plan, "same", prompt, SameReply)
        count = self._plan.comparing
        if kept is None:
            count.calls += 1
            count.tokens += count_tokens(prompt)
            count.n_pairs += len(pairs)
            return [None for _ in pairs]
        count.cached += 1
        if kept == "" and len(pairs) > 1:  # it was cut, and each half was asked about
            half = len(pairs) // 2
            return self.same(pairs[:half], item) + self.same(pairs[half:], item)
        return self._replayed.same(pairs, item)

    def answer(self, question: str, passages: Sequence[Passage]) -> Answer:
        raise AssertionError(question)

    def classify(self, prompt: str, item: str = "") -> str:
        raise AssertionError(item)

    def close(self) -> None:
        """Hold nothing, so give nothing back."""
