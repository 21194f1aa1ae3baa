"""How well edges are typed: labelled sentences through `link` and `classify-edges`, then counted.

The work happens in a scratch schema; a store beside it is left as it was.
"""

import csv
import hashlib
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from io import StringIO
from pathlib import Path
from typing import Literal

from kbwiki.db import Database, scratch
from kbwiki.engines.read import kind_of
from kbwiki.errors import InputError
from kbwiki.stages.link import MAX_EVIDENCE, MAX_NAMED
from kbwiki.text.words import is_given_name, lang_of, lemma_key

NONE = "none"
"""The label of a sentence that denies; such an edge is to be rejected."""
UNSAID = "related_to"
_COLUMNS = ("text", "head", "tail", "type")
_HINT = "Columns: text, head, tail, type, separated by tabs."

Half = Literal["all", "tune", "unseen"]


@dataclass(frozen=True, slots=True)
class Case:
    """A sentence and what it says of two things that it names."""

    text: str
    head: str
    tail: str
    type: str
    where: str = field(default="", compare=False)
    """File and line, for messages."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """How the edge of a case was typed; ``type`` is NONE if it was rejected."""

    type: str
    head: str


@dataclass(frozen=True, slots=True)
class Result:
    """A case as it is labelled (``used_in`` read as ``uses`` with its ends swapped) and as typed.

    ``mirrored`` is the verdict where the two ends were stored in the other order.
    """

    case: Case
    verdict: Verdict
    mirrored: Verdict


@dataclass(frozen=True, slots=True)
class Scores:
    """Shares in [0, 1], None where there is nothing to count; counts begin with ``n_``.

    ``direction``: of the edges that have and got a directed type, how many run the right way.
    ``coverage``: of those whose type is stated, how many got one. ``mirror``: how many verdicts do
    not hang on the order of the ends. ``n_denied_held``: denied edges that were typed as if they
    held.
    """

    n: int
    type: float | None
    direction: float | None
    both: float | None
    mirror: float | None
    coverage: float | None
    n_denied: int
    n_denied_held: int

    @property
    def denied_held(self) -> str:
        """The two counts of denied edges, for people."""
        return f"{self.n_denied_held} of {self.n_denied}"


def read_cases(path: Path, half: Half = "all") -> list[Case]:
    """Return the rows of a tab-separated file with the columns text, head, tail and type.

    Raises InputError that names the first line which cannot be used.
    """
    try:
        text = path.read_text("utf-8-sig")
    except OSError as error:
        raise InputError(f"{path}: {(error.strerror or str(error)).lower()}.") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: it is no UTF-8 text.", "Save it as UTF-8.") from error
    # Quotes are letters of a sentence here, and only a line's end ends a row.
    reader = csv.DictReader(StringIO(text, newline=""), delimiter="\t", quoting=csv.QUOTE_NONE)
    cases: list[Case] = []
    try:
        missing = [name for name in _COLUMNS if name not in (reader.fieldnames or ())]
        if missing and reader.fieldnames:
            raise InputError(f"{path}, line 1: there is no column {missing[0]}.", _HINT)
        for row in reader:
            where = f"{path}, line {reader.line_num}"
            if None in row:
                raise InputError(f"{where}: it has more columns than the first line.", _HINT)
            if any((value or "").strip() for value in row.values()):
                cases.append(_case(where, row))
    except csv.Error as error:
        raise InputError(f"{path}, line {reader.line_num}: {error}.", _HINT) from error
    if not cases:
        raise InputError(f"{path}: it holds no row.", "Its first line: text, head, tail, type.")
    return [case for case in cases if half in ("all", half_of(case.text))]


def _case(where: str, row: dict[str, str | None]) -> Case:
    values = [(row.get(name) or "").strip() for name in _COLUMNS]
    for name, value in zip(_COLUMNS, values, strict=True):
        if not value:
            raise InputError(f"{where}: the column {name} is empty or missing.", _HINT)
    text, head, tail, kind = values
    case = Case(text, head, tail, kind, where)
    try:
        _spans(case)
    except ValueError as error:
        raise InputError(
            f"{where}: the text does not hold both ends.",
            "Spell head and tail as the text does.",
        ) from error
    return case


def half_of(text: str) -> Half:
    """Return which half of a file a sentence is in, by its hash: tuned on, or not looked at."""
    return "unseen" if hashlib.sha256(text.encode()).digest()[-1] % 2 else "tune"


def _spans(case: Case) -> tuple[tuple[int, int], tuple[int, int]]:
    """Return where head and tail stand; the longer is looked for first, as one may hold the other.

    Raises ValueError where one of them is not there.
    """
    first, second = sorted((case.head, case.tail), key=len, reverse=True)
    at = case.text.index(first)
    rest = case.text[:at] + "\0" * len(first) + case.text[at + len(first) :]
    other = rest.index(second)
    found = {first: (at, at + len(first)), second: (other, other + len(second))}
    if len(found) < 2:
        raise ValueError(case.head)
    return found[case.head], found[case.tail]


def evaluate(url: str, cases: Sequence[Case]) -> tuple[list[Result], frozenset[str]]:
    """Type every case, in both orders of its ends; also return the types without a direction.

    Raises InputError for a type that is not known.

    ``url`` names a database with a server to work on; its store is not touched.
    """
    with scratch(url) as database:
        known = {row["name"]: row for row in database.dicts("list_edge_types")}
        inverse = {row["inverse"]: name for name, row in known.items() if row["inverse"] != name}
        wanted = [_stored(case, known.keys(), inverse) for case in cases]
        for number, case in enumerate(wanted):
            _lay(database, case, 2 * number, swap=False)
            _lay(database, case, 2 * number + 1, swap=True)
        database.dicts("link_concepts", {"max_named": MAX_NAMED, "max_kept": MAX_EVIDENCE})
        database.dicts("classify_by_rules", {"with_model": False})
        found = {
            row["number"]: Verdict(row["type"] or NONE, row["head"])
            for row in database.dicts("list_edge_verdicts")
        }
    symmetric = frozenset(name for name, row in known.items() if row["is_symmetric"])
    return [
        Result(case, found[2 * number], found[2 * number + 1]) for number, case in enumerate(wanted)
    ], symmetric


def _stored(case: Case, known: Collection[str], inverse: dict[str, str]) -> Case:
    told = case.type.casefold().replace("-", "_").replace(" ", "_")
    if told in inverse:
        return replace(case, head=case.tail, tail=case.head, type=inverse[told])
    if told != NONE and told not in known:
        raise InputError(
            f"{case.where or case.text}: there is no type {case.type}.",
            f"Known: {', '.join(sorted({*inverse, *known}))}, {NONE}.",
        )
    return replace(case, type=told)


def _lay(database: Database, case: Case, number: int, swap: bool) -> None:
    """Lay one statement with its two mentions as the stages before `link` would."""
    ends = list(zip((case.head, case.tail), _spans(case), strict=True))
    lang = lang_of(case.text)
    claim = {"number": str(number), "text": case.text, "lang": lang}
    claim_id = database.value("lay_statement", claim)
    for name, (start, end) in reversed(ends) if swap else ends:
        database.run(
            "lay_mention",
            {
                "claim_id": claim_id,
                "key": f"{name} {number}",
                "title": name,
                "kind": _kind(name),
                "start_at": start,
                "end_at": end,
            },
        )


def _kind(name: str) -> str:
    words = name.split()
    if len(words) > 1 and words[-1][:1].isupper() and is_given_name(words[0]):
        return "person"
    return kind_of(lemma_key(name)) or "concept"


def score(results: Sequence[Result], symmetric: frozenset[str]) -> Scores:
    """Return the scores of some results; ``symmetric`` are the types without a direction."""
    undirected = symmetric | {NONE}
    aimed = [r for r in results if not {r.case.type, r.verdict.type} & undirected]
    stated = [r for r in results if r.case.type not in {NONE, UNSAID}]
    denied = [r for r in results if r.case.type == NONE]
    return Scores(
        n=len(results),
        type=_share(r.case.type == r.verdict.type for r in results),
        direction=_share(r.case.head == r.verdict.head for r in aimed),
        both=_share(is_right(r, symmetric) for r in results),
        mirror=_share(
            r.verdict.type == r.mirrored.type
            and (r.verdict.type in undirected or r.verdict.head == r.mirrored.head)
            for r in results
        ),
        coverage=_share(r.verdict.type not in {NONE, UNSAID} for r in stated),
        n_denied=len(denied),
        n_denied_held=sum(r.verdict.type not in {NONE, UNSAID} for r in denied),
    )


def is_right(result: Result, symmetric: frozenset[str]) -> bool:
    """Tell whether a case got its type and, where that has one, its direction."""
    return result.case.type == result.verdict.type and (
        result.case.type in symmetric | {NONE} or result.case.head == result.verdict.head
    )


def _share(hits: Iterable[bool]) -> float | None:
    found = list(hits)
    return sum(found) / len(found) if found else None
