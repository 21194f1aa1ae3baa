"""Answers: what the hits say on a question, and the answers that are filed in the wiki.

An answer rests on passages of sources: a hit that is a page brings the passages that it cites. It
never rests on the words of another answer.
"""

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import date
from typing import Any, cast

from kbwiki.db import Database
from kbwiki.embedders import Embedder
from kbwiki.engines import Engine
from kbwiki.errors import InputError
from kbwiki.question import lang_of_question, unnamed_words
from kbwiki.records import Answer, Lang, Passage
from kbwiki.search import Found, Mode, Query
from kbwiki.text.normal import canonical_key, clean_line, short_hash, shorten, slugify

_MAX_TITLE = 200
_N_CLOSEST = 2
_N_PASSAGES = 3
_PER_PAGE = 3
"""Passages that a hit which is a page brings."""
_TOO_SHORT = 25
_UNHEARD = {
    "en": "no passage speaks of {}.",
    "ru": "ни один отрывок не говорит о словах: {}.",
}
# What parts words, where it stands at their edge; + # & < and such are part of a name.
_MARKS = re.compile(r"(?<!\w)[^\w\s+#&*%@/\\<>=|^$~]+|[^\w\s+#&*%@/\\<>=|^$~]+(?!\w)")


@dataclass(frozen=True, slots=True)
class Evidence:
    """A passage that an answer may rest on: the hit that brought it, from 1, and where it stands.

    ``source_id`` is None for a page whose own words stand in for passages.
    """

    number: int
    passage: Passage
    text_sha: str
    source_id: int | None = None
    start_at: int = 0


@dataclass(frozen=True, slots=True)
class Gathered:
    """What an answer can be made of; ``unheard``: words of the question that nothing found has.

    ``is_near``: whether what is closest by meaning answers even where no word is shared.
    """

    question: str
    evidence: tuple[Evidence, ...]
    unheard: tuple[str, ...] = ()
    is_near: bool = False


@dataclass(frozen=True, slots=True)
class Answered:
    """An answer whose statements cite its evidence by number, from 1."""

    answer: Answer
    evidence: tuple[Evidence, ...]

    def by_hits(self) -> Answer:
        """Return the answer with the numbers of the hits in place of those of the evidence."""
        numbers = [e.number for e in self.evidence]
        return replace(
            self.answer,
            statements=tuple(
                (text, tuple(dict.fromkeys(numbers[n - 1] for n in cites)))
                for text, cites in self.answer.statements
            ),
        )


@dataclass(frozen=True, slots=True)
class FiledAnswer:
    """A question that was filed; ``asked`` is what its hits were limited to."""

    key: str
    question: str
    lang: Lang
    k: int
    asked: dict[str, Any]

    def query(self) -> Query:
        """Return the search that the question was filed from."""
        since = self.asked.get("since")
        return Query(
            self.question,
            k=self.k,
            mode=cast(Mode, self.asked.get("mode", "hybrid")),
            lang=self.asked.get("lang", ""),
            types=tuple(self.asked.get("types", ())),
            source=self.asked.get("source", ""),
            since=date.fromisoformat(since) if since else None,
        )


def question_key(question: str) -> str:
    """Return what two spellings of one question share: case, spaces and punctuation do not count.

    >>> question_key("What  is «C++»?") == question_key("what is C++")
    True
    """
    text = _MARKS.sub(" ", unicodedata.normalize("NFKC", clean_line(question)))
    return canonical_key(text) or canonical_key(question)


def gather(database: Database, question: str, found: Found) -> Gathered:
    """Return the passages of the hits, and those that hits which are filed answers cite.

    Where no sentence of them can be quoted, the passages that the hits' pages cite; the pages' own
    words at last.
    """
    if not found.is_supported:
        return Gathered(question, ())
    hits = list(enumerate(found.hits, 1))
    shas = sorted({hit.text_sha for _, hit in hits if hit.kind == "source"})
    places = {
        (row["slug"], row["text_sha"]): row
        for row in database.dicts("find_passages", {"shas": shas})
    }
    out = [
        _evidence(number, places[hit.slug, hit.text_sha])
        for number, hit in hits
        if (hit.slug, hit.text_sha) in places
    ]
    out = [e for e in out if e.passage.quotable != ()]
    filed = [(number, hit) for number, hit in hits if hit.kind == "answer"]
    out += _cited_by(database, filed, {e.text_sha for e in out})
    out = out or _cited_by(database, hits, set())
    out = out or [
        Evidence(number, Passage(hit.slug, hit.title, hit.text, hit.page), hit.text_sha)
        for number, hit in hits
        if hit.kind in {"concept", "article"}
    ]
    unheard = _unheard(database, question, found) if out else ()
    return Gathered(question, tuple(out), unheard, found.stands_out)


def _evidence(number: int, row: dict[str, Any]) -> Evidence:
    quotable = tuple((start, end) for start, end in row["quotable"] or ())
    passage = Passage(
        row["slug"],
        row["title"],
        row["text"],
        row["page"],
        quotable if row["quotable"] is not None else None,
    )
    return Evidence(number, passage, row["text_sha"], row["source_id"], row["start_at"])


def _cited_by(
    database: Database, pages: Sequence[tuple[int, Any]], known: set[str]
) -> list[Evidence]:
    """Return the first passages that pages cite, page by page, but for those that are known."""
    numbers = {hit.slug: number for number, hit in reversed(pages)}
    rows = database.dicts("find_cited_passages", {"slugs": sorted(numbers), "n": _PER_PAGE})
    out: list[Evidence] = []
    for row in sorted(rows, key=lambda row: (numbers[row["cited_by"]], row["ordinal"])):
        if row["text_sha"] not in known:
            known.add(row["text_sha"])
            out.append(_evidence(numbers[row["cited_by"]], row))
    return out


def _unheard(database: Database, question: str, found: Found) -> tuple[str, ...]:
    """Return the words of a question that nothing found has, shown or not.

    A name of a concept is heard by any of its names. Of the words in the question's own language
    nothing can be said where the best hit is in the other.
    """
    is_abroad = found.hits[0].lang != found.lang
    words = [
        word
        for word in unnamed_words(question, found.named)
        if not (is_abroad and lang_of_question(word) == found.lang)
    ]
    if not words:
        return ()
    params = {"words": words, "entries": list(found.entries)}
    return tuple(row["word"] for row in database.dicts("list_unheard", params))


def answer_from(engine: Engine, embedder: Embedder | None, gathered: Gathered) -> Answered:
    """Return what the evidence says on a question.

    Where an engine without a model finds no sentence that shares the question's words, as with a
    question in another language, the sentences closest to it by meaning are quoted.
    """
    question, evidence = gathered.question, gathered.evidence
    if not evidence:
        return Answered(Answer((), "", engine.name), ())
    passages = [e.passage for e in evidence]
    answer = engine.answer(question, passages)
    if not engine.is_paid:
        statements = answer.statements
        if not statements and gathered.is_near and embedder is not None:
            statements = _closest(embedder, question, passages)
        unheard = ", ".join(gathered.unheard)
        missing = _UNHEARD[lang_of_question(question)].format(unheard) if unheard else ""
        answer = replace(answer, statements=statements, missing=missing)
    return Answered(answer, evidence)


def _closest(
    embedder: Embedder, question: str, passages: Sequence[Passage]
) -> tuple[tuple[str, tuple[int, ...]], ...]:
    """Return the sentences of the first passages that are closest to a question by meaning."""
    from kbwiki.engines.quoting import quotable_in

    found: dict[str, int] = {}
    for number, passage in enumerate(passages[:_N_PASSAGES], 1):
        for text in quotable_in(passage):
            if len(text) >= _TOO_SHORT and text[-1:] in ".!…":
                found.setdefault(text, number)
    if not found:
        return ()
    texts = list(found)
    closeness = embedder.embed(texts, "passage") @ embedder.embed([question], "query")[0]
    best = sorted(range(len(texts)), key=lambda at: (-float(closeness[at]), at))[:_N_CLOSEST]
    return tuple((texts[at], (found[texts[at]],)) for at in best)


def save_answer(database: Database, query: Query, answered: Answered) -> str:
    """File an answer, in place of an earlier one to the same question; return its page's slug.

    Only what a source says is filed; raises InputError where that is nothing.
    """
    statements, cited = _cited(answered)
    if not statements:
        raise InputError("query: no passage of a source answers this.", "Nothing was filed.")
    key = question_key(query.question)
    slug = slugify(shorten(key, _MAX_TITLE))
    row = database.dicts("find_filed", {"slug": slug, "key": key})
    own = next((r["slug"] for r in row if r["key"] == key), None)
    if own is None and row:
        slug = f"{slug}-{short_hash(key)}"
    limits = {"mode": query.mode, "lang": query.lang, "types": query.types, "source": query.source}
    since = {"since": query.since.isoformat()} if query.since else {}
    said = " ".join(text for text, _ in statements)
    database.run(
        "save_answer",
        {
            "key": key,
            "slug": own or slug,
            "question": query.question,
            "lang": lang_of_question(query.question),
            "k": query.k,
            "asked": {**limits, **since},
            "statements": {"said": statements},
            "missing": answered.answer.missing,
            "engine": answered.answer.engine,
            "passages": {"cited": cited},
            "shas": sorted({str(cite["text_sha"]) for cite in cited}),
            "search_text": f"{query.question} {said}",
        },
    )
    return f"answers/{own or slug}"


def is_filed(database: Database, question: str) -> bool:
    """Tell whether a question is filed already."""
    return bool(database.dicts("find_filed", {"slug": "", "key": question_key(question)}))


def _cited(answered: Answered) -> tuple[list[tuple[str, list[int]]], list[dict[str, Any]]]:
    """Return the statements with the numbers of their footnotes, and the footnotes: exact words of
    a source and where they stand.
    """
    statements: list[tuple[str, list[int]]] = []
    cited: list[dict[str, Any]] = []
    for text, cites in answered.answer.statements:
        numbers: list[int] = []
        for one in (answered.evidence[n - 1] for n in cites):
            if one.source_id is None:
                continue
            start, end = _support(text, one.passage.text)
            cite = {
                "source_id": one.source_id,
                "start_at": one.start_at + start,
                "end_at": one.start_at + end,
                "quote": one.passage.text[start:end],
                "page": one.passage.page,
                "text_sha": one.text_sha,
            }
            if cite not in cited:
                cited.append(cite)
            numbers.append(cited.index(cite) + 1)
        if numbers:
            statements.append((text, numbers))
    return statements, cited


def _support(statement: str, passage: str) -> tuple[int, int]:
    """Return the span of the sentence of a passage that shares most words with a statement."""
    from kbwiki.text.words import lang_of, sentences, stream

    wanted = set(stream(statement).lemmas)
    spans = sentences(passage, lang_of(passage)) or [(0, len(passage))]
    return max(spans, key=lambda s: (len(wanted & set(stream(passage[s[0] : s[1]]).lemmas)), -s[0]))


def list_stale(database: Database) -> list[FiledAnswer]:
    """Return the filed questions to answer anew: what they cite no longer stands, or nothing
    answered them and the sources have changed since.
    """
    return database.rows("list_stale_answers", FiledAnswer)
