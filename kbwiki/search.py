"""Search: a question becomes ranked hits, by words, by vectors and by the graph.

The ranking is SQL (functions/410 to 430); this module asks for it, joins the lists of the
languages and tells of each hit why it is there and in that place.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from typing import TYPE_CHECKING, Any, Literal

from kbwiki.db import Database
from kbwiki.errors import InputError
from kbwiki.question import (
    Named,
    find_named,
    is_about,
    lang_of_question,
)
from kbwiki.records import Chain, Hit, Lang, Step
from kbwiki.support import is_sure, judge_support
from kbwiki.text.asking import has_content
from kbwiki.text.normal import canonical_key, clean_line
from kbwiki.vectors import literal

if TYPE_CHECKING:
    from kbwiki.embedders import Embedder

Mode = Literal["text", "vector", "graph", "hybrid"]
MODES: tuple[Mode, ...] = ("text", "vector", "graph", "hybrid")
KINDS = {"source": "chunk", "concept": "concept", "article": "article", "answer": "answer"}
"""What can be searched, as people name it, and its kind in the index."""
MAX_BETWEEN = 5
_BRIDGE = 0.25
_N_BRIDGES = 2
"""What rare words that a passage shares with one of the best two sources add to its score."""
_PER_PAGE = 2
"""Passages of one page among the hits."""
_APART = 4
"""Places between what says the same."""


@dataclass(frozen=True, slots=True)
class Query:
    """What to search: a question of ``clean_question``, and what the hits must be.

    ``types`` are keys of ``KINDS``; ``source`` a part of a file's name or title; ``since`` the
    oldest date of a source. Empty means all.
    """

    question: str
    k: int = 8
    mode: Mode = "hybrid"
    lang: str = ""
    types: tuple[str, ...] = ()
    source: str = ""
    since: date | None = None


@dataclass(frozen=True, slots=True)
class Found:
    """What a search found: hits, best first; the concepts that the question names.

    For two of these or more, ``between`` holds the typed paths that join the first to the last, and
    ``shared`` the concepts that an edge joins to both. ``is_supported`` is False where the best
    hits are no closer to the question than passages are to a question on something else, and where
    it holds no word to look for (``has_content``). ``entries`` are the ids of all that was found,
    shown or not. ``stands_out``: words or vectors alone would speak for the hits, in a store of
    any size.
    """

    hits: list[Hit]
    lang: Lang
    is_supported: bool = True
    stands_out: bool = True
    has_content: bool = True
    entries: tuple[int, ...] = ()
    named: list[Named] = field(default_factory=list)
    between: list[Chain] = field(default_factory=list)
    shared: list[Chain] = field(default_factory=list)


def search(database: Database, query: Query, embedder: "Embedder | None") -> Found:
    """Return what fits a question; without an embedder, by words and graph alone.

    ``is_supported`` is judged by what this mode looked at; see ``search_judged``. Raises InputError
    for a source that the store does not hold.
    """
    lang = lang_of_question(query.question)
    if not has_content(query.question):
        return Found([], lang, is_supported=False, has_content=False)
    sizes = {row["pool"]: int(row["n"]) for row in database.dicts("list_pools")}
    pools = [pool for pool in sizes if query.lang in {"", pool}]
    sources = _sources(database, query)
    uses_graph = query.mode in {"graph", "hybrid"}
    named = find_named(database, query.question) if uses_graph else []
    rows = database.dicts(
        "search_entries",
        {
            "question": query.question,
            "vector": _vector(embedder, query),
            "model": embedder.name if embedder else "",
            "pools": pools,
            "kinds": [KINDS[name] for name in query.types] or None,
            "sources": sources,
            "mode": query.mode,
            "named": [n.id for n in named],
            "n": max(50, 3 * query.k),
        },
    )
    rows = [row for row in rows if not row["is_bare"]]
    between, shared = _between(database, named)
    joined = _bridged(database, query, rows) if uses_graph else rows
    ranked = _merged(joined, query, lang)
    if len(named) > 1 and is_about(query.question, named):
        common = [] if query.types or query.source or query.since else shared[:MAX_BETWEEN]
        ranked = _for_several(ranked, named, _shared_rows(database, common, pools))
    chosen = _distinct(ranked, query.k)
    hits = [_on_path(hit, between) for hit in _hits(database, query.question, chosen, named)]
    by_words = embedder is None or query.mode == "text"
    support = judge_support(query.question, rows, named, sizes, by_words)
    entries = tuple(row["entry_id"] for row in rows)
    return Found(
        hits, lang, support.is_supported, support.stands_out, True, entries, named, between, shared
    )


def search_judged(database: Database, query: Query, embedder: "Embedder | None") -> Found:
    """Return what ``search`` finds; that the store speaks of the question is judged by words and
    vectors together, whatever the mode ranks by.
    """
    found = search(database, query, embedder)
    if embedder is None or query.mode in {"text", "hybrid"}:
        return found
    judged = search(database, replace(query, mode="hybrid", k=1), embedder)
    return replace(found, is_supported=judged.is_supported, stands_out=judged.stands_out)


def usable_embedder(database: Database, embedder: "Embedder") -> str:
    """Return why a search by vectors is not possible with this embedder, or an empty string."""
    stored = database.value("read_setting", {"name": "embedder"})
    if stored is None:
        return "the store has no vectors yet; run `kbwiki embed`"
    if stored != embedder.name:
        return f"its vectors are of {stored}, not {embedder.name}; run `kbwiki embed --replace`"
    return ""


def _vector(embedder: "Embedder | None", query: Query) -> str | None:
    if embedder is None or query.mode == "text":
        return None
    return literal(embedder.embed([query.question], "query")[0])


def _sources(database: Database, query: Query) -> list[int] | None:
    """Return the ids of the sources that a query is limited to; None for all."""
    if not query.source and not query.since:
        return None
    like = query.source.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
    params = {
        "source": query.source.removeprefix("sources/") or None,
        "pattern": f"%{like}%",
        "since": query.since,
    }
    ids = [row["id"] for row in database.dicts("list_source_ids", params)]
    if not ids and query.source:
        raise InputError(f"query: no source fits {query.source!r}.", "`kbwiki sources` lists them.")
    return ids


def _merged(rows: Sequence[dict[str, Any]], query: Query, lang: str) -> list[dict[str, Any]]:
    """Return the ranked lists of all pools as one.

    Scores of the walk mean the same in every language, so where it ranks the lists are merged by
    score, after the best of the question's language if words speak for that. Scores of words and
    vectors do not, so there the lists take turns, the question's language first.
    """
    if query.mode in {"graph", "hybrid"}:
        merged = sorted(rows, key=lambda row: (-row["score"], row["pool"] != lang))
        own = [row for row in merged if row["pool"] == lang]
        lead = own[:1] if is_sure(own) else []
        place = f"no. 1 in {lang}" if lead != merged[:1] else ""
        rest = [{**row, "place": ""} for row in merged if row not in lead]
        return [{**row, "place": place} for row in lead] + rest
    ranks: dict[str, int] = {}
    turns: list[tuple[int, bool, str, dict[str, Any]]] = []
    for row in rows:
        pool = row["pool"]
        ranks[pool] = ranks.get(pool, 0) + 1
        placed_row = {**row, "place": f"no. {ranks[pool]} in {pool}"}
        turns.append((ranks[pool], pool != lang, pool, placed_row))
    return [row for *_, row in sorted(turns, key=lambda turn: turn[:3])]


def _bridged(database: Database, query: Query, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the rows, and passages that share rare words with the best sources.

    A name of which nothing made a concept joins two sources too. A score grows by a part of what it
    lacks to 1, so that what fits best stays first.
    """
    if query.source or query.since or (query.types and "source" not in query.types):
        return rows
    best = sorted(rows, key=lambda row: -row["score"])
    homes = [home for home in dict.fromkeys(row["home_id"] for row in best) if home][:_N_BRIDGES]
    weights = {home: next(r["score"] for r in best if r["home_id"] == home) for home in homes}
    passages = [
        row
        for home in homes
        for row in [r for r in best if (r["home_id"], r["kind"]) == (home, "chunk")][:_PER_PAGE]
    ]
    about = {
        "entries": [row["entry_id"] for row in passages],
        "weights": [weights[row["home_id"]] for row in passages],
    }
    found = database.dicts("find_bridged", {**about, "question": query.question})
    added: dict[int, float] = {}
    for row in found:
        added.setdefault(row["home_id"], _BRIDGE * row["share"] ** 0.5)
    raised = [
        {**row, "score": 1 - (1 - row["score"]) * (1 - added.get(row["home_id"], 0.0))}
        for row in rows
    ]
    known = {row["home_id"] for row in rows}
    firsts = {row["home_id"]: row for row in reversed(found) if row["home_id"] not in known}
    return raised + [{**row, "score": added[home]} for home, row in firsts.items()]


def _shared_rows(
    database: Database, shared: Sequence[Chain], pools: Sequence[str]
) -> list[dict[str, Any]]:
    """Return the pages of what two concepts share as rows of a search, in order."""
    strengths = {chain.steps[0].slug: chain.strength for chain in shared}
    slugs = [slug.removeprefix("concepts/") for slug in strengths]
    rows = {r["concept_slug"]: r for r in database.dicts("find_concept_entries", {"slugs": slugs})}
    return [
        {**rows[slug], "score": strength, "graph": strength, "place": "in common"}
        for slug, strength in strengths.items()
        if slug in rows and rows[slug]["pool"] in pools and not rows[slug]["is_bare"]
    ]


def _for_several(
    rows: list[dict[str, Any]], named: Sequence[Named], common: list[dict[str, Any]]
) -> list[dict[str, Any]]:
    """Return the rows as a question about several concepts wants them.

    First the best page of each of them, then what the first and the last share, every third.
    """
    heads = []
    for concept in named:
        homes = {f"concept/{concept.id}", f"source/{concept.source_id}"}
        head = next((row for row in rows if row["page"] in homes and row not in heads), None)
        heads += [head] if head else []
    pages = {row["page"] for row in common}
    rest = [row for row in rows if row["page"] not in pages and row not in heads]
    out = [{**row, "place": "of a concept that was named"} for row in heads]
    while rest or common:
        out += common[:1] + rest[:1]
        rest, common = rest[1:], common[1:]
    return out


def _distinct(rows: Iterable[dict[str, Any]], k: int) -> list[dict[str, Any]]:
    """Return k rows in order, of one page at most two, and what says the same further apart.

    A source and the page of the concept that it is about say the same. The passage leads where both
    stand near each other, and the other of the two goes a few places down.
    """
    counts: dict[str, int] = {}
    by_home: dict[object, list[tuple[int, dict[str, Any]]]] = {}
    at = 0
    for row in rows:
        counts[row["page"]] = counts.get(row["page"], 0) + 1
        if counts[row["page"]] <= (_PER_PAGE if row["kind"] == "chunk" else 1):
            by_home.setdefault(row["home_id"] or row["page"], []).append((at, row))
            at += 1
    placed: list[tuple[int, int, dict[str, Any]]] = []
    for group in by_home.values():
        first = group[0][0]
        near = (e for e in group if e[1]["kind"] == "chunk" and e[0] < first + _APART)
        lead_at, lead = next(near, group[0])
        up = {"place": _joined(lead["place"], "before its page")} if lead_at > first else {}
        placed.append((first, 0, {**lead, **up}))
        n_others = 0
        for at, row in group:
            n_others += row["page"] != lead["page"]
            if row is not lead:
                place = _joined(row["place"], "after what says the same" if n_others else "")
                placed.append((at + _APART * n_others, 1, {**row, "place": place}))
    return [row for *_, row in sorted(placed, key=lambda item: item[:2])[:k]]


def _joined(*parts: str) -> str:
    return ", ".join(part for part in parts if part)


def _hits(
    database: Database, question: str, rows: Sequence[dict[str, Any]], named: Sequence[Named]
) -> list[Hit]:
    ids = {row[name] for row in rows for name in ("entry_id", "seed_id") if row[name]}
    shown_ids = [row["entry_id"] for row in rows]
    params = {"entries": sorted(ids), "hits": shown_ids, "question": question}
    entries = {row["id"]: row for row in database.dicts("describe_entries", params)}
    graph = _Graph(database)
    graph.load(
        {row["concept_id"] for row in rows if row["concept_id"]} | {n.id for n in named},
        {row["edge_id"] for row in rows if row["edge_id"]},
    )
    shown = {kind: name for name, kind in KINDS.items()}
    return [
        Hit(
            kind=shown[entry["kind"]],
            slug=entry["slug"],
            title=entry["title"],
            snippet=clean_line(entry["snippet"]),
            text=entry["text"],
            score=round(min(1.0, row["score"]), 4),
            lang=entry["lang"],
            page=entry["page"],
            parts={name: round(row[name], 4) for name in ("words", "vectors", "graph")},
            chain=_chain(row, entry, entries, graph),
            deviations=round(row["deviations"], 2),
            text_sha=entry["text_sha"],
            place=row["place"],
        )
        for row in rows
        if (entry := entries.get(row["entry_id"]))
    ]


def _on_path(hit: Hit, between: Sequence[Chain]) -> Hit:
    """Return a hit, the typed path that leads to its concept in place of the walk's chain."""
    key = canonical_key(hit.title)
    for path in between:
        for at, step in enumerate(path.steps, 1):
            if hit.kind != "answer" and key == canonical_key(step.title):
                return replace(hit, chain=replace(path, steps=path.steps[:at]))
    return hit


class _Graph:
    """Titles of concepts and readings of edges, by id."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self.concepts: dict[int, dict[str, Any]] = {}
        self.edges: dict[int, dict[str, Any]] = {}

    def load(self, concepts: Iterable[int], edges: Iterable[int]) -> None:
        """Read what is not known yet."""
        ids = sorted(set(edges) - self.edges.keys())
        if ids:
            rows = self._database.dicts("describe_edges", {"ids": ids})
            self.edges.update((row["id"], row) for row in rows)
        ends = {
            self.edges[i][end] for i in ids if i in self.edges for end in ("head_id", "tail_id")
        }
        ids = sorted({*concepts, *ends} - self.concepts.keys())
        if ids:
            rows = self._database.dicts("describe_concepts", {"ids": ids})
            self.concepts.update((row["id"], row) for row in rows)

    def step(self, edge_id: int, to: int) -> Step:
        """Return the step along an edge to one of its ends, named as it reads that way."""
        edge, concept = self.edges[edge_id], self.concepts[to]
        label = edge["type"] if edge["tail_id"] == to else edge["inverse"]
        return Step(str(label), f"concepts/{concept['slug']}", concept["title"])

    def chain(self, nodes: Sequence[int], edges: Sequence[int], strength: float) -> Chain:
        """Return a path over these concepts."""
        first = self.concepts[nodes[0]]
        steps = tuple(self.step(edge, to) for edge, to in zip(edges, nodes[1:], strict=True))
        return Chain(f"concepts/{first['slug']}", first["title"], steps, round(strength, 4))


def _chain(
    row: dict[str, Any],
    entry: dict[str, Any],
    entries: dict[int, dict[str, Any]],
    graph: _Graph,
) -> Chain | None:
    """Return how the walk came to a hit: from a passage or a named concept, over a concept."""
    concept = graph.concepts.get(row["concept_id"])
    if concept is None:
        return None
    here = Step(
        "page" if entry["concept_id"] == concept["id"] else "in", entry["slug"], entry["title"]
    )
    middle = (f"concepts/{concept['slug']}", concept["title"])
    if row["seed_id"] in entries:
        seed = entries[row["seed_id"]]
        return _straight(seed["slug"], seed["title"], [Step("mentions", *middle), here])
    if row["edge_id"] in graph.edges:
        edge = graph.edges[row["edge_id"]]
        start = edge["head_id"] if edge["tail_id"] == concept["id"] else edge["tail_id"]
        first = graph.concepts[start]
        along = graph.step(row["edge_id"], concept["id"])
        return _straight(f"concepts/{first['slug']}", first["title"], [along, here])
    return _straight(*middle, [here])


def _straight(slug: str, title: str, steps: Sequence[Step]) -> Chain | None:
    """Return a chain without steps to where it is already; None where it ends where it began."""
    keys = [canonical_key(title), *(canonical_key(step.title) for step in steps)]
    if (keys[-1] in keys[:-1] and keys[-1] != keys[-2]) or len(set(keys)) == 1:
        return None
    kept = [step for step, key, before in zip(steps, keys[1:], keys, strict=False) if key != before]
    return Chain(slug, title, tuple(kept))


def _between(database: Database, named: Sequence[Named]) -> tuple[list[Chain], list[Chain]]:
    """Return the paths from the first named concept to the last, and what both have in common."""
    if len(named) < 2:
        return [], []
    first, last = named[0].id, named[-1].id
    via = [n.id for n in named[1:-1]]
    ends = {"first": first, "last": last, "via": via, "n": MAX_BETWEEN}
    paths = database.dicts("find_paths", ends)
    shared = database.dicts("list_shared", {"first": first, "second": last, "n": 2 * MAX_BETWEEN})
    graph = _Graph(database)
    graph.load(
        {node for path in paths for node in path["nodes"]} | {first, last},
        {edge for path in paths for edge in path["edges"]}
        | {row[name] for row in shared for name in ("first_edge", "second_edge")},
    )
    return (
        [graph.chain(path["nodes"], path["edges"], path["strength"]) for path in paths],
        [
            graph.chain(
                [first, row["concept_id"], last],
                [row["first_edge"], row["second_edge"]],
                row["strength"],
            )
            for row in shared
        ],
    )


def paths_between(database: Database, first_id: int, last_id: int) -> list[Chain]:
    """Return the typed paths that join two concepts, shortest first."""
    ends = {"first": first_id, "last": last_id, "via": [], "n": MAX_BETWEEN}
    paths = database.dicts("find_paths", ends)
    graph = _Graph(database)
    graph.load(
        {node for path in paths for node in path["nodes"]},
        {edge for path in paths for edge in path["edges"]},
    )
    return [graph.chain(path["nodes"], path["edges"], path["strength"]) for path in paths]
