"""Sessions of the 2025-11-25 protocol: what a client may fetch again, and no id twice at a time.

Mends faults of the SDK: one event store for all sessions would replay one user's results to
another, and two calls with one id in flight get each other's answers.
"""

import itertools
from collections import deque
from typing import Any

from mcp.server.streamable_http import EventCallback, EventMessage, EventStore
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp_types import JSONRPCMessage

MAX_EVENTS = 256
MAX_EVENT_BYTES = 1 << 20
"""Of one session; results stay until the session ends."""


class Events(EventStore):
    """The last events of one session."""

    def __init__(self) -> None:
        self._numbers = itertools.count(1)
        self._rows: deque[tuple[str, str, JSONRPCMessage | None, int]] = deque()
        self._n_bytes = 0

    async def store_event(self, stream_id: str, message: JSONRPCMessage | None) -> str:
        """Keep an event, in place of the oldest where there are too many."""
        event_id = f"{stream_id}:{next(self._numbers)}"
        size = len(message.model_dump_json()) if message is not None else 0
        self._rows.append((event_id, stream_id, message, size))
        self._n_bytes += size
        while len(self._rows) > MAX_EVENTS or self._n_bytes > MAX_EVENT_BYTES:
            self._n_bytes -= self._rows.popleft()[3]
        return event_id

    async def replay_events_after(
        self, last_event_id: str, send_callback: EventCallback
    ) -> str | None:
        """Send what came on a stream after an event; None where the event is not known."""
        rows = list(self._rows)
        at = next((n for n, row in enumerate(rows) if row[0] == last_event_id), None)
        if at is None:
            return None
        stream_id = rows[at][1]
        for event_id, stream, message, _ in rows[at + 1 :]:
            if stream == stream_id and message is not None:
                await send_callback(EventMessage(message, event_id))
        return stream_id


class Sessions(StreamableHTTPSessionManager):
    """Sessions that each have an event store of their own: it is read once for each."""

    @property
    def event_store(self) -> EventStore | None:
        """Return a new store."""
        return None if self.stateless else Events()

    @event_store.setter
    def event_store(self, value: Any) -> None:
        """Take none."""

    @property
    def n_sessions(self) -> int:
        """How many sessions are open."""
        return len(self._server_instances)
