"""The ASGI app: /mcp for both eras, /mcp/sse for old clients, /healthz; who may ask, and how much.

From outside in: CORS, what needs no credentials, credentials, bodies and ids, the protocol.
"""

import asyncio
import contextlib
import json
import logging
import re
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import anyio.to_thread
from mcp.server import Server
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken
from mcp.server.sse import SseServerTransport
from mcp.server.transport_security import TransportSecuritySettings
from mcp_types import InitializeRequestParams
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS
from pydantic import ValidationError
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from kbwiki.errors import KbwikiError
from kbwiki.server.desk import ROLES, Desk, Role
from kbwiki.server.registry import INVALID, WhoAsks, build_server, caller_of
from kbwiki.server.sessions import Sessions
from kbwiki.server.users import Gate, User

_log = logging.getLogger(__name__)

MAX_SESSIONS = 200
IDLE_S = 1800.0
MAX_BODY = 4 << 20
_OPEN = ("/healthz", "/.well-known", "/register")
_ACCEPT = b"application/json, text/event-stream"
_NO_OAUTH = {
    "error": "not_found",
    "error_description": "This server has no OAuth. Send an Authorization header: Basic with a "
    "user of `kbwiki user add`, or Bearer with a token of `kbwiki user token`.",
}


@dataclass(frozen=True, slots=True)
class Rules:
    """How the app is served.

    ``role`` caps every session, and is what everybody has where ``has_users`` is false.
    """

    role: Role
    has_users: Callable[[], bool]
    hosts: Sequence[str] = ()
    stateless: bool = False
    idle_s: float = IDLE_S
    max_sessions: int = MAX_SESSIONS


Build = Callable[[Desk, Role, WhoAsks], Server[Any]]


def make_app(
    desk: Desk, rules: Rules, gate: Gate | None = None, build: Build = build_server
) -> "App":
    """Return the app; ``build`` makes the MCP server of a role."""
    return App(desk, rules, gate or Gate(), build)


class App:
    """The ASGI app; ``n_posts`` calls are under way."""

    def __init__(self, desk: Desk, rules: Rules, gate: Gate, build: Build) -> None:
        self.desk = desk
        self.rules = rules
        self.gate = gate
        self.n_posts = 0
        self.in_flight: set[tuple[str, str, str]] = set()
        security = _security(rules.hosts)
        roles = [role for role in ROLES if ROLES.index(role) <= ROLES.index(rules.role)]
        self._servers = {
            role: build(desk, role, partial(caller_of, role=role, name="anyone")) for role in roles
        }
        self._sessions = {
            role: Sessions(
                server,
                stateless=rules.stateless,
                security_settings=security,
                session_idle_timeout=rules.idle_s,
                max_sessions=rules.max_sessions,
                max_request_body_size=MAX_BODY,
                retry_interval=500,
            )
            for role, server in self._servers.items()
        }
        self._sse = SseServerTransport("/mcp/sse/messages", security_settings=security)
        self._app = Starlette(
            lifespan=self._lifespan,
            routes=[
                Route("/healthz", self._health),
                Route("/mcp", _Asgi(self._mcp)),
                Route("/mcp/sse", _Asgi(self._sse_stream), methods=["GET"]),
                # A Mount would answer the POST with a redirect to the form with a slash.
                Route("/mcp/sse/messages", _Asgi(self._sse.handle_post_message), methods=["POST"]),
            ],
            middleware=[
                Middleware(
                    CORSMiddleware,
                    allow_origin_regex=_origin_pattern(security.allowed_origins),
                    allow_methods=["GET", "POST", "DELETE", "OPTIONS"],
                    allow_headers=[
                        "Authorization", "Content-Type", "Accept", "Last-Event-ID",
                        "MCP-Protocol-Version", "Mcp-Session-Id", "Mcp-Method", "Mcp-Name",
                    ],
                    expose_headers=["Mcp-Session-Id"],
                ),
                Middleware(_Guard, app_=self),
            ],
        )  # fmt: skip

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        await self._app(scope, receive, send)

    @contextlib.asynccontextmanager
    async def _lifespan(self, app: Starlette) -> AsyncIterator[None]:
        async with contextlib.AsyncExitStack() as stack:
            for sessions in self._sessions.values():
                await stack.enter_async_context(sessions.run())
            yield

    async def _mcp(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._sessions[scope["kbwiki_role"]].handle_request(scope, receive, send)

    async def _sse_stream(self, scope: Scope, receive: Receive, send: Send) -> None:
        server = self._servers[scope["kbwiki_role"]]
        # What is refused was answered by then.
        with contextlib.suppress(ValueError):
            async with self._sse.connect_sse(scope, receive, send) as (reader, writer):
                await server.run(reader, writer, server.create_initialization_options())

    async def _health(self, request: Request) -> Response:
        try:
            await self.desk.run(False, lambda database: database.value("ping"), 3.0, "front")
            database = "up"
        except KbwikiError:
            database = "away"
        body = {
            "status": "ok" if database == "up" else "unhealthy",
            "database": database,
            "sessions": sum(s.n_sessions for s in self._sessions.values()),
            "sse": len(self._sse._read_stream_writers),
            "tasks": len(asyncio.all_tasks()),
            "calls": self.n_posts,
            "rss_kb": _rss_kb(),
        }
        return JSONResponse(body, 200 if database == "up" else 503)

    async def user_of(self, scope: Scope) -> User | Response:
        """Return who sends a request, or the answer that refuses it."""
        header = _header(scope, b"authorization")
        address = (scope.get("client") or ("",))[0]
        if not header:
            has_users = await anyio.to_thread.run_sync(self.rules.has_users)
            return _refused() if has_users else User("anyone", self.rules.role)
        found = self.gate.known(header)
        if found is not None:
            return found
        if self.gate.is_slowed(address):
            return JSONResponse({"error": "too_many_failures"}, 429, {"Retry-After": "60"})
        try:
            found = await self.desk.run(True, lambda d: self.gate.look(d, header), 10.0, "front")
        except KbwikiError as error:
            return JSONResponse({"error": "unavailable", "error_description": str(error)}, 503)
        if found is not None:
            return found
        self.gate.fail(address)
        return _refused()

    def role_of(self, user: User) -> Role:
        """Return the role of a user here: never more than this server gives."""
        return min(user.role, self.rules.role, key=ROLES.index)


class _Guard:
    """Lets in whom it knows, mends what clients send, and answers no id twice at a time."""

    def __init__(self, app: ASGIApp, app_: App) -> None:
        self._next = app
        self._app = app_

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._next(scope, receive, send)
            return
        # With a slash at the end it is the same address: a redirect would lose what is posted.
        path = scope["path"].rstrip("/") or "/"
        scope = {**scope, "path": path}
        if path.startswith(_OPEN):
            answer = None if path == "/healthz" else JSONResponse(_NO_OAUTH, 404)
            await (answer or self._next)(scope, receive, send)
            return
        user = await self._app.user_of(scope)
        if isinstance(user, Response):
            await user(scope, receive, send)
            return
        role = self._app.role_of(user)
        scope = {
            **scope,
            "headers": _accepting(scope["headers"]),
            "kbwiki_user": user.name,
            "kbwiki_role": role,
            "user": _principal(user.name, role),
        }
        if scope["method"] != "POST":
            await self._next(scope, receive, send)
            return
        self._app.n_posts += 1
        try:
            await self._post(scope, receive, send)
        finally:
            self._app.n_posts -= 1

    async def _post(self, scope: Scope, receive: Receive, send: Send) -> None:
        body, messages = await _read(receive)
        if messages[-1]["type"] == "http.disconnect":
            return  # gone before the end of the body: the SDK would log each as a fault
        if len(body) > MAX_BODY:
            await _error(None, -32600, "The body is too large.", 413)(scope, receive, send)
            return
        session = _header(scope, b"mcp-session-id")
        if not session and not _is_older(scope):
            await self._next(scope, _replay(messages, receive), send)
            return
        told = _told(body)
        number = told.get("id") if "method" in told else None
        if scope["path"] == "/mcp" and not session and _is_bad_hello(told):
            # The SDK would answer so too, and keep the session that it opened for it.
            await _error(number, INVALID, "Invalid request parameters", 400)(scope, receive, send)
            return
        if not session or scope["path"] != "/mcp" or not isinstance(number, int | str):
            await self._next(scope, _replay(messages, receive), send)
            return
        # The SDK keeps streams by the id as text: 5 and "5" are one.
        flight = (scope["kbwiki_user"], session, str(number))
        taken = self._app.in_flight
        if flight in taken:
            answer = _error(number, -32600, "A call with this id is under way.", 409)
            await answer(scope, receive, send)
            return
        taken.add(flight)
        try:
            await self._next(scope, _replay(messages, receive), send)
        finally:
            taken.discard(flight)


@lru_cache(1000)
def _principal(name: str, role: Role) -> AuthenticatedUser:
    """Return a user as the SDK knows it, so that a session is its user's, in one role, alone."""
    return AuthenticatedUser(AccessToken(token="", client_id=role, subject=name, scopes=[role]))


async def _read(receive: Receive) -> tuple[bytes, list[Message]]:
    """Return a body, up to the limit, and the messages that it came in."""
    messages: list[Message] = []
    size = 0
    while True:
        message = await receive()
        messages.append(message)
        size += len(message.get("body", b""))
        if message["type"] != "http.request" or not message.get("more_body") or size > MAX_BODY:
            break
    return b"".join(m.get("body", b"") for m in messages), messages


def _replay(messages: list[Message], receive: Receive) -> Receive:
    waiting = list(messages)

    async def again() -> Message:
        return waiting.pop(0) if waiting else await receive()

    return again


def _told(body: bytes) -> dict[str, Any]:
    """Return a message; an empty one for what is none."""
    try:
        told = json.loads(body)
    except (ValueError, RecursionError):
        return {}
    return told if isinstance(told, dict) else {}


def _is_older(scope: Scope) -> bool:
    """Tell whether a request is of a protocol that has sessions."""
    version = _header(scope, b"mcp-protocol-version")
    return not version or version in HANDSHAKE_PROTOCOL_VERSIONS


def _is_bad_hello(told: dict[str, Any]) -> bool:
    """Tell whether a message would open a session, and is malformed."""
    if told.get("method") != "initialize":
        return False
    try:
        InitializeRequestParams.model_validate(told.get("params"))
    except ValidationError:
        return True
    return False


def _error(number: object, code: int, message: str, status: int) -> Response:
    error = {"code": code, "message": message}
    return JSONResponse({"jsonrpc": "2.0", "id": number, "error": error}, status)


def _accepting(headers: list[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    """Return headers that accept both forms of a reply where they accept one."""
    accept = next((value for name, value in headers if name == b"accept"), b"")
    if (b"application/json" in accept) != (b"text/event-stream" in accept):
        return [(n, _ACCEPT if n == b"accept" else v) for n, v in headers]
    return headers


def _header(scope: Scope, name: bytes) -> str:
    return next((v.decode("latin-1") for n, v in scope["headers"] if n == name), "")


def _refused() -> Response:
    return JSONResponse(
        {"error": "unauthorized", "error_description": _NO_OAUTH["error_description"]},
        401,
        {"WWW-Authenticate": 'Basic realm="kbwiki", charset="UTF-8"'},
    )


def _security(hosts: Sequence[str]) -> TransportSecuritySettings:
    """Return which names this server answers to: loopback, and those that were given."""
    names = ["127.0.0.1", "localhost", "[::1]", *hosts]
    allowed = [form for name in names for form in _forms(name)]
    origins = [f"{scheme}://{form}" for scheme in ("http", "https") for form in allowed]
    return TransportSecuritySettings(allowed_hosts=allowed, allowed_origins=origins)


def _forms(name: str) -> list[str]:
    has_port = ":" in name.rpartition("]")[2]
    return [name] if has_port else [name, f"{name}:*"]


def _origin_pattern(origins: Sequence[str]) -> str:
    """Return a pattern of the origins, whose ports may be any."""
    return "|".join(re.escape(origin).replace(r":\*", r":\d+") for origin in origins)


def _rss_kb() -> int:
    if sys.platform == "linux":
        pages = Path("/proc/self/statm").read_text("ascii").split()[1]
        return int(pages) * 4
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


class _Asgi:
    """An ASGI app as a route's endpoint: a function would be taken for a request handler."""

    def __init__(self, app: Callable[[Scope, Receive, Send], Any]) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._app(scope, receive, send)
