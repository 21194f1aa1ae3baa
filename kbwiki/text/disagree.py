"""Statements of two sources that cannot both be true: on numbers, and what contradict.py finds.

Of numbers only what is plain is read: one of its kind in each sentence, the same subject, the same
unit, and the same words around it; a sentence that hedges, compares, denies or counts up says
nothing here. Better to miss a disagreement than to invent one.
"""

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from kbwiki.records import Lang, Statement
from kbwiki.text.contradict import contradictions
from kbwiki.text.lexicon import AGENT_VERBS, HEDGES, MULTIPLIERS, STOP_MODIFIERS, UNITS
from kbwiki.text.normal import canonical_key
from kbwiki.text.words import WORD, is_russian, lemma, stream

HEADINGS: dict[Lang, str] = {"en": "Disagreements", "ru": "Разногласия"}
MIN_SHARED = 0.6
"""Of the words around a number, in one language."""
MAX_LEFT = 2
"""Words besides subject, number and unit, where two languages have no words to compare."""
ROUNDING = 0.02
"""Numbers that differ by a smaller share are one number, rounded."""

_NUMBER = re.compile(
    r"(?<![\w.,–-])(\d{1,3}(?:[ \u00a0\u202f,]\d{3})+|\d+(?:[.,]\d+)?)(?![\w–-]|[.,]\d)"
    r"\s*(%|°C|[A-Za-zА-Яа-яЁё]+)?(?:\s+([A-Za-zА-Яа-яЁё]+))?"
)
# Said of a thing that others made, not of who made it: was proposed, предложили, предложена.
_MADE = re.compile(r"(?:ed|lt|de|nt|ли|[её]н[аоы]?|ан[аоы]?)$")
_BEING = frozenset(("is", "are", "was", "were", "been"))
_YEAR = re.compile(r"(?:1[5-9]|20)\d\d")


@dataclass(frozen=True, slots=True)
class _Measure:
    """A number that a statement gives for its subject: what is measured, and the words around."""

    what: str
    value: float
    words: frozenset[str]
    statement: Statement


def disagreements(title: str, statements: Sequence[Statement]) -> list[tuple[Statement, ...]]:
    """Return groups of statements on a concept, of different sources, that cannot all be true.

    The newest source comes first in a group; each source is in it once.
    """
    by_what: dict[str, list[_Measure]] = defaultdict(list)
    key = canonical_key(title)
    for statement in sorted(statements, key=lambda s: (s.source_key, s.start)):
        measure = _measure(key, statement)
        if measure:
            by_what[measure.what].append(measure)
    groups = [
        [measure.statement for measure in group]
        for _, found in sorted(by_what.items())
        for group in _groups(found)
    ]
    groups += contradictions(title, sorted(statements, key=lambda s: (s.source_key, s.start)))
    return [tuple(sorted(group, key=_newest_first)) for group in groups]


def _newest_first(statement: Statement) -> tuple[tuple[int, ...], str]:
    return tuple(-ord(c) for c in statement.dated or " "), statement.source_key


def _groups(found: list[_Measure]) -> Iterator[list[_Measure]]:
    """Yield measures of one thing of which at least two differ, one for each source and value."""
    left = list(found)
    while left:
        first = left.pop(0)
        alike = [first, *(m for m in left if _same_thing(first, m))]
        left = [m for m in left if m not in alike]
        group: list[_Measure] = []
        for measure in alike:
            if all(m.statement.source_key != measure.statement.source_key for m in group):
                group.append(measure)
        if any(_differ(first.value, m.value) for m in group):
            yield group


def _differ(one: float, other: float) -> bool:
    if _YEAR.fullmatch(f"{one:g}") and _YEAR.fullmatch(f"{other:g}"):
        return one != other
    return abs(one - other) > ROUNDING * max(abs(one), abs(other))


def _same_thing(a: _Measure, b: _Measure) -> bool:
    if a.statement.lang != b.statement.lang or a.what == "year":
        return a.what == "year" or (len(a.words) <= MAX_LEFT and len(b.words) <= MAX_LEFT)
    both = len(a.words & b.words)
    return both >= MIN_SHARED * max(len(a.words), len(b.words), 1)


def _measure(key: str, statement: Statement) -> _Measure | None:
    """Return the one number of a statement whose subject is the concept of ``key``."""
    if "?" in statement.text or not statement.mentions:
        return None
    start, end, subject = min(statement.mentions)
    if canonical_key(subject) != key:
        return None
    lemmas = stream(statement.text).lemmas
    if HEDGES & set(lemmas):
        return None
    found = [m for m in _NUMBER.finditer(statement.text) if not start <= m.start() < end]
    if len(found) != 1:
        return None
    [match] = found
    value = float(re.sub(r"\s", "", match[1]).replace(",", "." if _is_decimal(match[1]) else ""))
    units = [lemma(word) if word.isalpha() else word for word in match.groups()[1:] if word]
    what, value = _unit(statement.text, match, value, list(units), lemmas)
    if not what:
        return None
    mine = set(stream(statement.text[start:end]).lemmas) | set(units) | STOP_MODIFIERS
    words = frozenset(w for w in lemmas if w not in mine and len(w) > 2 and not w[0].isdigit())
    return _Measure(what, value, words, statement)


def _is_decimal(number: str) -> bool:
    return bool(re.fullmatch(r"\d+,\d{1,2}|0,\d+", number))


def _unit(
    text: str, match: re.Match[str], value: float, units: list[str], lemmas: list[str]
) -> tuple[str, float]:
    """Return what a number counts, or nothing where that is not plain; and the number in full."""
    if _YEAR.fullmatch(match[1]):
        is_made = any(lemma(w) in AGENT_VERBS and _MADE.search(w) for w in WORD.findall(text))
        is_made = is_made and (is_russian(text) or bool(_BEING & set(lemmas)))
        before = text[: match.start()].casefold().split()[-1:]
        is_dated = before in (["in"], ["в"]) or (bool(units) and units[0] == "год")
        return ("year" if is_made and is_dated else ""), value
    while units and units[0] in MULTIPLIERS:
        value *= MULTIPLIERS[units.pop(0)]
    if not units:
        return "", value
    name = units[0]
    known = UNITS.get(name, "" if is_russian(name) and len(name) < 3 else name)
    return known, value


def disputed_in(body: str) -> list[str]:
    """Return the lines of a page's section on disagreements."""
    out: list[str] = []
    is_inside = False
    for line in body.splitlines():
        if line.startswith("## "):
            is_inside = line[3:].strip() in HEADINGS.values()
        elif is_inside and line.startswith("- "):
            out.append(line[2:])
    return out
