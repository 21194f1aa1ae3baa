"""The stage loop on a stage of its own: leases, failures, collisions, counts."""

import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from conftest import Quiet, Store

from kbwiki import db, pipeline
from kbwiki.errors import BudgetError, ConfigError, InputError, KbwikiError, ModelError
from kbwiki.pipeline import Report, run_stages
from kbwiki.stages.stage import Outcome, Services, Stage

N = 8
WAIT_S = 60.0
Make = Callable[..., Stage]


@pytest.fixture
def other(url: str) -> Iterator[db.Database]:
    """Another process's connection to the same store."""
    other = db.connect(url)
    yield other
    other.close()


@pytest.fixture
def numbers(store: Store) -> Make:
    """A maker of stages that put the numbers below ``N`` into a table, three at a time."""
    store.database.connection.execute("create table done (item int primary key)")

    def pending(services: Services, skip: list[str]) -> list[int]:
        sql = (
            "select n from generate_series(0, %s) n where n not in (select item from done)"
            " and n::text <> all (%s) order by n limit 3"
        )
        return [n for (n,) in _ask(services.database, sql, N - 1, skip)]

    def save(services: Services, item: int, result: object) -> None:
        services.database.connection.execute("insert into done values (%s)", [item])

    def make(name: str = "numbers", **changes: Any) -> Stage:
        stage = Stage(name, pending=pending, work=lambda services, item: item, save=save)
        return replace(stage, **changes)

    return make


def _ask(database: db.Database, sql: str, *params: object) -> list[tuple[Any, ...]]:
    return database.connection.execute(sql.encode(), params).fetchall()


def _one(database: db.Database, sql: str, *params: object) -> Any:
    return _ask(database, sql, *params)[0][0]


def _until(is_so: Callable[[], object]) -> None:
    end = time.monotonic() + WAIT_S
    while not is_so():
        assert time.monotonic() < end


def _run(store: Store, *stages: Stage) -> list[Report]:
    return run_stages(stages, store.services(), Quiet())


def _done(database: db.Database) -> list[int]:
    return [n for (n,) in _ask(database, "select item from done order by item")]


def _failing(error: BaseException, *items: int) -> Callable[[Services, int], int]:
    def work(services: Services, item: int) -> int:
        if item in items:
            raise error
        return item

    return work


def _all_closed(database: db.Database) -> bool:
    n_open = _one(database, "select count(*) from kb.run where ended_at is null")
    return n_open + _one(database, "select count(*) from kb.lease") == 0


def _last_run(database: db.Database) -> tuple[Any, ...]:
    return _ask(database, "select stage, n_done, n_failed from kb.run order by id desc limit 1")[0]


# --- failures ---------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [InputError, ModelError])
def test_an_item_that_fails_is_kept_with_its_reason_until_it_succeeds(
    store: Store, numbers: Make, kind: type[KbwikiError]
) -> None:
    for tries in (1, 2):
        [report] = _run(store, numbers(work=_failing(kind("2: bad.", "Mend it."), 2, 5)))
        assert report.outcome.n_done == (N - 2 if tries == 1 else 0)
        assert report.failures == (("2", "2: bad. Mend it."), ("5", "2: bad. Mend it."))
        assert _last_run(store.database) == ("numbers", report.outcome.n_done, 2)
        kept = store.database.dicts("list_failures")
        assert [(row["item"], row["hint"], row["n_tries"]) for row in kept] == [
            ("2", "Mend it.", tries),
            ("5", "Mend it.", tries),
        ]
    [report] = _run(store, numbers())
    assert (report.outcome.n_done, report.n_failed) == (2, 0)
    assert store.database.dicts("list_failures") == []
    assert _all_closed(store.database)


def test_a_bug_at_one_item_is_raised_when_the_others_are_done(store: Store, numbers: Make) -> None:
    with pytest.raises(ZeroDivisionError) as caught:
        _run(store, numbers(work=_failing(ZeroDivisionError("oh"), 1)), numbers("next"))
    assert caught.value.__notes__ == ["This happened in numbers, at 1."]
    assert _done(store.database) == [n for n in range(N) if n != 1]
    [kept] = store.database.dicts("list_failures")
    assert (kept["item"], kept["reason"]) == ("1", "ZeroDivisionError: oh")
    assert _last_run(store.database) == ("numbers", N - 1, 1)
    assert _all_closed(store.database)


def test_a_bug_while_saving_leaves_nothing_of_its_item(store: Store, numbers: Make) -> None:
    def save(services: Services, item: int, result: object) -> None:
        numbers().save(services, item, result)
        if item == 1:
            raise KeyError(item)

    with pytest.raises(KeyError):
        _run(store, numbers(save=save))
    assert _done(store.database) == [n for n in range(N) if n != 1]
    assert _all_closed(store.database)


def test_what_the_server_refuses_of_one_item_is_that_items_failure(
    store: Store, numbers: Make
) -> None:
    def save(services: Services, item: int, result: object) -> None:
        with db._mapped():
            services.database.connection.execute("select 1 / (%s - 3)", [item])
        numbers().save(services, item, result)

    [report] = _run(store, numbers(save=save))
    assert report.failures == (("3", "database: division by zero."),)
    assert report.outcome.n_done == N - 1


def test_a_fault_of_the_settings_ends_the_run_and_keeps_what_is_done(
    store: Store, numbers: Make
) -> None:
    later = numbers("later")
    with pytest.raises(ConfigError):
        _run(store, numbers(work=_failing(ConfigError("engine: the quota is used up."), 6)), later)
    assert set(range(3)) <= set(_done(store.database)) <= set(range(N)) - {6}
    stage, n_done, n_failed = _last_run(store.database)
    assert (stage, n_done, n_failed) == ("numbers", len(_done(store.database)), 0)
    assert _all_closed(store.database)


def test_a_limit_on_cost_ends_the_run_when_what_is_under_way_is_saved(
    store: Store, numbers: Make
) -> None:
    tried: list[int] = []
    refused = threading.Event()

    def work(services: Services, item: int) -> int:
        tried.append(item)
        if item == 1:
            raise BudgetError("cost: the next call would pass the limit.")
        if item == 2:  # by the worker that was refused, whose error is on its way
            refused.set()
        assert refused.wait(WAIT_S)
        return item

    with pytest.raises(BudgetError):
        _run(store, numbers(work=work), numbers("later"))
    assert (sorted(tried), _done(store.database)) == ([0, 1, 2], [0, 2])
    assert _last_run(store.database) == ("numbers", 2, 0)
    assert store.database.dicts("list_failures") == []
    assert _all_closed(store.database)


@pytest.mark.parametrize("part", ["pending", "run"])
def test_a_stage_that_fails_as_a_whole_is_told_and_the_next_one_runs(
    store: Store, numbers: Make, part: str
) -> None:
    def refuse(*args: object) -> Any:
        raise ModelError("first: it does not fit.", "Replace it.")

    first, second = _run(store, numbers("first", **{part: refuse}), numbers("second"))
    assert first.failures == (("first", "first: it does not fit. Replace it."),)
    assert (second.outcome.n_done, second.n_failed) == (N, 0)
    assert _ask(store.database, "select stage, n_done, n_failed from kb.run order by id") == [
        ("first", 0, 1),
        ("second", N, 0),
    ]
    [kept] = store.database.dicts("list_failures")
    assert (kept["stage"], kept["reason"], kept["hint"]) == (
        "first", "first: it does not fit.", "Replace it.",
    )  # fmt: skip
    _run(store, numbers("first"))
    assert store.database.dicts("list_failures") == []


def test_a_stage_of_one_set_counts_what_it_did_and_clears_what_is_mended(
    store: Store, numbers: Make
) -> None:
    def run(services: Services) -> Outcome:
        return Outcome(n_done=4, note="four", failures=(("page", "it was edited"),))

    [report] = _run(store, numbers("set", run=run))
    assert (report.outcome.note, report.failures) == ("four", (("page", "it was edited"),))
    assert _last_run(store.database) == ("set", 4, 1)
    assert [row["item"] for row in store.database.dicts("list_failures")] == ["page"]
    _run(store, numbers("set", run=lambda services: Outcome(n_done=1)))
    assert store.database.dicts("list_failures") == []


def test_a_failure_of_what_is_no_longer_stale_is_cleared(store: Store, numbers: Make) -> None:
    _run(store, numbers(work=_failing(InputError("4: bad."), 4)))
    store.database.connection.execute("insert into done values (4)")
    _run(store, numbers())
    assert store.database.dicts("list_failures") == []


# --- progress ---------------------------------------------------------------------------------


class Counting(Quiet):
    """Progress that adds up what it is told."""

    def __init__(self) -> None:
        super().__init__()
        self.totals: list[int | None] = []
        self.items: list[tuple[str, bool]] = []

    def begin(self, stage: str, total: int | None) -> None:
        """Keep the total."""
        self.totals.append(total)

    def advance(self, item: str, failed: bool) -> None:
        """Keep the item."""
        self.items.append((item, failed))


def test_the_totals_of_all_batches_add_up_to_the_items(store: Store, numbers: Make) -> None:
    progress = Counting()
    run_stages([numbers(work=_failing(InputError("7: bad."), 7))], store.services(), progress)
    assert progress.totals == [3, 3, 2]
    assert sorted(progress.items) == [(str(n), n == 7) for n in range(N)]


# --- several processes ------------------------------------------------------------------------


def _lease(database: db.Database, owner: str, item: int) -> None:
    params = {"stage": "numbers", "owner": owner, "items": [str(item)], "lease_s": 600}
    database.run("claim_items", params)


def test_a_lease_of_an_owner_that_is_gone_is_free_at_once(
    store: Store, numbers: Make, other: db.Database
) -> None:
    with other.locked("dead"):
        _lease(other, "dead", 3)
        other.close()
    _run(store, numbers())
    assert _done(store.database) == list(range(N))


def test_an_item_of_a_live_owner_is_left_to_it_until_it_is_gone(
    store: Store, numbers: Make, other: db.Database, url: str
) -> None:
    other.run("lock_name", {"name": "alive"})
    _lease(other, "alive", 3)
    running = threading.Thread(target=_run, args=(store, numbers()))
    running.start()
    watching = db.connect(url)
    # Its last question, asked over and over, is whether the other owner still holds the item.
    asked = "select count(*) from pg_stat_activity where query ilike %s and pid <> pg_backend_pid()"
    _until(
        lambda: _one(watching, asked, "select count(*) from kb.lease%") or not running.is_alive()
    )
    assert running.is_alive()
    assert _done(watching) == [n for n in range(N) if n != 3]
    watching.close()
    other.close()
    running.join(WAIT_S)
    assert _done(store.database) == list(range(N))


def test_a_lease_that_ran_out_is_taken_though_its_owner_lives(
    store: Store, numbers: Make, other: db.Database
) -> None:
    other.run("lock_name", {"name": "hung"})
    _lease(other, "hung", 3)
    other.connection.execute("update kb.lease set expires_at = now() - interval '1 second'")
    running = threading.Thread(target=_run, args=(store, numbers()), daemon=True)
    running.start()
    running.join(WAIT_S)
    assert not running.is_alive()
    assert _done(store.database) == list(range(N))


def test_a_result_whose_lease_was_lost_is_not_saved(
    store: Store, numbers: Make, other: db.Database
) -> None:
    worked: list[int] = []
    saved: list[int] = []

    def work(services: Services, item: int) -> int:
        worked.append(item)
        if worked.count(3) == 1 and item == 3:
            other.connection.execute("delete from kb.lease where item = '3'")
        return item

    def save(services: Services, item: int, result: object) -> None:
        saved.append(item)
        numbers().save(services, item, result)

    [report] = _run(store, numbers(work=work, save=save))
    assert (worked.count(3), sorted(saved)) == (2, list(range(N)))
    assert report.outcome.n_done == N


def test_a_lease_is_renewed_while_work_is_under_way(
    store: Store, numbers: Make, other: db.Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pipeline, "_RENEW_S", 0.01)

    def work(services: Services, item: int) -> int:
        if item == 0:
            until = _one(other, "select expires_at from kb.lease where item = '0'")
            sql = "select expires_at > %s from kb.lease where item = '0'"
            _until(lambda: _one(other, sql, until))
        return item

    [report] = _run(store, numbers(work=work))
    assert report.outcome.n_done == N


def test_a_deadlock_while_saving_is_tried_again(
    store: Store, numbers: Make, other: db.Database
) -> None:
    connection = store.database.connection
    connection.execute("create table pair (id int primary key, n int not null default 0)")
    connection.execute("insert into pair values (1), (2)")
    connection.execute("set deadlock_timeout = '10ms'")
    other.connection.execute("set deadlock_timeout = '60s'")
    tries: list[int] = []
    crossing: list[threading.Thread] = []
    bump = "update pair set n = n + 1 where id = %s"

    def cross() -> None:
        other.connection.execute(bump, [1])
        other.connection.execute("commit")

    def save(services: Services, item: int, result: object) -> None:
        tries.append(item)
        with db._mapped():
            connection.execute(bump, [1])
            if not crossing:
                other.connection.execute("begin")
                other.connection.execute(bump, [2])
                crossing.append(threading.Thread(target=cross))
                crossing[0].start()
            connection.execute(bump, [2])
        numbers().save(services, item, result)

    [report] = _run(store, numbers(save=save))
    crossing[0].join(WAIT_S)
    assert (report.outcome.n_done, report.n_failed) == (N, 0)
    assert len(tries) == N + 1
    assert _ask(store.database, "select n from pair") == [(N + 1,), (N + 1,)]


def test_an_item_whose_input_another_process_removed_is_no_failure(
    store: Store, numbers: Make, other: db.Database
) -> None:
    connection = store.database.connection
    connection.execute("create table input (id int primary key)")
    connection.execute("insert into input select generate_series(0, 7)")
    connection.execute("create table output (id int references input on delete cascade)")

    def pending(services: Services, skip: list[str]) -> list[int]:
        sql = "select id from input where id not in (select id from output) order by id limit 3"
        return [n for (n,) in _ask(services.database, sql)]

    def work(services: Services, item: int) -> int:
        if item == 3:
            other.connection.execute("delete from input where id = 3")
        return item

    def save(services: Services, item: int, result: object) -> None:
        with db._mapped():
            connection.execute("insert into output values (%s)", [item])

    [report] = _run(store, numbers(pending=pending, work=work, save=save))
    assert (report.outcome.n_done, report.n_failed) == (N - 1, 0)
    assert _all_closed(store.database)


# --- failures of files that are gone ----------------------------------------------------------


@pytest.mark.parametrize("way", ["removed", "ignored", "filled"])
def test_a_file_that_is_no_longer_read_is_no_longer_listed(
    store: Store, tmp_path: Path, way: str
) -> None:
    notes = tmp_path / "notes"
    notes.mkdir()
    (notes / "good.md").write_text("# Good\n\nThe **scan** is a parallel algorithm.\n", "utf-8")
    empty = notes / "empty.md"
    empty.touch()
    store.build(notes, names=("ingest",))
    assert [row["item"] for row in store.database.dicts("list_failures")] == ["notes/empty.md"]
    if way == "removed":
        empty.unlink()
    elif way == "ignored":
        (notes / ".kbwikiignore").write_text("empty.md\n", "utf-8")
    else:
        empty.write_text("# Full\n\nNow the **scan** is in it.\n", "utf-8")
    store.build(notes, names=("ingest",))
    assert store.database.dicts("list_failures") == []


def test_failures_in_other_folders_stay_while_their_files_do(store: Store, tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "good.md").write_text(f"# {name}\n\nA **scan** of {name}.\n", "utf-8")
        (tmp_path / name / "empty.md").touch()
    store.build(tmp_path / "a", tmp_path / "mistyped", names=("ingest",))
    store.build(tmp_path / "b", names=("ingest",))
    listed = [row["item"] for row in store.database.dicts("list_failures")]
    assert listed == ["a/empty.md", "b/empty.md"]
    (tmp_path / "a" / "empty.md").unlink()
    store.build(tmp_path / "b" / "good.md", names=("ingest",))
    assert [row["item"] for row in store.database.dicts("list_failures")] == ["b/empty.md"]


def test_a_source_that_another_process_is_about_to_name_is_not_removed(
    store: Store, tmp_path: Path, other: db.Database
) -> None:
    note = tmp_path / "a.md"
    note.write_text("# One\n\nThe **scan** is a parallel algorithm.\n", "utf-8")
    store.build(note, names=("ingest",))
    sha = _one(other, "select sha256 from kb.source")
    note.write_text("# Two\n\nThe **delta rule** is another algorithm.\n", "utf-8")
    running = threading.Thread(target=store.build, args=(note,), kwargs={"names": ("ingest",)})
    with other.transaction():
        other.run("lock_shas", {"shas": [sha]})
        other.run("save_uri", {"uri": "b.md", "sha256": sha, "size": 1, "mtime_ns": 1})
        running.start()
        waits = "select count(*) from pg_locks where not granted"
        _until(lambda: _one(other, waits) or not running.is_alive())
    running.join(WAIT_S)
    sql = "select uri, sha256 = %s from kb.source_uri u join kb.source s on s.id = u.source_id"
    assert sorted(_ask(other, sql, sha)) == [("a.md", False), ("b.md", True)]
