"""write: one Article for each Concept and each Source, from a brief of all that is known of it."""

from collections import defaultdict
from dataclasses import dataclass, replace
from typing import Any

from kbwiki.errors import ModelError
from kbwiki.records import Article, Brief, Citation, Statement
from kbwiki.stages.stage import BATCH, Services, Stage
from kbwiki.text.disagree import HEADINGS, disagreements
from kbwiki.text.links import link
from kbwiki.text.normal import clean_line, counted, escape_markdown

VERSION = "write-3"


@dataclass(frozen=True, slots=True)
class Item:
    """A stale page: of a concept or of a source, and the brief for it."""

    concept_id: int | None
    source_id: int | None
    input_sha: str
    slug: str
    brief: Brief


def written_as(services: Services) -> str:
    """Return all that decides a page besides its input: a new value makes every page stale."""
    return f"{VERSION} {services.engine.name} {services.lang}"


def pending(services: Services, skip: list[str]) -> list[Item]:
    """Return pages whose input changed: first of concepts, then of sources."""
    params = {"written_as": written_as(services), "skip": skip, "limit": BATCH}
    rows = services.database.dicts("list_unwritten", params)
    concepts = [row["concept_id"] for row in rows if row["concept_id"] is not None]
    sources = [row["source_id"] for row in rows if row["source_id"] is not None]
    statements = _statements(services, concepts, sources)
    return [_item(services, row, statements) for row in rows]


def _statements(
    services: Services, concepts: list[int], sources: list[int]
) -> dict[tuple[str, int], list[Statement]]:
    database = services.database
    named: dict[int, list[tuple[int, int, str]]] = defaultdict(list)
    defining: set[tuple[int, int]] = set()
    params = {"concepts": concepts, "sources": sources}
    for row in database.dicts("list_named", params):
        named[row["claim_id"]].append((row["start_at"], row["end_at"], row["title"]))
        if row["defines"]:
            defining.add((row["claim_id"], row["concept_id"]))
    out: dict[tuple[str, int], list[Statement]] = defaultdict(list)
    for row in database.dicts("list_statements", params):
        owner = (
            ("concept", row["concept_id"])
            if row["concept_id"]
            else ("source", row["owner_source_id"])
        )
        out[owner].append(
            Statement(
                source_id=row["source_id"],
                source_key=row["source_key"],
                source_title=row["source_title"],
                start=row["start_at"],
                end=row["end_at"],
                text=row["text"],
                lang=row["lang"],
                page=row["page"],
                heading=row["heading"],
                rank=row["rank"],
                defines=(row["claim_id"], row["concept_id"]) in defining,
                mentions=tuple(sorted(named[row["claim_id"]])),
                wording=row["wording"],
                dated=row["dated"],
            )
        )
    return out


def _item(
    services: Services, row: dict[str, Any], statements: dict[tuple[str, int], list[Statement]]
) -> Item:
    is_concept = row["concept_id"] is not None
    owner = ("concept", row["concept_id"]) if is_concept else ("source", row["source_id"])
    mine = sorted(statements.get(owner, []), key=lambda s: (s.source_key, s.start))
    brief = Brief(
        title=row["title"],
        kind=row["kind"],
        lang=row["lang"] if services.lang == "auto" else services.lang,
        is_lang_set=services.lang != "auto",
        aliases=tuple(row["aliases"]),
        statements=tuple(mine),
        main_source_key=row["main_source_key"] or "",
    )
    return Item(row["concept_id"], row["source_id"], row["input_sha"], row["slug"], brief)


def _key(item: Item) -> str:
    return f"{'concepts' if item.concept_id is not None else 'sources'}/{item.slug}"


def work(services: Services, item: Item) -> Article:
    """Return the page as the engine writes it, with what its sources do not agree on."""
    article = services.engine.write(item.brief, _key(item))
    return article if item.concept_id is None else with_disagreements(article, item.brief)


def with_disagreements(article: Article, brief: Brief) -> Article:
    """Return a page of a concept with a section on what its sources do not agree on.

    Each statement stands there in its source's words, with the source and its date, newest first.
    """
    groups = disagreements(brief.title, brief.statements)
    if not groups or not article.body:
        return article
    lines: list[str] = []
    citations = list(article.citations)
    for statement in (statement for group in groups for statement in group):
        n = len(citations) + 1
        place = (statement.source_id, statement.start, statement.end)
        citations.append(Citation(n, *place, statement.text, statement.page))
        source = link("s", statement.source_key, statement.source_title)
        dated = f" ({statement.dated})" if statement.dated else ""
        lines.append(f"- {source}{dated}: {clean_line(escape_markdown(statement.text))}[^{n}]")
    section = f"## {HEADINGS[article.lang]}\n\n" + "\n".join(lines)
    return replace(article, body=f"{article.body}\n\n{section}", citations=tuple(citations))


def save(services: Services, item: Item, article: Article) -> None:
    """Store a page and its citations; a quote that does not stand at its span is refused."""
    database = services.database
    article_id = database.value(
        "save_article",
        {
            "concept_id": item.concept_id,
            "source_id": item.source_id,
            "title": article.title,
            "lang": article.lang,
            "summary": article.summary,
            "body": article.body,
            "engine": article.engine,
            "input_sha": item.input_sha,
            "written_as": written_as(services),
            "search_text": f"{article.title}. {article.summary}",
        },
    )
    cited = article.citations
    n_kept = database.value(
        "save_citations",
        {
            "article_id": article_id,
            "sources": [c.source_id for c in cited],
            "starts": [c.start for c in cited],
            "ends": [c.end for c in cited],
            "quotes": [c.quote for c in cited],
            "pages": [c.page for c in cited],
        },
    )
    if n_kept != len(cited):
        n_false = len(cited) - n_kept
        raise ModelError(
            f"{_key(item)}: {counted(n_false, 'quote does', 'quotes do')} not stand where said to."
        )


STAGE = Stage(
    name="write",
    key=_key,
    pending=pending,
    work=work,
    save=save,
)
