"""A folder of papers, read in processes: the same whatever their number, ended at once."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import psycopg
import pypdfium2
import pytest
from conftest import ROOT, Store

DATA = ROOT / "tests" / "data" / "pdf"
WAIT_S = 180
KBWIKI = (sys.executable, "-m", "kbwiki")


def _papers(folder: Path, n: int, n_pages: int) -> None:
    """Write PDF files that take a process each: a page, so often, and each with one of its own."""
    folder.mkdir(parents=True)
    for number in range(n):
        with (
            pypdfium2.PdfDocument(DATA / f"columns_{'ru' if number % 2 else 'en'}.pdf") as source,
            pypdfium2.PdfDocument.new() as target,
        ):
            for _ in range(n_pages + number):
                target.import_pages(source)
            target.save(folder / f"{number:02}.pdf")
            os.utime(folder / f"{number:02}.pdf", (1_750_000_000, 1_750_000_000))


def _content(store: Store) -> list[Any]:
    with psycopg.connect(store.database.url, autocommit=True) as connection:
        return connection.execute(
            "select u.uri, s.sha256, s.title, s.structure, c.ordinal, c.text from kb.source_uri u "
            "join kb.source s on s.id = u.source_id join kb.chunk c on c.source_id = s.id "
            "order by u.uri, c.ordinal"
        ).fetchall()


def test_any_number_of_workers_reads_the_same(
    make_store: Callable[[], Store], tmp_path: Path
) -> None:
    folder = tmp_path / "papers"
    _papers(folder, 6, 30)
    contents = []
    for jobs in (1, 4):
        store = make_store()
        report = store.build(folder, names=("ingest",), jobs=jobs)["ingest"]
        assert (report.outcome.n_done, report.failures) == (6, ())
        contents.append(_content(store))
    assert contents[0] == contents[1]
    assert len(contents[0]) > 500


def _children(pid: int) -> set[int]:
    """Return the processes that a process has started and that still run."""
    out: set[int] = set()
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
            if parent == pid and b"spawn_main" in (folder / "cmdline").read_bytes():
                out.add(int(folder.name))
    return out


def _runs(pid: int) -> bool:
    try:
        return "Z" not in Path(f"/proc/{pid}/status").read_text().split("State:")[1][:4]
    except OSError:
        return False


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="no /proc to look for children")
@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGKILL, -signal.SIGKILL)]
)
def test_readers_end_with_the_program_and_what_was_read_is_kept(
    store: Store, tmp_path: Path, number: signal.Signals, code: int
) -> None:
    folder = tmp_path / "papers"
    _papers(folder, 2, 2)
    _papers(folder / "long", 2, 1_500)
    environment = {
        **os.environ,
        "KBWIKI_DATABASE_URL": store.database.url,
        "KBWIKI_JOBS": "4",
        "PYTHONPATH": str(ROOT),
    }
    process = subprocess.Popen(
        [*KBWIKI, "ingest", "papers"], cwd=tmp_path, env=environment, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    end = time.monotonic() + WAIT_S
    children: set[int] = set()
    while len(children) < 2 or store.database.value("count_sources") < 2:
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < end
        children = _children(process.pid)
    process.send_signal(number)
    _, err = process.communicate()
    assert process.returncode == code
    assert "Traceback" not in err
    while any(map(_runs, children)):
        assert time.monotonic() < end
    assert store.database.value("count_sources") == 2
    for path in (folder / "long").iterdir():
        path.unlink()
    report = store.build(folder, names=("ingest",))["ingest"]
    assert report.outcome.note.startswith("0 new, 0 changed, 2 as before")
