"""What becomes of memories: forgotten, pinned, superseded, restored; and what there is of them."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from kbwiki.errors import InputError
from kbwiki.memory.keeper import Keeper, find, transact, word
from kbwiki.text.normal import clean_line, shorten


@dataclass(frozen=True, slots=True)
class Status:
    """What memory holds, as one agent sees it; the first four as VecMory has them."""

    total: int
    with_neighbors: int
    avg_degree: float
    by_domain: dict[str, int]
    archived: int
    duplicates_refused: int
    oldest: datetime | None
    newest: datetime | None
    by_agent: dict[str, int]


def memory_status(keeper: Keeper) -> Status:
    """Count the memories that the agent may see."""
    me = {"me": keeper.agent}
    row = keeper.database.dicts("read_memory_status", me)[0]

    def by(what: str) -> dict[str, int]:
        rows = keeper.database.dicts("count_memories_by", {**me, "by": what})
        return {r["name"]: r["n"] for r in rows}

    return Status(
        total=row["total"],
        with_neighbors=row["with_neighbors"],
        avg_degree=round(row["avg_degree"], 2),
        by_domain=by("domain"),
        archived=row["archived"],
        duplicates_refused=row["duplicates_refused"],
        oldest=row["oldest"],
        newest=row["newest"],
        by_agent=by("agent"),
    )


def forget(keeper: Keeper, memory_id: int, dry_run: bool = False) -> str:
    """Delete a memory, its edges and its words beside others; return a sentence that names it.

    Raises NotFoundError for one that is not there, InputError for another agent's.
    """
    row = _mine(keeper, memory_id, "forget")
    named = f'memory {memory_id} ("{shorten(clean_line(str(row["text"])), 60)}")'
    if dry_run:
        return f"{named} would be forgotten."
    database = keeper.database

    def delete() -> None:
        database.run("lock_session", {"session": f"{row['agent']}\x1f{row['session']}"})
        beside = [r["id"] for r in database.dicts("list_beside", {"id": memory_id})]
        database.run("unindex_memory", {"id": memory_id})
        database.run("delete_memory", {"id": memory_id})
        if beside:
            database.run("index_memories", {"ids": beside})

    transact(database, delete)
    return f"{named} is forgotten."


def pin(keeper: Keeper, memory_id: int, is_pinned: bool) -> None:
    """Keep a memory from ever being archived, or no longer."""
    find(keeper, memory_id)
    keeper.database.run("pin_memory", {"id": memory_id, "is_pinned": is_pinned})


def supersede(keeper: Keeper, old: int, new: int) -> None:
    """Mark a memory as replaced by another; it stays, and ranks last."""
    _mine(keeper, old, "supersede")
    find(keeper, new)
    if old == new:
        raise InputError(f"memory {old}: it cannot be superseded by itself.", "Name two.")
    seen, at = {old}, new
    while True:
        if at in seen:
            raise InputError(
                f"memory {new}: it was itself superseded by {old}.", "Name the newer one last."
            )
        seen.add(at)
        following = find(keeper, at)["superseded_by"]
        if following is None:
            break
        at = int(str(following))
    keeper.database.run("supersede_memory", {"id": old, "by": new})


def restore(keeper: Keeper, memory_id: int) -> None:
    """Bring an archived or superseded memory back: as if it had been used now."""
    find(keeper, memory_id)

    def bring_back() -> None:
        keeper.database.run("restore_memory", {"id": memory_id})
        keeper.database.run("supersede_memory", {"id": memory_id, "by": None})

    transact(keeper.database, bring_back)


def why(keeper: Keeper, memory_id: int) -> dict[str, Any]:
    """Return all that decides how a memory ranks, and its edges."""
    row = find(keeper, memory_id)
    edges = keeper.database.dicts("list_edges_of_memory", {"id": memory_id})
    shown = [edge for edge in edges if edge["memory_id"] is None or _sees(keeper, edge)]
    return {**row, "edges": shown}


def _sees(keeper: Keeper, edge: dict[str, Any]) -> bool:
    rows = keeper.database.dicts("find_memory", {"id": edge["memory_id"]})
    return bool(rows) and (rows[0]["owner"] in {"", keeper.agent} or keeper.is_admin)


def list_memories(
    keeper: Keeper, domain: str = "", topic: str = "", archived: bool = False
) -> list[dict[str, Any]]:
    """Return the memories that the agent may see, or only the archived ones, oldest first."""
    params = {"me": keeper.agent, "domain": domain, "topic": topic, "archived": archived}
    return keeper.database.dicts("list_memories", params)


def set_half_life(keeper: Keeper, topic: str, days: float | None) -> None:
    """Set the days until a memory of a topic ('' means all others) counts half; None: as before."""
    if days is not None and not 0.01 <= days <= 36_500:
        raise InputError(f"memory: a half-life of {days:g} days.", "Between 0.01 and 36500 days.")
    topic = word(topic, "topic")
    name = f"half_life:{topic}" if topic else "half_life"
    if days is None:
        keeper.database.run("delete_setting", {"name": name})
    else:
        keeper.database.run("save_setting", {"name": name, "value": f"{days:g}"})


def half_lives(keeper: Keeper) -> dict[str, float]:
    """Return the half-lives that were set, in days, by topic; '' is that of all others."""
    rows = keeper.database.dicts("list_half_lives")
    found = {row["name"].partition(":")[2]: float(row["value"]) for row in rows}
    return {"": 30.0, **found}


def _mine(keeper: Keeper, memory_id: int, verb: str) -> dict[str, Any]:
    row = find(keeper, memory_id)
    if row["agent"] != keeper.agent and not keeper.is_admin:
        raise InputError(
            f"{verb}: memory {memory_id} is {row['agent']}'s.", "An admin may do that."
        )
    return row
