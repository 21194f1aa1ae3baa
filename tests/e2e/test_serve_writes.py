"""What writers and admins change: once for each key, written down, and taken back."""

import contextlib
import hashlib
import json
import shutil
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from fakes.serving import (
    MODERN,
    Opening,
    Served,
    basic,
    call,
    fail,
    held,
    modern,
    open_desk,
    replies,
    serving,
    use,
)

from kbwiki import db
from kbwiki.cli import main
from kbwiki.edges import drop_doubles, find_ends, set_edge
from kbwiki.errors import DatabaseError, InputError
from kbwiki.pages import FRESH_S
from kbwiki.server import forms, notes, writing
from kbwiki.server.desk import Caller
from kbwiki.server.registry import TOOLS
from kbwiki.server.undo import undo
from kbwiki.server.writing import ingest_tool

PAIR = {"head": "Associative scan", "tail": "Linear attention"}
NODE = {"title": "Квантовый скан", "definition": "метод, что ищет дважды"}
WAITING = (
    "select count(*) from pg_stat_activity "
    "where wait_event_type = 'Lock' and datname = current_database()"
)
WRITES: dict[str, dict[str, Any]] = {
    "remember": {"text": "ORA-12154 на порту 5432: мы исправили tnsnames"},
    "forget": {"nodeId": 1},
    "wiki_save_answer": {"question": "What is associative scan used for?"},
    "graph_upsert_node": {**NODE},
    "graph_upsert_edge": {**PAIR, "type": "uses"},
    "graph_classify_edge": PAIR,
    "graph_dedup_edges": {},
    "graph_merge_nodes": {"first": PAIR["head"], "second": PAIR["tail"]},
    "wiki_ingest": {"title": "Зефирнет", "text": "**Зефирнет** — это модель для опытов.\n"},
}


@pytest.fixture
def served(wiki: str, tmp_path: Path) -> Iterator[Served]:
    """The wiki, served to users of all roles."""
    with open_desk(wiki, tmp_path) as desk, serving(desk, "admin", True) as up:
        yield up


@pytest.fixture
def root(served: Served) -> Any:
    """A maker of clients of an admin."""
    return lambda: served.client(headers=basic("root"))


def audit(wiki: str) -> list[dict[str, Any]]:
    """What was written down, the latest first."""
    with contextlib.closing(db.connect(wiki)) as database:
        return database.dicts("list_audit", {"id": None, "n": 100})


def test_every_tool_that_writes_is_tried_here() -> None:
    assert {tool.name for tool in TOOLS if tool.writes} == WRITES.keys()
    for tool in TOOLS:
        assert ("idempotency_key" in tool.args.model_fields) == tool.writes


@pytest.mark.parametrize("tool", WRITES)
def test_a_retry_with_a_key_changes_nothing_twice(
    root: Any, served: Served, wiki: str, tool: str
) -> None:
    if tool == "forget":
        kept = call(root(), "remember", text="Redis timed out in production")
        assert kept["id"] == WRITES[tool]["nodeId"]
    if tool == "graph_classify_edge":
        call(root(), "graph_upsert_edge", **PAIR, type="uses")
    key = {"idempotency_key": "ключ-1"}
    before = len(audit(wiki))
    first = call(root(), tool, **WRITES[tool], **key)
    assert call(root(), tool, **WRITES[tool], **key) == first
    rows = audit(wiki)
    assert len(rows) == before + 1
    row = rows[0]
    assert (row["principal"], row["role"], row["tool"]) == ("root", "admin", tool)
    assert row["made_at"]
    assert row["target"]
    # A key is one user's own.
    if tool in {"remember", "wiki_save_answer"}:
        call(served.client(headers=basic("will")), tool, **WRITES[tool], **key)
        assert audit(wiki)[0]["principal"] == "will"


@pytest.mark.parametrize("name", ["key", "idempotency_key"])
def test_a_key_stands_for_the_whole_text(root: Any, wiki: str, name: str) -> None:
    text = "Долгая запись о порте 5432. " * 20
    first = call(root(), "remember", text=text + "Конец один.", **{name: "k"})
    assert call(root(), "remember", text=text + "Конец один.", **{name: "k"}) == first
    said = fail(root(), "remember", text=text + "Конец другой.", **{name: "k"})
    assert "other arguments" in said
    assert len(audit(wiki)) == 1


def test_calls_with_one_key_at_once_make_one_change(root: Any, wiki: str) -> None:
    replies: list[Any] = []

    def ask() -> None:
        replies.append(
            call(root(), "graph_upsert_edge", **WRITES["graph_upsert_edge"], idempotency_key="k")
        )

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(replies) == 4
    assert all(reply == replies[0] for reply in replies)
    assert len(audit(wiki)) == 1


def test_a_change_that_cannot_be_written_down_is_not_made(
    root: Any, served: Served, wiki: str
) -> None:
    call(root(), "remember", text="Redis timed out in production")
    with contextlib.closing(db.connect(wiki)) as database:
        set_edge(database, PAIR["head"], "uses", PAIR["tail"])
        added = served.desk.home / "added"
        added.mkdir()
        (added / "зефирнет.md").write_text("# Зефирнет\n", "utf-8")
        whole = held(wiki)
        database.connection.execute(
            "alter table kb.audit add constraint never check (false) not valid"
        )
        for tool, args in WRITES.items():
            assert "never" in fail(root(), tool, **args), tool
            assert held(wiki) == whole, tool
        assert call(root(), "wiki_status")["failures"] == []
        # A note of a server that was killed before the store had it leaves nothing either.
        assert list(added.iterdir()) == []
        database.connection.execute("alter table kb.audit drop constraint never")
    (added / "квантовый-скан.md").write_text("# Квантовый скан\n", "utf-8")
    call(root(), "graph_upsert_node", **NODE)
    assert audit(wiki)[0]["before"] is None
    note = (added / "квантовый-скан.md").read_text("utf-8")
    (added / "квантовый-скан.md.before").write_text(note, "utf-8")
    (added / "квантовый-скан.md").write_text("# Квантовый скан\n", "utf-8")
    call(root(), "graph_upsert_node", title=NODE["title"], definition="метод, что ищет трижды")
    assert audit(wiki)[0]["before"]["text"] == note
    assert [path.name for path in added.iterdir()] == ["квантовый-скан.md"]


def test_what_was_to_follow_from_a_change_follows_at_the_next_try(
    root: Any, served: Served, wiki: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(*args: Any) -> None:
        raise DatabaseError("killed here.")

    with monkeypatch.context() as cut:
        cut.setattr(writing, "make_pages", killed)
        assert "killed" in fail(root(), "graph_upsert_node", **NODE, idempotency_key="k")
    assert "no page" in fail(root(), "wiki_read", page=NODE["title"])
    call(root(), "graph_upsert_node", **NODE, idempotency_key="k")
    assert call(root(), "wiki_read", page=NODE["title"])["citations"]
    assert len(audit(wiki)) == 1


@pytest.mark.parametrize("when", ["before", "after", "lost"])
def test_a_note_is_what_the_store_has_whatever_fails(
    wiki: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    run = notes._run

    def cut(*args: Any) -> list[str]:
        if when == "before":
            raise RuntimeError("nobody expects this")
        run(*args)
        if when == "lost":
            database.close()
        raise DatabaseError("the connection was lost.")

    texts = [f"# Зефирнет\n\n**Зефирнет** — это модель {n}.\n" for n in range(2)]
    with open_desk(wiki, tmp_path) as desk, contextlib.closing(db.connect(wiki)) as database:
        path = desk.home / "added" / "зефирнет.md"

        def write(text: str) -> None:
            notes.write_note(desk, database, "wiki_ingest", path, text, lambda _: None)

        write(texts[0])
        with monkeypatch.context() as fault:
            fault.setattr(notes, "_run", cut)
            with pytest.raises(RuntimeError if when == "before" else DatabaseError):
                write(texts[1])
        assert path.read_text("utf-8") == texts[when != "before"]
    with open_desk(wiki, tmp_path) as desk, contextlib.closing(db.connect(wiki)) as database:
        if when == "lost":
            assert path.with_name("зефирнет.md.before").read_text("utf-8") == texts[0]
            write(texts[1])
        assert [each.name for each in path.parent.iterdir()] == [path.name]
        uri = notes.place_of(desk, path, is_ours=True)["uri"]
        sha = database.value("find_uri", {"uri": uri})
        assert sha == hashlib.sha256(path.read_bytes()).hexdigest()


def test_of_two_who_take_one_change_back_one_does(root: Any, served: Served, wiki: str) -> None:
    kept = call(root(), "remember", text="Порт 5432 занят другим сервером")
    call(root(), "forget", nodeId=kept["id"])
    number = audit(wiki)[0]["id"]
    said: list[str] = []

    def take_back() -> None:
        with contextlib.closing(db.connect(wiki)) as database:
            try:
                said.append(undo(served.desk, database, Caller("root", "admin"), number))
            except InputError as error:
                said.append(error.message)

    threads = [threading.Thread(target=take_back) for _ in range(2)]
    with psycopg.connect(wiki) as holder, psycopg.connect(wiki, autocommit=True) as watcher:
        holder.execute("lock table kb.memory in share mode")
        for thread in threads:
            thread.start()
        end = time.monotonic() + 30
        while watcher.execute(WAITING).fetchone() < (len(threads),):
            assert time.monotonic() < end
            time.sleep(0.02)
    for thread in threads:
        thread.join(60)
    assert sorted("already" in one for one in said) == [False, True]
    assert call(root(), "memory_status")["total"] == 1


def test_a_chain_of_undo_ends_where_it_began(root: Any, served: Served, wiki: str) -> None:
    me = Caller("root", "admin")
    first = call(root(), "remember", text="Порт 5432 занят другим сервером", session="s")["id"]
    call(root(), "remember", text="Мы перенесли сервер на порт 5433", session="s", to=first)
    with contextlib.closing(db.connect(wiki)) as database:
        edges = database.dicts("list_edges_of_memory", {"id": first})
        assert {edge["type"] for edge in edges} >= {"FOLLOWED_BY", "SIMILAR_TO"}
        call(root(), "forget", nodeId=first)
        forgot, _, remembered = (row["id"] for row in audit(wiki))
        with pytest.raises(InputError, match="rests on it") as refused:
            undo(served.desk, database, me, remembered)
        assert f"audit {forgot} back first" in refused.value.hint
        undo(served.desk, database, me, forgot)
        assert database.dicts("list_edges_of_memory", {"id": first}) == edges
        undo(served.desk, database, me, remembered)
        assert call(root(), "memory_status")["total"] == 1
        # What was kept anew meanwhile has another number.
        text = "Redis timed out in production"
        old = call(root(), "remember", text=text)["id"]
        call(root(), "forget", nodeId=old)
        new = call(root(), "remember", text=text)["id"]
        assert new != old
        _, forgot, remembered = (row["id"] for row in audit(wiki)[:3])
        undo(served.desk, database, me, forgot)
        with pytest.raises(InputError, match=f"memory {old} is gone already"):
            undo(served.desk, database, me, remembered)
        assert call(root(), "memory_status")["total"] == 2


def test_words_on_edges_are_taken_back(root: Any, served: Served, wiki: str) -> None:
    def types() -> list[tuple[str, str, str]]:
        edges = call(root(), "wiki_graph", slug=PAIR["head"], limit=200)["edges"]
        return [
            (e["head"], e["type"], e["tail"])
            for e in edges
            if {e["head"], e["tail"]} == set(PAIR.values())
        ]

    def take_back(number: int) -> None:
        with contextlib.closing(db.connect(wiki)) as database:
            undo(served.desk, database, Caller("root", "admin"), number)

    before = types()
    call(root(), "graph_upsert_edge", **PAIR, type="part_of")
    said = types()
    assert said == [(PAIR["head"], "part_of", PAIR["tail"])] != before
    call(root(), "graph_upsert_edge", **PAIR, type="used_in")
    assert types() == [(PAIR["tail"], "uses", PAIR["head"])]
    take_back(audit(wiki)[0]["id"])
    assert types() == said
    call(root(), "graph_classify_edge", **PAIR)
    assert types() == before
    take_back(audit(wiki)[0]["id"])
    assert types() == said
    take_back(audit(wiki)[-1]["id"])
    assert types() == before


@pytest.mark.parametrize("tool", ["graph_upsert_edge", "graph_upsert_node"])
def test_of_writes_at_once_that_rest_on_one_version_one_is_made(
    root: Any, wiki: str, tool: str
) -> None:
    done: list[bool] = []
    version = ""
    if tool == "graph_upsert_edge":
        version = call(root(), tool, **PAIR, type="uses")["edge"]["version"]
    others: list[dict[str, Any]] = [{**NODE, "definition": f"метод, что ищет {n}"} for n in "12"]
    if tool == "graph_upsert_edge":
        others = [{**PAIR, "type": t} for t in ("part_of", "based_on")]

    def ask(args: dict[str, Any]) -> None:
        told = {**args, "expected_version": version}
        done.append(not use(root(), lambda c: c.call_tool(tool, told)).is_error)

    threads = [threading.Thread(target=ask, args=(args,)) for args in others]
    with psycopg.connect(wiki) as holder, psycopg.connect(wiki, autocommit=True) as watcher:
        # All read the version before any can write.
        holder.execute("lock table kb.edge_decision, kb.source_uri in share mode")
        for thread in threads:
            thread.start()
        end = time.monotonic() + 20
        while watcher.execute(WAITING).fetchone() < (len(others),):
            assert time.monotonic() < end
            time.sleep(0.02)
    for thread in threads:
        thread.join(60)
    assert sorted(done) == [False] * (len(others) - 1) + [True]


def test_a_change_that_a_later_one_rests_on_waits_for_it(
    root: Any, served: Served, wiki: str
) -> None:
    with contextlib.closing(db.connect(wiki)) as database:

        def take_back(number: int) -> None:
            undo(served.desk, database, Caller("root", "admin"), number)
            # `audit undo` is another process, whose changes the server sees a moment later
            time.sleep(2 * FRESH_S)

        for kind in ("uses", "used_in"):
            call(root(), "graph_upsert_edge", **PAIR, type=kind)
        for n in ("одного опыта", "двух опытов"):
            text = f"**Зефирнет** — это модель для {n}.\n"
            call(root(), "wiki_ingest", title="Зефирнет", text=text)
        newest = audit(wiki)[0]["id"]
        for late, early in ((newest, newest - 1), (newest - 2, newest - 3)):
            with pytest.raises(InputError, match=f"audit {late} back first"):
                take_back(early)
        # Nobody but the server needs the folder of its notes.
        shutil.rmtree(served.desk.home / "added")
        take_back(newest)
        assert "одного опыта" in call(root(), "wiki_read", page="Зефирнет")["markdown"]
        take_back(newest - 1)
        assert "no page" in fail(root(), "wiki_read", page="Зефирнет")
        take_back(newest - 2)
        take_back(newest - 3)


def test_a_file_that_was_a_source_before_is_not_lost_with_its_second_reading(
    wiki: str, tmp_path: Path
) -> None:
    (tmp_path / "fur.md").write_text("# Фурнет\n\n**Фурнет** — это модель.\n", "utf-8")
    args = forms.IngestArgs(path="fur.md")
    me = Caller("root", "admin")
    with (
        open_desk(wiki, tmp_path, roots=(tmp_path,)) as desk,
        contextlib.closing(db.connect(wiki)) as database,
    ):
        for _ in range(2):
            ingest_tool(desk, database, me, args)
        late, early = (row["id"] for row in audit(wiki)[:2])
        with pytest.raises(InputError, match="before this"):
            undo(desk, database, me, late)
        assert database.dicts("find_uris", {"uris": ["fur.md"]})
        undo(desk, database, me, early)
        assert not database.dicts("find_uris", {"uris": ["fur.md"]})
        assert (tmp_path / "fur.md").exists()


@pytest.mark.parametrize("tail", [PAIR["tail"], NODE["title"]])
def test_a_word_that_two_are_not_linked_comes_back(
    root: Any, served: Served, wiki: str, tail: str
) -> None:
    pair = {"head": PAIR["head"], "tail": tail}
    if tail == NODE["title"]:
        call(root(), "graph_upsert_node", **NODE)

    def types() -> list[str]:
        edges = call(root(), "wiki_graph", slug=PAIR["head"], limit=200)["edges"]
        return [e["type"] for e in edges if {e["head"], e["tail"]} == set(pair.values())]

    with contextlib.closing(db.connect(wiki)) as database:
        set_edge(database, pair["head"], "none", tail)
        call(root(), "graph_upsert_edge", **pair, type="uses")
        assert types() == ["uses"]
        undo(served.desk, database, Caller("root", "admin"), audit(wiki)[0]["id"])
        ends = [end["id"] for end in find_ends(database, pair["head"], tail)]
        told = database.value("count_edge_decisions", {"head": ends[0], "tail": ends[1]})
    assert (types(), told) == ([], 1)


def test_dropped_doubles_come_back(root: Any, served: Served, wiki: str) -> None:
    first, second, tail = PAIR["head"], PAIR["tail"], NODE["title"]
    call(root(), "graph_upsert_node", **NODE)
    call(root(), "graph_upsert_edge", head=first, type="uses", tail=tail)
    call(root(), "graph_upsert_edge", head=second, type="is_a", tail=tail)
    call(root(), "graph_merge_nodes", first=first, second=second)
    with contextlib.closing(db.connect(wiki)) as database:
        before = drop_doubles(database, dry_run=True)
        assert call(root(), "graph_dedup_edges")["said"] == "1 doubles are gone."
        assert drop_doubles(database, dry_run=True) == []
        undo(served.desk, database, Caller("root", "admin"), audit(wiki)[0]["id"])
        assert drop_doubles(database, dry_run=True) == before != []


def test_a_writer_forgets_its_own_alone(root: Any, served: Served) -> None:
    def will() -> Opening:
        return served.client(headers=basic("will"))

    mine = call(will(), "remember", text="Мой порт 5432 закрыт до утра")
    other = call(root(), "remember", text="Redis timed out in production")
    assert f"memory {other['id']}" in fail(will(), "forget", nodeId=other["id"])
    call(will(), "forget", nodeId=mine["id"])
    found = call(will(), "recall", query="redis timed out")
    assert [node["id"] for node in found["nodes"]] == [other["id"]]


def test_the_audit_is_listed_and_undone_on_the_command_line(
    root: Any, wiki: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    call(root(), "remember", text="Порт 5432 занят другим сервером")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("KBWIKI_DATABASE_URL", wiki)
    assert main(["audit"]) == 0
    assert "remember" in capsys.readouterr().out
    number = audit(wiki)[0]["id"]
    assert main(["audit", "undo", str(number)]) == 0
    assert "taken back" in capsys.readouterr().out
    assert main(["audit", "undo", str(number)]) == 1
    assert "already" in capsys.readouterr().err
    assert call(root(), "memory_status")["total"] == 0


def test_builds_that_wait_lock_nobody_out(root: Any, served: Served, wiki: str) -> None:
    threads = [
        threading.Thread(
            target=lambda n=n: call(
                root(), "wiki_ingest", title=f"Заметка {n}", text=f"**Бета {n}** — это метод.\n"
            )
        )
        for n in range(6)
    ]
    with served.desk.building:
        for thread in threads:
            thread.start()
        end = time.monotonic() + 30
        with served.http() as http:
            while http.get("/healthz").json()["calls"] < len(threads):
                assert time.monotonic() < end
            assert http.get("/healthz").json()["status"] == "ok"
        kept = call(served.client(headers=basic("will")), "remember", text="Порт 5432 занят")
        found = call(served.client(headers=basic("bob")), "recall", query="порт 5432")
        assert [node["id"] for node in found["nodes"]] == [kept["id"]]
    for thread in threads:
        thread.join(60)
    with psycopg.connect(wiki) as connection:
        row = connection.execute("select count(*) from kb.source where title like 'Заметка%'")
        assert row.fetchone() == (len(threads),)


@pytest.mark.parametrize("title", ["?!", "a", "и", "42", "x" * 200, "$x^2$", "🙂", "[a] | b"])
def test_a_name_that_makes_no_concept_is_refused_and_leaves_nothing(
    root: Any, served: Served, wiki: str, title: str
) -> None:
    pages = call(root(), "wiki_list")["pages"]
    said = fail(root(), "graph_upsert_node", title=title, definition="метод для проверки")
    assert "no name" in said or "needed" in said
    assert call(root(), "wiki_list")["pages"] == pages
    assert not list((served.desk.home / "added").glob("*"))
    assert audit(wiki) == []


def test_a_build_that_fails_in_the_middle_leaves_nothing(
    root: Any, served: Served, wiki: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pages = call(root(), "wiki_list")["pages"]
    text = "**Зефирнет** — это модель для опытов.\n"
    call(root(), "wiki_ingest", title="Зефирнет", text=text)
    whole = call(root(), "wiki_list")["pages"]
    assert whole != pages
    with psycopg.connect(wiki, autocommit=True) as connection:
        connection.execute("alter table kb.article rename column body to gone")
        other = "**Зефирнет** — это другая модель.\n"
        assert "database" in fail(root(), "wiki_ingest", title="Зефирнет", text=other)
        assert "database" in fail(root(), "wiki_ingest", title="Бета", text=other)
        connection.execute("alter table kb.article rename column gone to body")
    added = served.desk.home / "added"
    assert [path.name for path in added.glob("*")] == ["зефирнет.md"]
    assert "другая" not in (added / "зефирнет.md").read_text("utf-8")
    call(root(), "wiki_ingest", title="Зефирнет", text=text)
    assert call(root(), "wiki_list")["pages"] == whole


@pytest.mark.parametrize("text", ["\ud800 половина", "ноль\x00 внутри"])
def test_letters_that_no_database_takes_are_no_fault(served: Served, text: str) -> None:
    with served.http() as http:
        for tool, args in (
            ("remember", {"text": text}), ("wiki_search", {"query": text}),
            ("wiki_read", {"page": text}), ("wiki_ingest", {"path": text}),
            ("wiki_graph", {"from": text, "to": text}), ("recall", {"query": text}),
        ):  # fmt: skip
            told = {**MODERN, **basic("root"), "Mcp-Method": "tools/call", "Mcp-Name": tool}
            body = json.dumps(modern("tools/call", {"name": tool, "arguments": args}))
            answer = http.post(
                "/mcp", content=body, headers={**told, "Content-Type": "application/json"}
            )
            assert answer.status_code == 200
            assert replies(answer.text)[-1]["result"]["content"][0]["text"]


def test_a_write_that_fails_leaves_nothing_behind(root: Any, served: Served, wiki: str) -> None:
    with psycopg.connect(wiki) as connection:
        counts = "select (select count(*) from kb.source), (select count(*) from kb.edge_decision)"
        before = connection.execute(counts).fetchone()
        connection.rollback()
        assert "no type" in fail(root(), "graph_upsert_edge", **PAIR, type="likes")
        nothing = {"head": "Нет", "tail": "Ничего"}
        assert "no concept" in fail(root(), "graph_upsert_edge", **nothing, type="uses")
        assert "wiki_ingest" in fail(root(), "wiki_ingest", title="x", text="", path="../x")
        assert "needed" in fail(root(), "graph_upsert_node", title="?!", definition="метод")
        assert "none" in fail(root(), "forget", nodeId=-1)
        assert connection.execute(counts).fetchone() == before
    assert audit(wiki) == []
    assert not list((served.desk.home / "added").glob("*"))
