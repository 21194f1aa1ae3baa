"""The server itself: who is let in, faults of clients and of the SDK, the end of it."""

import contextlib
import io
import json
import secrets
import signal
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
    PASSWORDS,
    VERSIONS,
    Served,
    basic,
    modern,
    open_desk,
    open_session,
    replies,
    rpc,
    serving,
    started,
)
from mcp.server.lowlevel import Server

from kbwiki import db
from kbwiki.cli import main
from kbwiki.errors import DatabaseError
from kbwiki.server.sessions import Sessions
from kbwiki.server.users import (
    MAX_FAILURES,
    Gate,
    add_user,
    make_token,
    remove_user,
    watch_users,
)


@pytest.fixture
def served(url: str, tmp_path: Path) -> Iterator[Served]:
    """An empty store, served to users of all roles."""
    with open_desk(url, tmp_path) as desk, serving(desk, "admin", True) as up:
        yield up


# --- who is let in ----------------------------------------------------------------------------


def test_only_users_are_let_in_by_password_or_token(served: Served, url: str) -> None:
    with contextlib.closing(db.connect(url)) as database:
        token = make_token(database, "ann")
    good = [basic("ann"), {"Authorization": f"Bearer {token}"}]
    bad = [
        {}, basic("ann", "wrong"), basic("nobody", "x"), {"Authorization": "Bearer nonsense"},
        {"Authorization": "Basic ???"}, {"Authorization": "Digest x"},
        {"Authorization": "Basic YQ=="},
    ]  # fmt: skip
    with served.http() as http:
        for headers in good:
            answer = http.post("/mcp", json=modern("tools/list"), headers={**MODERN, **headers})
            assert answer.status_code == 200, answer.text
        for headers in bad:
            answer = http.post("/mcp", json=modern("tools/list"), headers={**MODERN, **headers})
            assert answer.status_code == 401
            assert answer.headers["www-authenticate"].startswith("Basic")


def test_a_removed_user_and_a_changed_password_count_at_once(served: Served, url: str) -> None:
    def status(headers: dict[str, str]) -> int:
        with served.http() as http:
            return http.post(
                "/mcp", json=modern("tools/list"), headers={**MODERN, **headers}
            ).status_code

    assert status(basic("ann")) == 200
    with contextlib.closing(db.connect(url)) as database:
        add_user(database, "ann", "reader", "another-password")
    end = time.monotonic() + 10
    while status(basic("ann")) == 200:  # the news may be a second old
        assert time.monotonic() < end
    assert status(basic("ann", "another-password")) == 200


def test_a_password_is_verified_once_and_then_known(url: str) -> None:
    now = [0.0]
    gate = Gate(lambda: now[0])
    with contextlib.closing(db.connect(url)) as database:
        add_user(database, "ann", "reader", PASSWORDS["ann"])
        header = basic("ann")["Authorization"]
        assert gate.known(header) is None
        assert gate.look(database, header) is not None
        assert gate.known(header) is not None
        assert gate.known(header + "x") is None
        now[0] += 2.0
        assert gate.known(header) is None  # time to look whether users changed
        assert gate.look(database, header) is not None
        now[0] += 400.0
        assert gate.look(database, header) is not None
        database.run("delete_principal", {"name": "ann"})
        now[0] += 2.0
        assert gate.look(database, header) is None


def test_many_failures_slow_an_address_down(served: Served) -> None:
    with served.http() as http:
        headers = {**MODERN, **basic("ann", "wrong")}
        codes = [
            http.post("/mcp", json=modern("tools/list"), headers=headers).status_code
            for _ in range(MAX_FAILURES + 2)
        ]
        assert codes == [401] * MAX_FAILURES + [429] * 2
        # A header that names another address is anybody's to send.
        for sender in ("1.2.3.4", "5.6.7.8"):
            headers["X-Forwarded-For"] = sender
            answer = http.post("/mcp", json=modern("tools/list"), headers=headers)
            assert answer.status_code == 429


def test_behind_a_proxy_that_is_trusted_each_client_counts_by_itself(
    url: str, tmp_path: Path
) -> None:
    with (
        open_desk(url, tmp_path) as desk,
        serving(desk, "reader", True, proxies=["127.0.0.1"]) as up,
        up.http() as http,
    ):

        def status(forwarded: str) -> int:
            told = {**MODERN, "Authorization": "Bearer wrong", "X-Forwarded-For": forwarded}
            return http.post("/mcp", json=modern("tools/list"), headers=told).status_code

        # What the client itself wrote stands before what the proxy saw.
        codes = [status(f"9.9.9.{n}, 1.2.3.4") for n in range(MAX_FAILURES + 1)]
        assert codes == [401] * MAX_FAILURES + [429]
        assert status("1.2.3.5") == 401


def test_a_failure_is_forgotten_after_a_minute() -> None:
    now = [0.0]
    gate = Gate(lambda: now[0])
    for _ in range(MAX_FAILURES):
        gate.fail("1.2.3.4")
    assert gate.is_slowed("1.2.3.4")
    assert not gate.is_slowed("1.2.3.5")
    now[0] = 61.0
    assert not gate.is_slowed("1.2.3.4")


def test_a_session_is_its_users_alone(served: Served) -> None:
    with served.http() as http:
        session = open_session(http, basic("ann"))
        told = {**BOTH, "Mcp-Session-Id": session}
        mine = http.post("/mcp", json=rpc("tools/list", number=2), headers={**told, **basic("ann")})
        assert mine.status_code == 200
        for name in ("bob", "root"):
            other = http.post(
                "/mcp", json=rpc("tools/list", number=3), headers={**told, **basic(name)}
            )
            assert other.status_code == 404
        assert http.post("/mcp", json=rpc("tools/list"), headers=told).status_code == 401


def test_a_session_of_the_oldest_transport_ends_with_its_users_role(
    served: Served, url: str
) -> None:
    admin = basic("root")
    with served.http() as http, http.stream("GET", "/mcp/sse", headers=admin) as stream:
        lines = (line for line in stream.iter_lines() if line.startswith("data: "))
        where = next(lines).removeprefix("data: ")
        params = {"protocolVersion": "2025-11-25", **VERSIONS}
        with served.http(**admin) as other, contextlib.closing(db.connect(url)) as database:
            assert other.post(where, json=rpc("initialize", params)).status_code == 202
            assert other.post(where, json=rpc("ping"), headers=basic("ann")).status_code == 404
            row = database.dicts("find_principal", {"name": "root"})[0]
            database.run("save_principal", {**row, "role": "reader"})
            end = time.monotonic() + 10
            while other.post(where, json=rpc("ping")).status_code == 202:
                assert time.monotonic() < end  # the news may be a second old
            assert other.post(where, json=rpc("ping")).status_code == 404


def test_who_removes_the_last_user_lets_nobody_in(url: str, tmp_path: Path) -> None:
    with (
        open_desk(url, tmp_path) as desk,
        contextlib.closing(db.connect(url)) as database,
    ):
        has_users = watch_users(desk.writers.lend)
        assert not has_users()
        add_user(database, "анна", "reader", PASSWORDS["ann"])
        assert has_users()
        remove_user(database, "анна")
        assert has_users()


def test_the_servers_role_caps_every_user(url: str, tmp_path: Path) -> None:
    with open_desk(url, tmp_path) as desk, serving(desk, "reader", True) as up, up.http() as http:
        answer = http.post("/mcp", json=modern("tools/list"), headers={**MODERN, **basic("root")})
        names = {tool["name"] for tool in replies(answer.text)[0]["result"]["tools"]}
        assert "remember" not in names
        assert "wiki_read" in names


def test_without_users_everybody_on_this_machine_has_the_servers_role(
    url: str, tmp_path: Path
) -> None:
    with open_desk(url, tmp_path) as desk, serving(desk, "writer", False) as up, up.http() as http:
        answer = http.post("/mcp", json=modern("tools/list"), headers=MODERN)
        result = replies(answer.text)[0]["result"]
        assert "remember" in {tool["name"] for tool in result["tools"]}
        assert result["cacheScope"] == "private"


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("--host", "0.0.0.0"), "there are no users"),
        (("--role", "king"), "no role 'king'"),
        (("--host", "0.0.0.0", "--with-users"), "in the clear"),
        (("--tls-key", "key.pem"), "--tls-cert too"),
        (("--tls-cert", "no.pem", "--tls-key", "no.pem"), "Look at --tls-cert"),
    ],
)
def test_an_unsafe_address_is_refused(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
    args: tuple[str, ...], said: str,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("KBWIKI_DATABASE_URL", url)
    if "--with-users" in args:
        with contextlib.closing(db.connect(url)) as database:
            add_user(database, "ann", "reader", PASSWORDS["ann"])
    code = main(["serve", *(a for a in args if a != "--with-users")])
    assert (code, said in capsys.readouterr().err) == (1, True)


@pytest.mark.parametrize(
    "command",
    [
        ("serve", "--tls-cert", "no.pem", "--tls-key", "no.pem"), ("serve", "--stdio"),
        ("audit",), ("user", "list"),
        ("user", "add", "анна", "--role", "reader", "--password-stdin"),
    ],
)  # fmt: skip
def test_a_folder_named_by_mistake_becomes_no_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
    command: tuple[str, ...],
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("KBWIKI_DATABASE_URL", raising=False)
    monkeypatch.setattr(sys, "stdin", io.StringIO("длинный пароль\n"))
    assert main(list(command)) == 1
    said = capsys.readouterr().err
    assert "no knowledge base here" in said
    assert "kbwiki init" in said
    assert not list(tmp_path.iterdir())


def test_users_are_managed_on_the_command_line(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("KBWIKI_DATABASE_URL", url)

    def run(*args: str, text: str = "") -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "stdin", io.StringIO(text))
        code = main(list(args))
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    add = ("user", "add", "анна", "--role", "writer", "--password-stdin")
    assert run(*add, text="длинный пароль\n")[:2] == (0, "анна is now writer.\n")
    assert run(*add, text="длинный пароль\n")[1] == "анна is still a user, writer.\n"
    assert "too short" in run(*add, text="short\n")[2]
    assert "no role" in run("user", "add", "b", "--role", "x", "--password-stdin", text="p" * 9)[2]
    assert "no name" in run("user", "add", "a:b", "--role", "reader", "--password-stdin",
                            text="p" * 9)[2]  # fmt: skip
    assert "анна" in run("user", "list")[1]
    token = run("user", "token", "анна")[1].strip()
    assert token.startswith("kbw_")
    with psycopg.connect(url) as connection:
        kept = str(
            connection.execute("select password_hash, token_sha from kb.principal").fetchall()
        )
        assert token not in kept
        assert "длинный" not in kept
        assert "$argon2id$" in kept
    assert run("user", "remove", "анна")[0] == 0
    assert run("user", "remove", "анна")[0] == 1
    assert run("audit")[0] == 0
    assert run("audit", "undo", "7")[0] == 1


# --- what clients and proxies send --------------------------------------------------------------


def test_names_and_origins_that_are_not_ours_are_refused(served: Served, url: str) -> None:
    with served.http() as http:
        told = {**MODERN, **basic("ann")}
        answer = http.post(
            "/mcp", json=modern("tools/list"), headers={**told, "Host": "evil.example"}
        )
        assert answer.status_code == 421
        answer = http.post(
            "/mcp", json=modern("tools/list"), headers={**told, "Origin": "http://evil.example"}
        )
        assert answer.status_code == 403
        for host in ("127.0.0.1", "localhost:1234"):
            answer = http.post("/mcp", json=modern("tools/list"), headers={**told, "Host": host})
            assert answer.status_code == 200


def test_a_host_that_is_allowed_is_answered(url: str, tmp_path: Path) -> None:
    with (
        open_desk(url, tmp_path) as desk,
        serving(desk, "reader", False, hosts=["wiki.example"]) as up,
        up.http() as http,
    ):
        for host, code in (("wiki.example", 200), ("wiki.example:8443", 200), ("x.example", 421)):
            answer = http.post("/mcp", json=modern("tools/list"), headers={**MODERN, "Host": host})
            assert answer.status_code == code


def test_a_preflight_needs_no_credentials(served: Served) -> None:
    origin = served.url
    with served.http() as http:
        answer = http.options(
            "/mcp",
            headers={
                "Origin": origin,
                "Access-Control-Request-Method": "POST",
                "Access-Control-Request-Headers": "authorization, mcp-protocol-version, mcp-method",
            },
        )
        assert answer.status_code == 200
        assert answer.headers["access-control-allow-origin"] in {origin, "*"}
        assert "authorization" in answer.headers["access-control-allow-headers"].lower()


@pytest.mark.parametrize("path", ["/.well-known/oauth-protected-resource", "/register"])
def test_there_is_no_oauth_and_that_is_said(served: Served, path: str) -> None:
    with served.http() as http:
        answer = http.get(path) if "well" in path else http.post(path, json={})
        assert answer.status_code == 404
        assert "no OAuth" in answer.json()["error_description"]


@pytest.mark.parametrize(
    "accept",
    ["application/json", "text/event-stream", "application/json, text/event-stream", "*/*"],
)
def test_a_narrow_accept_is_served(served: Served, accept: str) -> None:
    with served.http() as http:
        params = {"protocolVersion": "2025-11-25", **VERSIONS}
        told = {"Accept": accept, **basic("ann")}
        answer = http.post("/mcp", json=rpc("initialize", params), headers=told)
        assert answer.status_code == 200


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"null", b'{"jsonrpc": "2.0"}', b"\xff" * 10])
def test_a_broken_body_is_refused_and_the_next_call_works(served: Served, body: bytes) -> None:
    with served.http() as http:
        told = {**BOTH, **basic("ann"), "Content-Type": "application/json"}
        assert 400 <= http.post("/mcp", content=body, headers=told).status_code < 500
        session = open_session(http, basic("ann"))
        told["Mcp-Session-Id"] = session
        assert 400 <= http.post("/mcp", content=body, headers=told).status_code < 500
        assert http.post("/mcp", json=rpc("tools/list"), headers=told).status_code == 200


def test_a_body_of_more_than_four_mebibytes_is_refused(served: Served) -> None:
    big = rpc("tools/call", {"name": "wiki_search", "arguments": {"query": "x" * (5 << 20)}})
    with served.http() as http:
        told = {**BOTH, **basic("ann")}
        assert http.post("/mcp", json=big, headers=told).status_code == 413
        assert http.post("/mcp/sse/messages", json=big, headers=told).status_code == 413
        told["Mcp-Session-Id"] = open_session(http, basic("ann"))
        assert http.post("/mcp", json=big, headers=told).status_code == 413


def test_an_unknown_session_is_told_so(served: Served) -> None:
    with served.http() as http:
        told = {**BOTH, **basic("ann"), "Mcp-Session-Id": "gone"}
        assert http.post("/mcp", json=rpc("tools/list"), headers=told).status_code == 404
        session = open_session(http, basic("ann"))
        told["Mcp-Session-Id"] = session
        assert http.delete("/mcp", headers=told).status_code in {200, 204}
        assert http.post("/mcp", json=rpc("tools/list"), headers=told).status_code == 404
        assert http.get("/healthz").json()["sessions"] == 0


def test_without_sessions_older_clients_are_served_too(url: str, tmp_path: Path) -> None:
    with (
        open_desk(url, tmp_path) as desk,
        serving(desk, "reader", False, stateless=True) as up,
        up.http() as http,
    ):
        answer = http.post("/mcp", json=rpc("tools/list"), headers=BOTH)
        assert answer.status_code == 200
        assert replies(answer.text)[0]["result"]["tools"]
        assert http.get("/healthz").json()["sessions"] == 0


def test_sessions_that_pile_up_are_bounded_and_end_when_idle(url: str, tmp_path: Path) -> None:
    with (
        open_desk(url, tmp_path) as desk,
        serving(desk, "reader", False, max_sessions=3, idle_s=1.0) as up,
        up.http() as http,
    ):
        for _ in range(5):
            open_session(http)
            assert http.get("/healthz").json()["sessions"] <= 3
        end = time.monotonic() + 30
        while http.get("/healthz").json()["sessions"]:
            assert time.monotonic() < end
            time.sleep(0.05)
        open_session(http)


def test_a_user_with_many_sessions_locks_nobody_out(url: str, tmp_path: Path) -> None:
    with (
        open_desk(url, tmp_path) as desk,
        serving(desk, "reader", True, max_sessions=3) as up,
        up.http() as http,
    ):

        def status(name: str, session: str) -> int:
            told = {**BOTH, **basic(name), "Mcp-Session-Id": session}
            return http.post("/mcp", json=rpc("ping"), headers=told).status_code

        ann = [open_session(http, basic("ann")) for _ in range(3)]
        assert status("ann", ann[0]) == 200  # so that the second was used longest ago
        bob = [open_session(http, basic("bob"))]
        assert [status("ann", each) for each in ann] == [200, 404, 200]
        bob.append(open_session(http, basic("bob")))  # as many as ann would have: one of his own
        assert [status("bob", each) for each in bob] == [404, 200]
        ann.append(open_session(http, basic("ann")))
        assert [status("ann", each) for each in ann] == [404, 404, 200, 200]
        assert status("bob", bob[1]) == 200


def test_a_session_whose_call_is_under_way_makes_no_room(url: str, tmp_path: Path) -> None:
    with (
        open_desk(url, tmp_path) as desk,
        serving(desk, "reader", False, max_sessions=1) as up,
        up.http() as http,
        psycopg.connect(url) as lock,
        psycopg.connect(url, autocommit=True) as watcher,
    ):
        told = {**BOTH, "Mcp-Session-Id": open_session(http)}
        lock.execute("lock table kb.concept in access exclusive mode")
        codes: list[int] = []

        def ask() -> None:
            body = rpc("tools/call", {"name": "wiki_list", "arguments": {}}, 2)
            with up.http() as other:
                codes.append(other.post("/mcp", json=body, headers=told).status_code)

        thread = threading.Thread(target=ask)
        thread.start()
        end = time.monotonic() + 20
        waiting = (
            "select count(*) from pg_stat_activity "
            "where wait_event_type = 'Lock' and datname = current_database()"
        )
        while watcher.execute(waiting).fetchone() < (1,):
            assert time.monotonic() < end
            time.sleep(0.02)
        params = {"protocolVersion": "2025-11-25", **VERSIONS}
        hello = rpc("initialize", params)
        assert http.post("/mcp", json=hello, headers=BOTH).status_code == 503
        lock.rollback()
        thread.join(30)
        assert codes == [200]
        assert http.post("/mcp", json=hello, headers=BOTH).status_code == 200


def test_a_session_that_is_being_opened_makes_no_room() -> None:
    body = json.dumps(rpc("initialize", {"protocolVersion": "2025-11-25", **VERSIONS})).encode()
    told = [(name.lower().encode(), value.encode()) for name, value in BOTH.items()]
    told.append((b"content-type", b"application/json"))
    scope = {"type": "http", "method": "POST", "path": "/mcp", "query_string": b"", "headers": told}

    async def main() -> list[int]:
        begun, may_end = anyio.Event(), anyio.Event()
        codes: list[int] = []

        async def ask(wait: bool) -> None:
            messages = iter([{"type": "http.request", "body": body}])

            async def receive() -> Any:
                for message in messages:
                    return message
                await anyio.sleep_forever()

            async def send(message: Any) -> None:
                if "status" in message:
                    codes.append(message["status"])
                begun.set()
                if wait:
                    await may_end.wait()

            await sessions.handle_request(dict(scope), receive, send)

        sessions = Sessions(Server("test"), max_sessions=1)
        async with sessions.run():
            async with anyio.create_task_group() as group:
                group.start_soon(ask, True)
                await begun.wait()
                await ask(False)
                may_end.set()
            await ask(False)
        return codes

    assert anyio.run(main) == [200, 503, 200]


# --- faults of the SDK --------------------------------------------------------------------------


@pytest.fixture
def slow(served: Served, monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """Make wiki_status wait in the database for half a minute; set when it is there."""
    begun = threading.Event()
    real = db.Database.dicts

    def dicts(self: db.Database, name: str, params: Any = None) -> Any:
        if name == "read_status":
            begun.set()
            try:
                self.connection.execute("select pg_sleep(30)")
            except psycopg.Error as error:
                raise DatabaseError("cancelled.") from error
        return real(self, name, params)

    monkeypatch.setattr(db.Database, "dicts", dicts)
    return begun


def _sleeping(url: str) -> int:
    sql = (
        "select count(*) from pg_stat_activity"
        " where query = 'select pg_sleep(30)' and state = 'active'"
    )
    with psycopg.connect(url) as connection:
        row = connection.execute(sql.encode()).fetchone()
    return int(row[0]) if row else 0


@pytest.mark.parametrize("era", ["modern", "cancelled"])
def test_a_caller_who_goes_takes_the_query_along(
    served: Served, slow: threading.Event, url: str, era: str
) -> None:
    call = {"name": "wiki_status", "arguments": {}}
    told = {**MODERN, **basic("ann"), "Mcp-Method": "tools/call", "Mcp-Name": "wiki_status"}
    if era == "modern":
        with served.http() as http, pytest.raises(httpx2.ReadTimeout):
            http.post("/mcp", json=modern("tools/call", call), headers=told, timeout=2.0)
    else:
        with served.http() as http:
            session = open_session(http, basic("ann"))
            told = {**BOTH, **basic("ann"), "Mcp-Session-Id": session}
            answers: list[Any] = []

            def ask() -> None:
                with served.http() as other:
                    answers.append(
                        other.post("/mcp", json=rpc("tools/call", call, 7), headers=told).text
                    )

            thread = threading.Thread(target=ask)
            thread.start()
            assert slow.wait(20)
            note = {
                "jsonrpc": "2.0",
                "method": "notifications/cancelled",
                "params": {"requestId": 7},
            }
            http.post("/mcp", json=note, headers=told)
            thread.join(20)
            assert not thread.is_alive()
    end = time.monotonic() + 20
    while _sleeping(url):
        assert time.monotonic() < end
        time.sleep(0.05)
    with served.http() as http:
        assert http.get("/healthz").json()["status"] == "ok"


def test_two_calls_with_one_id_never_get_each_others_answers(
    served: Served, slow: threading.Event
) -> None:
    with served.http() as http:
        told = {**BOTH, **basic("ann"), "Mcp-Session-Id": open_session(http, basic("ann"))}
        first = rpc("tools/call", {"name": "wiki_status", "arguments": {}}, 5)

        def ask() -> None:
            with served.http() as mine:
                mine.post("/mcp", json=first, headers=told)

        thread = threading.Thread(target=ask)
        thread.start()
        assert slow.wait(20)
        second = rpc("tools/call", {"name": "wiki_list", "arguments": {}}, 5)
        answer = http.post("/mcp", json=second, headers=told)
        assert answer.status_code == 409
        assert answer.json()["error"]["code"] == -32600
        third = rpc("tools/call", {"name": "wiki_list", "arguments": {}}, "5")
        assert http.post("/mcp", json=third, headers=told).status_code == 409
        other = rpc("tools/call", {"name": "wiki_list", "arguments": {}}, 6)
        assert http.post("/mcp", json=other, headers=told).status_code == 200
        note = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 5}}
        http.post("/mcp", json=note, headers=told)
        thread.join(30)
        assert not thread.is_alive()


def test_what_was_missed_is_replayed_to_its_own_session_alone(served: Served) -> None:
    version = {"MCP-Protocol-Version": "2025-11-25"}

    def results(name: str, mark: str, session: str, http: httpx2.Client) -> list[str]:
        told = {**BOTH, **basic(name), **version, "Mcp-Session-Id": session}
        call = {"name": "wiki_read", "arguments": {"page": mark}}
        text = http.post("/mcp", json=rpc("tools/call", call, 9), headers=told).text
        return [line[4:] for line in text.splitlines() if line.startswith("id: ")]

    with served.http() as http:
        ann, bob = (open_session(http, basic(name)) for name in ("ann", "bob"))
        ids = results("ann", "annmark", ann, http)
        results("bob", "bobmark", bob, http)
        assert len(ids) == 2  # of the stream's beginning, and of the result
        told = {**basic("ann"), **version, "Accept": "text/event-stream", "Mcp-Session-Id": ann}
        lines: list[str] = []
        with (
            contextlib.suppress(httpx2.ReadTimeout),
            http.stream(
                "GET", "/mcp", headers={**told, "Last-Event-ID": ids[0]}, timeout=2.0
            ) as stream,
        ):
            assert stream.status_code == 200
            for line in stream.iter_lines():
                lines.append(line)  # what came before the time-out counts
        replayed = [json.loads(line[6:]) for line in lines if line.startswith("data: {")]
        assert [m["id"] for m in replayed] == [9]
        assert "annmark" in replayed[0]["result"]["content"][0]["text"]
        # The same event id means another event in another session.
        other = {**basic("bob"), **version, "Accept": "text/event-stream", "Mcp-Session-Id": bob}
        seen: list[str] = []
        with (
            contextlib.suppress(httpx2.ReadTimeout),
            http.stream(
                "GET", "/mcp", headers={**other, "Last-Event-ID": ids[0]}, timeout=2.0
            ) as stream,
        ):
            for line in stream.iter_lines():
                seen.append(line)
        assert "bobmark" in "".join(seen)
        assert "annmark" not in "".join(seen)


def test_events_of_a_session_are_bounded() -> None:
    import asyncio

    from mcp_types import JSONRPCResponse

    from kbwiki.server.sessions import MAX_EVENT_BYTES, MAX_EVENTS, Events

    async def fill() -> tuple[int, int]:
        events = Events()
        for n in range(2 * MAX_EVENTS):
            await events.store_event("s", JSONRPCResponse(jsonrpc="2.0", id=n, result={"x": "y"}))
        many = len(events._rows)
        for n in range(10):
            big = JSONRPCResponse(
                jsonrpc="2.0", id=n, result={"x": secrets.token_hex(MAX_EVENT_BYTES // 4)}
            )
            await events.store_event("s", big)
        return many, events._n_bytes

    many, size = asyncio.run(fill())
    assert many == MAX_EVENTS
    assert MAX_EVENT_BYTES // 2 < size <= MAX_EVENT_BYTES


# --- a database that goes, a server that ends ---------------------------------------------------


def test_a_database_that_drops_its_connections_is_found_again(served: Served, url: str) -> None:
    told = {**MODERN, **basic("ann"), "Mcp-Method": "tools/call", "Mcp-Name": "wiki_list"}
    call = modern("tools/call", {"name": "wiki_list", "arguments": {}})

    def ask() -> Any:
        with served.http() as http:
            return replies(http.post("/mcp", json=call, headers=told).text)[0]["result"]

    assert not ask().get("isError")
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(
            "select pg_terminate_backend(pid) from pg_stat_activity"
            " where datname = current_database() and pid <> pg_backend_pid()"
        )
    assert not ask().get("isError")


def test_a_database_that_is_away_is_said_and_the_health_shows_it(tmp_path: Path, url: str) -> None:
    with open_desk(url, tmp_path) as desk, serving(desk, "reader", False) as up, up.http() as http:
        assert http.get("/healthz").status_code == 200
        desk.readers.close()
        sick = http.get("/healthz")
        assert (sick.status_code, sick.json()["database"]) == (503, "away")
        told = {**MODERN, "Mcp-Method": "tools/call", "Mcp-Name": "wiki_list"}
        call = modern("tools/call", {"name": "wiki_list", "arguments": {}})
        result = replies(http.post("/mcp", json=call, headers=told).text)[0]["result"]
        assert result["isError"]
        assert "no connection" in result["content"][0]["text"]


def test_sigterm_lets_a_call_under_way_finish(url: str, tmp_path: Path) -> None:
    """A lock makes the call wait; it is let go after the signal."""
    with started(url, tmp_path, "--role", "writer") as (process, address):
        answers: list[httpx2.Response] = []
        call = rpc("tools/call", {"name": "remember", "arguments": {"text": "Kept at the end"}}, 2)
        with httpx2.Client(base_url=address, timeout=30) as http:
            told = {**BOTH, "Mcp-Session-Id": open_session(http)}
            with psycopg.connect(url) as lock:
                lock.execute("lock table kb.memory in access exclusive mode")

                def ask() -> None:
                    with httpx2.Client(base_url=address, timeout=30) as other:
                        answers.append(other.post("/mcp", json=call, headers=told))

                thread = threading.Thread(target=ask)
                thread.start()
                end = time.monotonic() + 20
                while http.get("/healthz").json()["calls"] < 1:
                    assert time.monotonic() < end
                process.send_signal(signal.SIGTERM)
                time.sleep(0.5)
                lock.rollback()
            thread.join(30)
        out, err = process.communicate(timeout=30)
    assert answers[0].status_code == 200
    assert '"id":1' in answers[0].text.replace(" ", "")
    assert process.returncode == 0, err
    assert out == ""
    assert "Traceback" not in err
