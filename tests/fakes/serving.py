"""A real server in a thread, for tests: the app on a port of its own, with users if wanted."""

import asyncio
import base64
import contextlib
import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

import httpx2
import mcp
import psycopg
import uvicorn
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client

from kbwiki import db
from kbwiki.cli.serve import _limit, _reading
from kbwiki.engines.local import LocalEngine
from kbwiki.errors import ConfigError
from kbwiki.pool import Pool
from kbwiki.server.app import App, Build, Rules, make_app
from kbwiki.server.desk import Desk, Role
from kbwiki.server.registry import build_server
from kbwiki.server.run import Address, settle
from kbwiki.server.users import Gate, add_user
from kbwiki.stages.stage import Services

PASSWORDS = {
    "ann": "annpassword1",
    "bob": "bobpassword1",
    "will": "willpassword",
    "root": "rootpassword",
}
ROLE_OF: dict[str, Role] = {"ann": "reader", "bob": "reader", "will": "writer", "root": "admin"}
_HASHES: dict[str, str] = {}
BOTH = {"Accept": "application/json, text/event-stream"}
MODERN = {**BOTH, "MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/list"}
VERSIONS = {"clientInfo": {"name": "test", "version": "1"}, "capabilities": {}}


def basic(name: str, password: str | None = None) -> dict[str, str]:
    """Headers of a user."""
    told = f"{name}:{PASSWORDS[name] if password is None else password}"
    return {"Authorization": "Basic " + base64.b64encode(told.encode()).decode()}


def _none() -> Any:
    raise ConfigError("embedder: there is none here.")


@contextlib.contextmanager
def open_desk(
    url: str | Callable[[], str], root: Path, embedder: Any = None, **more: Any
) -> Iterator[Desk]:
    """A desk on a store, with the local engine and, by default, no embedder."""
    find_url = url if callable(url) else lambda: url
    with contextlib.closing(db.connect(find_url())) as database:
        prepare, counts = _reading(database)
    readers = Pool(find_url, 4, prepare, "kbwiki reader")
    writers = Pool(find_url, 4, partial(_limit, kind="writer"), "kbwiki writer")
    home = root / ".kbwiki"
    home.mkdir(exist_ok=True)

    @contextlib.contextmanager
    def services(database: db.Database) -> Iterator[Services]:
        yield Services(
            database=database,
            engine=LocalEngine(),
            make_embedder=_none if embedder is None else lambda: embedder,
            root=root,
            wiki=root / "wiki",
            jobs=1,
            today="2026-01-01",
        )

    try:
        yield Desk(readers, writers, lambda d: embedder, services, home, counts_uses=counts, **more)
    finally:
        readers.close()
        writers.close()


Opening = AbstractAsyncContextManager[mcp.Client]
Mode = Literal["auto", "legacy"]


@contextlib.asynccontextmanager
async def opened(url: str, mode: Mode, headers: dict[str, str]) -> AsyncIterator[mcp.Client]:
    """A real MCP client: ``auto`` speaks 2026-07-28, ``legacy`` 2025-11-25."""
    async with httpx2.AsyncClient(headers=headers, timeout=60) as http:
        transport = streamable_http_client(url, http_client=http)
        async with mcp.Client(transport, mode=mode) as client:
            yield client


@dataclass
class Served:
    """An app that is up."""

    url: str
    app: App
    desk: Desk

    def http(self, **headers: str) -> httpx2.Client:
        """A plain client."""
        return httpx2.Client(base_url=self.url, headers=headers, timeout=30)

    def client(self, mode: Mode = "auto", headers: dict[str, str] | None = None) -> Opening:
        """A real MCP client, as ``opened`` gives it."""
        return opened(self.url + "/mcp", mode, headers or {})

    def sse(self, headers: dict[str, str] | None = None) -> Opening:
        """A client of the oldest transport."""
        return mcp.Client(sse_client(self.url + "/mcp/sse", headers=headers or {}), mode="legacy")


def _add_users(database: db.Database) -> None:
    """Add all users; their passwords are hashed once, for that is slow by design."""
    for name, password in PASSWORDS.items():
        if name in _HASHES:
            row = {"name": name, "role": ROLE_OF[name], "password_hash": _HASHES[name]}
            database.run("save_principal", row)
        else:
            add_user(database, name, ROLE_OF[name], password)
            _HASHES[name] = database.dicts("find_principal", {"name": name})[0]["password_hash"]


@contextlib.contextmanager
def serving(
    desk: Desk,
    role: Role,
    users: bool,
    build: Build = build_server,
    proxies: Sequence[str] = (),
    **rules: Any,
) -> Iterator[Served]:
    """An app on a free port."""
    if users:
        with desk.writers.lend() as database:
            _add_users(database)
    app = make_app(desk, Rules(role, lambda: users, **rules), Gate(), build)
    server = uvicorn.Server(settle(app, Address("127.0.0.1", 0, proxies=proxies)))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    end = time.monotonic() + 30
    while not server.started:
        assert time.monotonic() < end
        time.sleep(0.01)
    port = server.servers[0].sockets[0].getsockname()[1]
    try:
        yield Served(f"http://127.0.0.1:{port}", app, desk)
    finally:
        server.should_exit = True
        thread.join(20)


def held(wiki: str) -> list[Any]:
    """What the store holds, of all that an agent can change, but for the log of changes."""
    tables = ("memory", "memory_edge", "decision", "edge_decision", "answer", "source_uri")
    with psycopg.connect(wiki) as connection:
        return [
            connection.execute(f"select * from kb.{table} order by 1, 2".encode()).fetchall()
            for table in tables
        ]


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return int(probe.getsockname()[1])


@contextlib.contextmanager
def started(
    url: str, folder: Path, *args: str, port: int = 0
) -> Iterator[tuple["subprocess.Popen[str]", str]]:
    """`kbwiki serve` on a store, and its address; killed in the end."""
    port = port or free_port()
    process = subprocess.Popen(
        [sys.executable, "-m", "kbwiki", "serve", "--port", str(port), *args],
        cwd=folder, env={**os.environ, "KBWIKI_DATABASE_URL": url}, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    address = f"http://127.0.0.1:{port}"
    end = time.monotonic() + 60
    try:
        while True:
            assert process.poll() is None, process.communicate()[1]
            assert time.monotonic() < end
            with contextlib.suppress(httpx2.HTTPError):
                if httpx2.get(f"{address}/healthz").status_code == 200:
                    break
            time.sleep(0.1)
        yield process, address
    finally:
        process.kill()
        process.communicate()


def rpc(method: str, params: dict[str, Any] | None = None, number: Any = 1) -> dict[str, Any]:
    """A JSON-RPC call."""
    return {"jsonrpc": "2.0", "id": number, "method": method, "params": params or {}}


def open_session(http: httpx2.Client, headers: dict[str, str] | None = None) -> str:
    """Open a session of 2025-11-25 and return its id."""
    told = {"Accept": "application/json, text/event-stream", **(headers or {})}
    params = {"protocolVersion": "2025-11-25", **VERSIONS}
    answer = http.post("/mcp", json=rpc("initialize", params), headers=told)
    assert answer.status_code == 200, answer.text
    session = answer.headers["mcp-session-id"]
    note = {"jsonrpc": "2.0", "method": "notifications/initialized"}
    done = http.post("/mcp", json=note, headers={**told, "Mcp-Session-Id": session})
    assert done.status_code == 202
    return str(session)


def modern(method: str, params: dict[str, Any] | None = None, number: Any = 1) -> dict[str, Any]:
    """A call of 2026-07-28."""
    meta = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": VERSIONS["clientInfo"],
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    return rpc(method, {**(params or {}), "_meta": meta}, number)


def replies(text: str) -> list[dict[str, Any]]:
    """The messages of an event stream or of a JSON body."""
    lines = [line[6:] for line in text.splitlines() if line.startswith("data: {")]
    return [json.loads(line) for line in (lines or [text])]


Use = Callable[[mcp.Client], Awaitable[Any]]


def use(client: Opening, work: Use) -> Any:
    """Do something with a client."""

    async def main() -> Any:
        async with client as opened:
            return await work(opened)

    return asyncio.run(main())


def call(client: Opening, tool: str, **args: Any) -> Any:
    """Call one tool; its structured reply."""
    result = use(client, lambda c: c.call_tool(tool, args))
    assert not result.is_error, result.content
    return result.structured_content


def fail(client: Opening, tool: str, **args: Any) -> str:
    """Call one tool that refuses; what it says."""
    result = use(client, lambda c: c.call_tool(tool, args))
    assert result.is_error
    return str(result.content[0].text)
