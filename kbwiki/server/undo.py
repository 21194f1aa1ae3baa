"""Taking a change back that the audit holds.

As with the change itself, what is taken back and the row that says so are one transaction; pages
are made anew after it.
"""

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

from kbwiki import curate
from kbwiki.db import Database
from kbwiki.edges import restore_doubles, set_edge
from kbwiki.errors import InputError, KbwikiError, NotFoundError
from kbwiki.memory import keep
from kbwiki.memory.transfer import Row, import_memories, restore_edges
from kbwiki.server.changes import TURNS
from kbwiki.server.desk import Caller, Desk
from kbwiki.server.notes import AFTER, rebuild, take_back
from kbwiki.server.reading import keeper_of
from kbwiki.stages.classify_edges import TYPING
from kbwiki.stages.resolve import STAGE as RESOLVE


@dataclass(frozen=True, slots=True)
class _Step:
    """What an undo works with; ``write_down`` is called in the transaction that takes back."""

    desk: Desk
    database: Database
    caller: Caller
    row: dict[str, Any]
    write_down: Callable[[], None]


def undo(desk: Desk, database: Database, caller: Caller, number: int) -> str:
    """Take a change back; return a sentence. Raises InputError where that cannot be."""
    with ExitStack() as turns:
        # Of two that take back at once, the second sees what the first did.
        turns.enter_context(database.locked("audit undo"))
        rows = database.dicts("list_audit", {"id": number, "n": 1})
        if not rows:
            raise NotFoundError(f"audit {number}: there is none.", "`kbwiki audit`.")
        [row] = rows
        if row["tool"] in TURNS:
            turns.enter_context(database.locked(TURNS[row["tool"]]))
        _check(database, row)

        def write_down() -> None:
            database.run("undo_audit", {"id": number, "by": caller.name})

        try:
            names = _UNDO[row["tool"]](_Step(desk, database, caller, row, write_down))
            if names:
                rebuild(desk, database, names)
        except KbwikiError as error:
            raise InputError(
                f"audit {number}: {error.message}", error.hint, error.quoted
            ) from error
    return f"{row['tool']} {row['target']} is taken back."


def _check(database: Database, row: dict[str, Any]) -> None:
    number = row["id"]
    if row["undone_at"] is not None:
        raise InputError(f"audit {number}: {row['undone_by']} has taken it back already.")
    if row["tool"] not in _UNDO:
        raise InputError(f"audit {number}: {row['tool']} cannot be taken back.")
    if later := database.value("find_later_change", {"id": number}):
        raise InputError(
            f"audit {number}: a later change rests on it.", f"Take audit {later} back first."
        )


Names = tuple[str, ...]


def _undo_remember(step: _Step) -> Names:
    kept = step.row["after"]
    if not kept["is_new"]:
        raise InputError("the memory was there before.", "Forget it if it is to go.")
    keeper = keeper_of(step.desk, step.database, step.caller)
    with step.database.transaction():
        try:
            keep.forget(keeper, kept["id"])
        except NotFoundError as error:
            raise InputError(
                f"memory {kept['id']} is gone already.",
                "Was its text kept anew since? `kbwiki memory list`.",
            ) from error
        step.write_down()
    return ()


def _undo_forget(step: _Step) -> Names:
    memory = Row.model_validate(step.row["before"])
    assert memory.id is not None
    others = {edge.to: edge.to for edge in memory.edges if edge.to is not None}
    keeper = keeper_of(step.desk, step.database, step.caller)
    with step.database.transaction():
        done = import_memories(keeper, [memory], allow_secrets=True, ids=others, keeps_ids=True)
        if done.refused:
            raise InputError(done.refused[0])
        if done.n_new:
            restore_edges(step.database, memory.id, step.row["before"].get("led_here", []))
        step.write_down()
    return ()


def _undo_file(step: _Step) -> Names:
    after = step.row["after"]
    if step.row["before"] is None and not after["is_ours"] and after.get("was_known"):
        raise InputError(
            f"{step.row['target']} was a source before this.", "`kbwiki rm` if it is to go."
        )
    take_back(step.desk, step.database, step.row, step.write_down)
    return AFTER if step.row["before"] is None else ("extract", *AFTER)


def _undo_edge(step: _Step) -> Names:
    before, after = step.row["before"], step.row["after"]
    with step.database.locked(TYPING), step.database.transaction():
        if before.get("human"):
            set_edge(step.database, before["head"], before["type"] or "none", before["tail"])
        else:
            set_edge(step.database, after["head"], "auto", after["tail"])
        step.write_down()
    return () if before.get("human") else ("link", "classify-edges")


def _undo_dedup(step: _Step) -> Names:
    with step.database.locked(TYPING), step.database.transaction():
        restore_doubles(step.database, step.row["before"]["dropped"])
        step.write_down()
    return ()


def _undo_answer(step: _Step) -> Names:
    if step.row["before"]:
        raise InputError(
            "the question was filed before this.", "It stays, with the answer of its sources."
        )
    with step.database.transaction():
        if not step.database.run("unfile_answers", {"slugs": [step.row["after"]["slug"]]}):
            raise NotFoundError("the answer is gone already.")
        step.write_down()
    return ("export",)


def _undo_merge(step: _Step) -> Names:
    with (
        step.desk.building, step.desk.services(step.database) as services,
        step.database.locked(RESOLVE.name), step.database.transaction(),
    ):  # fmt: skip
        curate.unmerge(services, step.row["after"]["first"], step.row["after"]["second"])
        step.write_down()
    return AFTER


_UNDO: dict[str, Callable[[_Step], Names]] = {
    "remember": _undo_remember,
    "forget": _undo_forget,
    "wiki_ingest": _undo_file,
    "graph_upsert_node": _undo_file,
    "graph_upsert_edge": _undo_edge,
    "graph_classify_edge": _undo_edge,
    "graph_dedup_edges": _undo_dedup,
    "graph_merge_nodes": _undo_merge,
    "wiki_save_answer": _undo_answer,
}
"""Each returns the stages that make the pages anew."""
