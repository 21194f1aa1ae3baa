"""What a build would ask a language model, and what that would cost, before it is asked.

The prompts for reading are those of the build itself. Which pages will be written is guessed from
what the grammar finds in the same sources, corrected by how many concepts the model found in those
that it has read. How long replies are comes from the ledger, or from a rule of thumb.
"""

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass

from kbwiki.engines.asker import CallRecord, prompt_sha, reply_key
from kbwiki.engines.chat import Usage
from kbwiki.engines.llm import WINDOW_TOKENS, best_evidence, extract_prompt, write_prompt
from kbwiki.engines.local import LocalEngine
from kbwiki.engines.prices import price
from kbwiki.engines.tokens import count_tokens
from kbwiki.engines.windows import cut_windows
from kbwiki.prompts.extract import ExtractReply
from kbwiki.records import Brief, Document, Statement
from kbwiki.stages import extract, ingest
from kbwiki.stages.resolve import Found, ReadSource, match_concepts
from kbwiki.stages.stage import Services
from kbwiki.text.concepts import NewConcept, SourceCandidate, resolve_candidates
from kbwiki.text.normal import canonical_key

READ_RATIO = 0.45
"""Tokens of a reply for each token of a part that is read, while the ledger is empty."""
PAGE_TOKENS = 350
"""Tokens of a page, while the ledger is empty."""
MAX_COMPARED = 50
"""Sources that were read already and are compared with what the grammar finds in them."""


@dataclass(frozen=True, slots=True)
class StagePlan:
    """What a stage would ask; ``usd`` is None where the model's price is not known."""

    stage: str
    calls: int
    cached: int
    input_tokens: int
    output_tokens: int
    usd: float | None


@dataclass(frozen=True, slots=True)
class _Note:
    """A source to come: its name and what it holds."""

    uri: str
    document: Document


def plan_build(services: Services, provider: str, model: str) -> list[StagePlan]:
    """Return what reading and writing would ask for the services' paths and the stale sources."""
    notes = _stale_notes(services)
    ratios = {row["task"]: row for row in services.database.dicts("read_ratios")}
    return [
        _plan_extract(services, notes, provider, model, ratios.get("extract")),
        _plan_write(services, notes, model, ratios.get("write")),
    ]


def _stale_notes(services: Services) -> list[_Note]:
    """Return the files that are new or changed, and the sources that this engine has not read."""
    out: dict[str, _Note] = {}
    skip: list[str] = []
    while items := ingest.pending(services, skip):
        skip += [item.uri for item in items]
        for item in items:
            read = ingest.work(services, item)
            if read.document is not None:
                out[item.uri] = _Note(item.uri, read.document)
    skip = []
    while rows := extract.pending(services, skip):
        skip += [row.uri for row in rows]
        for row in rows:
            out.setdefault(row.uri, _Note(row.uri, extract.document_of(row)))
    return [out[uri] for uri in sorted(out)]


def _plan_extract(
    services: Services,
    notes: list[_Note],
    provider: str,
    model: str,
    ratio: dict[str, float] | None,
) -> StagePlan:
    calls, cached, tokens, read = 0, 0, 0, 0
    for note in notes:
        windows = cut_windows(note.document, WINDOW_TOKENS)
        for number, window in enumerate(windows, 1):
            prompt = extract_prompt(note.document, window, str(number), str(len(windows)))
            call = CallRecord("extract", provider, model, note.uri, prompt_sha(prompt))
            key = reply_key(call, ExtractReply)
            if services.database.dicts("find_reply", {"key": key}):
                cached += 1
                continue
            calls += 1
            tokens += count_tokens(prompt)
            read += count_tokens(note.document.text[window.start : window.end])
    out = tokens * ratio["output_per_input"] if ratio else read * READ_RATIO
    return _priced("extract", model, calls, cached, tokens, round(out))


def _plan_write(
    services: Services, notes: list[_Note], model: str, ratio: dict[str, float] | None
) -> StagePlan:
    briefs = _briefs(notes)
    of_concepts = sum(brief.kind != "source" for brief in briefs)
    calls = round(of_concepts * _correction(services)) + len(briefs) - of_concepts
    if ratio:
        tokens_in, tokens_out = ratio["input_tokens"], ratio["output_tokens"]
    else:
        tokens = sum(_tokens_of(brief) for brief in briefs)
        tokens_in, tokens_out = tokens / max(1, len(briefs)), PAGE_TOKENS
    return _priced("write", model, calls, 0, round(calls * tokens_in), round(calls * tokens_out))


def _tokens_of(brief: Brief) -> int:
    """Return the tokens of a prompt for a page; the model words each claim once more."""
    evidence = best_evidence(brief)
    return count_tokens(write_prompt(brief, evidence)) + sum(count_tokens(s.text) for s in evidence)


def _correction(services: Services) -> float:
    """Return how many concepts the model finds for each that the grammar finds, 1 if unknown."""
    rows = services.database.rows("list_read", extract.SourceRow, {"limit": MAX_COMPARED})
    known = services.database.value("count_concepts_in", {"sources": [row.id for row in rows]})
    briefs = _briefs([_Note(row.uri, extract.document_of(row)) for row in rows])
    guessed = sum(brief.kind != "source" for brief in briefs)
    return float(known) / guessed if known and guessed else 1.0


def _priced(
    stage: str, model: str, calls: int, cached: int, tokens_in: int, tokens_out: int
) -> StagePlan:
    usd = price(model, Usage(tokens_in, tokens_out))
    return StagePlan(stage, calls, cached, tokens_in, tokens_out, usd)


def _briefs(notes: list[_Note]) -> list[Brief]:
    """Return the briefs of the pages that these notes would feed, as the grammar reads them."""
    engine = LocalEngine()
    sources: dict[str, ReadSource] = {}
    candidates: list[SourceCandidate] = []
    for at, note in enumerate(notes):
        read = engine.extract(note.document, note.uri)
        key = f"{canonical_key(read.title)}|{note.uri}"
        candidates += [SourceCandidate(key, c) for c in read.candidates]
        words = extract.words_of(note.document)
        claims = [
            {"start_at": c.start, "end_at": c.end, "text": c.text, "rank": c.rank, "lang": c.lang}
            for c in read.claims
        ]
        sources[key] = ReadSource(
            id=at,
            key=key,
            title=read.title,
            fingerprint="",
            lang=read.lang,
            text=note.document.text,
            lemmas=words.lemmas,
            starts=words.starts,
            ends=words.ends,
            links=[],
            claims=claims,
            chunks=[],
        )
    concepts, found = match_concepts(resolve_candidates(candidates, len(sources)), sources)
    return _briefs_of(concepts, found)


def _briefs_of(concepts: list[NewConcept], found: dict[str, Found]) -> list[Brief]:
    titles = {c.key: c.title for c in concepts}
    mine: dict[str, list[Statement]] = defaultdict(list)
    of_source: dict[str, list[Statement]] = {}
    for key, source in found.items():
        named: dict[int, list[tuple[int, int, str]]] = defaultdict(list)
        owners: dict[int, set[str]] = defaultdict(set)
        for match, at, _, _ in source.mentions:
            if at is not None:
                named[at].append((0, 0, titles[match.owner]))
                owners[at].add(match.owner)
        statements = _statements(source, named.__getitem__)
        of_source[key] = statements
        for at, keys in owners.items():
            for owner in keys:
                mine[owner].append(statements[at])
    pages = [
        Brief(c.title, c.kind, c.lang, (), tuple(mine[c.key])) for c in concepts if mine[c.key]
    ]
    return pages + [
        Brief(found[key].source.title, "source", "en", (), tuple(statements))
        for key, statements in of_source.items()
        if statements
    ]


def _statements(
    found: Found, named: Callable[[int], list[tuple[int, int, str]]]
) -> list[Statement]:
    source = found.source
    return [
        Statement(
            source_id=source.id,
            source_key=source.key,
            source_title=source.title,
            start=claim["start_at"],
            end=claim["end_at"],
            text=claim["text"],
            lang=claim["lang"],
            page=None,
            heading="",
            rank=claim["rank"],
            defines=False,
            mentions=tuple(named(at)),
        )
        for at, claim in enumerate(source.claims)
    ]
