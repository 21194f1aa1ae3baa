"""Every change by a tool: who made it, what was before, what is after; once for each key."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from kbwiki.db import Database
from kbwiki.errors import InputError
from kbwiki.server.desk import Caller
from kbwiki.server.forms import Args, Reply
from kbwiki.text.normal import short_hash

_SHORT = 200


@dataclass(frozen=True, slots=True)
class Change:
    """What a tool changed: a name for people, the state before and after, the reply."""

    target: str
    before: dict[str, Any] | None
    after: dict[str, Any] | None
    reply: Reply


def in_short(text: str) -> str:
    """Return what the audit keeps of a text: how it begins, and which one it was."""
    return text if len(text) <= _SHORT else f"{text[:_SHORT]}… (sha256 {short_hash(text, 16)})"


def once(
    database: Database,
    caller: Caller,
    tool: str,
    args: Args,
    kind: type[Reply],
    change: Callable[[], Change],
) -> Reply:
    """Make a change and write it down; for a key that was used, return the reply of then.

    Raises InputError for a key that was used with other arguments.
    """
    told = json.loads(args.model_dump_json(exclude_none=True))
    key = told.pop("idempotency_key", None) or told.pop("key", None)
    who = {"principal": caller.name, "tool": tool}
    # Calls with one key take turns, so that the second finds what the first did.
    lock = f"audit {caller.name} {tool} {key}" if key else ""
    if not lock:
        return _make(database, caller, tool, told, key, change)
    with database.locked(lock):
        known = database.dicts("find_audit_key", {**who, "key": key})
        if known and known[0]["arguments"] != told:
            raise InputError(
                f"{tool}: the key {key!r} was used with other arguments.", "Take a new key."
            )
        if known:
            return kind.model_validate(known[0]["reply"])
        return _make(database, caller, tool, told, key, change)


def _make(
    database: Database,
    caller: Caller,
    tool: str,
    told: dict[str, Any],
    key: str | None,
    change: Callable[[], Change],
) -> Reply:
    made = change()
    database.run(
        "save_audit",
        {
            "principal": caller.name,
            "role": caller.role,
            "tool": tool,
            "target": made.target[:500],
            "arguments": told,
            "before": made.before,
            "after": made.after,
            "reply": json.loads(made.reply.model_dump_json()),
            "idempotency_key": key,
        },
    )
    return made.reply
