"""The ledger of calls: what each cost, what may still be spent, and replies to use again.

Owns kb.call and kb.cache, and the limits on money. Called from worker threads, each call is one
short statement under a lock; no connection is busy while a model thinks.
"""

import json
import threading
import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any

from kbwiki.db import Database
from kbwiki.engines.asker import CallRecord
from kbwiki.engines.chat import Usage
from kbwiki.engines.prices import price
from kbwiki.errors import BudgetError, InputError
from kbwiki.text.normal import counted

_POLL_S = 0.5


class Ledger:
    """Writes calls down and stops those that would pass a limit; safe to share between threads.

    ``max_usd`` bounds this run, ``daily_usd`` the day (UTC) over all runs; None: no bound.
    """

    def __init__(
        self,
        connect: Callable[[], Database],
        max_usd: float | None = None,
        daily_usd: float | None = None,
    ) -> None:
        self._connect = connect
        self._opened: Database | None = None
        self._max_usd = max_usd
        self._daily_usd = daily_usd
        self._lock = threading.Condition()
        self._held: dict[int, float] = {}
        self._owner = uuid.uuid4().hex
        self.n_calls = 0
        self.n_cached = 0
        self.usd = 0.0
        self.tokens = 0
        self.dropped: Counter[str] = Counter()

    @property
    def _database(self) -> Database:
        """The ledger's own connection, opened at its first use; its owner lives while it does."""
        if self._opened is None:
            database = self._connect()
            database.run("lock_name", {"name": self._owner})
            _settle_dead(database)
            self._opened = database
        return self._opened

    def close(self) -> None:
        """Close the connection."""
        if self._opened is not None:
            self._opened.close()

    def find(self, key: str) -> tuple[str, str] | None:
        """Return (model, reply) of an equal call made before, or None."""
        with self._lock:
            rows = self._database.dicts("find_reply", {"key": key})
        return (rows[0]["model"], rows[0]["reply"]) if rows else None

    def begin(self, call: CallRecord, input_tokens: int, output_tokens: int) -> int:
        """Write down a call about to be made, with the most it may cost; return its number.

        Where only the calls under way may leave too little, it waits for them: most cost less than
        was set aside. Raises BudgetError where nothing is left to wait for, or where a limit is set
        and the model's price is not known.
        """
        most = price(call.model, Usage(input_tokens, output_tokens))
        if most is None and not (self._max_usd is None and self._daily_usd is None):
            raise BudgetError(
                f"cost: there is a limit, but the price of {call.model} is not known.",
                "Take the limit off, or choose a model of `kbwiki/engines/prices.toml`.",
            )
        usage = Usage(input_tokens)
        row = {**_row(replace(call, status="open", usage=usage), most), "owner": self._owner}
        with self._lock:
            while (number := self._admitted(row, most or 0.0)) is None:
                # Those of other processes say nothing when they end.
                self._lock.wait(_POLL_S)
                _settle_dead(self._database)
            self._held[number] = most or 0.0
            return number

    def _admitted(self, row: dict[str, object], most: float) -> int | None:
        """Return the number of a call that may start, or None if it must wait."""
        # A call is as good as its reply: one that a crash of the machine takes cost a prompt.
        with self._database.transaction(durable=False):
            if self._daily_usd is not None:
                self._database.run("lock_budget")
            if not self._fits(most):
                return None
            number: int = self._database.value("save_call", row)
            return number

    def _fits(self, cost: float) -> bool:
        """Tell whether a call may start now; raise BudgetError if it never may."""
        limits: list[tuple[float, float, float, str]] = []
        if self._max_usd is not None:
            held = sum(self._held.values())
            limits.append((self._max_usd, self.usd, held, "--max-cost"))
        if self._daily_usd is not None:
            today = self._database.dicts("sum_today")[0]
            limits.append((self._daily_usd, today["spent"], today["held"], "KBWIKI_DAILY_USD"))
        for limit, spent, _, name in limits:
            if spent + cost > limit:
                raise BudgetError(
                    f"cost: the next call would pass {name} of ${limit:g} (${spent:.4f} spent).",
                    "A call is made if its longest reply would fit. All that was done is kept: "
                    "raise the limit and run it again to go on.",
                )
        return all(spent + held + cost <= limit for limit, spent, held, _ in limits)

    def end(self, number: int, call: CallRecord, key: str, reply: str | None) -> None:
        """Write down what a call came to and, unless ``reply`` is None, keep it under ``key``."""
        cost = _cost(call)
        usage = call.usage
        row = {**_row(call, cost), "id": number, "key": key, "reply": reply}
        with self._lock:
            self.n_calls += 1
            self.usd += cost or 0.0
            self.tokens += usage.input_tokens + usage.output_tokens + usage.thinking_tokens
            try:
                self._database.run("end_call", row)
            finally:
                self._let_go(number)

    def forget(self, number: int) -> None:
        """Strike out a call that was never sent."""
        with self._lock:
            try:
                self._database.run("forget_call", {"id": number})
            finally:
                self._let_go(number)

    def _let_go(self, number: int) -> None:
        del self._held[number]
        self._lock.notify_all()

    def note(self, call: CallRecord) -> None:
        """Write down a call that was answered from the cache."""
        with self._lock:
            self.n_cached += 1
            self._database.value("save_call", {**_row(call, 0.0), "owner": self._owner})

    def drop(self, what: str) -> None:
        """Count a thing of a reply that was thrown away."""
        with self._lock:
            self.dropped[what] += 1

    def spent(self) -> str:
        """Return one line on what this run asked, paid and threw away."""
        dropped = ", ".join(
            counted(n, what.removesuffix("s")) for what, n in sorted(self.dropped.items())
        )
        return (
            f"{counted(self.n_calls, 'call')}, {self.n_cached} from the cache, "
            f"{self.tokens:,} tokens, ${self.usd:.4f}"
            + (f"; dropped: {dropped}" if dropped else "")
        )


def _settle_dead(database: Database) -> None:
    """Count the calls of killed processes with their prompts: their replies are not known."""
    with database.transaction():
        for row in database.dicts("list_dead_calls"):
            usd = price(row["model"], Usage(row["input_tokens"]))
            database.run("lose_call", {"id": row["id"], "usd": usd})


def _cost(call: CallRecord) -> float | None:
    known = price(call.reply_model, call.usage) if call.reply_model else None
    return price(call.model, call.usage) if known is None else known


def _row(call: CallRecord, cost: float | None) -> dict[str, object]:
    return {
        "task": call.task,
        "provider": call.provider,
        "model": call.model,
        "reply_model": call.reply_model,
        "item": call.item,
        "status": call.status,
        "reason": call.reason,
        "prompt_sha": call.prompt_sha,
        "input_tokens": call.usage.input_tokens,
        "output_tokens": call.usage.output_tokens,
        "cached_tokens": call.usage.cached_tokens,
        "thinking_tokens": call.usage.thinking_tokens,
        "usd": cost,
        "ms": call.ms,
    }


def export_cache(database: Database) -> Iterator[str]:
    """Yield every reply kept, one JSON object a line, in key order."""
    for row in database.dicts("list_cache"):
        yield json.dumps(row, ensure_ascii=False) + "\n"


def import_cache(database: Database, lines: Iterable[str]) -> int:
    """Take replies in, all or none; return how many there were. Those that are there stay.

    Raises InputError that names the first line which is not one of `export_cache`.
    """
    rows = [_kept(line, number) for number, line in enumerate(lines, 1) if line.strip()]
    with database.transaction():
        database.run_many("import_reply", rows)
    return len(rows)


def _kept(line: str, number: int) -> dict[str, str]:
    try:
        found: dict[str, Any] = json.loads(line)
        row = {name: found[name] for name in ("key", "task", "model", "reply")}
        # A lone half of a surrogate pair is a string to JSON and none to the database.
        "".join(row.values()).encode()
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise InputError(
            f"cache, line {number}: it is no reply.", "Write one with `kbwiki cache export`."
        ) from error
    return row
