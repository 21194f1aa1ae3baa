"""Builds with a language model that are killed, meet, or are interrupted: nothing is paid twice."""

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import psycopg
import pytest
from conftest import ROOT, Store
from fakes.fake_gemini import FakeGemini, Request, Say, Step
from fakes.model import MODEL, reader

WAIT_S = 60.0
DELAY_S = 0.1
CONCURRENCY = 8
N_QUICK = 5
NOTES = 24
KILLS = 10
SLOW_S = 30.0
TOPICS = ["linear attention", "fast weights", "associative scan", "delta rule", "state space"]
TOPICS_RU = ["линейное внимание", "быстрые веса", "ассоциативное сканирование", "дельта-правило"]

Start = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def notes(tmp_path: Path) -> Callable[[str, int], Path]:
    """A maker of folders with notes in ``notes``, half of them Russian; they share concepts."""

    def make(name: str, n: int) -> Path:
        folder = tmp_path / name / "notes"
        folder.mkdir(parents=True)
        for at in range(n):
            if at % 2:
                one, two = TOPICS_RU[at % 4].capitalize(), TOPICS_RU[(at + 1) % 4]
                title = f"# Заметка {at}"
                text = f"{one} — это метод, который использует {two} в опыте {at}."
            else:
                one, two = TOPICS[at % 5].capitalize(), TOPICS[(at + 1) % 5]
                title, text = f"# Note {at}", f"{one} is a method that uses {two} in study {at}."
            path = folder / f"note-{at:02}.md"
            path.write_text(f"{title}\n\n{text}\n", "utf-8")
            os.utime(path, (1_750_000_000, 1_750_000_000))
        return tmp_path / name

    return make


@pytest.fixture
def start() -> "Iterator[Start]":
    """A way to start kbwiki on a store with a model; no process outlives the test."""
    started: list[subprocess.Popen[str]] = []

    def run(folder: Path, url: str, fake: FakeGemini, *args: str) -> "subprocess.Popen[str]":
        settings = {
            "KBWIKI_DATABASE_URL": url,
            "KBWIKI_GEMINI_BASE_URL": fake.url,
            "KBWIKI_MODEL": MODEL,
            "KBWIKI_CONCURRENCY": str(CONCURRENCY),
            "GEMINI_API_KEY": "secret-key-1",
            "SOURCE_DATE_EPOCH": "1750000000",
            "PYTHONPATH": str(ROOT),
        }
        process = subprocess.Popen(
            [sys.executable, "-m", "kbwiki", *args], cwd=folder, text=True,
            env={**os.environ, **settings}, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        started.append(process)
        return process

    yield run
    for process in started:
        process.kill()
        process.communicate()


def _end(process: "subprocess.Popen[str]") -> tuple[int, str, str]:
    out, err = process.communicate(timeout=WAIT_S)
    return process.returncode, out, err


def _until(is_so: Callable[[], object], process: "subprocess.Popen[str]") -> bool:
    """Wait for a thing to come true; False if the process ended before."""
    end = time.monotonic() + WAIT_S
    while not is_so():
        assert time.monotonic() < end
        if process.poll() is not None:
            return False
        time.sleep(0.002)  # the server answers in this process, and needs the interpreter
    return True


def _all(url: str, sql: str) -> list[tuple[Any, ...]]:
    with psycopg.connect(url, autocommit=True) as connection:
        return connection.execute(sql.encode()).fetchall()


def _one(url: str, sql: str) -> Any:
    return _all(url, sql)[0][0]


def _content(url: str) -> dict[str, Any]:
    """Return the rows of each table but those that tell how the work went, and what pages say.

    Left out are ids, and hashes over them: they follow the order in which files were read.
    """
    sql = "select relname from pg_class where relnamespace = 'kb'::regnamespace and relkind = 'r'"
    tables = {row[0] for row in _all(url, sql)} - {"run", "attempt", "lease", "call"}
    counts = {name: _one(url, f"select count(*) from kb.{name}") for name in tables}
    queries = {
        "extractions": "select fingerprint, engine, title, summary from kb.extraction",
        "concepts": "select key, slug, definition, n_mentions from kb.concept",
        "articles": "select title, lang, summary, body, engine from kb.article",
        "replies": "select key, model, reply from kb.cache",
    }
    return {**counts, **{name: sorted(_all(url, query)) for name, query in queries.items()}}


def _wiki(folder: Path) -> dict[str, bytes]:
    """Return the files of a wiki but for the log, which tells what each run changed."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted((folder / "wiki").rglob("*"))
        if path.is_file() and path.name != "log.md"
    }


def _asked(fake: FakeGemini) -> Counter[str]:
    return Counter(request.prompt for request in fake.asked())


def test_a_build_that_is_killed_ten_times_ends_alike_and_pays_for_no_reply_twice(
    make_store: Callable[[], Store], notes: Callable[[str, int], Path], start: Start
) -> None:
    alone, killed = (make_store().database.url for _ in range(2))
    folder, other = notes("killed", NOTES), notes("alone", NOTES)
    with FakeGemini(reader, DELAY_S) as fake:
        code, _, err = _end(start(other, alone, fake, "build", "notes"))
        assert (code, err) == (0, "")
        wanted = _asked(fake)
    assert set(wanted.values()) == {1}
    total = len(wanted)
    assert total > 2 * NOTES  # a page for each note, and pages of concepts
    n_killed = 0
    with FakeGemini(reader, DELAY_S) as fake:
        for point in sorted(random.Random(7).sample(range(1, total), KILLS)):
            process = start(folder, killed, fake, "build", "notes")
            if _until(lambda point=point: len(fake.asked()) >= point, process):
                process.kill()
            n_killed += process.wait(WAIT_S) == -signal.SIGKILL
            process.communicate()  # closes the pipes
        code, _, err = _end(start(folder, killed, fake, "build", "notes"))
        assert (code, err) == (0, "")
        asked = _asked(fake)
    assert n_killed >= KILLS - 1
    assert asked.keys() == wanted.keys()
    assert asked.total() - total <= CONCURRENCY * n_killed
    paid = "select count(*), count(distinct prompt_sha) from kb.call where status = 'ok'"
    assert _all(killed, paid) == [(total, total)]
    assert _content(killed) == _content(alone)
    assert _wiki(folder) == _wiki(other)
    assert _one(killed, "select count(*) from kb.lease") == 0
    n_lost, n_open = _lost(killed)
    assert 0 < n_lost <= CONCURRENCY * n_killed
    assert n_open == 0


def _lost(url: str) -> tuple[int, int]:
    """How many calls went without a reply, each with its prompt counted, and how many are open."""
    sql = (
        "select count(*) filter (where status = 'lost' and input_tokens > 0 and usd > 0"
        " and output_tokens = 0), count(*) filter (where status = 'open') from kb.call"
    )
    n_lost, n_open = _all(url, sql)[0]
    return n_lost, n_open


def test_two_processes_keep_one_limit_of_the_day(
    store: Store,
    notes: Callable[[str, int], Path],
    start: Start,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    folder = notes("limit", 30)
    url = _ingested(store, folder)
    limit = 0.02  # a call may cost 0.0036, so two processes of eight would hold 0.058
    monkeypatch.setenv("KBWIKI_DAILY_USD", str(limit))

    def long(request: Request) -> Step:
        return (
            replace(step, output_tokens=8000) if isinstance(step := reader(request), Say) else step
        )

    with FakeGemini(long, DELAY_S) as fake:
        both = [start(folder, url, fake, "extract") for _ in range(2)]
        ends = [_end(process) for process in both]
        n_asked = len(fake.asked())
    assert [code for code, _, _ in ends] == [3, 3]
    assert all("would pass KBWIKI_DAILY_USD" in err for _, _, err in ends)
    ((n_calls, usd),) = _all(url, "select count(*), sum(usd)::float8 from kb.call")
    assert limit - 0.0036 < usd <= limit
    assert n_calls == n_asked == _one(url, "select count(*) from kb.extraction")


def test_two_builds_at_once_ask_every_prompt_once(
    url: str, notes: Callable[[str, int], Path], start: Start
) -> None:
    folder = notes("both", 12)
    with FakeGemini(reader, DELAY_S) as fake:
        both = [start(folder, url, fake, "build", "notes") for _ in range(2)]
        ends = [_end(process) for process in both]
        assert [(code, err) for code, _, err in ends] == [(0, "")] * 2
        assert set(_asked(fake).values()) == {1}
    assert _one(url, "select count(*) from kb.extraction") == 12
    assert _one(url, "select count(*) from kb.run where ended_at is null") == 0
    assert _one(url, "select count(*) from kb.lease") == 0


def _slow_after(fake: FakeGemini, n: int) -> Callable[[Request], Step]:
    """Answer n prompts at once, and each later one after ``SLOW_S``."""

    def answer(request: Request) -> Step:
        if len(_asked(fake)) > n:
            fake.wait(SLOW_S)
        return reader(request)

    return answer


def _ingested(store: Store, folder: Path) -> str:
    """Read a folder's notes into a store; return its URL."""
    store.root = folder
    store.build(folder / "notes", names=("ingest",))
    return store.database.url


def test_ctrl_c_in_the_middle_of_slow_calls_waits_for_none_of_them(
    store: Store, notes: Callable[[str, int], Path], start: Start
) -> None:
    folder = notes("slow", 20)
    url = _ingested(store, folder)
    read = "select count(*) from kb.extraction"
    with FakeGemini() as fake:
        fake.answer = _slow_after(fake, N_QUICK)
        process = start(folder, url, fake, "build", "notes")
        assert _until(lambda: len(fake.asked()) == N_QUICK + CONCURRENCY, process)
        assert _until(lambda: _one(url, read) == N_QUICK, process)
        began = time.monotonic()
        process.send_signal(signal.SIGINT)
        code, _, err = _end(process)
        assert time.monotonic() - began < SLOW_S / 2  # a fraction of a second on a quiet machine
        kept = set(list(_asked(fake))[:N_QUICK])
    assert (code, err) == (130, "interrupted. continue with: kbwiki build notes\n")
    assert _one(url, read) == N_QUICK
    assert _one(url, "select count(*) from kb.attempt") == 0
    with FakeGemini(reader) as fake:
        code, _, err = _end(start(folder, url, fake, "extract"))
        assert (code, err) == (0, "")
        assert not kept & _asked(fake).keys()
    assert _one(url, read) == 20
    assert _lost(url) == (CONCURRENCY, 0)


def test_replies_that_come_just_after_ctrl_c_are_kept(
    store: Store, notes: Callable[[str, int], Path], start: Start
) -> None:
    folder = notes("kept", CONCURRENCY)
    url = _ingested(store, folder)
    with FakeGemini(reader, delay_s=0.5) as fake:
        process = start(folder, url, fake, "extract")
        assert _until(lambda: len(fake.asked()) == CONCURRENCY, process)
        process.send_signal(signal.SIGINT)
        assert _end(process)[0] == 130
    assert _one(url, "select count(*) from kb.cache") == CONCURRENCY


def test_no_connection_is_busy_while_all_workers_wait_for_a_model(
    store: Store, notes: Callable[[str, int], Path], start: Start
) -> None:
    folder = notes("waiting", 2 * CONCURRENCY)
    url = _ingested(store, folder)
    busy = (
        "select count(*) filter (where state <> 'idle' or xact_start is not null), count(*) > 1"
        " from pg_stat_activity where datname = current_database()"
        " and backend_type = 'client backend' and pid <> pg_backend_pid()"
    )
    with FakeGemini() as fake:
        fake.answer = _slow_after(fake, 0)
        process = start(folder, url, fake, "extract")
        assert _until(lambda: len(fake.asked()) == CONCURRENCY, process)
        for _ in range(20):
            assert _all(url, busy) == [(0, True)]
