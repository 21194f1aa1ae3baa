"""Taking a change back that the audit holds."""

from pathlib import Path
from typing import Any

from kbwiki import curate
from kbwiki.db import Database
from kbwiki.edges import restore_doubles, set_edge
from kbwiki.errors import InputError, KbwikiError, NotFoundError
from kbwiki.memory import keep
from kbwiki.memory.transfer import Row, import_memories
from kbwiki.server.desk import Caller, Desk
from kbwiki.server.reading import keeper_of
from kbwiki.server.writing import AFTER, REBUILD, rebuild, write_note


def undo(desk: Desk, database: Database, caller: Caller, number: int) -> str:
    """Take a change back; return a sentence. Raises InputError where that cannot be."""
    rows = database.dicts("list_audit", {"id": number, "n": 1})
    if not rows:
        raise NotFoundError(f"audit {number}: there is none.", "`kbwiki audit`.")
    [row] = rows
    if row["undone_at"] is not None:
        raise InputError(f"audit {number}: {row['undone_by']} has taken it back already.")
    if later := database.value("find_later_change", {"id": number}):
        raise InputError(
            f"audit {number}: a later change rests on it.", f"Take audit {later} back first."
        )
    try:
        _UNDO[row["tool"]](desk, database, caller, row)
    except KeyError as error:
        raise InputError(f"audit {number}: {row['tool']} cannot be taken back.") from error
    except KbwikiError as error:
        raise InputError(f"audit {number}: {error.message}", error.hint) from error
    database.run("undo_audit", {"id": number, "by": caller.name})
    return f"{row['tool']} {row['target']} is taken back."


def _undo_remember(desk: Desk, database: Database, caller: Caller, row: dict[str, Any]) -> None:
    if not row["after"]["is_new"]:
        raise InputError("the memory was there before.", "Forget it if it is to go.")
    keep.forget(keeper_of(desk, database, caller), row["after"]["id"])


def _undo_forget(desk: Desk, database: Database, caller: Caller, row: dict[str, Any]) -> None:
    # The number is never used again; the memory comes back under a new one.
    memory = Row.model_validate(row["before"])
    others = {edge.to: edge.to for edge in memory.edges if edge.to is not None}
    keeper = keeper_of(desk, database, caller)
    done = import_memories(keeper, [memory], allow_secrets=True, ids=others)
    if done.refused:
        raise InputError(done.refused[0])


def _undo_file(desk: Desk, database: Database, caller: Caller, row: dict[str, Any]) -> None:
    path = Path(row["after"]["path"])
    if row["before"] is not None:
        write_note(path, row["before"]["text"])
        failed = rebuild(desk, database, REBUILD, (path,))
        if failed:
            raise InputError(failed[0])
        return
    if not row["after"]["is_ours"] and row["after"].get("was_known"):
        raise InputError(f"{path.name} was a source before this.", "`kbwiki rm` if it is to go.")
    with desk.building, desk.services(database) as services:
        curate.remove_sources(services, [row["after"]["uri"]], False)
    if row["after"]["is_ours"]:
        path.unlink(missing_ok=True)
    rebuild(desk, database, AFTER)


def _undo_edge(desk: Desk, database: Database, caller: Caller, row: dict[str, Any]) -> None:
    before, after = row["before"], row["after"]
    if before.get("human"):
        set_edge(database, before["head"], before["type"] or "none", before["tail"])
    else:
        set_edge(database, after["head"], "auto", after["tail"])
        rebuild(desk, database, ("link", "classify-edges"))


def _undo_dedup(desk: Desk, database: Database, caller: Caller, row: dict[str, Any]) -> None:
    restore_doubles(database, row["before"]["dropped"])


def _undo_answer(desk: Desk, database: Database, caller: Caller, row: dict[str, Any]) -> None:
    if row["before"]:
        raise InputError(
            "the question was filed before this.", "It stays, with the answer of its sources."
        )
    if not database.run("unfile_answers", {"slugs": [row["after"]["slug"]]}):
        raise NotFoundError("the answer is gone already.")
    rebuild(desk, database, ("export",))


def _undo_merge(desk: Desk, database: Database, caller: Caller, row: dict[str, Any]) -> None:
    with desk.building, desk.services(database) as services:
        curate.unmerge(services, row["after"]["first"], row["after"]["second"])
    rebuild(desk, database, AFTER)


_UNDO = {
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
