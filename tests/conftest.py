"""One real Postgres for the session; a clone of a migrated template for each test."""

import itertools
import os
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import pytest

from kbwiki import db, embedded
from kbwiki.embedders import Embedder, make_embedder
from kbwiki.engines.local import LocalEngine
from kbwiki.errors import ConfigError
from kbwiki.pipeline import STAGES, Report, run_stages, stage_named
from kbwiki.stages.stage import Services

ROOT = Path(__file__).parent.parent
SMALL_WIKI = (
    "en/associative-scan.md", "en/linear-attention.md", "ru/ассоциативное-сканирование.md",
)  # fmt: skip
"""Notes of the demo corpus."""
_names = itertools.count(1)


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[embedded.Cluster]:
    """An embedded server of this session's own, stopped at its end."""
    home = tmp_path_factory.mktemp("cluster")
    cluster = embedded.locate(home)
    embedded.ensure(cluster, 0)
    with psycopg.connect(cluster.url("postgres"), autocommit=True) as admin:
        # No test cuts the power: what the kernel holds outlives any process that is killed.
        for name in ("fsync", "full_page_writes"):
            admin.execute(f"alter system set {name} = off".encode())
        admin.execute("select pg_reload_conf()")
    yield cluster
    embedded.stop(cluster)


@pytest.fixture(scope="session")
def template(cluster: embedded.Cluster) -> str:
    """The name of a database with a current schema and nothing in it."""
    database = db.connect(cluster.url())
    db.migrate(database)
    database.close()
    return "kbwiki"


@contextmanager
def copy_of(cluster: embedded.Cluster, name: str) -> Iterator[str]:
    """Yield the name of a copy of a database that nobody is connected to; drop it at the end."""
    copy = f"test_{next(_names)}"
    with psycopg.connect(cluster.url("postgres"), autocommit=True) as admin:
        admin.execute(f"create database {copy} template {name}".encode())
        yield copy
        _await_leave(admin, copy)
        admin.execute(f"drop database {copy} with (force)".encode())


def _await_leave(admin: psycopg.Connection[Any], name: str) -> None:
    """Wait a little for sessions that are ending: Postgres looks every 100 ms, we oftener."""
    query = b"select count(*) from pg_stat_activity where datname = %s"
    for _ in range(50):
        [n_sessions] = admin.execute(query, [name]).fetchone() or [0]
        if not n_sessions:
            return
        time.sleep(0.002)


@pytest.fixture
def url(cluster: embedded.Cluster, template: str) -> Iterator[str]:
    """The URL of a fresh copy of the template, dropped after the test."""
    with copy_of(cluster, template) as name:
        yield cluster.url(name)


@pytest.fixture
def database(url: str) -> Iterator[db.Database]:
    """A connection to a fresh store."""
    database = db.connect(url)
    yield database
    database.close()


class Quiet:
    """Progress that only keeps the reports."""

    def __init__(self) -> None:
        self.reports: list[Report] = []

    def begin(self, stage: str, total: int | None) -> None:
        """Nothing to show."""

    def advance(self, item: str, failed: bool) -> None:
        """Nothing to show."""

    def end(self, report: Report) -> None:
        """Keep the report."""
        self.reports.append(report)


NO_EMBED = tuple(stage.name for stage in STAGES if stage.name != "embed")


class Store:
    """A store under test: its database, its folder, and a way to run stages on it."""

    def __init__(self, database: db.Database, root: Path) -> None:
        self.database = database
        self.root = root
        self.wiki = root / "wiki"
        self.make_embedder: Callable[[], Embedder] = _no_embedder

    def services(self, *paths: Path, jobs: int = 2, today: str = "2026-01-01") -> Services:
        """Return the services of a run; there is no embedder but the one a test sets."""
        return Services(
            database=self.database,
            engine=LocalEngine(),
            make_embedder=self.make_embedder,
            root=self.root,
            wiki=self.wiki,
            jobs=jobs,
            paths=paths,
            today=today,
        )

    def build(
        self, *paths: Path, names: tuple[str, ...] = NO_EMBED, jobs: int = 2
    ) -> dict[str, Report]:
        """Run stages, all but embed by default, and return their reports by name."""
        stages = [stage_named(name) for name in names]
        reports = run_stages(stages, self.services(*paths, jobs=jobs), Quiet())
        return {report.stage: report for report in reports}

    def files(self) -> dict[str, bytes]:
        """Return the exported files, but for the log, which tells what happened when."""
        return {
            path.relative_to(self.wiki).as_posix(): path.read_bytes()
            for path in sorted(self.wiki.rglob("*"))
            if path.is_file() and path.name != "log.md"
        }


def _no_embedder() -> Embedder:
    raise ConfigError("this test embeds nothing.")


@pytest.fixture
def store(database: db.Database, tmp_path: Path) -> Store:
    """A store in an empty folder."""
    return Store(database, tmp_path)


@pytest.fixture
def make_store(
    cluster: embedded.Cluster, template: str, tmp_path: Path
) -> Iterator[Callable[[], Store]]:
    """A maker of independent stores over one folder of notes; each exports to a wiki of its own."""
    with ExitStack() as made:

        def make() -> Store:
            name = made.enter_context(copy_of(cluster, template))
            store = Store(made.enter_context(closing(db.connect(cluster.url(name)))), tmp_path)
            store.wiki = tmp_path / f"wiki_{name}"
            return store

        yield make


@pytest.fixture(scope="session")
def embedder(tmp_path_factory: pytest.TempPathFactory) -> Embedder:
    """The bundled model."""
    return make_embedder("e5-small", tmp_path_factory.mktemp("models"))


@dataclass(frozen=True, slots=True)
class Demo:
    """The demo corpus in a store that nobody is connected to: every stage but embed ran."""

    name: str
    wiki: Path
    reports: dict[str, Report]


@pytest.fixture(scope="session")
def demo_corpus(
    cluster: embedded.Cluster,
    template: str,
    embedder: Embedder,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Demo]:
    """The demo corpus, built once, to be copied."""
    with copy_of(cluster, template) as name:
        with closing(db.connect(cluster.url(name))) as database:
            store = Store(database, ROOT)
            store.wiki = tmp_path_factory.mktemp("demo") / "wiki"
            store.make_embedder = lambda: embedder
            reports = store.build(ROOT / "corpus")
        yield Demo(name, store.wiki, reports)


@pytest.fixture(scope="module")
def built(
    cluster: embedded.Cluster, template: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    """The name of a database with a small wiki, to be copied."""
    root = tmp_path_factory.mktemp("built")
    (root / "papers").mkdir()
    for note in SMALL_WIKI:
        (root / "papers" / Path(note).name).write_bytes((ROOT / "corpus" / note).read_bytes())
    with copy_of(cluster, template) as name:
        with closing(db.connect(cluster.url(name))) as database:
            Store(database, root).build(root / "papers")
        yield name


@pytest.fixture
def wiki(cluster: embedded.Cluster, built: str) -> Iterator[str]:
    """The URL of a copy of the small wiki."""
    with copy_of(cluster, built) as name:
        yield cluster.url(name)


@pytest.hookimpl(optionalhook=True, wrapper=True)
def pytest_xdist_auto_num_workers() -> Generator[None, int, int]:
    """One more than the cores: tests wait for a process or a server much of their time."""
    return (yield) + 1


def pytest_report_header() -> str:
    """Say which server the tests run on."""
    return f"embedded Postgres: {embedded.binary('postgres')}"


@pytest.fixture(autouse=True)
def _no_settings_of_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep a developer's own keys and settings out of the tests."""
    for name in list(os.environ):
        if name.startswith("KBWIKI_") or name in {
            "GEMINI_API_KEY", "GOOGLE_API_KEY", "OPENAI_API_KEY",
        }:  # fmt: skip
            monkeypatch.delenv(name)
