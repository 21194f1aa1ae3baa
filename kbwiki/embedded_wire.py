"""The few words of the Postgres protocol (version 3) that tell how an embedded server is.

Owns one kind of conversation: over a Unix socket, trusted, simple queries that answer in text.
It knows neither types nor parameters: whoever works with the database uses ``kbwiki.db``.
"""

import os
import socket
import struct
from contextlib import suppress
from pathlib import Path
from typing import Literal

PORT = 5432  # a part of the socket's name; nothing listens on TCP

State = Literal["up", "missing", "busy", "down"]

# Sessions of this name come to look, not to work: no client is counted for them.
_NAME = "kbwiki embedded"
_ACTIVITY = f"""
select (select count(*) from pg_stat_activity where backend_type = 'client backend'
          and application_name <> '{_NAME}'),
       (select sum(sessions) from pg_stat_database),
       extract(epoch from clock_timestamp() - pg_postmaster_start_time())
"""


def ping(socket_dir: Path, database: str) -> State:
    """Tell how the server answers: up, without this database, starting or stopping, or not.

    Takes about 2 ms. The caller has checked whose folder it is.
    """
    try:
        with Wire(socket_dir, database):
            return "up"
    except (FileNotFoundError, ConnectionRefusedError):
        return "down"
    except (ConnectionError, TimeoutError, BlockingIOError):  # it hung up, or its queue is full
        return "busy"
    except RefusedError as refusal:
        # 53300 says that all connections are taken: whoever connects next is told so again.
        answers: dict[str, State] = {"57P03": "busy", "3D000": "missing", "53300": "up"}
        if refusal.sqlstate in answers:
            return answers[refusal.sqlstate]
        raise


class RefusedError(Exception):
    """The server said no: its message, and the SQLSTATE."""

    def __init__(self, sqlstate: str, message: str) -> None:
        super().__init__(message)
        self.sqlstate = sqlstate


class Wire:
    """A session of the superuser; ``version`` is the server's, such as ``18.6``."""

    def __init__(self, socket_dir: Path, database: str) -> None:
        self.version = ""
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.settimeout(5.0)
        try:
            self._socket.connect(os.fspath(socket_dir / f".s.PGSQL.{PORT}"))
            self._reader = self._socket.makefile("rb")
            self._greet(database)
            self._socket.settimeout(60.0)  # on a slow disk it takes seconds to make a database
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> "Wire":
        return self

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        self.close()

    def close(self) -> None:
        """Say goodbye and hang up."""
        with suppress(OSError):  # it may have gone already
            self._socket.sendall(b"X\0\0\0\4")
        if hasattr(self, "_reader"):
            self._reader.close()
        self._socket.close()

    def activity(self) -> tuple[int, int, float]:
        """Count the clients, and the sessions since the statistics began; uptime in seconds.

        A session is among the latter when it ends, at the latest; ours are too.
        """
        [[n_clients, n_sessions, uptime_s]] = self.query(_ACTIVITY)
        return int(n_clients or 0), int(n_sessions or 0), float(uptime_s or 0)

    def query(self, sql: str) -> list[list[str | None]]:
        """Run one statement; return its rows."""
        self._send(b"Q", sql.encode() + b"\0")
        return [_row(body) for kind, body in self._until_ready() if kind == b"D"]

    def is_over(self, wait_s: float) -> bool:
        """Wait until the server ends the session, ``wait_s`` at most."""
        timeout = self._socket.gettimeout()
        self._socket.settimeout(wait_s)
        try:
            return self._socket.recv(1, socket.MSG_PEEK) in (b"", b"E")
        except TimeoutError:
            return False
        except ConnectionError:
            return True
        finally:
            self._socket.settimeout(timeout)

    def _greet(self, database: str) -> None:
        words = {"user": "postgres", "database": database, "application_name": _NAME}
        pairs = b"".join(f"{name}\0{value}\0".encode() for name, value in words.items())
        self._send(b"", struct.pack("!I", 3 << 16) + pairs + b"\0")
        for kind, body in self._until_ready():
            if kind == b"R" and body[:4] != b"\0\0\0\0":
                raise RefusedError("28000", "it asks for a password")
            if kind == b"S" and body.startswith(b"server_version\0"):
                self.version = body.split(b"\0")[1].decode()

    def _send(self, kind: bytes, body: bytes) -> None:
        self._socket.sendall(kind + struct.pack("!I", len(body) + 4) + body)

    def _until_ready(self) -> list[tuple[bytes, bytes]]:
        messages = []
        refusal: RefusedError | None = None
        while True:
            head = self._reader.read(5)
            if len(head) < 5:
                raise refusal or ConnectionResetError("the server hung up")
            kind, length = head[:1], int.from_bytes(head[1:], "big")
            body = self._reader.read(length - 4)
            messages.append((kind, body))
            if kind == b"E":
                refusal = _refusal(body)
            elif kind == b"R" and body[:4] != b"\0\0\0\0":
                return messages
            elif kind == b"Z":
                if refusal:
                    raise refusal
                return messages


def _refusal(body: bytes) -> RefusedError:
    fields = {part[:1]: part[1:].decode(errors="replace") for part in body.split(b"\0") if part}
    return RefusedError(fields.get(b"C", ""), fields.get(b"M", ""))


def _row(body: bytes) -> list[str | None]:
    values: list[str | None] = []
    place = 2
    for _ in range(int.from_bytes(body[:2], "big")):
        length = int.from_bytes(body[place : place + 4], "big", signed=True)
        place += 4
        values.append(None if length < 0 else body[place : place + length].decode())
        place += max(length, 0)
    return values
