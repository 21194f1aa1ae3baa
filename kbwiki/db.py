"""Postgres: connections, named queries, migrations. The only module that knows psycopg.

Owns how SQL files become calls and how SQLSTATEs become our errors. Knows nothing about what the
queries mean.
"""

import hashlib
import re
import secrets
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any, LiteralString, TypeVar

import psycopg
from psycopg import errors as pg
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.pq import TransactionStatus
from psycopg.rows import class_row, dict_row
from psycopg.types.json import Jsonb

from kbwiki.errors import DatabaseError, KbwikiError, SchemaError

T = TypeVar("T")

SCHEMA = "kb"
MIN_POSTGRES = 150000
MIN_PGVECTOR = (0, 7, 0)
TRIES = 8
# Two processes met: a deadlock, a failed serialisation, the same new row. Trying again helps.
COLLISIONS = frozenset({"40P01", "40001", "23505"})
_NAME = re.compile(r"^-- name: (\w+)[ \t]*\n", re.MULTILINE)


@cache
def sql_dir() -> Path:
    """Return the folder of SQL files: in the package when installed, beside it in a checkout."""
    inside = Path(str(resources.files("kbwiki"))) / "sql"
    return inside if inside.is_dir() else inside.parent.parent / "sql"


@cache
def queries() -> Mapping[str, str]:
    """Return every named query of ``sql/queries``; a name that stands twice is an error."""
    found: dict[str, str] = {}
    for path in sorted((sql_dir() / "queries").glob("*.sql")):
        parts = _NAME.split(path.read_text("utf-8"))
        for name, body in zip(parts[1::2], parts[2::2], strict=True):
            if name in found:
                raise SchemaError(f"{path.name}: query {name} is defined twice.")
            found[name] = body.strip().rstrip(";")
    return found


def _files(kind: str) -> list[Path]:
    return sorted((sql_dir() / kind).glob("*.sql"))


@cache
def schema_sha() -> str:
    """Return one hash of every file that `migrate` runs."""
    digest = hashlib.sha256()
    for kind in ("migrations", "functions", "seed", "shim"):
        for path in _files(kind):
            digest.update(f"{kind}/{path.name}\n".encode() + path.read_bytes())
    return digest.hexdigest()


class Database:
    """One connection and the named queries; not safe to share between threads."""

    def __init__(self, connection: psycopg.Connection[Any], url: str, schema: str = SCHEMA) -> None:
        self.connection = connection
        self.url = url
        self._schema = schema

    def _query(self, name: str) -> LiteralString:
        return _in_schema(_query(name), self._schema)

    def rows(self, name: str, kind: type[T], params: Mapping[str, object] | None = None) -> list[T]:
        """Return the rows of a query as instances of a dataclass, matched by column name."""
        with _mapped(), self.connection.cursor(row_factory=class_row(kind)) as cursor:
            return cursor.execute(self._query(name), _bound(params)).fetchall()

    def dicts(self, name: str, params: Mapping[str, object] | None = None) -> list[dict[str, Any]]:
        """Return the rows of a query as dictionaries."""
        with _mapped(), self.connection.cursor(row_factory=dict_row) as cursor:
            return cursor.execute(self._query(name), _bound(params)).fetchall()

    def value(self, name: str, params: Mapping[str, object] | None = None) -> Any:
        """Return the first column of the first row, or None."""
        with _mapped():
            row = self.connection.execute(self._query(name), _bound(params)).fetchone()
        return row[0] if row else None

    def run(self, name: str, params: Mapping[str, object] | None = None) -> int:
        """Run a query for its effect; return how many rows it touched."""
        with _mapped():
            return self.connection.execute(self._query(name), _bound(params)).rowcount

    def run_text(self, text: str) -> None:
        """Run the statements of a file; raise psycopg's own errors."""
        self.connection.execute(_in_schema(text, self._schema).encode())

    def run_many(self, name: str, many: Sequence[Mapping[str, object]]) -> None:
        """Run a query once for each set of parameters, pipelined."""
        if many:
            with _mapped(), self.connection.cursor() as cursor:
                cursor.executemany(self._query(name), [_bound(params) or {} for params in many])

    @contextmanager
    def transaction(self, durable: bool = True) -> Iterator[None]:
        """Commit on success, roll back on any error.

        With ``durable=False`` the commit does not wait for the disk: a crash of the machine may
        lose the last half second, never a part of a transaction; the next durable commit settles
        it.
        """
        with _mapped(), self.connection.transaction():
            if not durable:
                self.connection.execute(self._query("relax_commit"))
            yield

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """Let all queries of the block see the store as it is at the first of them.

        Inside a transaction the block sees what that transaction sees.
        """
        is_outer = self.connection.info.transaction_status == TransactionStatus.IDLE
        with _mapped(), self.connection.transaction():
            if is_outer:
                self.connection.execute(self._query("fix_snapshot"))
            yield

    @contextmanager
    def rehearsal(self) -> Iterator[None]:
        """Undo what the block does, whatever it ends with."""
        with _mapped(), self.connection.transaction(force_rollback=True):
            yield

    @contextmanager
    def locked(self, name: str, on_wait: Callable[[], None] = lambda: None) -> Iterator[None]:
        """Hold a session-wide advisory lock while the block runs; others wait, and are told."""
        if not self.value("try_lock_name", {"name": name}):
            on_wait()
            self.run("lock_name", {"name": name})
        try:
            yield
        finally:
            if not self.connection.closed:
                self.run("unlock_name", {"name": name})

    def tidy(self) -> None:
        """Give the planner new figures of the tables that changed much; nothing in a transaction.

        The server does so by itself, but only a minute later, and plans without them are slow.
        """
        if self.connection.info.transaction_status == TransactionStatus.IDLE:
            self.run("flush_statistics")
            if statement := self.value("find_changed_tables"):
                with _mapped():
                    self.run_text(statement)

    def cancel(self) -> None:
        """End the query that another thread runs on this connection."""
        with _mapped():
            self.connection.cancel_safe(timeout=5)

    def close(self) -> None:
        """Close the connection."""
        self.connection.close()


def _query(name: str) -> LiteralString:
    return queries()[name]


def _in_schema(text: str, schema: str) -> LiteralString:
    """Return SQL that means another schema than the store's; names are qualified everywhere."""
    return text if schema == SCHEMA else re.sub(rf"\b{SCHEMA}\b", schema, text)


def _bound(params: Mapping[str, object] | None) -> dict[str, object] | None:
    """Return parameters as psycopg takes them: dicts as jsonb, NUL bytes dropped."""
    return None if params is None else {name: _scrub(value) for name, value in params.items()}


def _scrub(value: object) -> object:
    if isinstance(value, str):
        return _sendable(value)
    if isinstance(value, dict):
        return Jsonb(_scrub_json(value))
    if isinstance(value, tuple | list):
        return [_scrub(item) for item in value]
    return value


def _sendable(text: str) -> str:
    """Return text without NUL, and with bytes that were no UTF-8 shown as such."""
    try:
        text.encode()
    except UnicodeEncodeError:
        text = text.encode("utf-8", "backslashreplace").decode()
    return text.replace("\x00", "")


def _scrub_json(value: object) -> object:
    if isinstance(value, str):
        return _sendable(value)
    if isinstance(value, dict):
        return {k: _scrub_json(v) for k, v in value.items()}
    if isinstance(value, tuple | list):
        return [_scrub_json(item) for item in value]
    return value


@contextmanager
def _mapped() -> Iterator[None]:
    """Turn psycopg's errors into ours."""
    try:
        yield
    except KbwikiError:
        raise
    except (
        pg.ConnectionException,
        pg.AdminShutdown,
        pg.CrashShutdown,
        pg.CannotConnectNow,
    ) as error:
        raise DatabaseError(f"database: the connection was lost: {_first_line(error)}.") from error
    except pg.DiskFull as error:
        raise DatabaseError(
            "database: the disk is full.", "Free some space and run it again."
        ) from error
    except pg.UndefinedTable as error:
        raise SchemaError(f"database: {_first_line(error)}.", "Run `kbwiki db migrate`.") from error
    except psycopg.OperationalError as error:
        away = error.sqlstate is None or error.sqlstate.startswith("08")
        hint = "Is the server up? `kbwiki db status`." if away else ""
        raise DatabaseError(f"database: {_first_line(error)}.", hint) from error
    except psycopg.DatabaseError as error:
        hint = error.diag.message_hint or ""
        raise DatabaseError(f"database: {_first_line(error)}.", hint) from error


def sqlstate(error: DatabaseError) -> str:
    """Return the SQLSTATE that the server gave for an error; empty if it gave none."""
    return getattr(error.__cause__, "sqlstate", None) or ""


def again_on_collision(action: Callable[[], T], also: Collection[str] = ()) -> T:
    """Return what an action that is one transaction returns, tried again if another met it.

    ``also`` are further SQLSTATEs after which trying again helps.
    """
    for _ in range(TRIES - 1):
        try:
            return action()
        except DatabaseError as error:
            if sqlstate(error) not in COLLISIONS and sqlstate(error) not in also:
                raise
    return action()


def _first_line(error: BaseException) -> str:
    """Return what an error says, without anything before an @, which may be a password."""
    lines = str(error).strip().splitlines()
    if not lines:
        return type(error).__name__
    return re.sub(r"password=\S+|[^\s\"']+@", "***", lines[0]).rstrip(".")


def without_password(url: str) -> tuple[str, str]:
    """Return a URL's connection string without its password, and the password, for a program."""
    with _mapped():
        try:
            parts = conninfo_to_dict(url)
        except psycopg.ProgrammingError as error:
            raise DatabaseError(
                "database: the URL cannot be read.", "postgresql://user:password@host/name"
            ) from error
    password = str(parts.pop("password", "") or "")
    return make_conninfo(**{name: str(value) for name, value in parts.items()}), password


def connect(url: str, application: str = "kbwiki") -> Database:
    """Return an open Database in autocommit mode; raise DatabaseError if the server is away."""
    without_password(url)  # refuses what cannot be read, without repeating it
    with _mapped():
        connection = psycopg.connect(
            url,
            autocommit=True,
            connect_timeout=10,
            application_name=application,
            client_encoding="UTF8",
            options="-c client_min_messages=warning -c timezone=UTC",
        )
    return Database(connection, url)


@contextmanager
def scratch(url: str) -> Iterator[Database]:
    """Yield an empty store in a schema of its own, for one transaction that is rolled back.

    The store and whoever works on it notice nothing, and nothing is left even after ``kill -9``.
    """
    with closing(connect(url, "kbwiki scratch")) as outer, _mapped():
        inner = Database(outer.connection, url, f"kb_scratch_{secrets.token_hex(8)}")
        with outer.connection.transaction(force_rollback=True):
            for name in ("create_schema", "create_vector"):
                inner.run(name)
            for kind in ("migrations", "functions", "seed"):
                for path in _files(kind):
                    _run_file(inner, path)
            yield inner


def has_store(database: Database) -> bool:
    """Tell whether the database holds a store, of whatever version."""
    return bool(database.dicts("find_schemas")[0]["store"])


def recover(database: Database) -> None:
    """Bring back the store that a restore set aside and was killed before it ended."""
    [found] = database.dicts("find_schemas")
    if found["aside"] and not found["store"]:
        database.run("bring_back")
    elif found["aside"]:
        database.run("drop_aside")


@contextmanager
def replaced(database: Database) -> Iterator[None]:
    """Set the store aside while the block makes another; bring it back if the block fails."""
    if has_store(database):
        database.run("set_aside")
    try:
        yield
        if not has_store(database):
            raise DatabaseError("database: what was restored is no store of kbwiki.")
        database.run("expire_schema")
    except KbwikiError:
        database.run("drop_store")
        recover(database)
        raise
    database.run("drop_aside")


def migrate(database: Database) -> list[str]:
    """Bring the schema to this program's; return the names of the migrations that ran.

    Does nothing but compare one hash where the schema is current. Safe when several processes do it
    at once. Raises SchemaError for a server that is too old, a database whose locale does not fold
    Cyrillic, a migration that was edited, or a schema newer than this program.
    """
    if _current_sha(database) == schema_sha():
        return []
    with database.transaction():
        database.run("lock_schema")
        if _current_sha(database) == schema_sha():
            return []
        _check_server(database)
        ran = _run_migrations(database)
        for kind in ("functions", "seed"):
            for path in _files(kind):
                _run_file(database, path)
        _install_shim(database)
        database.run("save_migration", {"name": "schema", "sha256": schema_sha()})
    return ran


def _current_sha(database: Database) -> str:
    try:
        with database.connection.transaction():
            row = database.connection.execute(_query("read_schema_sha")).fetchone()
    except (pg.UndefinedTable, pg.InvalidSchemaName):
        return ""
    except psycopg.OperationalError as error:
        raise DatabaseError(f"database: {_first_line(error)}.") from error
    return str(row[0]) if row else ""


def _check_server(database: Database) -> None:
    [server] = database.dicts("read_server")
    if server["version_number"] < MIN_POSTGRES:
        raise SchemaError(
            f"database: Postgres {server['version']} is too old.",
            "kbwiki needs Postgres 15 or newer.",
        )
    if not server["folds_cyrillic"] or server["encoding"] != "UTF8":
        raise SchemaError(
            "database: its locale does not fold Cyrillic letters, or its encoding is not UTF-8.",
            "Create it with one: `createdb --locale=C.UTF-8 --template=template0 NAME`.",
        )
    version = str(server["pgvector"])
    if tuple(int(x) for x in re.findall(r"\d+", version)[:3]) < MIN_PGVECTOR:
        raise SchemaError(
            f"database: pgvector {version or 'is not there'}{' is too old' if version else ''}.",
            "kbwiki needs pgvector 0.7 or newer.",
        )
    for name in ("create_schema", "create_vector", "create_ledger"):
        database.run(name)


def _install_shim(database: Database) -> None:
    """Lay AlloyDB's AI functions over a queue, where the extension that has them is not there.

    Raises SchemaError where a schema of that name is somebody else's: it is not to be touched.
    """
    [found] = database.dicts("read_ai")
    if found["is_native"]:
        return
    for name in ("ai", "ai_shim"):
        if found[name] is not None and found[name] != "kbwiki shim":
            raise SchemaError(
                f"database: its schema {name} belongs to something else.",
                "kbwiki keeps its functions for language models there: give it a database of "
                "its own, or rename that schema.",
            )
    for path in _files("shim"):
        _run_file(database, path)


def _run_migrations(database: Database) -> list[str]:
    done = {row["name"]: row["sha256"] for row in database.dicts("list_migrations")}
    files = {path.stem: path for path in _files("migrations")}
    unknown = sorted(set(done) - set(files))
    if unknown:
        raise SchemaError(
            f"database: its schema is newer than this program (it has {unknown[-1]}).",
            "Upgrade kbwiki.",
        )
    ran: list[str] = []
    for name, path in files.items():
        sha = hashlib.sha256(path.read_bytes()).hexdigest()
        if name in done:
            if done[name] != sha:
                raise SchemaError(
                    f"{path.name}: the migration was edited after it ran.", "Restore the file."
                )
            continue
        _run_file(database, path)
        database.run("save_migration", {"name": name, "sha256": sha})
        ran.append(name)
    return ran


def _run_file(database: Database, path: Path) -> None:
    try:
        database.run_text(path.read_text("utf-8"))
    except psycopg.DatabaseError as error:
        raise SchemaError(f"{path.name}: {_first_line(error)}.") from error
