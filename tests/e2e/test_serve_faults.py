"""What clients do that they should not, and what the server does on its way out."""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import httpx2
import psycopg
import pytest
from fakes.serving import (
    BOTH,
    MODERN,
    VERSIONS,
    Served,
    free_port,
    modern,
    open_desk,
    open_session,
    replies,
    rpc,
    serving,
    started,
)
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCNotification, JSONRPCRequest, JSONRPCResponse

from kbwiki import db
from kbwiki.errors import DatabaseError
from kbwiki.server import run
from kbwiki.server.desk import Desk

WAIT_S = 30.0


@pytest.fixture
def served(url: str, tmp_path: Path) -> Iterator[Served]:
    """An empty store, served to anybody as a writer."""
    with open_desk(url, tmp_path) as desk, serving(desk, "writer", False) as up:
        yield up


def asking(tool: str) -> dict[str, str]:
    """Headers of a call of 2026-07-28."""
    return {**MODERN, "Mcp-Method": "tools/call", "Mcp-Name": tool}


def until(is_so: Any) -> None:
    """Wait for a thing to come true."""
    end = time.monotonic() + WAIT_S
    while not is_so():
        assert time.monotonic() < end
        time.sleep(0.05)


def raw(address: str, text: bytes) -> socket.socket:
    """A connection on which something was sent."""
    host, port = address.removeprefix("http://").split(":")
    connection = socket.create_connection((host, int(port)), WAIT_S)
    connection.sendall(text)
    return connection


HEAD = (
    b"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
    b"Accept: application/json, text/event-stream\r\nContent-Length: 1000\r\n"
)


def test_bodies_that_end_early_leave_no_trace(url: str, tmp_path: Path) -> None:
    with started(url, tmp_path, "--role", "reader") as (process, address):
        with httpx2.Client(base_url=address, timeout=WAIT_S) as http:
            session = open_session(http)
            for headers in (
                b"", b"MCP-Protocol-Version: 2026-07-28\r\n",
                b"Mcp-Session-Id: " + session.encode() + b"\r\n",
            ):  # fmt: skip
                for _ in range(10):
                    raw(address, HEAD + headers + b'\r\n{"jsonrpc": "2.0"').close()
            told = {**BOTH, "Mcp-Session-Id": session}
            assert http.post("/mcp", json=rpc("tools/list"), headers=told).status_code == 200
            until(lambda: http.get("/healthz").json()["calls"] == 0)
            assert http.get("/healthz").json()["sessions"] == 1
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=WAIT_S)
    assert (process.returncode, out) == (0, "")
    assert "Traceback" not in err


def test_bodies_that_dribble_hold_nobody_up(served: Served) -> None:
    held = [raw(served.url, HEAD + b"\r\n{") for _ in range(60)]
    with served.http() as http:
        open_session(http)
        answer = http.post("/mcp", json=modern("tools/list"), headers=MODERN)
        assert answer.status_code == 200
    for connection in held:
        connection.close()


def test_refused_requests_leave_no_sessions(served: Served) -> None:
    with served.http() as http:
        for n in range(40):
            told = [
                {"content": b"{", "headers": BOTH},
                {"json": rpc("tools/list"), "headers": BOTH},
                {"json": rpc("initialize"), "headers": BOTH},
                {"json": rpc("tools/list"), "headers": {**BOTH, "Accept": "text/html"}},
            ][n % 4]
            answer = http.post("/mcp", **told)
            assert 400 <= answer.status_code < 500 or "error" in replies(answer.text)[-1]
        until(lambda: http.get("/healthz").json()["sessions"] == 0)


def test_a_client_that_never_names_its_session_is_told_so(served: Served) -> None:
    with served.http() as http:
        open_session(http)
        answer = http.post("/mcp", json=rpc("tools/list", number=2), headers=BOTH)
        assert answer.status_code == 400
        assert "session" in answer.text.lower()


def test_a_header_of_one_revision_with_the_body_of_another(url: str, tmp_path: Path) -> None:
    told = {**BOTH, "MCP-Protocol-Version": "2025-11-25"}
    for stateless, code in ((False, 400), (True, 200)):
        with (
            open_desk(url, tmp_path) as desk,
            serving(desk, "reader", False, stateless=stateless) as up,
            up.http() as http,
        ):
            answer = http.post("/mcp", json=modern("tools/list"), headers=told)
            assert answer.status_code == code


def test_who_calls_before_initialize_is_answered_and_may_go_on(served: Served) -> None:
    with served.http() as http:
        assert http.post("/mcp", json=rpc("tools/list"), headers=BOTH).status_code == 400
        session = open_session(http)
        told = {**BOTH, "Mcp-Session-Id": session}
        assert http.post("/mcp", json=rpc("tools/list"), headers=told).status_code == 200
    with served.http() as http, http.stream("GET", "/mcp/sse") as stream:
        lines = (line for line in stream.iter_lines() if line.startswith("data: "))
        where = next(lines).removeprefix("data: ")
        params = {"protocolVersion": "2025-11-25", **VERSIONS}
        with served.http() as other:
            for message in (rpc("tools/list"), rpc("initialize", params, 2)):
                assert other.post(where, json=message).status_code == 202
        early, late = (json.loads(next(lines).removeprefix("data: ")) for _ in range(2))
        assert early["error"]["code"] == -32602
        assert late["result"]["serverInfo"]["name"] == "kbwiki"


def test_the_old_transport_takes_posts_at_its_own_address_alone(served: Served) -> None:
    with served.http() as http:
        assert http.post("/mcp/sse", json=rpc("initialize")).status_code == 405
        assert http.post("/mcp/sse/messages", json=rpc("ping")).status_code == 400
        for session in ("x", "0" * 32):
            answer = http.post(f"/mcp/sse/messages?session_id={session}", json=rpc("ping"))
            assert answer.status_code in {400, 404}


def test_a_slash_at_the_end_is_no_other_address(served: Served) -> None:
    with served.http() as http:
        answer = http.post("/mcp/", json=modern("tools/list"), headers=MODERN)
        assert answer.status_code == 200
        assert http.get("/healthz/").status_code == 200


def test_a_session_has_one_idle_stream_that_no_proxy_buffers(served: Served) -> None:
    with served.http() as http:
        told = {"Accept": "text/event-stream", "Mcp-Session-Id": open_session(http)}
        with http.stream("GET", "/mcp", headers=told) as first:
            assert first.status_code == 200
            assert first.headers["x-accel-buffering"] == "no"
            with served.http() as other:
                assert other.get("/mcp", headers=told).status_code == 409

        def again() -> bool:
            with served.http() as other, other.stream("GET", "/mcp", headers=told) as stream:
                return stream.status_code == 200

        until(again)


def test_a_session_of_before_a_restart_is_unknown_and_new_clients_go_on(
    url: str, tmp_path: Path
) -> None:
    port = free_port()
    with (
        started(url, tmp_path, port=port) as (process, address),
        httpx2.Client(base_url=address, timeout=WAIT_S) as http,
    ):
        session = open_session(http)
        process.send_signal(signal.SIGTERM)
        process.wait(WAIT_S)
    with (
        started(url, tmp_path, port=port) as (_, address),
        httpx2.Client(base_url=address, timeout=WAIT_S) as http,
    ):
        told = {**BOTH, "Mcp-Session-Id": session}
        answer = http.post("/mcp", json=rpc("tools/list"), headers=told)
        assert (answer.status_code, "session" in answer.text.lower()) == (404, True)
        assert http.post("/mcp", json=modern("tools/list"), headers=MODERN).status_code == 200
        open_session(http)


def test_sigterm_ends_idle_streams_of_both_transports(url: str, tmp_path: Path) -> None:
    with started(url, tmp_path) as (process, address):
        seen = threading.Barrier(3)
        ended: list[int] = []

        def listen(path: str, headers: dict[str, str]) -> None:
            with (
                httpx2.Client(base_url=address, timeout=WAIT_S) as http,
                http.stream("GET", path, headers=headers) as stream,
            ):
                seen.wait(WAIT_S)
                with contextlib.suppress(httpx2.RemoteProtocolError):
                    for _ in stream.iter_lines():
                        pass
                ended.append(stream.status_code)

        with httpx2.Client(base_url=address, timeout=WAIT_S) as http:
            idle = {"Accept": "text/event-stream", "Mcp-Session-Id": open_session(http)}
        threads = [
            threading.Thread(target=listen, args=args)
            for args in (("/mcp", idle), ("/mcp/sse", {}))
        ]
        for thread in threads:
            thread.start()
        seen.wait(WAIT_S)
        process.send_signal(signal.SIGTERM)
        for thread in threads:
            thread.join(WAIT_S)
        out, err = process.communicate(timeout=WAIT_S)
    assert ended == [200, 200]
    assert (process.returncode, out) == (0, "")
    assert "Traceback" not in err


# --- calls that take long -----------------------------------------------------------------------


@pytest.fixture
def asleep(monkeypatch: pytest.MonkeyPatch) -> str:
    """Make wiki_status wait in the database for two minutes; the query it waits in."""
    query = "select pg_sleep(120)"
    real = db.Database.dicts

    def dicts(self: db.Database, name: str, params: Any = None) -> Any:
        if name == "read_status":
            try:
                self.connection.execute(query.encode())
            except psycopg.Error as error:
                raise DatabaseError("cancelled.") from error
        return real(self, name, params)

    monkeypatch.setattr(db.Database, "dicts", dicts)
    return query


def n_running(url: str, query: str) -> int:
    """How many connections run a query."""
    with psycopg.connect(url) as connection:
        row = connection.execute(
            "select count(*) from pg_stat_activity where query = %s and state = 'active'", (query,)
        ).fetchone()
    return int(row[0]) if row else 0


def test_a_call_that_takes_too_long_is_ended_with_its_query(
    served: Served, url: str, asleep: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = Desk.run

    async def hurried(self: Desk, writes: bool, work: Any, timeout_s: float, *lane: Any) -> Any:
        return await whole(self, writes, work, 1.0, *lane)

    monkeypatch.setattr(Desk, "run", hurried)
    with served.http() as http:
        call = modern("tools/call", {"name": "wiki_status", "arguments": {}})
        result = replies(http.post("/mcp", json=call, headers=asking("wiki_status")).text)[-1]
        assert result["result"]["isError"]
        assert "took longer than 1 s" in result["result"]["content"][0]["text"]
        until(lambda: n_running(url, asleep) == 0)
        monkeypatch.undo()
        call = modern("tools/call", {"name": "wiki_list", "arguments": {}})
        answer = http.post("/mcp", json=call, headers=asking("wiki_list"))
        assert not replies(answer.text)[-1]["result"].get("isError")


def test_queries_have_a_time_limit_of_their_own(served: Served) -> None:
    for pool, seconds in ((served.desk.readers, "30s"), (served.desk.writers, "15min")):
        with pool.lend() as database:
            shown = database.connection.execute("show statement_timeout").fetchone()
            assert shown == (seconds,)


def test_while_calls_are_slow_the_health_is_told_and_others_are_served(
    served: Served, url: str, asleep: str
) -> None:
    call = modern("tools/call", {"name": "wiki_status", "arguments": {}})

    def ask() -> None:
        with contextlib.suppress(httpx2.ReadTimeout), served.http() as http:
            http.post("/mcp", json=call, headers=asking("wiki_status"), timeout=5.0)

    threads = [threading.Thread(target=ask) for _ in range(2)]
    for thread in threads:
        thread.start()
    until(lambda: n_running(url, asleep) == 2)
    with served.http() as http:
        health = http.get("/healthz").json()
        assert (health["status"], health["calls"]) == ("ok", 2)
        other = modern("tools/call", {"name": "wiki_list", "arguments": {}})
        answer = http.post("/mcp", json=other, headers=asking("wiki_list"))
        assert not replies(answer.text)[-1]["result"].get("isError")
        for thread in threads:
            thread.join(WAIT_S)
        until(lambda: http.get("/healthz").json()["calls"] == 0)
    until(lambda: n_running(url, asleep) == 0)


def test_the_health_is_bad_while_the_database_is_away_and_good_again(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    where = [url]
    with open_desk(lambda: where[0], tmp_path) as desk, serving(desk, "reader", False) as up:
        call = modern("tools/call", {"name": "wiki_list", "arguments": {}})
        with up.http() as http:

            def ask() -> Any:
                answer = http.post("/mcp", json=call, headers=asking("wiki_list"))
                return replies(answer.text)[-1]["result"]

            assert not ask().get("isError")
            where[0] = url.replace("test_", "nowhere_")
            with psycopg.connect(url, autocommit=True) as connection:
                connection.execute(
                    "select pg_terminate_backend(pid) from pg_stat_activity"
                    " where datname = current_database() and pid <> pg_backend_pid()"
                )
            assert http.get("/healthz").status_code == 503
            assert "database" in ask()["content"][0]["text"]
            where[0] = url
            until(lambda: http.get("/healthz").status_code == 200)
            assert not ask().get("isError")


# --- stdio --------------------------------------------------------------------------------------

NOISY = """
import subprocess, sys
from kbwiki.cli import main
from kbwiki.server import reading, registry
import dataclasses

def noisy(desk, database, caller, args):
    print("noise of our own")
    subprocess.run([sys.executable, "-c", "print('noise of a child')"], check=True)
    return reading.wiki_status(desk, database, caller, args)

registry.TOOLS = tuple(
    dataclasses.replace(tool, work=noisy) if tool.name == "wiki_status" else tool
    for tool in registry.TOOLS
)
sys.exit(main())
"""


def talk(command: list[str], folder: Path, url: str, *messages: dict[str, Any]) -> list[Any]:
    """Send messages to a process one by one, and return what it answered to each with an id."""
    process = subprocess.Popen(
        command, cwd=folder, env={**os.environ, "KBWIKI_DATABASE_URL": url}, text=True,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    answers: list[Any] = []
    try:
        assert process.stdin
        assert process.stdout
        for message in messages:
            process.stdin.write(json.dumps(message) + "\n")
            process.stdin.flush()
            if "id" in message:
                answers.append(json.loads(process.stdout.readline()))
        rest, _ = process.communicate(timeout=WAIT_S)
        assert (process.returncode, rest) == (0, "")
    finally:
        process.kill()
        process.communicate()
    return answers


HELLO = rpc("initialize", {"protocolVersion": "2025-11-25", **VERSIONS}, 2)
READY = {"jsonrpc": "2.0", "method": "notifications/initialized"}


def test_what_a_tool_prints_does_not_reach_the_client(url: str, tmp_path: Path) -> None:
    command = [sys.executable, "-c", NOISY, "serve", "--stdio"]
    call = rpc("tools/call", {"name": "wiki_status", "arguments": {}}, 3)
    hello, status = talk(command, tmp_path, url, HELLO, READY, call)
    assert hello["result"]["serverInfo"]["name"] == "kbwiki"
    assert status["result"]["structuredContent"]["counts"]["sources"] == 0


def test_a_client_that_probes_the_new_protocol_and_speaks_the_old_one(
    url: str, tmp_path: Path
) -> None:
    command = [sys.executable, "-m", "kbwiki", "serve", "--stdio", "--handshake-only"]
    probe, hello, tools = talk(
        command, tmp_path, url, modern("server/discover"), HELLO, READY, rpc("tools/list", number=3)
    )
    assert probe["error"]["code"] == -32601
    assert hello["result"]["protocolVersion"] == "2025-11-25"
    assert tools["result"]["tools"]


@pytest.mark.parametrize("era", ["modern", "handshake"])
def test_what_was_asked_before_standard_input_ended_is_answered(
    url: str, tmp_path: Path, era: str
) -> None:
    command = [sys.executable, "-m", "kbwiki", "serve", "--stdio"]
    call = {"name": "wiki_status", "arguments": {}}
    asked = [modern("tools/call", call, n) for n in (3, "4")]
    if era == "handshake":
        asked = [HELLO, READY, *(rpc("tools/call", call, n) for n in (3, "4"))]
        command.append("--handshake-only")
    done = subprocess.run(
        command, cwd=tmp_path, env={**os.environ, "KBWIKI_DATABASE_URL": url}, text=True,
        input="".join(json.dumps(each) + "\n" for each in asked), capture_output=True,
        timeout=4 * WAIT_S, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    answers = {m["id"]: m["result"] for m in map(json.loads, done.stdout.splitlines())}
    for number in (3, "4"):
        assert answers[number]["structuredContent"]["counts"]["sources"] == 0


def test_a_call_that_never_ends_holds_up_the_end_of_standard_input_for_a_while_only(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(run, "STDIO_DRAIN_S", 0.1)

    async def main() -> list[Any]:
        to_server, reader = anyio.create_memory_object_stream[Any](9)
        writer, from_server = anyio.create_memory_object_stream[Any](9)
        for number in (1, 2):
            message = JSONRPCRequest(jsonrpc="2.0", id=number, method="ping")
            await to_server.send(SessionMessage(message))
        await to_server.aclose()
        async with run._answered(reader, writer) as (asked, told):
            seen = [item.message.id async for item in asked]
            await told.send(SessionMessage(JSONRPCResponse(jsonrpc="2.0", id=1, result={})))
        async with from_server:
            return [*seen, *[item.message.id async for item in from_server]]

    assert anyio.run(main) == [1, 2, 1]


@pytest.mark.parametrize("cancelled", ["1", 1])
def test_who_cancels_one_call_waits_for_another_whose_id_looks_like_its(cancelled: Any) -> None:
    async def main() -> list[str]:
        to_server, reader = anyio.create_memory_object_stream[Any](9)
        writer, from_server = anyio.create_memory_object_stream[Any](9)
        left: Any = 1 if cancelled == "1" else "1"
        for number in (left, cancelled):
            message = JSONRPCRequest(jsonrpc="2.0", id=number, method="ping")
            await to_server.send(SessionMessage(message))
        gone = {"method": "notifications/cancelled", "params": {"requestId": cancelled}}
        await to_server.send(SessionMessage(JSONRPCNotification(jsonrpc="2.0", **gone)))
        await to_server.aclose()
        seen: list[str] = []
        async with from_server, run._answered(reader, writer) as (asked, told):

            async def listen() -> None:
                async for _ in asked:
                    pass
                seen.append("ended")

            async with anyio.create_task_group() as group:
                group.start_soon(listen)
                await anyio.wait_all_tasks_blocked()
                seen.append("answered")
                await told.send(SessionMessage(JSONRPCResponse(jsonrpc="2.0", id=left, result={})))
        return seen

    assert anyio.run(main) == ["answered", "ended"]


def test_on_stdio_too_an_early_call_is_answered(url: str, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "kbwiki", "serve", "--stdio"]
    early, hello, tools = talk(
        command, tmp_path, url, rpc("tools/list"), HELLO, READY, rpc("tools/list", number=3)
    )
    assert early["error"]["code"] == -32602
    assert hello["result"]["protocolVersion"] == "2025-11-25"
    assert tools["result"]["tools"]
