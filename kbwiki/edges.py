"""Single edges of the graph: what they rest on, and a person's word on them.

A person's word is a row by the keys of the ends, so that it outlives whatever is read or resolved
anew; it is final for both classifiers.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from kbwiki.db import Database, again_on_collision
from kbwiki.errors import InputError, NotFoundError
from kbwiki.stages.classify_edges import TYPING
from kbwiki.text.normal import canonical_key

NONE = "none"
"""Says that two concepts are not linked."""
AUTO = "auto"
"""Takes a person's word back."""
OnWait = Callable[[], None]


def _silent() -> None:
    pass


@dataclass(frozen=True, slots=True)
class EdgeTypes:
    """The names under which types are known: stored ones, and their other readings."""

    inverse: dict[str, str]
    symmetric: frozenset[str]

    def read(self, name: str) -> tuple[str, bool]:
        """Return the stored type of a name, and whether its ends are to be swapped.

        Raises InputError for a name that is none.
        """
        told = name.strip().casefold().replace("-", "_").replace(" ", "_")
        if told in self.inverse:
            return told, False
        for stored, inverse in self.inverse.items():
            if told == inverse:
                return stored, True
        if not told:
            raise InputError(
                "edge: no type is given.",
                f"Known: {', '.join(sorted({*self.inverse, *self.inverse.values()}))}.",
            )
        known = sorted({*self.inverse, *self.inverse.values()})
        near = get_close_matches(told, known, n=1)
        hint = f"Did you mean {near[0]}? " if near else ""
        raise InputError(f"edge: there is no type {name}.", f"{hint}Known: {', '.join(known)}.")


def edge_types(database: Database) -> EdgeTypes:
    """Return the types as the database knows them."""
    rows = database.dicts("list_edge_types")
    return EdgeTypes(
        {row["name"]: row["inverse"] for row in rows},
        frozenset(row["name"] for row in rows if row["is_symmetric"]),
    )


def find_ends(database: Database, one: str, other: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return two concepts by slug, title or alias; raise NotFoundError, or InputError for one."""
    first, second = (_concept(database, name) for name in (one, other))
    if first["id"] == second["id"]:
        raise InputError(f"edge: {one} and {other} are one concept.", "An edge has two ends.")
    return first, second


def _concept(database: Database, name: str) -> dict[str, Any]:
    slug = name.removeprefix("concepts/").removesuffix(".md")
    if not slug.strip():
        raise InputError("edge: the name of an end is empty.", "See `kbwiki list`.")
    found = database.dicts("find_concept", {"slug": slug, "keys": [canonical_key(name)]})
    if not found:
        aliases = [row["key"] for row in database.dicts("list_alias_keys")]
        near = ", ".join(get_close_matches(canonical_key(name), aliases, n=3))
        hint = "Did you mean:" if near else "See `kbwiki list`."
        raise NotFoundError(f"{name}: no concept has this slug, title or alias.", hint, near)
    return found[0]


def read_edge(database: Database, one: str, other: str) -> dict[str, Any]:
    """Return the edge between two concepts with all that is kept of it, and its evidence.

    Raises NotFoundError where there is none.
    """
    first, second = find_ends(database, one, other)
    found = database.dicts("find_edge", {"one": first["id"], "other": second["id"]})
    if not found:
        raise NotFoundError(
            f"edge: nothing links {first['title']} and {second['title']}.",
            "No sentence or link names both. See `kbwiki graph`.",
        )
    [edge] = found
    edge["evidence"] = database.dicts("list_evidence", {"edge": edge["id"]})
    del edge["id"]
    return edge


def set_edge(
    database: Database, head: str, type_name: str, tail: str, on_wait: OnWait = _silent
) -> dict[str, Any]:
    """Keep a person's word on an edge, and return the edge as it is then.

    ``type_name`` may be a type, its other reading (the ends are swapped then), NONE, or AUTO.
    ``on_wait`` is called if another process types edges just now: it is waited for.
    Raises InputError for any other, NotFoundError for an end that is not there.
    """
    first, second = find_ends(database, head, tail)
    told = type_name.strip().casefold()
    stored: str | None = None
    ends = {"head": first["id"], "tail": second["id"]}
    if told not in {AUTO, NONE}:
        stored, swapped = edge_types(database).read(type_name)
        if swapped:
            ends = {"head": second["id"], "tail": first["id"]}

    def change() -> None:
        with database.transaction():
            if told != AUTO:
                database.run("save_edge_decision", {**ends, "type": stored})
            elif not database.run("forget_edge_decision", ends):
                raise InputError(f"edge: nobody gave a word on {head} and {tail}.", "")
            database.run("apply_decisions")

    with database.locked(TYPING, on_wait):
        again_on_collision(change)
    found = database.dicts("find_edge", {"one": first["id"], "other": second["id"]})
    return found[0] if found else {"head": head, "type": None, "tail": tail, "status": "gone"}


def drop_doubles(
    database: Database, dry_run: bool, on_wait: OnWait = _silent
) -> list[dict[str, Any]]:
    """Drop words of people on a pair that a later one replaced, as after a merge; return them.

    Edges themselves need none of it: a unique index allows one for each pair of concepts.
    """
    if dry_run:
        return database.dicts("list_double_decisions")

    def change() -> list[dict[str, Any]]:
        with database.transaction():
            rows = database.dicts("list_double_decisions")
            for row in rows:
                ends = {"head_key": row["head_key"], "tail_key": row["tail_key"]}
                database.run("delete_edge_decision", ends)
            database.run("apply_decisions")
        return rows

    with database.locked(TYPING, on_wait):
        return again_on_collision(change)


def restore_doubles(database: Database, rows: Sequence[Mapping[str, object]]) -> None:
    """Put words of people back that ``drop_doubles`` dropped; a word given since then stays."""

    def change() -> None:
        with database.transaction():
            database.run_many("restore_edge_decision", rows)
            database.run("apply_decisions")

    with database.locked(TYPING):
        again_on_collision(change)
