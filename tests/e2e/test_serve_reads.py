"""What readers get: in parts, completed, from prompts, kept in memory, and with which rights."""

import contextlib
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import mcp
import psycopg
import pytest
from conftest import Store
from fakes.serving import Served, basic, call, fail, open_desk, serving, use
from mcp.shared.exceptions import MCPError
from mcp_types import PromptReference, ResourceTemplateReference

from kbwiki import db
from kbwiki.pages import FRESH_S, Shelf
from kbwiki.server.desk import MAX_CHARACTERS
from kbwiki.server.registry import PROMPTS, TOOLS


@pytest.fixture
def served(wiki: str, tmp_path: Path) -> Iterator[Served]:
    """The wiki, served to users of all roles."""
    with open_desk(wiki, tmp_path) as desk, serving(desk, "admin", True) as up:
        yield up


def parts(served: Served, tool: str, **args: Any) -> list[Any]:
    """Call a tool until there is no more."""
    told: list[Any] = []
    while True:
        more = {"cursor": told[-1]["next_cursor"]} if told else {}
        told.append(call(served.client(headers=basic("ann")), tool, **args, **more))
        if told[-1].get("next_cursor") is None:
            return told


def enlarge(wiki: str) -> None:
    """Make texts of the store so long that no reply holds them all."""
    with psycopg.connect(wiki, autocommit=True) as connection:
        connection.execute("update kb.source_uri set uri = uri || repeat('/long', 3000)")
        connection.execute("insert into kb.run (stage) values ('write')")


def test_what_is_too_long_for_a_reply_comes_in_parts(served: Served, wiki: str) -> None:
    for n in range(4):
        text = f"Redis timed out, seen {n}: " + " ".join(f"слово{n}x{k}" for k in range(900))
        call(served.client(headers=basic("will")), "remember", text=text)
    enlarge(wiki)
    for tool, key, args in (
        ("wiki_sources", "sources", {}),
        ("recall", "nodes", {"query": "redis timed out"}),
    ):
        told = parts(served, tool, **args)
        assert len(told) > 1, tool
        assert all(len(json.dumps(p, ensure_ascii=False)) < 2 * MAX_CHARACTERS for p in told), tool
        items = [json.dumps(item, sort_keys=True) for part in told for item in part[key]]
        assert len(items) == len(set(items)), tool
        assert len(items) == told[0]["total"], tool
    with psycopg.connect(wiki) as connection:
        assert connection.execute("select max(n_uses) from kb.memory").fetchone() == (1,)


@pytest.mark.parametrize("limit", [1, 7])
def test_the_edges_come_in_parts_of_the_limit_and_none_is_left_out(
    served: Served, limit: int
) -> None:
    ask = {"slug": "associative scan", "depth": 2}
    [whole] = parts(served, "wiki_graph", **ask, limit=200)
    told = parts(served, "wiki_graph", **ask, limit=limit)
    assert [edge for part in told for edge in part["edges"]] == whole["edges"]
    assert [part["is_cut"] for part in told] == [True] * (len(told) - 1) + [False]


def test_a_page_and_the_words_it_cites_fit_in_a_reply(served: Served, wiki: str) -> None:
    with psycopg.connect(wiki, autocommit=True) as connection:
        connection.execute("alter table kb.citation disable trigger user")
        connection.execute("update kb.citation set quote = repeat('слово ', 200)")
        connection.execute("insert into kb.run (stage) values ('write')")
    told = parts(served, "wiki_read", page="associative scan")
    assert len(told) > 1
    for part in told:
        assert len(part["markdown"]) + sum(len(c["quote"]) for c in part["citations"]) <= (
            MAX_CHARACTERS
        )
    [whole] = [json.loads(json.dumps(p["sections"])) for p in told[:1]]
    assert whole == told[-1]["sections"]
    assert "".join(p["markdown"] for p in told).rstrip().endswith("generated to here -->")


@pytest.mark.parametrize("cursor", ["x", "-1", "1e3", "٣", "9" * 40, ""])
def test_a_cursor_that_is_none_of_ours_is_refused(served: Served, cursor: str) -> None:
    for tool, args in (
        ("wiki_list", {}), ("wiki_sources", {}), ("wiki_read", {"page": "associative scan"}),
        ("wiki_search", {"query": "scan"}), ("wiki_graph", {"slug": "associative scan"}),
        ("recall", {"query": "scan"}),
    ):  # fmt: skip
        said = fail(served.client(headers=basic("ann")), tool, **args, cursor=cursor)
        assert "cursor" in said, tool


def test_a_page_is_known_by_its_uri_and_a_section_by_its_words(served: Served) -> None:
    def read(**args: str) -> Any:
        return call(served.client(headers=basic("ann")), "wiki_read", **args)

    page = read(page="associative scan")
    assert read(page="kbwiki://article/concepts/associative-scan") == page
    assert not any("[[" in section for section in page["sections"])
    for section in page["sections"]:
        for name in (section, f"## {section}", section.upper()):
            assert read(page="associative scan", section=name)["markdown"].startswith("#")


def test_slugs_are_completed(served: Served) -> None:
    async def work(c: mcp.Client) -> None:
        template = ResourceTemplateReference(uri="kbwiki://article/{slug}")
        for text, wanted in (
            ("associative-s", "concepts/associative-scan"),
            ("АССОЦ", "sources/ассоциативное-сканирование"),
            ("sources/lin", "sources/linear-attention"),
        ):  # fmt: skip
            found = (await c.complete(template, {"name": "slug", "value": text})).completion
            assert all(text.casefold() in value for value in found.values)
            assert wanted in found.values
            assert found.total == len(found.values)
        prompt = PromptReference(name="review_page")
        found = (await c.complete(prompt, {"name": "page", "value": "scan"})).completion
        assert "concepts/associative-scan" in found.values
        other = PromptReference(name="ask_wiki")
        found = (await c.complete(other, {"name": "question", "value": "scan"})).completion
        assert found.values == []
        elsewhere = ResourceTemplateReference(uri="file:///{slug}")
        missing = PromptReference(name="обзор")
        for unknown, name in ((missing, "page"), (other, "страница"), (elsewhere, "slug")):
            with pytest.raises(MCPError, match="argument") as refused:
                await c.complete(unknown, {"name": name, "value": "scan"})
            assert refused.value.code == -32602

    use(served.client(headers=basic("ann")), work)


def test_prompts_are_listed_filled_in_and_refused(served: Served) -> None:
    async def work(c: mcp.Client) -> None:
        listed = {p.name: p for p in (await c.list_prompts()).prompts}
        assert listed.keys() == PROMPTS.keys() == {"ask_wiki", "compare_concepts", "review_page"}
        for name, prompt in listed.items():
            assert prompt.description
            values = {a.name: f"{{слово}} {a.name}" for a in prompt.arguments}
            assert all(a.description and a.required for a in prompt.arguments)
            text = (await c.get_prompt(name, values)).messages[0].content.text
            assert all(value in text for value in values.values())
            with pytest.raises(MCPError, match="Missing argument"):
                await c.get_prompt(name, {**values, next(iter(values)): " "})
        with pytest.raises(MCPError, match="Unknown prompt"):
            await c.get_prompt("no_such", {})

    use(served.client(headers=basic("ann")), work)


def test_resources_come_in_pages_and_the_missing_is_named(served: Served) -> None:
    async def work(c: mcp.Client) -> None:
        first = await c.list_resources()
        uris = {str(r.uri) for r in first.resources}
        assert len(uris) == len(first.resources)
        for listing in (
            c.list_tools, c.list_prompts, c.list_resources, c.list_resource_templates,
        ):  # fmt: skip
            for cursor in ("x", "0", "1", "100", "-1", ""):
                with pytest.raises(MCPError, match="cursor") as error:
                    await listing(cursor=cursor)
                assert error.value.code == -32602
        for uri in ("kbwiki://article/concepts/нет", "file:///etc/passwd", "kbwiki://other/x"):
            with pytest.raises(MCPError) as error:
                await c.read_resource(uri)
            assert error.value.code == -32602
            assert error.value.error.data["uri"]
            assert "`kbwiki" not in str(error.value)

    use(served.client(headers=basic("ann")), work)


def test_every_field_of_every_tool_is_described(served: Served) -> None:
    for tool in TOOLS:
        for name, field in tool.args.model_fields.items():
            assert field.description, (tool.name, name)


def test_what_a_reply_promises_is_what_comes(served: Served) -> None:
    import jsonschema

    async def work(c: mcp.Client) -> None:
        schemas = {tool.name: tool.output_schema for tool in (await c.list_tools()).tools}
        for tool, args in (
            ("wiki_search", {"query": "линейное внимание"}), ("wiki_read", {"page": "scan"}),
            ("wiki_read", {"page": "associative scan"}), ("wiki_list", {}), ("wiki_sources", {}),
            ("wiki_graph", {"slug": "associative scan"}), ("wiki_status", {}),
            ("recall", {"query": "x"}), ("memory_status", {}),
        ):  # fmt: skip
            result = await c.call_tool(tool, args)
            if not result.is_error:
                jsonschema.validate(result.structured_content, schemas[tool])
            assert result.content[0].text

    use(served.client(headers=basic("ann")), work)


# --- pages kept in memory -----------------------------------------------------------------------


def test_a_change_through_the_server_is_read_at_once(served: Served) -> None:
    read = {"page": "associative scan"}

    async def work(c: mcp.Client) -> None:
        for n in range(3):
            page = (await c.call_tool("wiki_read", read)).structured_content
            again = (await c.call_tool("wiki_read", read)).structured_content
            assert page == again
            node = {"title": "Associative scan", "definition": f"a parallel method of kind {n}"}
            said = await c.call_tool(
                "graph_upsert_node", {**node, "expected_version": page["version"]}
            )
            assert not said.is_error, said.content
            assert (await c.call_tool("wiki_read", read)).structured_content != page

    use(served.client(headers=basic("root")), work)


def test_a_change_by_another_process_is_read_soon(store: Store) -> None:
    folder = store.root / "notes"
    folder.mkdir()
    note = "# Сеть Хопфилда\n\n**Сеть Хопфилда** — это {}.\n"
    (folder / "a.md").write_text(note.format("память, что хранит образы в сети"), "utf-8")
    store.build(folder)
    now = [0.0]
    shelf = Shelf(lambda: now[0])
    key = ("concepts", "сеть хопфилда")

    def read(name: str = "x") -> Any:
        return shelf.kept(name) or shelf.leaf(store.database, name, key, lambda w, p: w.render(p))

    assert "это память" in read()
    (folder / "a.md").write_text(note.format("модель, что хранит образы в сети"), "utf-8")
    store.build(folder)
    assert "это память" in read()
    now[0] += FRESH_S + 0.01
    assert "это модель" in read()
    assert shelf.kept("x")
    shelf.look_again()
    assert shelf.kept("x") is None
    assert shelf.leaf(store.database, "y", ("concepts", "нет"), lambda w, p: "") is None


def test_who_reads_what_is_kept_waits_for_no_load() -> None:
    shelf = Shelf()
    with shelf._loading:
        thread = threading.Thread(target=shelf.kept, args=("x",), daemon=True)
        thread.start()
        thread.join(30)
        assert not thread.is_alive()


# --- rights -------------------------------------------------------------------------------------


def test_where_no_role_can_be_made_readers_read_and_that_is_said(
    wiki: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with psycopg.connect(wiki, autocommit=True) as admin:
        admin.execute("drop role if exists plain")
        admin.execute("create role plain login")
        admin.execute("grant usage on schema kb to plain")
        admin.execute("grant all on all tables in schema kb to plain")
        admin.execute("grant all on all sequences in schema kb to plain")
    try:
        with (
            open_desk(psycopg.conninfo.make_conninfo(wiki, user="plain"), tmp_path) as desk,
            serving(desk, "writer", False) as up,
        ):
            assert "read-only transactions" in capsys.readouterr().err
            assert not desk.counts_uses
        with (
            open_desk(psycopg.conninfo.make_conninfo(wiki, user="plain"), tmp_path) as desk,
            serving(desk, "reader", False) as up,
        ):
            with contextlib.closing(db.connect(wiki)) as database:
                from kbwiki.memory.keeper import Keeper
                from kbwiki.memory.remember import Note, remember

                remember(Keeper(database, None, "ann"), Note("Redis timed out in production"))
            found = call(up.client(), "recall", query="redis timed out")
            assert len(found["nodes"]) == 1
            assert "not counted" in call(up.client(), "wiki_status")["note"]
            assert call(up.client(), "wiki_read", page="associative scan")["citations"]
            with desk.readers.lend() as database, pytest.raises(Exception, match="read-only"):
                database.run("delete_memory", {"id": 1})
        with psycopg.connect(wiki) as connection:
            assert connection.execute("select max(n_uses) from kb.memory").fetchone() == (0,)
    finally:
        with psycopg.connect(wiki, autocommit=True) as admin:
            admin.execute("drop owned by plain")
            admin.execute("drop role plain")
