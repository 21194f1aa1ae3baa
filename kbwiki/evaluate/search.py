"""How well search finds what questions expect: recall, all, nDCG, MRR, time; modes side by side.

A question expects pages of the wiki: sources by file, concepts by title, any page by its slug.
What is ranked is pages, each where its first hit stands.
"""

import json
import math
import random
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from kbwiki.db import Database
from kbwiki.embedders import Embedder
from kbwiki.errors import InputError
from kbwiki.question import clean_question, lang_of_question
from kbwiki.search import MODES, Mode, Query, search
from kbwiki.text.normal import canonical_key
from kbwiki.text.words import lemma_key

N_RESAMPLES = 2_000
DEPTH = 10
"""The rank to which nDCG and MRR look."""


@dataclass(frozen=True, slots=True)
class Question:
    """A question and the pages that answer it: each element is a set of equally good slugs."""

    id: str
    text: str
    expect: tuple[frozenset[str], ...]
    kind: str
    lang: str


@dataclass(frozen=True, slots=True)
class Ranked:
    """What one mode made of one question: slugs, best first, without repetition; its time."""

    question: Question
    mode: Mode
    slugs: tuple[str, ...]
    ms: float

    def found(self, k: int) -> int:
        """Return how many of the expected pages are among the first k; each counts once."""
        return sum(self._matches(k))

    def _matches(self, k: int) -> list[bool]:
        """Tell of each of the first k slugs whether it is one more of the expected pages."""
        open_ones = sorted(self.question.expect, key=len)
        out: list[bool] = []
        for slug in self.slugs[:k]:
            one = next((one for one in open_ones if slug in one), None)
            if one is not None:
                open_ones.remove(one)
            out.append(one is not None)
        return out

    def recall(self, k: int) -> float:
        """Return the share of the expected pages among the first k."""
        return self.found(k) / len(self.question.expect)

    def has_all(self, k: int) -> float:
        """Return 1.0 if every expected page is among the first k."""
        return float(self.found(k) == len(self.question.expect))

    def ndcg(self) -> float:
        """Return nDCG@10 with gains of 0 and 1; a page that was expected counts once."""
        matches = enumerate(self._matches(DEPTH), 1)
        gain = sum(1 / math.log2(rank + 1) for rank, is_one_more in matches if is_one_more)
        n = min(DEPTH, len(self.question.expect))
        return gain / sum(1 / math.log2(rank + 1) for rank in range(1, n + 1))

    def reciprocal_rank(self) -> float:
        """Return 1 / rank of the first expected page; 0.0 below the tenth."""
        wanted = frozenset[str]().union(*self.question.expect)
        ranks = (rank for rank, s in enumerate(self.slugs[:DEPTH], 1) if s in wanted)
        return 1 / next(ranks, math.inf)


def read_questions(path: Path, database: Database) -> list[Question]:
    """Return the questions of a file of JSON lines: id, question, expect, and kind if it has one.

    Raises InputError for a line that is none, for an id given twice, and for a page that the store
    does not hold.
    """
    try:
        lines = path.read_text("utf-8-sig").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: it cannot be read.", "Give a file of JSON lines.") from error
    pages = _Pages(database)
    rows = ((n, line) for n, line in enumerate(lines, 1) if line.strip())
    out: list[Question] = []
    lines_of: dict[str, int] = {}
    for n, line in rows:
        question = _question(f"{path}, line {n}", line, pages)
        first = lines_of.setdefault(question.id, n)
        if first != n:
            raise InputError(
                f"{path}, line {n}: line {first} has the id {question.id!r} too.",
                "Give each question its own.",
            )
        out.append(question)
    if not out:
        raise InputError(f"{path}: it holds no question.", "One JSON object a line.")
    return out


def _question(where: str, line: str, pages: "_Pages") -> Question:
    hint = 'A line is {"id": "q1", "question": "...", "expect": ["file.md", "Title"]}.'
    try:
        row = json.loads(line)
        text = clean_question(row["question"])
        wanted = [row["expect"]] if isinstance(row["expect"], str) else row["expect"]
        names = [[one] if isinstance(one, str) else list(one) for one in wanted]
        # One page under two names is expected once.
        sets = dict.fromkeys(frozenset(pages.slug(name) for name in one) for one in names)
        expect = tuple(sets)
        identifier, kind = str(row.get("id", where)), str(row.get("kind", ""))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise InputError(f"{where}: it is no question.", hint) from error
    except InputError as error:
        raise InputError(f"{where}: {error.message}", error.hint) from error
    if not expect or not all(expect):
        raise InputError(f"{where}: it expects nothing.", hint)
    return Question(identifier, text, expect, kind, lang_of_question(text))


class _Pages:
    """Slugs of pages by all that may name them."""

    def __init__(self, database: Database) -> None:
        self._by_name: dict[str, str] = {}
        self._by_lemmas: dict[str, str] = {}
        for row in database.dicts("list_page_names"):
            slug = f"{row['folder']}/{row['slug']}"
            for name in (row["slug"], slug, *row["names"]):
                self._by_name.setdefault(canonical_key(name), slug)
            if row["folder"] == "concepts":
                for name in row["names"]:
                    self._by_lemmas.setdefault(lemma_key(name), slug)
            for uri in row["uris"]:
                for name in (uri, uri.rsplit("/", 1)[-1], uri.split("/", 1)[-1]):
                    self._by_name.setdefault(f"file {name}", slug)

    def slug(self, name: str) -> str:
        """Return the slug of a page by file, slug, title or alias, these two in any form."""
        found = self._by_name.get(f"file {name}") or self._by_name.get(canonical_key(name))
        found = found or self._by_lemmas.get(lemma_key(name))
        if found is None:
            raise InputError(f"the store has no page for {name!r}.", "Build the corpus first.")
        return found


def run_questions(
    database: Database,
    questions: Sequence[Question],
    embedder: Embedder | None,
    modes: Sequence[Mode] = MODES,
    depth: int = DEPTH,
    on_step: Callable[[], None] = lambda: None,
) -> Iterator[Ranked]:
    """Yield the ranked pages of each question in each mode; modes that need vectors need one.

    Where the questions expect sources only, sources alone are searched.
    """
    folders = {slug.split("/")[0] for q in questions for one in q.expect for slug in one}
    types = ("source",) if folders == {"sources"} else ()
    for question in questions:
        for mode in modes:
            if mode == "vector" and embedder is None:
                continue
            query = Query(question.text, k=3 * depth, mode=mode, types=types)
            began = time.perf_counter()
            hits = search(database, query, embedder).hits
            ms = 1000 * (time.perf_counter() - began)
            yield Ranked(question, mode, tuple(dict.fromkeys(h.slug for h in hits)), ms)
        on_step()


def measure(ranked: Sequence[Ranked], ks: Sequence[int]) -> dict[str, float]:
    """Return the means over the questions of one mode, times in ms."""
    n = len(ranked)
    out: dict[str, float] = {}
    for k in ks:
        out[f"recall@{k}"] = sum(r.recall(k) for r in ranked) / n
    for k in ks:
        out[f"all@{k}"] = sum(r.has_all(k) for r in ranked) / n
    out["nDCG@10"] = sum(r.ndcg() for r in ranked) / n
    out["MRR"] = sum(r.reciprocal_rank() for r in ranked) / n
    out["ms"] = sorted(r.ms for r in ranked)[n // 2]
    return out


def compare(
    hybrid: Sequence[Ranked], other: Sequence[Ranked], score: Callable[[Ranked], float]
) -> tuple[float, float, float]:
    """Return the mean difference of a score, and its 95 % interval by paired bootstrap."""
    gains = [score(a) - score(b) for a, b in zip(hybrid, other, strict=True)]
    return interval(gains)


def interval(values: Sequence[float]) -> tuple[float, float, float]:
    """Return a mean and its 95 % interval by bootstrap; the same values give the same interval."""
    draw = random.Random(0)
    n = len(values)
    means = sorted(sum(draw.choices(values, k=n)) / n for _ in range(N_RESAMPLES))
    low, high = means[int(0.025 * N_RESAMPLES)], means[int(0.975 * N_RESAMPLES)]
    return sum(values) / n, low, high
