"""Several agents, a build and an export at once on the embedded database; a database restarted."""

import asyncio
import contextlib
import os
import re
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx2
import mcp
import pytest
from conftest import ROOT
from fakes.serving import Mode, free_port, opened
from mcp.client.sse import sse_client

from kbwiki import embedded

FIRST = ("en/associative-scan.md", "en/linear-attention.md", "ru/ассоциативное-сканирование.md")
LATER = ("en/linear-rnn.md", "en/titans.md", "ru/линейное-внимание.md")
WAYS = ("auto", "auto", "legacy", "sse")
WAIT_S = 120.0
PAGES = {"associative scan": "Associative scan", "ассоциативное сканирование": "Associative scan"}


def run(folder: Path, *args: str) -> "subprocess.Popen[str]":
    """Start kbwiki on the store of a folder."""
    env = {**os.environ, "KBWIKI_JOBS": "2", "SOURCE_DATE_EPOCH": "1750000000"}
    return subprocess.Popen(
        [sys.executable, "-m", "kbwiki", *args], cwd=folder, env=env, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip


def done(process: "subprocess.Popen[str]") -> str:
    """Wait for a command that goes well; what it said."""
    out, err = process.communicate(timeout=WAIT_S)
    assert process.returncode == 0, err
    return out


def put(folder: Path, notes: tuple[str, ...]) -> None:
    """Put notes of the demo corpus into the papers of a folder."""
    (folder / "papers").mkdir(parents=True, exist_ok=True)
    for note in notes:
        path = folder / "papers" / Path(note).name
        shutil.copy(ROOT / "corpus" / note, path)
        os.utime(path, (1_750_000_000, 1_750_000_000))


def files(folder: Path) -> dict[str, bytes]:
    """The exported wiki, but for the log, which tells how the work was cut up."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted((folder / "wiki").rglob("*"))
        if path.is_file() and path.name != "log.md"
    }


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """A folder with a store of its own, which ends with the test."""
    folder = tmp_path / "research"
    put(folder, FIRST)
    done(run(folder, "build", "papers"))
    yield folder
    embedded.stop(embedded.locate(folder / ".kbwiki"))


@contextlib.contextmanager
def served(folder: Path, role: str) -> Iterator[str]:
    """The address of a server on the store of a folder."""
    port = free_port()
    process = run(folder, "serve", "--role", role, "--port", str(port))
    address = f"http://127.0.0.1:{port}"
    end = time.monotonic() + WAIT_S
    try:
        while True:
            assert process.poll() is None, process.communicate()[1]
            assert time.monotonic() < end
            with contextlib.suppress(httpx2.HTTPError):
                if httpx2.get(f"{address}/healthz", timeout=10).status_code == 200:
                    break
            time.sleep(0.1)
        yield address
        process.terminate()
        _, err = process.communicate(timeout=WAIT_S)
        assert process.returncode == 0, err
        assert "Traceback" not in err
    finally:
        process.kill()
        process.communicate()


def client(address: str, way: str) -> Any:
    """A client of one of the transports."""
    if way == "sse":
        return mcp.Client(sse_client(f"{address}/mcp/sse"), mode="legacy")
    mode: Mode = "legacy" if way == "legacy" else "auto"
    return opened(f"{address}/mcp", mode, {})


async def told(client: mcp.Client, tool: str, **args: Any) -> Any:
    """Return a tool's reply; an error of it is one of the test."""
    result = await client.call_tool(tool, args)
    assert not result.is_error, (tool, args, result.content)
    return result.structured_content


async def round_of(client: mcp.Client, name: str, n: int) -> int:
    """Do what an agent does, and check each result; return the number of what was remembered."""
    wanted, title = list(PAGES.items())[n % 2]
    page = await told(client, "wiki_read", page=wanted)
    assert (page["slug"], page["title"]) == ("concepts/associative-scan", title)
    cited = {int(number) for number in re.findall(r"\[\^(\d+)\]", page["markdown"])}
    assert cited == {c["number"] for c in page["citations"]} != set()
    hits = (await told(client, "wiki_search", query="чем полезен associative scan", k=5))["hits"]
    assert hits
    found = await told(client, "wiki_read", page=hits[0]["slug"])
    assert found["slug"] == hits[0]["slug"]
    graph = await told(client, "wiki_graph", slug="associative scan")
    titles = {node["title"] for node in graph["nodes"]}
    assert {e["head"] for e in graph["edges"]} | {e["tail"] for e in graph["edges"]} == titles
    text = f"Agent {name} saw {len(hits)} hits in round {n} of its work"
    kept = await told(client, "remember", text=text, domain=name)
    nodes = (await told(client, "recall", query=text, domain=name))["nodes"]
    assert kept["id"] in {node["id"] for node in nodes}
    return int(kept["id"])


@contextlib.contextmanager
def agents_at_work(address: str) -> Iterator[dict[str, list[int]]]:
    """Let agents work while the block runs; the numbers of what each remembered."""
    over = threading.Event()
    at_work = threading.Barrier(len(WAYS) + 1)
    kept: dict[str, list[int]] = {}

    async def agent(name: str, way: str) -> None:
        async with client(address, way) as mine:
            kept[name] = [await round_of(mine, name, 0)]
            await asyncio.to_thread(at_work.wait, WAIT_S)
            while not over.is_set() or len(kept[name]) < 5:
                kept[name].append(await round_of(mine, name, len(kept[name])))

    def ended(future: "Future[None]") -> None:
        if future.exception():
            at_work.abort()

    with ThreadPoolExecutor(len(WAYS)) as pool:
        futures = [pool.submit(asyncio.run, agent(f"agent {n}", way)) for n, way in enumerate(WAYS)]
        for future in futures:
            future.add_done_callback(ended)
        try:
            with contextlib.suppress(threading.BrokenBarrierError):
                at_work.wait(WAIT_S)
            yield kept
        finally:
            over.set()
            for future in futures:
                future.result(WAIT_S)


async def ingest(address: str, title: str, text: str) -> None:
    """Take a text in, and see the page it feeds."""
    async with client(address, "auto") as admin:
        await told(admin, "wiki_ingest", title=title, text=text)
        page = await told(admin, "wiki_read", page=title)
        assert "associative scan" in page["markdown"]


async def look(address: str, n_memories: int) -> None:
    """See that nothing was lost and nothing failed."""
    async with client(address, "legacy") as reader:
        assert (await told(reader, "memory_status"))["total"] == n_memories
        assert (await told(reader, "wiki_read", page="Titans"))["citations"]
        assert (await told(reader, "wiki_status"))["failures"] == []


def test_agents_a_build_and_an_export_work_at_once(folder: Path, tmp_path: Path) -> None:
    note = "**Zephyrnet** is a model that uses the associative scan.\n"
    with served(folder, "admin") as address:
        with agents_at_work(address) as kept:
            put(folder, LATER)
            build = run(folder, "build", "papers")
            while build.poll() is None:
                done(run(folder, "export"))
            done(build)
            asyncio.run(ingest(address, "Zephyrnet", note))
        numbers = [number for mine in kept.values() for number in mine]
        assert len(set(numbers)) == len(numbers)
        asyncio.run(look(address, len(numbers)))
    alone = tmp_path / "alone"
    put(alone, (*FIRST, *LATER))
    added = Path(".kbwiki", "added")
    shutil.copytree(folder / added, alone / added)
    try:
        done(run(alone, "build", "papers"))
        done(run(alone, "build", str(added)))
        assert files(folder) == files(alone)
    finally:
        embedded.stop(embedded.locate(alone / ".kbwiki"))


def test_a_database_restarted_under_a_live_server_is_found_again(folder: Path) -> None:
    cluster = embedded.locate(folder / ".kbwiki")

    async def main(address: str) -> None:
        async with contextlib.AsyncExitStack() as stack:
            agents = [
                await stack.enter_async_context(client(address, way)) for way in sorted(set(WAYS))
            ]
            for agent in agents:
                await told(agent, "wiki_read", page="associative scan")
            for n in range(2):
                embedded.stop(cluster)
                if n:
                    embedded.ensure(cluster, 15)
                result = await agents[0].call_tool("wiki_read", {"page": "associative scan"})
                if result.is_error:
                    assert "database" in result.content[0].text
                for number, agent in enumerate(agents):
                    page = await told(agent, "wiki_read", page="ассоциативное сканирование")
                    assert page["citations"]
                    text = f"После перезапуска {n}: порт {5432 + number}"
                    await told(agent, "remember", text=text)
            assert (await told(agents[0], "memory_status"))["total"] == 2 * len(agents)
            async with httpx2.AsyncClient() as http:
                health = (await http.get(f"{address}/healthz")).json()
            assert health["database"] == "up"

    with served(folder, "writer") as address:
        asyncio.run(main(address))
