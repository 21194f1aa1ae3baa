"""Every change by a tool: who made it, what was before, what is after; once for each key.

A change and its row in the audit are one transaction. What follows from a change, such as the pages
that a source feeds, comes after it and may be made again.
"""

import json
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

from kbwiki.db import Database
from kbwiki.errors import InputError
from kbwiki.server.desk import Caller
from kbwiki.server.forms import Args, Reply
from kbwiki.text.normal import short_hash

_SHORT = 200
NOTES = "notes of agents"
EDGES = "words of agents on edges"
TURNS = {
    "graph_upsert_node": NOTES,
    "wiki_ingest": NOTES,
    "graph_upsert_edge": EDGES,
    "graph_classify_edge": EDGES,
}
"""What tools take turns at, and whoever takes their changes back."""


@dataclass(frozen=True, slots=True)
class Change:
    """What a tool changed: a name for people, the state before and after.

    ``reply`` is None where more follows from the change.
    """

    target: str
    before: dict[str, Any] | None
    after: dict[str, Any] | None
    reply: Reply | None = None


@dataclass(frozen=True, slots=True)
class Finished:
    """What the call says when all that follows is done, and the state then, if it says more."""

    reply: Reply
    after: dict[str, Any] | None = None


WriteDown = Callable[[Change], None]
"""Writes a change down; called inside the transaction that makes it."""
Finish = Callable[[int], Finished]
"""Makes what follows from the change of a row, given by its number; safe to do again."""


@dataclass(frozen=True, slots=True)
class Work:
    """What a tool does: the change, and what follows from it where its reply waits for that."""

    change: Callable[[WriteDown], None]
    finish: Finish | None = None


def in_short(text: str) -> str:
    """Return what the audit keeps of a text: how it begins, and which one it was."""
    return text if len(text) <= _SHORT else f"{text[:_SHORT]}… (sha256 {short_hash(text, 16)})"


def once(
    database: Database, caller: Caller, tool: str, args: Args, kind: type[Reply], work: Work
) -> Reply:
    """Make a change and write it down; for a key that was used, return the reply of then.

    What was to follow from the change of then, and was cut off, is made now. Raises InputError for
    a key that was used with other arguments.
    """
    told = json.loads(args.model_dump_json(exclude_none=True))
    key = told.pop("idempotency_key", None) or told.pop("key", None)
    with ExitStack() as turns:
        # Calls with one key take turns, so that the second finds what the first did.
        if key:
            turns.enter_context(database.locked(f"audit {caller.name} {tool} {key}"))
        if tool in TURNS:
            turns.enter_context(database.locked(TURNS[tool]))
        who = {"principal": caller.name, "tool": tool}
        known = database.dicts("find_audit_key", {**who, "key": key}) if key else []
        if known and known[0]["arguments"] != told:
            raise InputError(
                f"{tool}: the key {key!r} was used with other arguments.", "Take a new key."
            )
        if known and known[0]["reply"] is not None:
            return kind.model_validate(known[0]["reply"])
        if known:
            return _finished(database, work, known[0]["id"])
        made: list[tuple[int, Reply | None]] = []

        def write_down(change: Change) -> None:
            row = {
                **who,
                "role": caller.role,
                "target": change.target[:500],
                "arguments": told,
                "before": change.before,
                "after": change.after,
                "reply": _packed(change.reply) if change.reply else None,
                "idempotency_key": key,
            }
            # A transaction that another was in the way of is made again.
            made[:] = [(database.value("save_audit", row), change.reply)]

        work.change(write_down)
        [(number, reply)] = made
        return reply or _finished(database, work, number)


def _finished(database: Database, work: Work, number: int) -> Reply:
    assert work.finish is not None
    done = work.finish(number)
    row = {"id": number, "reply": _packed(done.reply), "after": done.after}
    database.run("finish_audit", row)
    return done.reply


def _packed(reply: Reply) -> dict[str, Any]:
    packed: dict[str, Any] = json.loads(reply.model_dump_json())
    return packed
