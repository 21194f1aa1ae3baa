"""One name of two things: which sources mean another thing by it, and where that may be so.

A part of resolve. That two sources mean two things is never decided without a person: one concept
told in other words is by far the commoner case. A name is only doubted where the sources that
define it have nothing in common: no word of the definitions, no other concept.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from kbwiki.db import Database
from kbwiki.records import ConceptKind
from kbwiki.text.concepts import Decision, NewConcept, SourceCandidate, resolve_candidates
from kbwiki.text.lexicon import ASKING, STOP_MODIFIERS
from kbwiki.text.mentions import Name
from kbwiki.text.words import lang_of, lemma_key

MIN_WORDS = 2
"""Words that a definition must have, before it says anything that it shares none with another."""
REASON = "the sources that define it share no other concept and no word of the definitions"


@dataclass(frozen=True, slots=True)
class Split:
    """In one source a name, by lemma key, is what ``title`` says; empty: what it is elsewhere."""

    source_key: str
    name: str
    name_title: str
    title: str


class _Source(Protocol):
    @property
    def lang(self) -> str: ...
    @property
    def text(self) -> str: ...


def load(database: Database, keys: Mapping[int, str]) -> list[Split]:
    """Return what a person said of names in the sources whose keys are given by id."""
    return [
        Split(keys[row["source_id"]], row["name"], row["name_title"], row["title"])
        for row in database.dicts("list_splits")
        if row["source_id"] in keys
    ]


def decisions_of(splits: Sequence[Split]) -> list[Decision]:
    """Return that the two things of a name are two."""
    pairs = sorted({(s.name, lemma_key(s.title)) for s in splits if s.title})
    return [Decision(name, other, False) for name, other in pairs]


def rename(
    candidates: list[SourceCandidate],
    splits: Sequence[Split],
    n_sources: int,
    decisions: Sequence[Decision],
) -> list[SourceCandidate]:
    """Return the candidates; in a source of a split, all names of the concept are the new title."""
    if not any(s.title for s in splits):
        return candidates
    concepts = resolve_candidates(candidates, n_sources, decisions)
    names = {key: c.lemma_keys for c in concepts for key in c.lemma_keys}
    titles = {
        (s.source_key, key): s.title
        for s in splits
        if s.title
        for key in (s.name, *names.get(s.name, ()))
    }
    out: list[SourceCandidate] = []
    for item in candidates:
        title = titles.get((item.source_key, item.candidate.key))
        if title is None:
            out.append(item)
            continue
        renamed = replace(
            item.candidate,
            key=lemma_key(title),
            name=title,
            lang=lang_of(title),
            signals={**item.candidate.signals, "person": 1},
        )
        out.append(SourceCandidate(item.source_key, renamed))
    return out


def owners(concepts: Sequence[NewConcept], splits: Sequence[Split]) -> dict[str, dict[str, str]]:
    """Return, by source key, which concept is meant there where another one's name stands."""
    owner = {key: c.key for c in concepts for key in c.lemma_keys}
    out: dict[str, dict[str, str]] = defaultdict(dict)
    for split in splits:
        mine, meant = owner.get(split.name), owner.get(lemma_key(split.title))
        if mine and meant:
            out[split.source_key][mine] = meant
    return out


def left_names(concepts: Sequence[NewConcept], splits: Sequence[Split]) -> list[Name]:
    """Return the names that are no concept's of their own, with what the splits say they mean."""
    owner = {key: c.key for c in concepts for key in c.lemma_keys}
    return [
        Name(s.name, owner[lemma_key(s.title)], cased=s.name_title[:1].isupper())
        for s in splits
        if s.name not in owner and lemma_key(s.title) in owner
    ]


def find_homonyms(
    concepts: Sequence[NewConcept],
    sources: Mapping[str, _Source],
    named: Mapping[str, set[str]],
    kinds: Mapping[tuple[str, str], ConceptKind],
    splits: Sequence[Split],
) -> list[tuple[NewConcept, list[str]]]:
    """Return concepts that may be two, and the keys of the sources that mean the rarer thing.

    ``named`` holds the concepts of each source, ``kinds`` what a source says that a name is, by
    (source key, lemma key).
    """
    settled = {(s.source_key, s.name) for s in splits}
    out: list[tuple[NewConcept, list[str]]] = []
    for concept in concepts:
        if len({key for key, *_ in concept.definitions}) <= 1:
            continue
        words: dict[str, set[str]] = defaultdict(set)
        for key, start, end in concept.definitions:
            words[key] |= _content(sources[key].text[start:end], concept)
        told = {
            key: _Told(
                sources[key].lang,
                frozenset(found),
                frozenset(named[key] - {concept.key}),
                next((k for n in concept.lemma_keys if (k := kinds.get((key, n)))), None),
            )
            for key, found in sorted(words.items())
            if not any((key, name) in settled for name in concept.lemma_keys)
        }
        parts = _parts({k: t for k, t in told.items() if t.says_enough})
        parts.sort(key=lambda part: (-len(part), part))
        out += [(concept, part) for part in parts[1:]]
    return out


@dataclass(frozen=True, slots=True)
class _Told:
    """What a source that defines a concept tells of it."""

    lang: str
    words: frozenset[str]
    others: frozenset[str]
    kind: ConceptKind | None

    @property
    def says_enough(self) -> bool:
        return len(self.words) >= MIN_WORDS and bool(self.others)

    def fits(self, other: "_Told") -> bool:
        """Tell whether two sources have anything in common; words of two languages never have."""
        if self.others & other.others or self.words & other.words:
            return True
        return self.lang != other.lang and None in {self.kind, other.kind}


def _content(text: str, concept: NewConcept) -> set[str]:
    names = {word for key in concept.lemma_keys for word in key.split()}
    words = set(lemma_key(text).split())
    return {w for w in words - names - ASKING - STOP_MODIFIERS if len(w) > 2}


def _parts(told: Mapping[str, _Told]) -> list[list[str]]:
    """Return the sources in sets of which no two have anything in common."""
    left = dict(told)
    out: list[list[str]] = []
    while left:
        first = min(left)
        part, todo = [], [(first, left.pop(first))]
        while todo:
            key, one = todo.pop()
            part.append(key)
            near = [k for k, other in left.items() if one.fits(other)]
            todo += [(k, left.pop(k)) for k in near]
        out.append(sorted(part))
    return out


def save(
    database: Database, homonyms: Iterable[tuple[NewConcept, list[str]]], uris: Mapping[str, str]
) -> None:
    """Store the names that a person should look at; ``uris`` are by source key."""
    database.run("delete_homonyms")
    rows = [
        {"key": c.key, "title": c.title, "uris": [uris[k] for k in keys], "reason": REASON}
        for c, keys in homonyms
    ]
    database.run_many("save_homonym", rows)
