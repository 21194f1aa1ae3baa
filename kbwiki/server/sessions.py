"""Sessions of the 2025-11-25 protocol: what a client may fetch again, and no id twice at a time.

Mends faults of the SDK: one event store for all sessions would replay one user's results to
another, and two calls with one id in flight get each other's answers.
"""

import itertools
import zlib
from collections import Counter, deque
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from mcp.server.auth.middleware.bearer_auth import AuthorizationContext
from mcp.server.streamable_http import (
    EventCallback,
    EventMessage,
    EventStore,
    StreamableHTTPServerTransport,
)
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp_types import JSONRPCMessage, jsonrpc_message_adapter
from starlette.types import Receive, Scope, Send

_SESSION = b"mcp-session-id"
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


def _user(owner: AuthorizationContext | None) -> str:
    return (owner["subject"] if owner else None) or ""


class Sessions(StreamableHTTPSessionManager):
    """Sessions that each have an event store of their own: it is read once for each.

    Where there are as many as may be, a new one takes the place of an idle one: of the user who
    has most, the one used longest ago. So nobody can lock others out.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._n_calls: Counter[str] = Counter()

    @property
    def event_store(self) -> EventStore | None:
        """Return a new store."""
        return None if self.stateless else Events()

    @event_store.setter
    def event_store(self, value: Any) -> None:
        """Take none."""

    async def handle_request(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request, and note that its session is in use."""
        name = next((v.decode("latin-1") for n, v in scope["headers"] if n == _SESSION), "")
        if name not in self._server_instances:
            await super().handle_request(scope, receive, send)
            return
        self._server_instances[name] = self._server_instances.pop(name)  # the last used is last
        with self._in_use(name, scope["method"] == "POST"):
            await super().handle_request(scope, receive, send)

    @contextmanager
    def _in_use(self, name: str, is_call: bool) -> Iterator[None]:
        """Count a call to a session; one whose stream is only listened to is idle."""
        self._n_calls[name] += is_call
        try:
            yield
        finally:
            self._n_calls[name] -= is_call
            if not self._n_calls[name]:
                del self._n_calls[name]

    async def _serve_opening_request(
        self,
        http_transport: StreamableHTTPServerTransport,
        scope: Scope,
        receive: Receive,
        send: Send,
    ) -> None:
        with self._in_use(http_transport.mcp_session_id or "", True):
            await super()._serve_opening_request(http_transport, scope, receive, send)

    def _admit_session(
        self, requestor: AuthorizationContext | None
    ) -> StreamableHTTPServerTransport | None:
        if self.max_sessions is not None and self.n_sessions >= self.max_sessions:
            self._make_room(_user(requestor))
        return super()._admit_session(requestor)

    def _make_room(self, newcomer: str) -> None:
        """End an idle session of whoever has most, the new one counted, if there is any."""
        names: dict[str, list[str]] = {newcomer: []}
        for name in self._server_instances:
            names.setdefault(_user(self._session_owners.get(name)), []).append(name)
        mine = len(names[newcomer]) + 1
        counts = {owner: len(of_owner) for owner, of_owner in names.items()} | {newcomer: mine}
        for owner in sorted(names, key=lambda owner: (-counts[owner], owner != newcomer)):
            idle = next((name for name in names[owner] if not self._n_calls[name]), None)
            if idle is not None and counts[owner] >= mine:
                transport = self._server_instances.pop(idle)
                assert self._task_group is not None
                self._task_group.start_soon(self._discard_session, idle, transport)
                return

    @property
    def n_sessions(self) -> int:
        """How many sessions are open."""
        return len(self._server_instances)
