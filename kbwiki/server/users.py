"""Users: names, roles and argon2 hashes in the database; who a request's credentials are.

A slow hash is paid once: what was verified is kept by a keyed digest for some minutes, and dropped
when the table of users changes. Failures from one address are slowed down.
"""

import base64
import binascii
import hashlib
import hmac
import re
import secrets
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError

from kbwiki.db import Database
from kbwiki.errors import InputError, NotFoundError
from kbwiki.server.desk import ROLES, Role

KEPT_S = 300.0
"""How long a verified credential is believed without a look."""
LOOK_S = 1.0
"""How old the news may be that the table of users has not changed."""
MAX_FAILURES, FAILURES_S = 10, 60.0
MIN_PASSWORD = 8
_MAX_KEPT = 10_000
_NAME = re.compile(r"[^\W_][\w.@-]{0,63}")
_hasher = PasswordHasher()
# Compared with where there is no such user, so that a name cannot be guessed by the time it takes.
_NOBODY = _hasher.hash(secrets.token_urlsafe(16))


@dataclass(frozen=True, slots=True)
class User:
    """A user who proved to be one."""

    name: str
    role: Role


def add_user(database: Database, name: str, role: str, password: str) -> bool:
    """Add a user, or give one a new role and password; tell whether it is new.

    Raises InputError for a name, role or password that will not do.
    """
    if not _NAME.fullmatch(name):
        raise InputError(
            f"user: {name!r} is no name.", "Letters, digits, dots, dashes, @; no colon."
        )
    if role not in ROLES:
        raise InputError(f"user: there is no role {role!r}.", f"One of {', '.join(ROLES)}.")
    if len(password) < MIN_PASSWORD:
        raise InputError("user: the password is too short.", f"At least {MIN_PASSWORD} characters.")
    is_new = not database.dicts("find_principal", {"name": name})
    row = {"name": name, "role": role, "password_hash": _hasher.hash(password)}
    database.run("save_principal", row)
    return is_new


def make_token(database: Database, name: str) -> str:
    """Give a user a new bearer token, in place of the one before, and return it."""
    token = "kbw_" + secrets.token_urlsafe(32)
    if not database.run("save_token", {"name": name, "sha": _sha(token)}):
        raise NotFoundError(f"user {name}: there is none.", "`kbwiki user list`.")
    return token


def remove_user(database: Database, name: str) -> None:
    """Remove a user."""
    if not database.run("delete_principal", {"name": name}):
        raise NotFoundError(f"user {name}: there is none.", "`kbwiki user list`.")


def watch_users(lend: Callable[[], AbstractContextManager[Database]]) -> Callable[[], bool]:
    """Return what tells whether only users are let in: from the first user on, and for good.

    Whoever removes the last user does not mean to let everybody in.
    """
    is_closed = False

    def ask() -> bool:
        nonlocal is_closed
        if not is_closed:
            with lend() as database:
                is_closed = bool(database.dicts("list_principals"))
        return is_closed

    return ask


def _sha(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def check(database: Database, header: str) -> User | None:
    """Return the user of an Authorization header, or None; slow for a password, by intent."""
    scheme, _, rest = header.partition(" ")
    if scheme.lower() == "bearer":
        rows = database.dicts("find_token", {"sha": _sha(rest.strip())})
        return User(rows[0]["name"], rows[0]["role"]) if rows else None
    if scheme.lower() != "basic":
        return None
    try:
        name, colon, password = (
            base64.b64decode(rest.strip(), validate=True).decode().partition(":")
        )
    except (binascii.Error, ValueError):
        return None
    rows = database.dicts("find_principal", {"name": name}) if colon else []
    try:
        _hasher.verify(rows[0]["password_hash"] if rows else _NOBODY, password)
    except (VerificationError, InvalidHashError):
        return None
    return User(rows[0]["name"], rows[0]["role"]) if rows else None


class Gate:
    """Who is let in; thread-safe. ``clock`` in seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._key = secrets.token_bytes(32)
        self._lock = threading.Lock()
        self._kept: OrderedDict[bytes, tuple[float, User]] = OrderedDict()
        self._version = ""
        self._looked_at = float("-inf")
        self._failures: dict[str, deque[float]] = {}

    def known(self, header: str) -> User | None:
        """Return a user verified lately, without a look at the database; None where it is time to
        look.
        """
        now = self._clock()
        with self._lock:
            if now - self._looked_at > LOOK_S:
                return None
            found = self._kept.get(self._digest(header))
        return found[1] if found and now - found[0] <= KEPT_S else None

    def look(self, database: Database, header: str) -> User | None:
        """Return the user of a header, verified if need be."""
        version = database.value("read_principals_version")
        now = self._clock()
        with self._lock:
            if version != self._version:
                self._kept.clear()
                self._version = version
            self._looked_at = now
        found = self.known(header)
        if found is None and (found := check(database, header)) is not None:
            with self._lock:
                if version == self._version:
                    self._kept[self._digest(header)] = (self._clock(), found)
                    while len(self._kept) > _MAX_KEPT:
                        self._kept.popitem(last=False)
        return found

    def _digest(self, header: str) -> bytes:
        return hmac.digest(self._key, header.encode("utf-8", "surrogateescape"), "sha256")

    def is_slowed(self, address: str) -> bool:
        """Tell whether an address failed too often in the last minute."""
        now = self._clock()
        with self._lock:
            failed = self._failures.get(address)
            while failed and failed[0] < now - FAILURES_S:
                failed.popleft()
            if failed is not None and not failed:
                del self._failures[address]
            return len(failed or ()) >= MAX_FAILURES

    def fail(self, address: str) -> None:
        """Count a failure."""
        with self._lock:
            if len(self._failures) > _MAX_KEPT:
                self._failures.clear()
            self._failures.setdefault(address, deque(maxlen=MAX_FAILURES)).append(self._clock())
