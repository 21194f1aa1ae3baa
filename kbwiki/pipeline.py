"""The one loop that runs every stage: load what is stale, work in parallel, save item by item.

Owns order, progress, failures, leases and the final report. Knows nothing of what a stage does.
"""

import os
import time
import uuid
from collections.abc import Iterable
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import Any, Protocol

from kbwiki.db import Database
from kbwiki.errors import ConfigError, DatabaseError, InputError, KbwikiError, ModelError
from kbwiki.stages import (
    classify_edges,
    embed,
    export,
    extract,
    ingest,
    link,
    resolve,
    write,
)
from kbwiki.stages.stage import Outcome, Services, Stage

STAGES: tuple[Stage, ...] = (
    ingest.STAGE,
    extract.STAGE,
    resolve.STAGE,
    write.STAGE,
    link.STAGE,
    classify_edges.STAGE,
    embed.STAGE,
    export.STAGE,
)
"""Every stage, in the order of `build`."""

LEASE_S = 600.0
_FATAL = (ConfigError, DatabaseError)


class Progress(Protocol):
    """Where a run tells how far it is; the command line draws it."""

    def begin(self, stage: str, total: int | None) -> None:
        """Start a stage of ``total`` items."""

    def advance(self, item: str, failed: bool) -> None:
        """Count one item."""

    def end(self, report: "Report") -> None:
        """Close the stage."""


@dataclass(frozen=True, slots=True)
class Report:
    """How a stage ended; ``failures`` are (item, reason)."""

    stage: str
    outcome: Outcome
    n_failed: int
    failures: tuple[tuple[str, str], ...]
    seconds: float


def stage_named(name: str) -> Stage:
    """Return a stage by its name."""
    return next(stage for stage in STAGES if stage.name == name)


def run_stages(stages: Iterable[Stage], services: Services, progress: Progress) -> list[Report]:
    """Run stages in order and return their reports; a fatal error ends the run at once."""
    reports: list[Report] = []
    for stage in stages:
        report = _run_stage(stage, services, progress)
        progress.end(report)
        reports.append(report)
    return reports


def _run_stage(stage: Stage, services: Services, progress: Progress) -> Report:
    database = services.database
    began = time.monotonic()
    run_id = database.value("start_run", {"stage": stage.name})
    failures: list[tuple[str, str]] = []
    n_done = 0
    try:
        if stage.run is not None:
            progress.begin(stage.name, None)
            with database.locked(stage.name):
                outcome = stage.run(services)
            failures = list(outcome.failures)
            _record(database, stage.name, outcome)
        else:
            n_done, failures = _run_items(stage, services, progress)
            outcome = Outcome(n_done=n_done, note=stage.note(services) if stage.note else "")
    finally:
        if not database.connection.closed:
            database.run("end_run", {"id": run_id, "n_done": n_done, "n_failed": len(failures)})
    seconds = time.monotonic() - began
    return Report(stage.name, outcome, len(failures), tuple(failures), seconds)


def _record(database: Database, stage: str, outcome: Outcome) -> None:
    """Keep the failures of a stage that ran as a whole; those that are gone are cleared."""
    database.run("keep_failures", {"stage": stage, "items": [item for item, _ in outcome.failures]})
    for item, reason in outcome.failures:
        database.run("save_failure", {"stage": stage, "item": item, "reason": reason, "hint": ""})


def _run_items(
    stage: Stage, services: Services, progress: Progress
) -> tuple[int, list[tuple[str, str]]]:
    """Work through what is stale until nothing is left that this process may claim."""
    database = services.database
    owner = f"{os.getpid()}-{uuid.uuid4().hex[:8]}"
    failures: dict[str, str] = {}
    n_done = 0
    try:
        while True:
            items = stage.pending(services, sorted(failures))
            if not items:
                break
            mine = _claim(database, stage, items, owner)
            if not mine:
                _wait_for_others(database, stage, items, owner)
                continue
            progress.begin(stage.name, len(mine))
            n_done += _work(stage, services, mine, owner, failures, progress)
    finally:
        if not database.connection.closed:
            database.run("release_all", {"owner": owner})
    return n_done, sorted(failures.items())


def _claim(database: Database, stage: Stage, items: list[Any], owner: str) -> list[Any]:
    keys = [stage.key(item) for item in items]
    params = {"stage": stage.name, "items": keys, "owner": owner, "lease_s": LEASE_S}
    mine = {row["item"] for row in database.dicts("claim_items", params)}
    return [item for item in items if stage.key(item) in mine]


def _wait_for_others(database: Database, stage: Stage, items: list[Any], owner: str) -> None:
    """Wait while another process works on the items that are left; its lease ends at the latest."""
    keys = [stage.key(item) for item in items]
    params = {"stage": stage.name, "items": keys, "owner": owner}
    until = time.monotonic() + LEASE_S
    while time.monotonic() < until and database.value("count_leases", params) == len(keys):
        time.sleep(0.1)


def _work(
    stage: Stage,
    services: Services,
    items: list[Any],
    owner: str,
    failures: dict[str, str],
    progress: Progress,
) -> int:
    """Work on claimed items in a pool and save each as it is ready; return how many were saved."""
    n_done = 0
    queue = list(reversed(items))
    running: dict[Future[Any], Any] = {}
    with ThreadPoolExecutor(max_workers=services.jobs) as pool:
        try:
            while queue or running:
                while queue and len(running) < 2 * services.jobs:
                    item = queue.pop()
                    running[pool.submit(stage.work, services, item)] = item
                finished, _ = wait(running, return_when=FIRST_COMPLETED)
                for future in finished:
                    item = running.pop(future)
                    reason = _finish(stage, services, item, future, owner)
                    if reason:
                        failures[stage.key(item)] = reason
                    else:
                        n_done += 1
                    progress.advance(stage.key(item), bool(reason))
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    return n_done


def _finish(stage: Stage, services: Services, item: Any, future: "Future[Any]", owner: str) -> str:
    """Save one item's result in one transaction; return why it failed, or an empty string."""
    database = services.database
    key = stage.key(item)
    claim = {"stage": stage.name, "item": key}
    try:
        result = future.result()
        # What costs nothing to make again need not wait for the disk; `end_run` settles it.
        with database.transaction(durable=services.engine.is_paid):
            stage.save(services, item, result)
            database.run("finish_item", {**claim, "owner": owner})
    except _FATAL:
        raise
    except (InputError, ModelError) as error:
        return _failed(database, claim, error)
    return ""


def _failed(database: Database, claim: dict[str, str], error: KbwikiError) -> str:
    database.run("save_failure", {**claim, "reason": error.message, "hint": error.hint})
    return str(error)
