"""Where calls get what they work with: a connection of their role, a thread, a time limit.

A caller who goes away takes the query along: it is cancelled in the database.
"""

import contextlib
import os
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, TypeVar

import anyio
import anyio.to_thread

from kbwiki.db import Database
from kbwiki.embedders import Embedder
from kbwiki.errors import DatabaseError
from kbwiki.pages import Shelf
from kbwiki.pool import Pool
from kbwiki.stages.stage import Services

Role = Literal["reader", "writer", "admin"]
ROLES: tuple[Role, ...] = ("reader", "writer", "admin")
"""Each may do all that those before it may."""
MAX_CHARACTERS = 20_000
"""Of a reply's text; what is longer comes in parts."""

Lane = Literal["calls", "searches", "builds", "front"]
_LANES: dict[Lane, int] = {
    "calls": 8,
    "searches": 1 + (os.cpu_count() or 1),
    "builds": 2,
    "front": 4,
}
"""How many may be at work at once. Searches are work for processors: many at once make each other
slow, and the last slowest. Builds take turns and hold a connection meanwhile, so those that wait do
so here; who asks who a caller is, or for the health, waits behind no call."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Caller:
    """Who asks: the user, the role of this connection, and the client's session."""

    name: str
    role: Role
    session: str = ""
    client: str = ""


@dataclass(slots=True)
class Desk:
    """What all calls share.

    ``embedder`` may raise ConfigError or ModelError; ``services`` opens what stages need on a
    connection; ``roots`` are the folders from which an admin may take files in. ``counts_uses`` is
    false where a reader's connection may not even count the uses of recall.
    """

    readers: Pool
    writers: Pool
    embedder: Callable[[Database], Embedder | None]
    services: Callable[[Database], AbstractContextManager[Services]]
    home: Path
    roots: tuple[Path, ...] = ()
    counts_uses: bool = True
    shelf: Shelf = field(default_factory=Shelf)
    building: threading.Lock = field(default_factory=threading.Lock)
    lanes: dict[Lane, anyio.CapacityLimiter] = field(
        default_factory=lambda: {lane: anyio.CapacityLimiter(n) for lane, n in _LANES.items()}
    )

    async def run(
        self,
        writes: bool,
        work: Callable[[Database], T],
        timeout_s: float,
        lane: Lane = "calls",
    ) -> T:
        """Return what ``work`` returns on a connection of its own, within a time limit.

        Raises DatabaseError where the time is over.
        """
        lent: list[Database] = []
        gone = threading.Event()

        def labour() -> T:
            with (self.writers if writes else self.readers).lend() as database:
                lent.append(database)
                try:
                    if gone.is_set():
                        raise DatabaseError("the caller is gone.")
                    return work(database)
                finally:
                    lent.clear()
                    if writes:
                        self.shelf.look_again()

        try:
            with anyio.fail_after(timeout_s):
                return await anyio.to_thread.run_sync(
                    labour, abandon_on_cancel=True, limiter=self.lanes[lane]
                )
        except TimeoutError as error:
            await self._cancel(lent, gone)
            raise DatabaseError(
                f"the call took longer than {timeout_s:.0f} s.", "Ask for less at once."
            ) from error
        except anyio.get_cancelled_exc_class():
            await self._cancel(lent, gone)
            raise

    async def _cancel(self, lent: list[Database], gone: threading.Event) -> None:
        gone.set()
        with anyio.CancelScope(shield=True):
            for database in list(lent):
                with contextlib.suppress(DatabaseError):
                    await anyio.to_thread.run_sync(database.cancel)
