"""How well concepts are told apart: labelled pairs of names through the bands of resolution.

All names of a file form one store in memory, with what its texts say of them. So the bands see what
they would see in a knowledge base of that size; the store on disk is neither read nor written.
"""

import csv
import hashlib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kbwiki.engines import Engine
from kbwiki.engines.local import LocalEngine
from kbwiki.errors import InputError
from kbwiki.records import Candidate, Pair
from kbwiki.text.concepts import Decision, NewConcept, SourceCandidate, resolve_candidates
from kbwiki.text.normal import canonical_key, clean_line
from kbwiki.text.readers import read_document
from kbwiki.text.sameness import EmbedNames, Named, find_likenesses
from kbwiki.text.words import lang_of, lemma_key

BANDS = ("key", "alias", "meaning", "engine")
"""In the order in which they are tried; a pair counts for the first that merges it."""
COLUMNS = ("first", "second", "same", "first_text", "second_text")
PER_CALL = 20
"""Pairs that an engine judges at a time."""
_LABELS = {"yes": True, "no": False}


@dataclass(frozen=True, slots=True)
class Row:
    """Two names, what may be said of each, and whether they are one concept."""

    first: str
    second: str
    same: bool
    first_text: str = ""
    second_text: str = ""

    @property
    def split(self) -> str:
        """``tune`` or ``unseen``, by a hash of the names: no one chooses where a pair goes."""
        names = f"{canonical_key(self.first)}|{canonical_key(self.second)}"
        return "unseen" if hashlib.sha256(names.encode()).digest()[0] % 2 else "tune"


@dataclass(frozen=True, slots=True)
class Judged:
    """A row and what became of it: the band that merged it, ``queue``, or ``apart``.

    ``alone`` tells whether meaning would merge the two in a store that holds nothing like them.
    """

    row: Row
    band: str
    alone: bool


def read_rows(path: Path) -> list[Row]:
    """Return the rows of a tab-separated file with a head; raise InputError for what is none."""
    try:
        lines = path.read_text("utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        what = getattr(error, "strerror", None) or "it is not UTF-8"
        raise InputError(
            f"{path}: {what.lower()}.", f"Give columns {', '.join(COLUMNS)}."
        ) from error
    reader = csv.reader(lines, delimiter="\t", quoting=csv.QUOTE_NONE)
    head = tuple(next(reader, ()))
    if head[:3] != COLUMNS[:3]:
        raise InputError(f"{path}: the first line names no columns.", "\t".join(COLUMNS))
    out = []
    for number, cells in enumerate(reader, 2):
        if not cells:
            continue
        row = dict(zip(head, cells, strict=False))
        first, second = (clean_line(row.get(name, "")) for name in COLUMNS[:2])
        if not lemma_key(first) or not lemma_key(second) or row.get("same") not in _LABELS:
            raise InputError(f"{path}:{number}: no pair.", "Give two names and yes or no.")
        texts = [row.get(name, "") for name in COLUMNS[3:]]
        out.append(Row(first, second, _LABELS[row["same"]], *texts))
    if not out:
        raise InputError(f"{path}: it holds no pairs.", "Give a line for each pair.")
    return out


def judge_rows(rows: Sequence[Row], engine: Engine, embed: EmbedNames | None) -> list[Judged]:
    """Return each row with the band that merges it; ``engine`` is asked about the doubtful."""
    found = list(_candidates(rows))
    n_sources = len({item.source_key for item in found})
    concepts = resolve_candidates(found, n_sources)
    owner = {key: c.key for c in concepts for key in c.lemma_keys}
    texts = _texts(rows)
    embed = _kept(embed) if embed else None
    likenesses = find_likenesses([_named(c) for c in concepts], embed, frozenset())
    titles = {c.key: c for c in concepts}
    bands = {frozenset((x.first, x.second)): x.band for x in likenesses if x.is_sure}
    decisions = [
        Decision(lemma_key(titles[x.first].title), lemma_key(titles[x.second].title), True, False)
        for x in likenesses
        if x.is_sure
    ]
    merged = resolve_candidates(found, n_sources, decisions)
    owner_after = {key: c.key for c in merged for key in c.lemma_keys}
    doubtful = [x for x in likenesses if not x.is_sure]
    verdicts = _ask(engine, doubtful, titles, texts)

    def band(row: Row) -> str:
        keys = [lemma_key(name) for name in (row.first, row.second)]
        before = frozenset(owner.get(key, key) for key in keys)
        if canonical_key(row.first) == canonical_key(row.second):
            return "key"
        if len(before) == 1:
            return "alias"
        if len({owner_after.get(key, key) for key in keys}) == 1:
            return "alias" if bands.get(before) == "form" else "meaning"
        if before in verdicts:
            return {True: "engine", False: "apart", None: "queue"}[verdicts[before]]
        return "apart"

    def alone(row: Row) -> bool:
        pair = {owner.get(key) for key in (lemma_key(row.first), lemma_key(row.second))}
        two = [_named(titles[key]) for key in sorted(filter(None, pair))]
        return any(x.is_sure for x in find_likenesses(two, embed, frozenset()))

    return [Judged(row, band(row), alone(row)) for row in rows]


def _kept(embed: EmbedNames) -> EmbedNames:
    """Return a way to embed names, each once."""
    import numpy as np

    known: dict[str, Any] = {}

    def kept(names: Sequence[str]) -> Any:
        new = sorted(set(names) - known.keys())
        if new:
            known.update(zip(new, embed(new), strict=True))
        return np.stack([known[name] for name in names])

    return kept


def _texts(rows: Sequence[Row]) -> dict[str, str]:
    out: dict[str, str] = {}
    for row in rows:
        for name, text in ((row.first, row.first_text), (row.second, row.second_text)):
            if text:
                out.setdefault(lemma_key(name), text)
    return out


def _candidates(rows: Sequence[Row]) -> Iterator[SourceCandidate]:
    """Yield each name as if a person had asked for a page on it, and what grammar reads of texts.

    Texts are read without a model: it is the telling apart that is measured.
    """
    reader = LocalEngine()
    for name in sorted({name for row in rows for name in (row.first, row.second)}):
        candidate = Candidate(lemma_key(name), name, lang_of(name), None, {"person": 1})
        yield SourceCandidate(f"name {name}", candidate)
    for text in sorted({t for row in rows for t in (row.first_text, row.second_text) if t}):
        document = read_document("row.md", text.encode())
        for candidate in reader.extract(document).candidates:
            yield SourceCandidate(f"text {text}", candidate)


def _named(concept: NewConcept) -> Named:
    names = tuple(alias.name for alias in concept.aliases)
    return Named(concept.key, concept.title, concept.kind, names, {})


def _ask(
    engine: Engine, doubtful: Sequence[Any], titles: dict[str, NewConcept], texts: dict[str, str]
) -> dict[frozenset[str], bool | None]:
    def told(key: str) -> tuple[str, str, str]:
        concept = titles[key]
        text = next((texts[k] for k in concept.lemma_keys if k in texts), "")
        return concept.title, concept.kind, text

    out: dict[frozenset[str], bool | None] = {}
    for start in range(0, len(doubtful), PER_CALL):
        batch = doubtful[start : start + PER_CALL]
        pairs = [Pair(told(x.first), told(x.second)) for x in batch]
        for likeness, verdict in zip(batch, engine.same(pairs, "eval same"), strict=True):
            out[frozenset((likeness.first, likeness.second))] = verdict
    return out


def measure(judged: Sequence[Judged]) -> dict[str, Any]:
    """Return counts and shares: of each band, and of all together.

    ``precision`` of a band is the share of its merges that are right, ``recall`` the share of all
    true pairs that this band and those before it merge. ``duplicates`` is the share of true pairs
    that stay two pages with nobody asked, ``queued`` of those that wait for a person,
    ``false_merges`` of different pairs that became one, ``false_merges_alone`` of those that
    meaning would merge in a store without anything like them. A share of nothing is None.
    """
    n_same = sum(j.row.same for j in judged)
    n_apart = len(judged) - n_same
    right = Counter(j.band for j in judged if j.row.same)
    wrong = Counter(j.band for j in judged if not j.row.same)
    bands: dict[str, Any] = {}
    so_far = 0
    for name in BANDS:
        so_far += right[name]
        bands[name] = {
            "merged": right[name] + wrong[name],
            "wrong": wrong[name],
            "precision": _share(right[name], right[name] + wrong[name]),
            "recall": _share(so_far, n_same),
        }
    return {
        "pairs": len(judged),
        "same": n_same,
        "bands": bands,
        "duplicates": _share(right["apart"], n_same),
        "queued": _share(right["queue"], n_same),
        "queued_apart": _share(wrong["queue"], n_apart),
        "false_merges": _share(sum(wrong[name] for name in BANDS), n_apart),
        "false_merges_alone": _share(sum(j.alone and not j.row.same for j in judged), n_apart),
    }


def _share(part: int, whole: int) -> float | None:
    return round(part / whole, 4) if whole else None
