"""Builds that meet, are killed, are interrupted and lose their server end as undisturbed ones."""

import hashlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from conftest import NO_EMBED, ROOT, Store

from kbwiki import db, embedded
from kbwiki.cli import main
from kbwiki.stages import export

Start = Callable[..., "subprocess.Popen[str]"]
WAIT_S = 60.0
KBWIKI = [sys.executable, "-m", "kbwiki"]
TOPICS = ["linear attention", "fast weights", "associative scan", "delta rule", "state space"]
TOPICS_RU = ["линейное внимание", "быстрые веса", "ассоциативное сканирование", "дельта-правило"]

PROGRAM = """
import ctypes, dataclasses, os, sys, time
from concurrent.futures import ThreadPoolExecutor
from kbwiki import errors, pipeline
from kbwiki.cli import main

{change}

extract = pipeline.stage_named("extract")
changed = dataclasses.replace(extract, **change)
pipeline.STAGES = tuple(changed if s is extract else s for s in pipeline.STAGES)
sys.exit(main())
"""
"""kbwiki with another way to extract."""

SLOW = """
import kbwiki.cli.run as cli_run

cli_run.GRACE_S = 60  # on a busy machine an orderly end may take longer than a person would wait

def work(services, item):
    while item.uri >= "notes/note-05" and not os.path.exists("awake"):
        {sleep}
    return extract.work(services, item)

change = {{"work": work}}
"""
"""Extraction of every note but the first five that never ends, unless there is a file ``awake``."""

HANGING = """
def pending(services, skip):
    try:
        open("asleep", "w").close()
        time.sleep(600)
    finally:
        time.sleep(600)

change = {"pending": pending}
"""
"""A stage that does not end when it is interrupted."""

FATAL = """
def work(services, item):
    if item.uri == "notes/note-00.md":
        raise errors.ConfigError("engine: the quota is used up.")
    time.sleep(600)

change = {"work": work}
"""
"""A stage in which one item ends the run while another never ends."""

ASLEEP = "time.sleep(600)"
ASLEEP_IN_C = "ctypes.CDLL(None).sleep(600)"
ASLEEP_IN_A_POOL = "ThreadPoolExecutor(1).submit(time.sleep, 600).result()"
N_QUICK = 5

TRACE = """
create table public.trace (place text, item text);
create function public.trace() returns trigger language plpgsql as $$
begin
    insert into public.trace values (tg_table_name, to_jsonb(new) ->> tg_argv[0]);
    return new;
end $$;
create trigger trace before insert on kb.source_uri for each row execute function trace('uri');
create trigger trace before insert on kb.extraction for each row
    execute function trace('source_id');
create trigger trace before insert on kb.article for each row execute function trace('title');
create trigger trace before insert on kb.vector for each row execute function trace('text_sha');
"""
"""Notes each item that a stage saves, together with what it saves."""


def _write_notes(folder: Path, n: int) -> None:
    """Write short notes, English and Russian by turns, that share their concepts."""
    folder.mkdir(parents=True)
    for at in range(n):
        if at % 2:
            one, two = TOPICS_RU[at % 4], TOPICS_RU[(at + 1) % 4]
            text = f"# Заметка {at}\n\n**{one.capitalize()}** использует {two} в опыте {at}.\n"
        else:
            one, two = TOPICS[at % 5], TOPICS[(at + 1) % 5]
            text = f"# Note {at}\n\n**{one.capitalize()}** uses {two} in experiment {at}.\n"
        path = folder / f"note-{at:02}.md"
        path.write_text(text, "utf-8")
        os.utime(path, (1_750_000_000, 1_750_000_000))


def _environment(store_or_url: Store | str) -> dict[str, str]:
    url = store_or_url if isinstance(store_or_url, str) else store_or_url.database.url
    return {
        **os.environ,
        "KBWIKI_DATABASE_URL": url,
        "KBWIKI_JOBS": "2",
        "SOURCE_DATE_EPOCH": "1750000000",
        "PYTHONPATH": str(ROOT),
    }


@pytest.fixture
def start() -> "Iterator[Start]":
    """A way to start a program on a store in a folder; none of them outlives the test."""
    started: list[subprocess.Popen[str]] = []

    def run(folder: Path, store: Store | str, *command: str) -> "subprocess.Popen[str]":
        process = subprocess.Popen(
            command, cwd=folder, env=_environment(store), text=True,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
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


def _until(is_so: Callable[[], object], process: "subprocess.Popen[str] | None" = None) -> bool:
    """Wait for a thing to come true; False if a process ended before."""
    end = time.monotonic() + WAIT_S
    while not is_so():
        assert time.monotonic() < end
        if process and process.poll() is not None:
            return False
    return True


def _one(url: Store | str, sql: str) -> Any:
    url = url if isinstance(url, str) else url.database.url
    with psycopg.connect(url, autocommit=True) as connection:
        row = connection.execute(sql.encode()).fetchone()
    assert row
    return row[0]


def _counts(store: Store) -> dict[str, int]:
    """Return the rows of every table but those that tell how the work went."""
    sql = "select string_agg(relname, ' ') from pg_class where relnamespace = 'kb'::regnamespace"
    tables = set(_one(store, f"{sql} and relkind = 'r'").split()) - {"run", "attempt", "lease"}
    return {name: _one(store, f"select count(*) from kb.{name}") for name in sorted(tables)}


def _content(store: Store) -> dict[str, Any]:
    """Return what the store holds, without ids, times and hashes of ids."""
    lists = {
        "sources": "u.uri || s.sha256 from kb.source_uri u join kb.source s on s.id = u.source_id",
        "extractions": "fingerprint from kb.extraction",
        "concepts": "key || slug || kind || n_mentions from kb.concept",
        "articles": "title || body || summary from kb.article",
        "edges": "h.key || e.type || t.key || e.evidence_sha from kb.edge e"
        " join kb.concept h on h.id = e.head_id join kb.concept t on t.id = e.tail_id",
        "vectors": "text_sha || v::text from kb.vector",
        "settings": "name || value from kb.setting where name = 'embedder'",
    }
    sql = {
        name: f"select array_agg(x order by x) from (select {q}) t(x)" for name, q in lists.items()
    }
    return {name: _one(store, query) for name, query in sql.items()} | {"n": _counts(store)}


def _is_clean(url: Store | str) -> bool:
    n_open = _one(url, "select count(*) from kb.run where ended_at is null")
    return bool(n_open + _one(url, "select count(*) from kb.lease") == 0)


def _wiki(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


@pytest.fixture
def place(tmp_path: Path) -> Callable[[str, int], Path]:
    """A maker of folders with notes in ``notes``."""

    def make(name: str, n: int = 10) -> Path:
        _write_notes(tmp_path / name / "notes", n)
        return tmp_path / name

    return make


# --- two at once ------------------------------------------------------------------------------


def test_two_builds_at_once_share_the_work_and_end_as_one(
    make_store: Callable[[], Store], place: Callable[[str, int], Path], start: Start
) -> None:
    alone, shared = make_store(), make_store()
    code, _, err = _end(start(place("alone", 30), alone, *KBWIKI, "build", "notes"))
    assert (code, err) == (0, "")
    shared.database.connection.execute(TRACE.encode())
    folder = place("shared", 30)
    # Each fetches few at a time, so that both find something to do.
    few = (
        "import sys\nfrom kbwiki.stages import embed, extract, ingest, write\n"
        "for stage in (embed, extract, ingest, write): stage.BATCH = 4\n"
        "embed.TEXTS_PER_ITEM = 3\n"
        "from kbwiki.cli import main\nsys.exit(main())"
    )
    both = [
        start(folder, shared, sys.executable, "-c", few, "build", "notes", "--json")
        for _ in range(2)
    ]
    ends = [_end(process) for process in both]
    assert [(code, err) for code, _, err in ends] == [(0, ""), (0, "")]
    done: Counter[str] = Counter()
    for _, out, _ in ends:
        for line in out.splitlines():
            report = json.loads(line)
            done[report["stage"]] += report["done"]
            assert report["failed"] == 0
    assert done["ingest"] == done["extract"] == 30
    twice = "select count(*) from (select from trace group by place, item having count(*) > 1) t"
    assert _one(shared, twice) == 0
    assert _content(shared) == _content(alone)
    assert _wiki(folder / "wiki") == _wiki(folder.with_name("alone") / "wiki")
    assert _is_clean(shared)


def test_exports_of_two_stores_into_one_folder_leave_one_of_the_two(
    make_store: Callable[[], Store], place: Callable[[str, int], Path], tmp_path: Path
) -> None:
    stores = {"a": make_store(), "b": make_store()}
    alone = {}
    for (name, store), n in zip(stores.items(), (20, 26), strict=True):
        folder = place(name, n)
        store.root = folder
        store.wiki = folder / "wiki"
        store.build(folder / "notes")
        alone[name] = _wiki(store.wiki)
        del alone[name]["log.md"]
    wiki = tmp_path / "both"

    def export_often(store: Store) -> None:
        store.wiki = wiki
        for _ in range(4):
            store.build(names=("export",))

    threads = [threading.Thread(target=export_often, args=(s,)) for s in stores.values()]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(WAIT_S)
    files = _wiki(wiki)
    del files["log.md"]
    assert files in alone.values()
    manifest = json.loads(files.pop(export.MANIFEST))["files"]
    assert manifest == {name: hashlib.sha256(raw).hexdigest() for name, raw in files.items()}


@pytest.mark.skipif(not Path("/proc/locks").exists(), reason="/proc/locks tells who waits")
def test_an_export_waits_for_another_one_into_the_same_folder(store: Store) -> None:
    _write_notes(store.root / "notes", 4)
    store.wiki.mkdir()
    running = threading.Thread(target=store.build, args=(store.root / "notes",))

    def waits() -> bool:
        locks = Path("/proc/locks").read_text().splitlines()
        return any("-> FLOCK" in line and f" {os.getpid()} " in line for line in locks)

    with export._alone_in(store.wiki):
        running.start()
        assert _until(lambda: waits() or not running.is_alive())
        written = list(store.wiki.iterdir())
    running.join(WAIT_S)
    assert (written, store.files() != {}) == ([], True)


# --- kill -9 ----------------------------------------------------------------------------------


def test_a_build_that_is_killed_ten_times_ends_as_one_that_was_not(
    make_store: Callable[[], Store], place: Callable[[str, int], Path], start: Start
) -> None:
    alone, killed = make_store(), make_store()
    for store in (alone, killed):
        store.database.connection.execute(TRACE.encode())
    code, _, err = _end(start(place("alone", 40), alone, *KBWIKI, "build", "notes"))
    assert (code, err) == (0, "")
    folder = place("killed", 40)
    watching = killed.database.connection

    def progress() -> int:
        row = watching.execute("select count(*) from trace").fetchone()
        assert row
        return int(row[0]) + len(list(folder.glob("wiki/*/*.md")))

    total = _one(alone, "select count(*) from trace") + len(
        _wiki(folder.with_name("alone") / "wiki")
    )
    n_killed = 0
    for point in sorted(random.Random(7).sample(range(1, total - 20), 10)):
        process = start(folder, killed, *KBWIKI, "build", "notes")
        if _until(lambda point=point: progress() >= point, process):
            process.kill()
        n_killed += process.wait(WAIT_S) == -signal.SIGKILL
        process.communicate()  # closes the pipes
    assert n_killed >= 9
    code, _, err = _end(start(folder, killed, *KBWIKI, "build", "notes"))
    assert (code, err) == (0, "")
    assert _content(killed) == _content(alone)
    wikis = [_wiki(folder / "wiki"), _wiki(folder.with_name("alone") / "wiki")]
    for wiki in wikis:
        del wiki["log.md"]  # it tells what each run changed
    assert wikis[0] == wikis[1]
    assert _one(killed, "select count(*) from kb.lease") == 0


def test_pages_that_a_killed_export_wrote_are_ours(
    make_store: Callable[[], Store], place: Callable[[str], Path], start: Start
) -> None:
    store, alone = make_store(), make_store()
    folder = place("folder")
    few = [folder / "notes" / f"note-0{at}.md" for at in range(4)]
    store.build(*few)
    store.build(folder / "notes", names=NO_EMBED[:-1])
    dies = (
        "import os, sys\nfrom kbwiki.stages import export\nfrom kbwiki.cli import main\n"
        "export._log = lambda *args: os.kill(os.getpid(), 9)\n"
        "export._remove_one = export._log\n"
        "save = export._save_manifest\n"
        "export._save_manifest = lambda f, m: save(f, m) if 'writing' in m else export._log()\n"
        "main()"
    )
    shutil.copytree(store.wiki, folder / "wiki")
    process = start(folder, store, sys.executable, "-c", dies, "export")
    assert process.wait(WAIT_S) == -signal.SIGKILL
    store.wiki = folder / "wiki"
    (folder / "notes" / "note-00.md").write_text("# New\n\nThe **delta rule** is new.\n", "utf-8")
    assert store.build(folder / "notes")["export"].failures == ()
    alone.wiki = folder / "wiki of one build"
    alone.build(folder / "notes")
    assert store.files() == alone.files()


def test_leases_of_a_killed_build_do_not_hold_up_the_next(
    url: str, place: Callable[[str], Path], start: Start
) -> None:
    folder = place("folder")
    process = _slow_build(start, folder, url)
    process.kill()
    process.wait(WAIT_S)
    assert _one(url, "select count(*) from kb.lease") > 0
    code, _, err = _end(start(folder, url, *KBWIKI, "extract"))
    assert (code, err) == (0, "")
    assert _one(url, "select count(*) from kb.extraction") == 10
    assert _one(url, "select count(*) from kb.lease") == 0


# --- Ctrl-C -----------------------------------------------------------------------------------


def _slow_build(
    start: Start, folder: Path, url: str, *args: str, sleep: str = ASLEEP
) -> "subprocess.Popen[str]":
    """Return a build that has read the quick notes and is at work on the endless ones."""
    program = PROGRAM.format(change=SLOW.format(sleep=sleep))
    process = start(folder, url, sys.executable, "-c", program, "build", "notes", *args)
    n_read = "select count(*) from kb.extraction"
    assert _until(lambda: _one(url, n_read) == N_QUICK, process), process.communicate()
    time.sleep(1)  # a row is in the store a moment before the one who saved it has counted it
    return process


@pytest.mark.parametrize(
    ("number", "sleep"),
    [(signal.SIGINT, ASLEEP), (signal.SIGTERM, ASLEEP_IN_C), (signal.SIGINT, ASLEEP_IN_A_POOL)],
    ids=["Ctrl-C", "SIGTERM, in C", "Ctrl-C, in a pool of the work's own"],
)
def test_an_interrupt_ends_a_build_in_order_though_work_is_slow(
    url: str, place: Callable[[str], Path], number: signal.Signals, sleep: str, start: Start
) -> None:
    folder = place("folder")
    process = _slow_build(start, folder, url, "--json", sleep=sleep)
    process.send_signal(number)
    code, out, err = _end(process)
    assert (code, err) == (130, "interrupted. continue with: kbwiki build notes\n")
    reports = [json.loads(line) for line in out.splitlines()]
    assert [(r["stage"], r["done"], r["note"]) for r in reports] == [
        ("ingest", 10, "10 new, 0 changed, 0 as before"),
        ("extract", N_QUICK, "stopped"),
    ]
    assert _is_clean(url)
    assert _one(url, "select n_done from kb.run where stage = 'extract'") == N_QUICK
    code, _, err = _end(start(folder, url, *KBWIKI, "extract"))
    assert (code, err) == (0, "")


def test_more_interrupts_do_no_harm(url: str, place: Callable[[str], Path], start: Start) -> None:
    process = _slow_build(start, place("folder"), url)
    while process.poll() is None:
        process.send_signal(signal.SIGINT)
    code, out, err = _end(process)
    # A signal that comes while they are being ignored makes some Pythons say so first.
    assert (code, err.splitlines()[-1]) == (130, "interrupted. continue with: kbwiki build notes")
    lines = [line.split()[:2] for line in out.splitlines()]
    assert lines[:2] == [["ingest", "10"], ["extract", "5"]]
    assert _is_clean(url)


def test_an_interrupt_ends_a_build_whose_cleaning_up_hangs(
    url: str, place: Callable[[str], Path], start: Start
) -> None:
    folder = place("folder")
    program = PROGRAM.format(change=HANGING)
    process = start(folder, url, sys.executable, "-c", program, "build", "notes")
    assert _until((folder / "asleep").exists, process)
    process.send_signal(signal.SIGINT)
    code, _, err = _end(process)
    assert (code, err) == (130, "interrupted. continue with: kbwiki build notes\n")


def test_an_interrupt_tells_how_to_go_on_without_the_secret(
    url: str, tmp_path: Path, start: Start
) -> None:
    _write_notes(tmp_path / "notes", 10)
    (tmp_path / "my notes").mkdir()
    shutil.copy(tmp_path / "notes" / "note-00.md", tmp_path / "my notes")
    process = _slow_build(start, tmp_path, url, "my notes", "--db", url)
    process.send_signal(signal.SIGINT)
    code, _, err = _end(process)
    told = "interrupted. continue with: kbwiki build notes 'my notes' --db URL\n"
    assert (code, err) == (130, told)


def test_a_fault_that_ends_the_run_does_not_wait_for_work_under_way(
    url: str, place: Callable[[str], Path], start: Start
) -> None:
    program = PROGRAM.format(change=FATAL)
    process = start(place("folder"), url, sys.executable, "-c", program, "build", "notes")
    code, _, err = _end(process)
    assert (code, err) == (1, "error: engine: the quota is used up.\n")
    assert _is_clean(url)


# --- the server -------------------------------------------------------------------------------


def test_a_server_that_restarts_under_a_build_is_one_clear_line_and_the_next_run_ends_it(
    tmp_path: Path, place: Callable[[str], Path], start: Start
) -> None:
    folder = place("folder")
    cluster = embedded.locate(tmp_path / "cluster")
    url = embedded.ensure(cluster, 0)
    try:
        database = db.connect(url)
        db.migrate(database)
        database.close()
        process = _slow_build(start, folder, url, "--json", sleep="time.sleep(0.01)")
        embedded.stop(cluster)
        embedded.ensure(cluster, 0)
        (folder / "awake").touch()
        code, out, err = _end(process)
        assert code == 1
        assert err.startswith("error: database: the connection was lost: ")
        assert [line.split(":")[0] for line in err.splitlines()] in (["error"], ["error", "hint"])
        assert [json.loads(line)["stage"] for line in out.splitlines()] == ["ingest", "extract"]
        code, _, err = _end(start(folder, url, *KBWIKI, "build", "notes"))
        assert (code, err) == (0, "")
        assert _one(url, "select count(*) from kb.extraction") == 10
    finally:
        embedded.stop(cluster)


# --- a stage that cannot run ------------------------------------------------------------------


def test_a_build_exports_though_the_store_holds_vectors_of_another_model(
    store: Store,
    place: Callable[[str], Path],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    folder = place("folder")
    monkeypatch.chdir(folder)
    monkeypatch.setenv("KBWIKI_DATABASE_URL", store.database.url)
    store.database.run("save_setting", {"name": "embedder", "value": "another"})
    assert main(["build", "notes", "--json"]) == 1
    captured = capsys.readouterr()
    reports = {report["stage"]: report for report in map(json.loads, captured.out.splitlines())}
    assert captured.err == ""
    assert (reports["embed"]["done"], reports["embed"]["failed"]) == (0, 1)
    [failure] = reports["embed"]["failures"]
    assert failure["reason"].startswith("embed: the store holds vectors of another, and the model")
    assert "Run `kbwiki embed --replace`" in failure["reason"]
    assert (reports["export"]["failed"], (folder / "wiki" / "index.md").exists()) == (0, True)
    assert main(["build", "notes"]) == 1
    assert "1 failed; the rest is done." in capsys.readouterr().err
