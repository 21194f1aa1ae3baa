"""The one loop that runs every stage: load what is stale, work in parallel, save item by item.

Owns order, progress, failures, leases and the final report. Knows nothing of what a stage does.

Who works on an item holds a lease on it, and, for as long as its connection lives, an advisory lock
under the owner's name. So the leases of a killed process are free at once, wherever it ran.
"""

import time
import uuid
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Any, Protocol

from kbwiki.db import TRIES, Database, again_on_collision, sqlstate
from kbwiki.errors import (
    BudgetError,
    DatabaseError,
    InputError,
    KbwikiError,
    ModelError,
    QuarantineError,
)
from kbwiki.stages import (
    answer,
    classify_edges,
    embed,
    export,
    extract,
    ingest,
    link,
    resolve,
    write,
)
from kbwiki.stages.stage import Intake, Outcome, Services, Stage

STAGES: tuple[Stage, ...] = (
    ingest.STAGE,
    extract.STAGE,
    resolve.STAGE,
    write.STAGE,
    link.STAGE,
    classify_edges.STAGE,
    embed.STAGE,
    answer.STAGE,
    export.STAGE,
)
"""Every stage, in the order of `build`."""

LEASE_S = 600.0
"""How long a lease holds that is not renewed: for an owner that hangs with its connection open."""
_RENEW_S = 60.0
_POLL_S = 0.1

# What a row refers to is gone: another process removed it after this one had read it.
_GONE = "23503"
# Data out of range, a broken constraint, a limit of the server: the item's fault, not the server's.
_OF_ITEM = {"22", "23", "54"}


class Progress(Protocol):
    """Where a run tells how far it is; the command line draws it."""

    def begin(self, stage: str, total: int | None) -> None:
        """Start a stage of ``total`` items, or add so many to it."""

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
    quarantined: frozenset[str] = frozenset()
    """Those of the failed items that are most likely no documents."""
    intake: Intake | None = None
    """What became of the files, if this was `ingest`."""


@dataclass(slots=True)
class _Tally:
    """What a stage has done so far.

    ``bug`` is the first error that nobody expected; ``limit`` ends the run when what is under way
    is done, for that is set aside in the budget and paid.
    """

    n_done: int = 0
    note: str = ""
    failures: dict[str, str] = field(default_factory=dict)
    quarantined: set[str] = field(default_factory=set)
    put_back: Counter[str] = field(default_factory=Counter)
    bug: BaseException | None = None
    limit: BudgetError | None = None
    began: float = field(default_factory=time.monotonic)

    def report(self, stage: str, intake: Intake | None = None) -> Report:
        """Return the tally as a report."""
        failures = tuple(sorted(self.failures.items()))
        outcome = Outcome(n_done=self.n_done, note=self.note)
        seconds = time.monotonic() - self.began
        quarantined = frozenset(self.quarantined)
        return Report(stage, outcome, len(failures), failures, seconds, quarantined, intake)


def stage_named(name: str) -> Stage:
    """Return a stage by its name."""
    return next(stage for stage in STAGES if stage.name == name)


def run_stages(stages: Iterable[Stage], services: Services, progress: Progress) -> list[Report]:
    """Run stages in order and return their reports; a fatal error ends the run at once.

    Fatal are ConfigError, DatabaseError and whatever nobody expected, and BudgetError too, but only
    after what is under way was saved. A stage that fails as a whole
    with InputError or ModelError is reported as failed, and those after it run.
    """
    return [_run_stage(stage, services, progress) for stage in stages]


def _run_stage(stage: Stage, services: Services, progress: Progress) -> Report:
    database = services.database
    tally = _Tally()
    run_id = database.value("start_run", {"stage": stage.name})

    def close() -> None:
        counts = {"n_done": tally.n_done, "n_failed": len(tally.failures)}
        database.run("end_run", {"id": run_id, **counts})

    try:
        try:
            (_run_items if stage.run is None else _run_set)(stage, services, progress, tally)
        except (InputError, ModelError) as error:
            _fail(database, stage, stage.name, error, tally)
    except BaseException:
        tally.note = "stopped"
        with suppress(DatabaseError):  # the error is told; that the server is away is then no news
            close()
        progress.end(tally.report(stage.name))
        raise
    if tally.n_done:
        # what was done stands, and a server that is away is told next
        with suppress(DatabaseError):
            database.tidy()
    close()
    report = tally.report(stage.name, services.intake if stage is ingest.STAGE else None)
    progress.end(report)
    return report


def _run_set(stage: Stage, services: Services, progress: Progress, tally: _Tally) -> None:
    """Run a stage whose work is one set; other processes wait and then find nothing to do."""
    assert stage.run is not None
    database = services.database
    progress.begin(stage.name, None)
    with database.locked(stage.name):
        outcome = _again(partial(stage.run, services))
        while stage.drain and stage.drain.pending(services, sorted(tally.failures)):
            try:
                _run_items(stage.drain, services, progress, tally)
            except BudgetError:
                _again(partial(stage.run, services))
                raise
            outcome = _again(partial(stage.run, services))
        tally.n_done, tally.note = outcome.n_done, outcome.note
        for item, reason in outcome.failures:
            _fail(database, stage, item, InputError(reason), tally)
        _forget_failures(stage, services, tally)


def _again(action: Callable[[], Outcome]) -> Outcome:
    """Run a set again if another process was in its way.

    Some processes read again what a third changes in between, so a row that is gone counts too.
    """
    return again_on_collision(action, {_GONE})


def _forget_failures(stage: Stage, services: Services, tally: _Tally) -> None:
    """Clear the failures of earlier runs that this one could not repeat."""
    rows = services.database.dicts("list_failed_items", {"stage": stage.name})
    old = [row["item"] for row in rows if row["item"] not in tally.failures]
    gone = stage.gone(services, old)
    if gone:
        services.database.run("forget_failures", {"stage": stage.name, "items": gone})


def _run_items(stage: Stage, services: Services, progress: Progress, tally: _Tally) -> None:
    """Work through what is stale until nothing is left that this process may claim."""
    database = services.database
    owner = uuid.uuid4().hex

    def release() -> None:
        database.run("release_all", {"owner": owner})

    with database.locked(owner):
        try:
            while items := _claim(stage, services, owner, tally):
                progress.begin(stage.name, len(items))
                _work(stage, services, items, owner, tally, progress)
                if tally.limit:
                    raise tally.limit
        except BaseException:
            with suppress(DatabaseError):
                release()
            raise
        release()
    if tally.bug is not None:
        raise tally.bug
    _forget_failures(stage, services, tally)
    tally.note = stage.finish(services) if stage.finish else ""


def _claim(stage: Stage, services: Services, owner: str, tally: _Tally) -> list[Any]:
    """Return stale items that are now this owner's; wait for those of others if none is free.

    An item that is done after `pending` was asked must not be claimed. So what others hold is left
    out before it is asked, and the lock keeps them from taking more until the claim is made.
    """
    database = services.database
    params = {"stage": stage.name, "owner": owner}
    while True:
        failed = sorted(tally.failures)
        with database.locked(f"claim {stage.name}"):
            database.run("drop_dead_leases", params)
            taken = [row["item"] for row in database.dicts("list_leases", params)]
            items = stage.pending(services, sorted({*failed, *taken}))
            keys = [stage.key(item) for item in items]
            database.run("claim_items", {**params, "items": keys, "lease_s": LEASE_S})
        if items or not taken or not stage.pending(services, failed):
            return items
        while database.value("count_live_leases", {**params, "items": taken}) == len(taken):
            time.sleep(_POLL_S)


def _work(
    stage: Stage,
    services: Services,
    items: list[Any],
    owner: str,
    tally: _Tally,
    progress: Progress,
) -> None:
    """Work on claimed items in threads and save each as it is ready."""
    queue = deque(items)
    n_running = 0
    renewed = time.monotonic()
    with _workers(services.jobs, partial(stage.work, services)) as (todo, done):
        while (queue and not tally.limit) or n_running:
            while queue and not tally.limit and n_running < 2 * services.jobs:
                todo.put(queue.popleft())
                n_running += 1
            with suppress(Empty):
                item, result, error = done.get(timeout=_RENEW_S)
                n_running -= 1
                failed = _settle(stage, services, (item, result, error), owner, tally)
                if not isinstance(error, BudgetError):
                    progress.advance(stage.key(item), failed)
            if time.monotonic() - renewed >= _RENEW_S:
                services.database.run("renew_leases", {"owner": owner, "lease_s": LEASE_S})
                renewed = time.monotonic()


_Done = tuple[Any, Any, BaseException | None]


@contextmanager
def _workers(
    n: int, work: Callable[[Any], Any]
) -> Iterator[tuple["SimpleQueue[Any]", "SimpleQueue[_Done]"]]:
    """Yield a queue for items and one for (item, result, error); ``n`` threads stand between.

    The threads are daemons: an interrupt or a lost database does not wait for work under way, and
    no executor's threads join when the program ends.
    """
    todo: SimpleQueue[Any] = SimpleQueue()
    done: SimpleQueue[_Done] = SimpleQueue()
    end = object()

    def labour() -> None:
        while (item := todo.get()) is not end:
            try:
                done.put((item, work(item), None))
            except Exception as error:  # noqa: BLE001 - the main thread judges it
                done.put((item, None, error))
            except BaseException as error:  # noqa: BLE001 - a library in Rust that panics
                done.put((item, None, RuntimeError(f"{type(error).__name__}: {error}")))

    for _ in range(n):
        Thread(target=labour, name="work", daemon=True).start()
    try:
        yield todo, done
    finally:
        with suppress(Empty):
            while True:
                todo.get_nowait()
        for _ in range(n):
            todo.put(end)


def _settle(stage: Stage, services: Services, done: _Done, owner: str, tally: _Tally) -> bool:
    """Save one item's result or record why there is none; tell whether it failed."""
    item, result, error = done
    database = services.database
    key = stage.key(item)
    claim = {"stage": stage.name, "item": key, "owner": owner}
    try:
        if error is not None:
            raise error
        tally.n_done += _save(stage, services, item, result, claim)
    except DatabaseError as fault:
        if sqlstate(fault)[:2] not in _OF_ITEM:
            raise
        tally.put_back[key] += 1
        if sqlstate(fault) == _GONE and tally.put_back[key] < TRIES:
            database.run("release_item", claim)
            return False
        _fail(database, stage, key, fault, tally)
    except (InputError, ModelError) as fault:
        _fail(database, stage, key, fault, tally)
    except BudgetError as limit:
        tally.limit = tally.limit or limit
        return False
    except KbwikiError:
        raise
    except Exception as fault:  # noqa: BLE001 - raised when the other items are done
        fault.add_note(f"This happened in {stage.name}, at {key}.")
        tally.bug = tally.bug or fault
        _fail(database, stage, key, InputError(f"{type(fault).__name__}: {fault}"), tally)
    else:
        return False
    database.run("release_item", claim)
    return True


def _save(stage: Stage, services: Services, item: Any, result: Any, claim: dict[str, str]) -> bool:
    """Save one item's result in one transaction; False if its lease was lost to another owner."""
    database = services.database

    def save() -> bool:
        # What costs nothing to make again need not wait for the disk; `end_run` settles it.
        with database.transaction(durable=services.engine.is_paid):
            if not database.run("finish_item", claim):
                return False
            stage.save(services, item, result)
        return True

    return again_on_collision(save)


def _fail(database: Database, stage: Stage, item: str, error: KbwikiError, tally: _Tally) -> None:
    tally.failures[item] = str(error)
    is_quarantined = isinstance(error, QuarantineError)
    if is_quarantined:
        tally.quarantined.add(item)
    params = {"stage": stage.name, "item": item, "reason": error.message, "hint": error.hint}
    database.run("save_failure", {**params, "is_quarantined": is_quarantined})
