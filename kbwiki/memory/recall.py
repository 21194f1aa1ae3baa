"""recall: memories that fit a question, and the garland of typed edges around them."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from kbwiki.errors import InputError
from kbwiki.memory.dates import find_days
from kbwiki.memory.keeper import MAX_QUERY, Keeper, embed, word
from kbwiki.text.normal import clean_line, shorten

FLOOR_WORDS, FLOOR_MARGIN = 0.1, 2.0
"""What makes a hit: its share of the question's words, or how far its cosine stands out."""
MAX_PATHS = 16
MAX_GARLAND = 4000
"""Characters of the garland."""
_STEPS = 4
_SHOWN = 160


@dataclass(frozen=True, slots=True)
class Node:
    """A memory that fits; score in [0, 1]."""

    id: int
    score: float
    text: str
    domain: str
    topic: str
    essence: tuple[str, ...]
    at: datetime
    agent: str
    superseded_by: int | None


@dataclass(frozen=True, slots=True)
class Link:
    """A step of a path: the edge's type and direction, and what it leads to."""

    type: str
    forward: bool
    kind: str
    """``memory``, ``concept`` or ``domain``."""
    ref: str
    text: str


@dataclass(frozen=True, slots=True)
class Path:
    """A way from a memory over one or two edges."""

    start: int
    text: str
    links: tuple[Link, ...]

    def __str__(self) -> str:
        steps = (f"[{'' if s.forward else '<-'}{s.type}] {s.text}" for s in self.links)
        return " -> ".join([self.text, *steps])


@dataclass(frozen=True, slots=True)
class Recalled:
    """Hits, best first; the garland as text and as paths; how many memories the agent may see."""

    nodes: tuple[Node, ...]
    garland: str
    paths: tuple[Path, ...]
    total: int


def recall(
    keeper: Keeper,
    query: str,
    k: int = 16,
    domain: str = "",
    topic: str = "",
    counts: bool = True,
) -> Recalled:
    """Return at most ``k`` memories that fit a query, and count their use unless told not to.

    Nothing is returned that does not fit: neither shares words of weight with the query nor stands
    out by meaning. Raises InputError for a query without a word or ``k`` out of 1 to 100.
    """
    question = shorten(clean_line(query), MAX_QUERY)
    if not any(c.isalnum() for c in question):
        raise InputError("recall: the query is empty.", "Say what you want to know.")
    if not 1 <= k <= 100:
        raise InputError(f"recall: k is {k}.", "Between 1 and 100.")
    days = find_days(question, datetime.now(UTC).date())
    rows = keeper.database.dicts(
        "find_memories",
        {
            "question": question,
            "vector": embed(keeper, question, "query"),
            "model": keeper.embedder.name if keeper.embedder else "",
            "me": keeper.agent,
            "domain": word(domain, "domain"),
            "topic": word(topic, "topic"),
            "first_at": days[0] if days else None,
            "last_at": days[1] if days else None,
            "archived": False,
            "floor_words": FLOOR_WORDS,
            "floor_margin": FLOOR_MARGIN,
            "n": k,
        },
    )
    nodes = tuple(
        Node(
            row["id"],
            round(row["score"], 4),
            row["text"],
            row["domain"],
            row["topic"],
            tuple(row["essence"]),
            row["at"],
            row["agent"],
            row["superseded_by"],
        )
        for row in rows
    )
    total = keeper.database.value("count_visible_memories", {"me": keeper.agent})
    if not nodes:
        return Recalled((), "", (), total)
    paths = _paths(keeper, nodes)
    if counts:
        ids = [node.id for node in nodes]
        keeper.database.run("count_recall", {"ids": ids, "session": keeper.ear})
    return Recalled(nodes, _garland(paths), paths, total)


def _paths(keeper: Keeper, nodes: Sequence[Node]) -> tuple[Path, ...]:
    """Return the garland's paths: in turns from each hit, the best hit's first."""
    hits = [node.id for node in nodes]
    params = {"hits": hits, "me": keeper.agent, "max_steps": _STEPS}
    rows = keeper.database.dicts("list_garland", params)
    steps = [step for row in rows for step in row["path"]]
    memories = {step["memory"] for step in steps if step["memory"]}
    concepts = {step["concept"] for step in steps if step["concept"]}
    texts = {
        row["id"]: row["text"]
        for row in keeper.database.dicts("list_memory_texts", {"ids": sorted(memories)})
    }
    titles = {
        row["id"]: row
        for row in keeper.database.dicts("list_concept_titles", {"ids": sorted(concepts)})
    }
    shown = {node.id: _shown(node.text) for node in nodes}
    by_hit: dict[int, list[Path]] = {hit: [] for hit in hits}
    for row in rows:
        links = tuple(_link(step, texts, titles) for step in row["path"])
        by_hit[row["hit_id"]].append(Path(row["hit_id"], shown[row["hit_id"]], links))
    turns = [
        paths[turn] for turn in range(_STEPS) for paths in by_hit.values() if turn < len(paths)
    ]
    return tuple(turns[:MAX_PATHS])


def _link(step: dict[str, Any], texts: dict[int, str], titles: dict[int, dict[str, Any]]) -> Link:
    kind, forward = step["type"], step["forward"]
    if step["memory"]:
        text = _shown(texts.get(step["memory"], ""))
        return Link(kind, forward, "memory", str(step["memory"]), text)
    if step["concept"]:
        concept = titles[step["concept"]]
        return Link(kind, forward, "concept", f"concepts/{concept['slug']}", concept["title"])
    return Link(kind, forward, "domain", step["domain"], step["domain"])


def _shown(text: str) -> str:
    line = clean_line(text)
    return line if len(line) <= _SHOWN else shorten(line, _SHOWN) + " …"


def _garland(paths: Sequence[Path]) -> str:
    lines: list[str] = []
    for path in paths:
        if sum(map(len, lines)) + len(str(path)) > MAX_GARLAND:
            break
        lines.append(str(path))
    return "\n".join(lines)
