"""Measure `kbwiki serve` on the demo store: CPU of a call, waits, memory, and clients that vanish.

Usage: bench_serve.py [--minutes N]. Prints rows, asserts nothing. The server has a core of its own
where there are two, and so have the clients.
"""

import argparse
import contextlib
import json
import os
import random
import socket
import statistics
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))

from bench import ROOT, kbwiki, knowledge_base, row
from fakes.serving import basic, free_port

VERSION = "2026-07-28"
HEADERS = {
    "Content-Type": "application/json",
    "Accept": "application/json, text/event-stream",
}
META = {
    "io.modelcontextprotocol/protocolVersion": VERSION,
    "io.modelcontextprotocol/clientInfo": {"name": "bench", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}
QUESTIONS = tuple(
    json.loads(line)["question"]
    for line in (ROOT / "corpus" / "questions.jsonl").read_text("utf-8").splitlines()
)
READ = ("wiki_read", {"page": "associative scan"})
N_CALLS, N_ROUNDS = 300, 5
N_SEARCHERS, N_SEARCHES = 8, 40
N_IDLE, N_MIXED, ONE_IN = 200, 16, 20


class Client:
    """A client of one keep-alive connection; ``session`` is of the older protocol."""

    def __init__(self, port: int, headers: dict[str, str]) -> None:
        self._port = port
        self._headers = {**HEADERS, **headers}
        self._connection = HTTPConnection("127.0.0.1", port, timeout=60)
        self.session = ""

    def open_session(self) -> None:
        """Open a session of 2025-11-25."""
        params = {
            "protocolVersion": "2025-11-25",
            "capabilities": {},
            "clientInfo": {"name": "bench", "version": "1"},
        }
        self._post({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}, {})
        note = {"jsonrpc": "2.0", "method": "notifications/initialized"}
        self._post(note, {"Mcp-Session-Id": self.session})

    def call(self, tool: str, args: dict[str, Any]) -> dict[str, Any]:
        """Call a tool; return its result."""
        status, text = self._post(*self._message(tool, args))
        lines = [line[6:] for line in text.splitlines() if line.startswith("data: {")]
        told: dict[str, Any] = json.loads(lines[-1] if lines else text)
        if status != 200 or "result" not in told or told["result"].get("isError"):
            raise ValueError(f"{tool}: {status} {text[:300]}")
        return dict(told["result"])

    def vanish(self, tool: str, args: dict[str, Any], after_s: float) -> None:
        """Call a tool, and go before it answers."""
        body, headers = self._message(tool, args)
        self._connection.request("POST", "/mcp", json.dumps(body), {**self._headers, **headers})
        time.sleep(after_s)
        self.close()

    def close(self) -> None:
        """Close the connection; the next call opens another."""
        self._connection.close()

    def _message(self, tool: str, args: dict[str, Any]) -> tuple[dict[str, Any], dict[str, str]]:
        params = {"name": tool, "arguments": args}
        body = {"jsonrpc": "2.0", "id": random.getrandbits(40), "method": "tools/call"}
        if self.session:
            return {**body, "params": params}, {"Mcp-Session-Id": self.session}
        told = {"MCP-Protocol-Version": VERSION, "Mcp-Method": "tools/call", "Mcp-Name": tool}
        return {**body, "params": {**params, "_meta": META}}, told

    def _post(self, body: dict[str, Any], headers: dict[str, str]) -> tuple[int, str]:
        self._connection.request("POST", "/mcp", json.dumps(body), {**self._headers, **headers})
        answer = self._connection.getresponse()
        self.session = answer.headers.get("Mcp-Session-Id") or self.session
        return answer.status, answer.read().decode()


@contextlib.contextmanager
def running(folder: Path, *command: str) -> Iterator[tuple[int, int]]:
    """Run a server, on the first core; its port and process id."""
    port = free_port()
    process = subprocess.Popen(
        [sys.executable, *(arg.replace("PORT", str(port)) for arg in command)], cwd=folder
    )
    _pin(process.pid, 0)
    end = time.monotonic() + 60
    try:
        while True:
            if process.poll() is not None or time.monotonic() > end:
                raise SystemExit(f"{command}: it did not start")
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
                break
            time.sleep(0.05)
        yield port, process.pid
    finally:
        process.terminate()
        process.wait(30)


def _pin(pid: int, core: int) -> None:
    if hasattr(os, "sched_setaffinity") and (os.cpu_count() or 1) > 1:
        os.sched_setaffinity(pid, {core})


def cpu_s(pid: int) -> float:
    """Return the seconds of processor time that a process has had, its children aside."""
    fields = Path(f"/proc/{pid}/stat").read_text("ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def cpu_per_call(pid: int, client: Client, tool: str, args: dict[str, Any]) -> float:
    """Return milliseconds of the server's processor time for a call."""
    began = cpu_s(pid)
    for _ in range(N_CALLS):
        client.call(tool, args)
    return (cpu_s(pid) - began) / N_CALLS * 1000


def health(port: int) -> dict[str, Any]:
    """Return what the server says of itself."""
    connection = HTTPConnection("127.0.0.1", port, timeout=60)
    connection.request("GET", "/healthz")
    try:
        return dict(json.loads(connection.getresponse().read()))
    finally:
        connection.close()


def _calls(folder: Path, port: int, pid: int) -> None:
    """CPU of wiki_read against the least server, turn by turn."""
    minimal = str(Path(__file__).parent / "minimal_server.py")
    with running(folder, minimal, "PORT") as (other, other_pid):
        least, ours = Client(other, {}), Client(port, basic("ann"))
        pages = ours.call("wiki_list", {})["structuredContent"]["pages"]
        sizes = sorted(
            (len(ours.call("wiki_read", {"page": p["slug"]})["content"][0]["text"]), p["slug"])
            for p in pages
            if p["kind"] != "source"
        )
        size, slug = sizes[len(sizes) // 2]
        read = ("wiki_read", {"page": slug})
        for client in (least, ours):
            for _ in range(50):
                client.call(*read)
        pairs = [
            (cpu_per_call(other_pid, least, *read), cpu_per_call(pid, ours, *read))
            for _ in range(N_ROUNDS)
        ]
    row("CPU of a call: the least server", f"{statistics.median(a for a, _ in pairs):.2f} ms")
    name = f"CPU of a call: wiki_read of the median page ({size:,} characters)"
    row(name, f"{statistics.median(b for _, b in pairs):.2f} ms")
    ratio = statistics.median(b / a for a, b in pairs)
    row("  times the least server's", f"{ratio:.2f}", "<= 1.5")


def _together(n: int, work: Callable[[int], None]) -> None:
    threads = [threading.Thread(target=work, args=(at,)) for at in range(n)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _asked(number: int) -> str:
    """Return a question that no other number gives: the server keeps vectors of the last ones."""
    turn, at = divmod(number, len(QUESTIONS))
    return f"{QUESTIONS[at]} {turn}"


def backends(folder: Path) -> dict[int, float]:
    """Return the seconds of processor time of each process of a folder's database."""
    [pidfile] = (folder / ".kbwiki").glob("**/postmaster.pid")
    parent = pidfile.read_text("ascii").split()[0]
    found: dict[int, float] = {}
    for status in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            if status.read_text("ascii", "replace").rpartition(")")[2].split()[1] == parent:
                found[int(status.parent.name)] = cpu_s(int(status.parent.name))
    return found


def _searches(folder: Path, port: int, pid: int) -> None:
    waits: list[float] = []

    def work(at: int) -> None:
        client = Client(port, basic("ann"))
        for n in range(N_SEARCHES):
            began = time.perf_counter()
            client.call("wiki_search", {"query": _asked(at * N_SEARCHES + n)})
            waits.append(time.perf_counter() - began)

    for question in QUESTIONS:
        Client(port, basic("ann")).call("wiki_search", {"query": question})
    server, database = cpu_s(pid), backends(folder)
    _together(N_SEARCHERS, work)
    n_all = N_SEARCHERS * N_SEARCHES
    spent = sum(s - database.get(p, 0) for p, s in backends(folder).items())
    for name, seconds in (("the server", cpu_s(pid) - server), ("the database", spent)):
        row(f"CPU of a search, no two alike: {name}", f"{seconds / n_all * 1000:.1f} ms")
    p50, p95 = (statistics.quantiles(waits, n=100)[at] * 1000 for at in (49, 94))
    row(f"wiki_search with {N_SEARCHERS} clients: median", f"{p50:.0f} ms")
    row("  p95", f"{p95:.0f} ms", "<= 120 ms")


def _idle(port: int) -> None:
    before = health(port)["rss_kb"]
    for _ in range(N_IDLE - 1):
        client = Client(port, basic("ann"))
        client.open_session()
        client.call(*READ)
        client.close()
    grown = (health(port)["rss_kb"] - before) / 1024
    row(f"{N_IDLE - 1} idle sessions add", f"{grown:.1f} MB", "<= 25 MB")


def _mixed(port: int, minutes: float) -> None:
    """Clients of both protocols, one call in twenty left in the middle."""
    end = time.monotonic() + minutes * 60
    errors: Counter[str] = Counter()
    counts: Counter[str] = Counter()
    rss: list[int] = []

    def work(at: int) -> None:
        chance = random.Random(at)
        client = Client(port, basic("will"))
        if at % 2:
            client.open_session()
        n = 0
        while time.monotonic() < end:
            n += 1
            tool, args = chance.choice(
                [
                    READ,
                    ("wiki_search", {"query": chance.choice(QUESTIONS), "k": 5}),
                    ("wiki_graph", {"slug": "associative scan"}),
                    ("recall", {"query": "what did agents see"}),
                    ("remember", {"text": f"{chance.random()} was seen", "domain": "bench"}),
                ]
            )
            try:
                if chance.random() < 1 / ONE_IN:
                    client.vanish(tool, args, chance.random() * 0.02)
                    counts["left"] += 1
                else:
                    client.call(tool, args)
                    counts["answered"] += 1
            except (OSError, HTTPException, ValueError) as error:
                errors[repr(error)[:200]] += 1
                client.close()

    def watch() -> None:
        while time.monotonic() < end:
            time.sleep(min(5.0, minutes * 6))
            with contextlib.suppress(OSError, ValueError):
                rss.append(health(port)["rss_kb"])

    watcher = threading.Thread(target=watch)
    watcher.start()
    _together(N_MIXED, work)
    watcher.join()
    told = f"{counts['answered']} answered, {counts['left']} left in the middle"
    row(f"{N_MIXED} mixed clients, {minutes:g} min: {told}", f"{errors.total()} errors", "0")
    for error, n in errors.most_common(3):
        row(f"  {error}", str(n))
    third = max(len(rss) // 3, 1)
    early, late = max(rss[third : 2 * third] or rss), max(rss[-third:])
    row("  memory, second third to last third", f"{(late - early) / 1024:+.1f} MB", "flat")
    now = health(port)
    row("  calls and tasks left", f"{now['calls']} and {now['tasks']}")


def main() -> None:
    """Print every row."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--minutes", type=float, default=1.0, help="Of the mixed clients.")
    minutes = parser.parse_args().minutes
    with knowledge_base() as folder:
        (folder / "corpus").symlink_to(ROOT / "corpus")
        kbwiki("build", "corpus", folder=folder)
        # the database is at work by now, on every core
        _pin(os.getpid(), (os.cpu_count() or 1) - 1)
        for name, role in (("ann", "reader"), ("will", "writer")):
            _add_user(folder, name, role)
        serve = ("-m", "kbwiki", "serve", "--port", "PORT")
        with running(folder, *serve) as (port, pid):
            _calls(folder, port, pid)
            _searches(folder, port, pid)
            _idle(port)
        with running(folder, *serve) as (port, _):
            _mixed(port, minutes)


def _add_user(folder: Path, name: str, role: str) -> None:
    from fakes.serving import PASSWORDS

    subprocess.run(
        [sys.executable, "-m", "kbwiki", "user", "add", name, "--role", role, "--password-stdin"],
        cwd=folder, input=PASSWORDS[name] + "\n", text=True, check=True, capture_output=True,
    )  # fmt: skip


if __name__ == "__main__":
    main()
