"""Commands that run stages."""

import os
import shlex
import signal
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

import typer

from kbwiki.cli import Interrupted, leave
from kbwiki.cli.console import Screen, err, intake_counts, notice, out, print_table
from kbwiki.cli.engine import check_engine, open_engine
from kbwiki.cli.intake import NOTHING, Wanted, take_in
from kbwiki.cli.store import Place, find_place, open_database, open_embedder
from kbwiki.db import Database
from kbwiki.engines import Engine
from kbwiki.ledger import Ledger
from kbwiki.memory.remember import link_to_concepts
from kbwiki.pipeline import Report, stage_named
from kbwiki.pipeline import run_stages as run_pipeline
from kbwiki.stages.embed import forget_vectors
from kbwiki.stages.stage import Intake, Services
from kbwiki.text.normal import counted

GRACE_S = 1.8
"""How long an interrupted run may take to give back its leases and the terminal."""


def run_stages(
    names: list[str],
    db: str | None,
    jobs: int | None,
    as_json: bool,
    wanted: Wanted = NOTHING,
    max_usd: float | None = None,
) -> None:
    """Run stages by name and exit with 1 if any item failed."""
    place = find_place(db, create="ingest" in names)
    verb = names[0] if len(names) == 1 else "build"
    with interruptible(verb, wanted.names, db), open_database(place) as database:
        paths, fetched = take_in(wanted, place)
        stages = [stage_named(name) for name in names]
        if {"extract", "write"} & set(names):
            check_engine(place.settings, database)
        with open_services(place, database, jobs, paths, max_usd) as (services, ledger):
            services.fetched = fetched
            services.prune, services.force = wanted.prune, wanted.force
            services.use_ocr = wanted.use_ocr
            try:
                with screen_for(as_json, services.engine, ledger) as screen:
                    reports = run_pipeline(stages, services, screen)
                    link_to_concepts(database)
                if reports[0].intake and not as_json:
                    show_intake(reports[0].intake, reports[0])
            finally:
                if not as_json and (ledger or {"extract", "write"} & set(names)):
                    spent = ledger.spent() if ledger else "no model was asked"
                    out.print(f"engine {services.engine.name}: {spent}")
    if "export" in names and not as_json:
        out.print(f"wiki: {place.wiki}", markup=False)
    if screen.n_failed:
        if not as_json:
            them = "it" if screen.n_failed == 1 else "them"
            err.print(
                f"{screen.n_failed} failed; the rest is done. The next run tries {them} again."
            )
        raise typer.Exit(1)


def show_intake(intake: Intake, report: Report) -> None:
    """Print what became of the files of a run, and which of them came through in part only."""
    counts = intake_counts(report)
    print_table(list(counts), [list(counts.values())])
    rows: list[list[object]] = [
        [
            part.uri,
            f"{100 * part.n_read / part.n_parts:.0f} %",
            f"{100 * part.n_kept / part.n_signs:.0f} %" if part.n_signs > 1 else "",
            "; ".join(part.notes),
        ]
        for part in intake.partial
    ]
    if rows:
        print_table(["came through in part", "parts", "signs", "why"], rows)


@contextmanager
def open_services(
    place: Place,
    database: Database,
    jobs: int | None = None,
    paths: list[Path] | None = None,
    max_usd: float | None = None,
) -> Iterator[tuple[Services, Ledger | None]]:
    """Yield what the stages need, and the ledger of an engine that costs money."""
    stop = threading.Event()
    engine, ledger = open_engine(place, database.url, max_usd, stop)
    services = Services(
        database=database,
        engine=engine,
        make_embedder=lambda: open_embedder(place, notice),
        root=place.root,
        wiki=place.wiki,
        jobs=_workers(place, engine, jobs),
        paths=tuple(paths or []),
        lang=place.settings.lang,
        max_file_bytes=int(place.settings.max_file_mb * 1_000_000),
        book=ledger,
        today=time.strftime(
            "%Y-%m-%d", time.gmtime(float(os.environ.get("SOURCE_DATE_EPOCH", time.time())))
        ),
    )
    try:
        yield services, ledger
    finally:
        stop.set()  # workers that still wait for a model wait no longer
        engine.close()
        if ledger:
            ledger.close()


def _workers(place: Place, engine: Engine, jobs: int | None) -> int:
    """Return how many items to work on at a time: calls wait for a model, all else for a core."""
    wanted = place.settings.jobs if jobs is None else jobs
    if wanted:
        return wanted
    if engine.is_paid:
        return place.settings.concurrency
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@contextmanager
def screen_for(as_json: bool, engine: Engine, ledger: Ledger | None = None) -> Iterator[Screen]:
    """Yield what shows a run, closed at its end."""
    screen = Screen(as_json, ledger, engine.name)
    try:
        yield screen
    finally:
        screen.close()


@contextmanager
def interruptible(verb: str, names: Sequence[str], db: str | None) -> Iterator[None]:
    """Let the first Ctrl-C or SIGTERM end the run in order and soon; further ones are ignored."""
    command = [verb, *names] if names or verb != "build" else ["lint", "--fix"]
    line = "interrupted. continue with: " + shlex.join(["kbwiki", *command])
    line += " --db URL" if db else ""  # not the URL itself, which may hold a password
    numbers = (signal.SIGINT, signal.SIGTERM)

    def leave_late() -> None:
        print(line, file=sys.stderr)
        leave()

    late = threading.Timer(GRACE_S, leave_late)
    late.daemon = True
    stopped = threading.Event()

    def stop(number: int, frame: FrameType | None) -> None:
        for each in numbers:
            signal.signal(each, signal.SIG_IGN)
        stopped.set()
        late.start()
        raise KeyboardInterrupt

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, stop) for number in numbers}
    try:
        yield
    except BaseException:
        if not stopped.is_set():
            raise
        late.cancel()
        before.clear()
        raise Interrupted(line) from None
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def embed(replace: bool, dry_run: bool, db: str | None, as_json: bool) -> None:
    """Embed what has no vector; with ``replace`` drop all vectors first."""
    place = find_place(db)
    if dry_run:
        with open_database(place) as database:
            model = database.value("read_setting", {"name": "embedder"})
            n = database.value("count_vectors", {"model": model})
        out.print(
            f"{counted(n, 'vector')} of {model} would be dropped and made anew."
            if replace
            else "Nothing would be dropped."
        )
        return
    if replace:
        with open_database(place) as database:
            forget_vectors(database)
    run_stages(["embed"], db=db, jobs=None, as_json=as_json)
