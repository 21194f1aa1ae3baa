"""The process that ends an embedded server which nobody uses, or whose folder was deleted.

``embedded.ensure`` starts it, one per cluster, with ``watch.lock`` inherited. It owns no data and
makes no server; it leaves when its server does.
"""

import os
import shutil
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path

from kbwiki import embedded
from kbwiki.embedded import Cluster
from kbwiki.embedded_run import is_postmaster
from kbwiki.embedded_wire import RefusedError, Wire
from kbwiki.errors import DatabaseError

_TICK_S = 2.0
_DELETING_S = 30.0
"""How long whoever deletes the folder may need from its data to its last file."""


def main() -> None:
    """Watch the server of the folder ``argv[1]`` while its postmaster, ``argv[2]``, lives."""
    cluster, pid = embedded.locate(Path(sys.argv[1])), int(sys.argv[2])
    try:
        known = cluster.data.stat()
    except FileNotFoundError:  # deleted while we came up
        return _forget(cluster, pid)
    pause_s = 0.02
    while is_postmaster(pid, cluster.data):
        # A lost session is no end: the server may recover from a crash, its socket be deleted.
        with suppress(OSError, RefusedError, DatabaseError):
            _watch(cluster, pid, known)
        time.sleep(pause_s)
        pause_s = min(pause_s * 2, _TICK_S)
    if not _is_there(cluster, known):  # the server saw it before us
        return _forget(cluster, pid)
    return None


def _watch(cluster: Cluster, pid: int, known: os.stat_result) -> None:
    if not _is_there(cluster, known):
        return _forget(cluster, pid)
    if not embedded.is_trusted(cluster):
        return None
    with Wire(cluster.socket_dir, "postgres") as wire:
        n_seen, used_at = -1, time.monotonic()
        while not wire.is_over(_tick_s(idle_s := _idle_s(cluster))):
            if not _is_there(cluster, known):
                return _forget(cluster, pid)
            n_clients, n_sessions, _ = wire.activity()
            # Other sessions than before: a short client came and went between two looks.
            if n_clients or n_sessions != n_seen:
                n_seen, used_at = n_sessions, time.monotonic()
            elif idle_s and time.monotonic() - used_at >= idle_s and _stop(cluster, wire, n_seen):
                return None
    return None


def _tick_s(idle_s: float) -> float:
    return min(_TICK_S, idle_s / 4) if idle_s else _TICK_S


def _idle_s(cluster: Cluster) -> float:
    # It is being written, or the folder has gone: by the next look we know.
    with suppress(FileNotFoundError, ValueError):
        return float(cluster.idle.read_text())
    return 0.0


def _is_there(cluster: Cluster, known: os.stat_result) -> bool:
    with suppress(FileNotFoundError, NotADirectoryError):
        return os.path.samestat(cluster.data.stat(), known)
    return False


def _stop(cluster: Cluster, wire: Wire, n_seen: int) -> bool:
    lock = embedded.try_lock(cluster.lock)
    if lock is None:  # somebody is coming
        return False
    try:
        n_clients, n_sessions, _ = wire.activity()
        return not n_clients and n_sessions == n_seen and embedded.shut_down(cluster)
    finally:
        os.close(lock)


def _forget(cluster: Cluster, pid: int) -> None:
    """Kill the server of a deleted folder.

    Not gently: on its way out it would unlink, by name, the files of a new server in its place.
    """
    if is_postmaster(pid, cluster.data):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    end = time.monotonic() + _DELETING_S
    while cluster.home.exists() and time.monotonic() < end:
        time.sleep(0.05)
    if not cluster.home.exists() and cluster.home not in cluster.socket_dir.parents:
        shutil.rmtree(cluster.socket_dir, ignore_errors=True)


if __name__ == "__main__":
    main()
