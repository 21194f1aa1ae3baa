"""What a reader may do: search, read, look around, list, recall."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from kbwiki.ask import ask
from kbwiki.db import Database
from kbwiki.edges import edge_types, find_ends
from kbwiki.errors import ConfigError, InputError, KbwikiError, NotFoundError
from kbwiki.memory.keep import memory_status
from kbwiki.memory.keeper import Keeper
from kbwiki.memory.recall import Recalled, recall
from kbwiki.pages import find_page
from kbwiki.question import clean_question
from kbwiki.search import Query, paths_between, usable_embedder
from kbwiki.server import forms
from kbwiki.server.desk import MAX_CHARACTERS, Caller, Desk
from kbwiki.stages.render import Page, Wiki
from kbwiki.text.normal import canonical_key, short_hash

T = TypeVar("T")
_HEADING = re.compile(r"^#{2,6} (.+)$", re.MULTILINE)
_LINK = re.compile(r"\[\[(?:[^\]|]*\|)?([^\]]*)\]\]")
_CURSOR = re.compile(r"[0-9]{1,12}")
_PER_PART = 200
_MAX_REPLIES = 8
_LEAST = 1000
"""Characters of a page that a part holds, however many words it cites."""


def wiki_search(
    desk: Desk, database: Database, caller: Caller, args: forms.SearchArgs
) -> forms.SearchReply:
    """Find passages and pages."""
    question = clean_question(args.query)
    embedder, note = None, ""
    if args.mode != "text":
        try:
            embedder = desk.embedder(database)
            note = usable_embedder(database, embedder) if embedder else "there is no embedder"
        except KbwikiError as error:
            note = str(error)
        if note and args.mode == "vector":
            raise ConfigError(f"wiki_search: {note}.", "Search by words: mode text.")
    query = Query(question, k=args.k, mode=args.mode, lang=args.lang)
    asked = ask(database, query, None if note else embedder)
    found = asked.found
    hits = [
        forms.HitForm(
            slug=h.slug,
            title=h.title,
            kind=h.kind,
            score=h.score,
            snippet=h.snippet,
            why=h.why,
            page=h.page,
        )
        for h in found.hits
    ]
    start = offset_of(args.cursor)
    part = _fitting(hits[start:], lambda h: len(h.snippet) + len(h.why) + len(h.title))
    return forms.SearchReply(
        hits=part,
        next_cursor=_next(start, part, hits),
        between=[str(chain) for chain in found.between],
        meant=asked.meant,
        why_not=asked.why_not,
        note=f"Searched by words alone: {note}." if note else "",
    )


def _fitting(items: list[T], size: Any) -> list[T]:
    """Return the first items whose sizes stay in bounds together."""
    total = 0
    out: list[T] = []
    for item in items:
        total += size(item) + 60
        if out and total > MAX_CHARACTERS:
            break
        out.append(item)
    return out


@dataclass(frozen=True, slots=True)
class _Leaf:
    """What a read of a page needs, worked out once while the wiki stands as it is."""

    page: Page
    names: frozenset[str]
    text: str
    sections: list[str]
    version: str
    citations: list[forms.CitationForm]
    backlinks: list[forms.BacklinkForm]
    replies: dict[tuple[str, str | None], forms.ReadReply] = field(default_factory=dict)
    """To what was asked last, by section and cursor."""


def _leaf(wiki: Wiki, page: Page) -> _Leaf:
    text = wiki.render(page)
    slug = f"{page.folder}/{page.slug}"
    return _Leaf(
        page=page,
        names=frozenset({page.key, *map(canonical_key, (page.title, page.slug, slug))}),
        text=text,
        sections=[_words_of(heading) for heading in _HEADING.findall(text)],
        version=version_of(page),
        citations=[
            forms.CitationForm(
                number=c["ordinal"],
                source=wiki.name_of("sources", c["source_key"]),
                quote=c["quote"][:1000],
                page=c["page"],
            )
            for c in wiki.citations.get((page.folder, page.key), [])
        ],
        backlinks=backlinks(wiki, page),
    )


def wiki_read(
    desk: Desk, database: Database, caller: Caller, args: forms.ReadArgs
) -> forms.ReadReply:
    """Read a page, with its citations and what links to it."""
    found = find_page(database, args.page.removeprefix(forms.PAGE_URI))
    leaf = desk.shelf.leaf(database, args.page, (found["folder"], found["key"]), _leaf)
    if leaf is None:
        raise NotFoundError(
            f"{args.page}: its page is not written yet.", "Try again after a build."
        )
    return _read(leaf, args)


def read_kept(desk: Desk, args: forms.ReadArgs) -> forms.ReadReply | None:
    """Read a page that was read a moment ago; None where the database has to be asked."""
    leaf: _Leaf | None = desk.shelf.kept(args.page)
    if leaf is None:
        return None
    key = args.section, args.cursor
    if key not in leaf.replies:
        if len(leaf.replies) >= _MAX_REPLIES:
            leaf.replies.clear()
        leaf.replies[key] = _read(leaf, args)
    return leaf.replies[key]


def _read(leaf: _Leaf, args: forms.ReadArgs) -> forms.ReadReply:
    page = leaf.page
    markdown = _section(leaf.text, args.section, leaf.sections) if args.section else leaf.text
    start = offset_of(args.cursor)
    part, citations = _part(markdown[start : start + MAX_CHARACTERS], leaf.citations)
    more = start + len(part) < len(markdown)
    return forms.ReadReply(
        slug=f"{page.folder}/{page.slug}",
        title=page.title,
        kind=page.kind,
        lang=page.lang,
        version=leaf.version,
        redirected_from="" if _key_of(args.page) in leaf.names else args.page,
        sections=leaf.sections[:200],
        markdown=part,
        citations=citations,
        backlinks=leaf.backlinks,
        next_cursor=str(start + len(part)) if more else None,
    )


def _key_of(name: str) -> str:
    return canonical_key(name.removeprefix(forms.PAGE_URI))


def _part(text: str, citations: list[forms.CitationForm]) -> tuple[str, list[forms.CitationForm]]:
    """Return as much of a text as a reply holds together with the words that it cites."""
    while True:
        shown = {int(n) for n in re.findall(r"\[\^(\d+)\]", text)}
        cited = [c for c in citations if c.number in shown]
        size = len(text) + sum(len(c.quote) for c in cited)
        if size <= MAX_CHARACTERS or len(text) < _LEAST:
            return text, cited
        text = text[: max(len(text) * MAX_CHARACTERS // size, _LEAST - 1)]


def version_of(page: Page) -> str:
    """Return what changes whenever a page does."""
    return short_hash(f"{page.title}\x1f{page.summary}\x1f{page.body}", 12)


def backlinks(wiki: Wiki, page: Page, limit: int = 50) -> list[forms.BacklinkForm]:
    """Return the pages whose text links to one."""
    others = [wiki.by_key[folder, key] for folder, key, _ in wiki.backlinks[page.folder, page.key]]
    return [forms.BacklinkForm(slug=f"{p.folder}/{p.slug}", title=p.title) for p in others[:limit]]


def _words_of(heading: str) -> str:
    """Return a heading without its links."""
    return _LINK.sub(r"\1", heading)


def _section(text: str, wanted: str, sections: Sequence[str]) -> str:
    key = canonical_key(_words_of(wanted.lstrip("# ")))
    for match in _HEADING.finditer(text):
        if canonical_key(_words_of(match[1])) == key:
            level = len(match[0]) - len(match[0].lstrip("#"))
            rest = text[match.end() :]
            ending = re.search(rf"^#{{1,{level}}} ", rest, re.MULTILINE)
            return match[0] + (rest[: ending.start()] if ending else rest)
    raise NotFoundError(
        f"wiki_read: the page has no section {wanted!r}.", "It has:", ", ".join(sections)
    )


def offset_of(cursor: str | None) -> int:
    """Return where a part begins; raise InputError for a cursor that no reply gave."""
    if cursor is None:
        return 0
    if not _CURSOR.fullmatch(cursor):
        raise InputError("cursor: it is none of ours.", "Pass next_cursor as it came.")
    return int(cursor)


def wiki_graph(
    desk: Desk, database: Database, caller: Caller, args: forms.GraphArgs
) -> forms.GraphReply:
    """Look around a concept, or for paths between two."""
    if args.from_ and args.to:
        first, last = find_ends(database, args.from_, args.to)
        chains = paths_between(database, first["id"], last["id"])
        return forms.GraphReply(paths=[str(chain) for chain in chains])
    if not args.slug:
        raise InputError("wiki_graph: no concept is named.", "Give slug, or from and to.")
    page = find_page(database, args.slug)
    if page["folder"] != "concepts":
        raise NotFoundError(f"{args.slug}: this is a source, not a concept.", "Try wiki_read.")
    known = edge_types(database)
    read = [known.read(name) for name in args.types]
    wanted = sorted({name for name, _ in read}) or None
    params = {
        "key": page["key"],
        "depth": args.depth,
        "all": "related_to" in (wanted or ()),
        "types": wanted,
    }
    rows = [
        row
        for row in database.dicts("list_graph", params)
        if _goes(row, page["slug"], args.direction)
    ]
    start = offset_of(args.cursor)
    edges = [edge_form(row) for row in rows[start : start + args.limit]]
    edges = _fitting(edges, lambda e: len(e.evidence) + len(e.head) + len(e.tail))
    nodes = {
        row[f"{end}_slug"]: forms.NodeForm(
            slug=f"concepts/{row[f'{end}_slug']}", title=row[end], kind=row[f"{end}_kind"]
        )
        for row in rows[start : start + len(edges)]
        for end in ("head", "tail")
    }
    next_cursor = _next(start, edges, rows)
    return forms.GraphReply(
        nodes=[nodes[slug] for slug in sorted(nodes)],
        edges=edges,
        is_cut=next_cursor is not None,
        next_cursor=next_cursor,
    )


def _goes(row: dict[str, Any], slug: str, direction: str) -> bool:
    """Tell whether an edge goes as asked, where it touches the concept itself."""
    if direction == "both" or row["symmetric"] or slug not in {row["head_slug"], row["tail_slug"]}:
        return True
    return bool(row["head_slug"] == slug) == (direction == "out")


def edge_form(row: dict[str, Any]) -> forms.EdgeForm:
    """Return an edge as agents see it."""
    told = f"{row['head']}\x1f{row['type']}\x1f{row['tail']}\x1f{row.get('method')}"
    return forms.EdgeForm(
        head=row["head"],
        type=row["type"] or "none",
        tail=row["tail"],
        symmetric=bool(row["symmetric"]),
        confidence=round(row["confidence"] or 0.0, 4),
        evidence=(row.get("evidence") or "")[:500] if isinstance(row.get("evidence"), str) else "",
        version=short_hash(told, 12),
    )


def wiki_list(
    desk: Desk, database: Database, caller: Caller, args: forms.ListArgs
) -> forms.ListReply:
    """List pages."""
    begins = canonical_key(args.starts_with)
    rows = [
        row
        for row in database.dicts("list_slugs")
        if args.kind in {"", row["kind"]} and canonical_key(row["title"]).startswith(begins)
    ]
    start = offset_of(args.cursor)
    part = [
        forms.PageForm(
            slug=f"{row['folder']}/{row['slug']}",
            title=row["title"],
            kind=row["kind"],
            lang=row["lang"] or "",
            mentions=row["n_mentions"] or 0,
        )
        for row in rows[start : start + _PER_PART]
    ]
    part = _fitting(part, lambda p: len(p.slug) + len(p.title))
    return forms.ListReply(pages=part, total=len(rows), next_cursor=_next(start, part, rows))


def _next(start: int, part: Sequence[object], rows: Sequence[object]) -> str | None:
    return str(start + len(part)) if start + len(part) < len(rows) else None


def wiki_sources(
    desk: Desk, database: Database, caller: Caller, args: forms.PartArgs
) -> forms.SourcesReply:
    """List the files of the store."""
    rows = database.dicts("list_sources")
    start = offset_of(args.cursor)
    part = [
        forms.SourceForm(
            uri=row["uri"],
            title=row["title"],
            lang=row["lang"],
            year=row["year"],
            characters=row["characters"],
            notes=list(row["notes"]),
        )
        for row in rows[start : start + _PER_PART]
    ]
    part = _fitting(part, lambda s: len(s.uri) + len(s.title) + sum(map(len, s.notes)))
    return forms.SourcesReply(sources=part, total=len(rows), next_cursor=_next(start, part, rows))


def wiki_status(
    desk: Desk, database: Database, caller: Caller, args: forms.NoArgs
) -> forms.StatusReply:
    """Count what the store holds."""
    [row] = database.dicts("read_status")
    counts = {name: n for name, n in row.items() if isinstance(n, int)}
    return forms.StatusReply(
        counts=counts,
        edges_by_type={r["type"]: r["n"] for r in database.dicts("count_edge_types")},
        engines=list(row["engines"]),
        embedder=row["embedder"],
        failures=[f"{r['stage']}: {r['reason']}" for r in database.dicts("list_failures")][:50],
        note="" if desk.counts_uses else "Uses of recall are not counted for readers here.",
    )


def keeper_of(desk: Desk, database: Database, caller: Caller, session: str = "") -> Keeper:
    """Return the caller as memory knows it."""
    try:
        embedder = desk.embedder(database)
    except KbwikiError:
        embedder = None
    if embedder and database.value("read_setting", {"name": "embedder"}) not in {
        None,
        embedder.name,
    }:
        embedder = None
    return Keeper(
        database,
        embedder,
        caller.name,
        caller.client,
        session or caller.session,
        caller.role == "admin",
    )


def recall_tool(
    desk: Desk, database: Database, caller: Caller, args: forms.RecallArgs
) -> forms.RecallReply:
    """Recall memories and count their use."""
    keeper = keeper_of(desk, database, caller)
    is_first = offset_of(args.cursor) == 0
    counts = is_first and (desk.counts_uses or caller.role != "reader")
    found = recall(keeper, args.query, args.k, args.domain, args.topic, counts=counts)
    return recall_reply(found, offset_of(args.cursor))


def recall_reply(found: Recalled, start: int) -> forms.RecallReply:
    """Return what was recalled in VecMory's shape, as much as a reply may hold."""
    nodes = [
        forms.MemoryNode(
            id=n.id,
            score=n.score,
            text=n.text,
            domain=n.domain,
            topic=n.topic,
            essence=list(n.essence),
            at=n.at.isoformat(),
            agent=n.agent,
            supersededBy=n.superseded_by,
        )
        for n in found.nodes
    ]
    part = _fitting(nodes[start:], lambda n: len(n.text))
    return forms.RecallReply(
        nodes=part,
        next_cursor=_next(start, part, nodes),
        garland=found.garland,
        total=found.total,
        paths=[
            {
                "start": path.start,
                "steps": [
                    {"type": s.type, "forward": s.forward, "kind": s.kind, "ref": s.ref}
                    for s in path.links
                ],
            }
            for path in found.paths
        ],
    )


def memory_status_tool(
    desk: Desk, database: Database, caller: Caller, args: forms.NoArgs
) -> forms.MemoryStatusReply:
    """Count memories."""
    status = memory_status(keeper_of(desk, database, caller))
    return forms.MemoryStatusReply(
        total=status.total,
        withNeighbors=status.with_neighbors,
        avgDegree=status.avg_degree,
        byDomain=status.by_domain,
        archived=status.archived,
        duplicatesRefused=status.duplicates_refused,
        oldest=status.oldest.isoformat() if status.oldest else None,
        newest=status.newest.isoformat() if status.newest else None,
        byAgent=status.by_agent,
    )
