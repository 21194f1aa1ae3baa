"""Answers: what the hits say on a question, and the answers that are filed in the wiki.

An answer rests on passages of sources and on definitions, never on another answer.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from kbwiki.db import Database
from kbwiki.embedders import Embedder
from kbwiki.engines import Engine
from kbwiki.errors import InputError
from kbwiki.records import Answer, Hit, Lang, Passage
from kbwiki.search import Found, Query
from kbwiki.text.normal import canonical_key, clean_line, short_hash, shorten, slugify

_MAX_TITLE = 200
_N_CLOSEST = 2
_N_PASSAGES = 3
_TOO_SHORT = 25


@dataclass(frozen=True, slots=True)
class FiledAnswer:
    """A question that was filed, as the store holds it."""

    key: str
    question: str
    lang: Lang
    k: int


def answer_found(engine: Engine, embedder: Embedder | None, question: str, found: Found) -> Answer:
    """Return what the hits say on a question; it cites them by their numbers, from 1.

    Passages of sources are what counts; where there are none, pages stand in. Where an engine
    without a model finds no sentence that shares the question's words, as with a question in
    another language, the sentences closest to it by meaning are quoted.
    """
    numbered = list(enumerate(found.hits, 1))
    usable = [(n, hit) for n, hit in numbered if hit.kind == "source"]
    usable = usable or [(n, hit) for n, hit in numbered if hit.kind != "answer"]
    passages = [Passage(hit.slug, hit.title, hit.text, hit.page) for _, hit in usable]
    if not passages:
        return Answer((), "", engine.name)
    answer = engine.answer(question, passages)
    statements = answer.statements
    if not statements and not engine.is_paid and embedder is not None:
        statements = _closest(embedder, question, passages)
    numbers = [n for n, _ in usable]
    return Answer(
        tuple((text, tuple(numbers[n - 1] for n in cites)) for text, cites in statements),
        answer.missing,
        answer.engine,
    )


def _closest(
    embedder: Embedder, question: str, passages: Sequence[Passage]
) -> tuple[tuple[str, tuple[int, ...]], ...]:
    """Return the sentences of the first passages that are closest to a question by meaning."""
    from kbwiki.text.words import lang_of, sentences

    found: dict[str, int] = {}
    for number, passage in enumerate(passages[:_N_PASSAGES], 1):
        for start, end in sentences(passage.text, lang_of(passage.text)):
            text = clean_line(passage.text[start:end])
            if len(text) >= _TOO_SHORT and text[-1:] in ".!…":
                found.setdefault(text, number)
    if not found:
        return ()
    texts = list(found)
    closeness = embedder.embed(texts, "passage") @ embedder.embed([question], "query")[0]
    best = sorted(range(len(texts)), key=lambda at: (-float(closeness[at]), at))[:_N_CLOSEST]
    return tuple((texts[at], (found[texts[at]],)) for at in best)


def save_answer(database: Database, query: Query, found: Found, answer: Answer) -> str:
    """File an answer, in place of an earlier one to the same question; return its page's slug.

    Only what a source says is filed; raises InputError where that is nothing.
    """
    title = shorten(query.question, _MAX_TITLE)
    key = canonical_key(query.question)
    slug = slugify(title)
    owner = database.value("find_answer_slug", {"slug": slug})
    if owner not in {None, key}:
        slug = f"{slug}-{short_hash(key)}"
    statements, cited = _cited(database, found.hits, answer)
    if not statements:
        raise InputError("query: no passage of a source answers this.", "Nothing was filed.")
    said = " ".join(text for text, _ in statements)
    database.run(
        "save_answer",
        {
            "key": key,
            "slug": slug,
            "question": title,
            "lang": found.lang,
            "k": query.k,
            "statements": {"said": statements},
            "missing": answer.missing,
            "engine": answer.engine,
            "passages": {"cited": cited},
            "shas": sorted({str(cite["text_sha"]) for cite in cited}),
            "search_text": f"{title} {said}",
        },
    )
    return f"answers/{slug}"


def _cited(
    database: Database, hits: Sequence[Hit], answer: Answer
) -> tuple[list[tuple[str, list[int]]], list[dict[str, Any]]]:
    """Return the statements with the numbers of their footnotes, and the footnotes: exact words of
    a source and where they stand.
    """
    shas = {hit.text_sha for hit in hits if hit.kind == "source"}
    places = {
        (f"sources/{row['slug']}", row["text_sha"]): row
        for row in database.dicts("find_passages", {"shas": sorted(shas)})
    }
    statements: list[tuple[str, list[int]]] = []
    cited: list[dict[str, Any]] = []
    for text, cites in answer.statements:
        numbers: list[int] = []
        for hit in (hits[n - 1] for n in cites):
            place = places.get((hit.slug, hit.text_sha))
            if place is None:
                continue
            start, end = _support(text, hit.text)
            cite = {
                "source_id": place["source_id"],
                "start_at": place["start_at"] + start,
                "end_at": place["start_at"] + end,
                "quote": hit.text[start:end],
                "page": hit.page,
                "text_sha": hit.text_sha,
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
    """Return the filed answers that cite a passage which no longer stands."""
    return database.rows("list_stale_answers", FiledAnswer)
