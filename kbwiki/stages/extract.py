"""extract: an engine reads each Source once; candidates, claims and words for matching are kept."""

from dataclasses import dataclass
from datetime import date
from typing import Any

from kbwiki.records import Block, Document, Extraction, Mark
from kbwiki.stages.stage import BATCH, Services, Stage
from kbwiki.text.words import mask_math, stream

_MATCHED = {"paragraph", "item", "quote", "heading", "table"}


@dataclass(frozen=True, slots=True)
class SourceRow:
    """A stale source, with the fingerprint that its extraction will carry."""

    id: int
    sha256: str
    uri: str
    title: str
    authors: list[str]
    year: int | None
    dated: date | None
    text: str
    structure: dict[str, Any]
    fingerprint: str


@dataclass(frozen=True, slots=True)
class Words:
    """The lemma stream of a source's readable blocks, and where its links stand."""

    lemmas: list[str]
    starts: list[int]
    ends: list[int]
    link_starts: list[int]
    link_ends: list[int]


def pending(services: Services, skip: list[str]) -> list[SourceRow]:
    """Return sources that this engine has not read in this form."""
    return services.database.rows(
        "list_unread", SourceRow, {"engine": services.engine.name, "skip": skip, "limit": BATCH}
    )


def work(services: Services, row: SourceRow) -> tuple[Extraction, Words]:
    """Return what the engine reads, and the words for matching names."""
    document = document_of(row)
    return services.engine.extract(document, row.uri), words_of(document)


def document_of(row: SourceRow) -> Document:
    """Return the Document that a stored source was read into."""
    return Document(
        text=row.text,
        title=row.title,
        authors=tuple(row.authors),
        year=row.year,
        dated=row.dated,
        blocks=tuple(Block(*block) for block in row.structure["blocks"]),
        marks=tuple(Mark(*mark) for mark in row.structure["marks"]),
        pages=tuple(row.structure["pages"]),
    )


def words_of(document: Document) -> Words:
    """Return the lemma stream in which names are matched, and the spans of links."""
    words = Words([], [], [], [], [])
    text = mask_math(document)
    for block in document.blocks:
        if block.kind not in _MATCHED:
            continue
        part = stream(text[block.start : block.end])
        words.lemmas.extend(part.lemmas)
        words.starts.extend(block.start + at for at in part.starts)
        words.ends.extend(block.start + at for at in part.ends)
    for mark in document.marks:
        if mark.kind in {"link", "wikilink"}:
            words.link_starts.append(mark.start)
            words.link_ends.append(mark.end)
    return words


def save(services: Services, row: SourceRow, result: tuple[Extraction, Words]) -> None:
    """Replace what was known of the source."""
    extraction, words = result
    database = services.database
    database.run("delete_extraction", {"source_id": row.id})
    database.run(
        "save_extraction",
        {
            "source_id": row.id,
            "fingerprint": row.fingerprint,
            "engine": extraction.engine or services.engine.name,
            "authors": list(extraction.authors),
            "year": extraction.year,
            "title": extraction.title,
            "lang": extraction.lang,
            "summary": extraction.summary,
            "lemmas": " ".join(words.lemmas),
            "starts": words.starts,
            "ends": words.ends,
            "link_starts": words.link_starts,
            "link_ends": words.link_ends,
        },
    )
    database.run_many(
        "save_candidate",
        [
            {
                "source_id": row.id,
                "key": c.key,
                "name": c.name,
                "lang": c.lang,
                "kind": c.kind,
                "signals": c.signals,
                "aliases": {"names": [[a.name, a.kind, a.lang] for a in c.aliases]},
                "definition_start": c.definition[0] if c.definition else None,
                "definition_end": c.definition[1] if c.definition else None,
            }
            for c in extraction.candidates
        ],
    )
    database.run_many(
        "save_claim",
        [
            {
                "source_id": row.id,
                "ordinal": c.ordinal,
                "start_at": c.start,
                "end_at": c.end,
                "text": c.text,
                "lang": c.lang,
                "page": c.page,
                "heading": c.heading,
                "rank": c.rank,
                "statement": c.statement,
            }
            for c in extraction.claims
        ],
    )


STAGE = Stage(
    name="extract",
    key=lambda row: row.uri,
    pending=pending,
    work=work,
    save=save,
)
