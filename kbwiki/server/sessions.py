"""Sessions of the 2025-11-25 protocol: what a client may fetch again, and no id twice at a time.

Mends faults of the SDK: one event store for all sessions would replay one user's results to
another, and two calls with one id in flight get each other's answers.
"""

import itertools
import zlib
from collections import deque
from typing import Any

from mcp.server.streamable_http import EventCallback, EventMessage, EventStore
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp_types import JSONRPCMessage, jsonrpc_message_adapter

MAX_EVENTS = 256
MAX_EVENT_BYTES = 1 << 20
"""Of one session, packed; results stay until the session ends."""


class Events(EventStore):
    """The last events of one session."""

    def __init__(self) -> None:
        self._numbers = itertools.count(1)
        self._rows: deque[tuple[str, str, bytes]] = deque()
        self._n_bytes = 0

    async def store_event(self, stream_id: str, message: JSONRPCMessage | None) -> str:
        """Keep an event, in place of the oldest where there are too many."""
        event_id = f"{stream_id}:{next(self._numbers)}"
        packed = b"" if message is None else _pack(message)
        self._rows.append((event_id, stream_id, packed))
        self._n_bytes += len(packed)
        while len(self._rows) > MAX_EVENTS or self._n_bytes > MAX_EVENT_BYTES:
            self._n_bytes -= len(self._rows.popleft()[2])
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
        for event_id, stream, packed in rows[at + 1 :]:
            if stream == stream_id and packed:
                await send_callback(EventMessage(_unpack(packed), event_id))
        return stream_id


def _pack(message: JSONRPCMessage) -> bytes:
    """Return a message in few bytes: hundreds of sessions keep theirs."""
    return zlib.compress(message.model_dump_json(by_alias=True, exclude_unset=True).encode(), 1)


def _unpack(packed: bytes) -> JSONRPCMessage:
    return jsonrpc_message_adapter.validate_json(zlib.decompress(packed))


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
