"""``kbwiki serve``, ``user`` and ``audit``: the server, who may use it, and what was changed."""

import getpass
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from kbwiki.cli.console import err, notice, out, print_json, print_table
from kbwiki.cli.store import Place, find_place, open_database, open_embedder
from kbwiki.errors import ConfigError, DatabaseError, InputError

if TYPE_CHECKING:
    from kbwiki.db import Database
    from kbwiki.embedders import Embedder
    from kbwiki.server.desk import Desk, Role
    from kbwiki.stages.stage import Services

    Prepare = Callable[[Database], None]

user_app = typer.Typer(help="Say who may use the server, and in which role.", no_args_is_help=True)

Db = Annotated[
    str | None, typer.Option("--db", help="Postgres URL to use instead of the embedded server.")
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON, one object a line.")]
_READERS, _WRITERS = 12, 14
"""Connections at most, opened as they are needed: enough for every lane at once."""
_TIMEOUT_MS = {"reader": 30_000, "writer": 900_000}


def serve(
    role: Annotated[
        str, typer.Option("--role", help="Cap of every session: reader, writer or admin.")
    ] = "",
    host: Annotated[str, typer.Option("--host", help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", min=1, max=65535, help="Port.")] = 8787,
    stdio: Annotated[
        bool, typer.Option("--stdio", help="Serve one client on standard input and output.")
    ] = False,
    handshake_only: Annotated[
        bool,
        typer.Option("--handshake-only", help="With --stdio: only protocols before 2026-07-28."),
    ] = False,
    stateless: Annotated[
        bool, typer.Option("--stateless", help="No sessions for older clients.")
    ] = False,
    allow_host: Annotated[
        list[str] | None,
        typer.Option("--allow-host", help="A name, or NAME:PORT, under which clients reach it."),
    ] = None,
    root: Annotated[
        list[Path] | None,
        typer.Option("--root", help="Folder from which an admin may take files in."),
    ] = None,
    tls_cert: Annotated[Path | None, typer.Option("--tls-cert", help="Certificate, PEM.")] = None,
    tls_key: Annotated[Path | None, typer.Option("--tls-key", help="Its key, PEM.")] = None,
    insecure_http: Annotated[
        bool,
        typer.Option("--insecure-http", help="Listen beyond this machine without TLS."),
    ] = False,
    trust_proxy: Annotated[
        list[str] | None,
        typer.Option("--trust-proxy", help="Address of a proxy that says who the client is."),
    ] = None,
    db: Db = None,
) -> None:
    """Serve the wiki, the graph and memory over MCP."""
    from kbwiki.server.desk import ROLES

    if role and role not in ROLES:
        raise InputError(f"serve: there is no role {role!r}.", f"One of {', '.join(ROLES)}.")
    if tls_key and not tls_cert:
        raise InputError("serve: --tls-key is the key of no certificate.", "Give --tls-cert too.")
    chosen: Role = next((r for r in ROLES if r == role), "reader")
    place = find_place(db)
    with _open_desk(place, tuple(root or ())) as desk:
        if stdio:
            from kbwiki.server.run import serve_stdio

            serve_stdio(desk, chosen, _user(), handshake_only)
            return
        from kbwiki.server.users import watch_users

        ask_users = watch_users(desk.writers.lend)
        has_users = ask_users()
        _check_address(host, has_users, bool(tls_cert and tls_key) or insecure_http)
        from kbwiki.server.app import Rules, make_app
        from kbwiki.server.run import Address, serve_http

        # Users bring their roles; without any, everybody on this machine has the one role.
        cap: Role = chosen if role or not has_users else "admin"
        hosts = list(allow_host or ())
        if not _is_loopback(host) and host not in {"0.0.0.0", "::"}:
            hosts.append(host)
        app = make_app(desk, Rules(cap, ask_users, hosts, stateless))
        scheme = "https" if tls_cert else "http"
        who = "by user" if has_users else f"everybody on this machine is {cap}"
        err.print(f"{scheme}://{host}:{port}/mcp ({who}); stop it with Ctrl-C", markup=False)
        serve_http(app, Address(host, port, tls_cert, tls_key, tuple(trust_proxy or ())))


def _check_address(host: str, has_users: bool, is_safe: bool) -> None:
    """Refuse to listen beyond this machine without users, or with passwords in the clear."""
    if _is_loopback(host):
        return
    if not has_users:
        raise ConfigError(
            f"serve: {host} is not this machine alone, and there are no users.",
            "Add one: `kbwiki user add NAME --role reader`.",
        )
    if not is_safe:
        raise ConfigError(
            f"serve: {host} is not this machine alone, and passwords would travel in the clear.",
            "Give --tls-cert and --tls-key, or say --insecure-http.",
        )


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"


def _user() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError):  # a container's user without a name
        return "user"


@contextmanager
def _open_desk(place: Place, roots: tuple[Path, ...]) -> Iterator["Desk"]:
    """Yield what calls work with: pools of both kinds, one embedder for all."""
    from kbwiki.embedders import Remembering
    from kbwiki.pool import Pool
    from kbwiki.server.desk import Desk

    with open_database(place) as database:
        prepare, counts = _reading(database)

    def find_url() -> str:
        with open_database(place, migrate=False) as found:
            return found.url

    def writing(found: "Database") -> None:
        _limit(found, "writer")

    embedder: list[Embedder] = []

    def shared(found: "Database") -> "Embedder":
        if not embedder:
            embedder.append(Remembering(open_embedder(place, notice)))
        return embedder[0]

    readers = Pool(find_url, _READERS, prepare, "kbwiki reader")
    writers = Pool(find_url, _WRITERS, writing, "kbwiki writer")
    try:
        yield Desk(
            readers,
            writers,
            shared,
            partial(_open_services, place),
            place.home,
            tuple(path.resolve() for path in roots),
            counts,
        )
    finally:
        readers.close()
        writers.close()


@contextmanager
def _open_services(place: Place, database: "Database") -> Iterator["Services"]:
    from kbwiki.cli.run import open_services

    with open_services(place, database) as (services, _):
        yield services


def _reading(database: "Database") -> "tuple[Prepare, bool]":
    """Return what makes a connection a reader's, and whether it may count the uses of recall."""
    try:
        database.run("make_reader_role")
    except DatabaseError:
        notice("this database lets us make no roles: readers read in read-only transactions")
        return partial(_prepare_reader, {"default_transaction_read_only": "on"}), False
    return partial(_prepare_reader, {"role": "kbwiki_reader"}), True


def _prepare_reader(parameters: dict[str, str], database: "Database") -> None:
    _limit(database, "reader")
    for name, value in parameters.items():
        database.value("set_parameter", {"name": name, "value": value})


def _limit(database: "Database", kind: str) -> None:
    ms = str(_TIMEOUT_MS[kind])
    database.value("set_parameter", {"name": "statement_timeout", "value": ms})


@user_app.command()
def add(
    name: Annotated[str, typer.Argument(help="Name of the user.")],
    role: Annotated[str, typer.Option("--role", help="reader, writer or admin.")],
    password_stdin: Annotated[
        bool, typer.Option("--password-stdin", help="Read the password from standard input.")
    ] = False,
    db: Db = None,
) -> None:
    """Add a user, or change one's role and password."""
    from kbwiki.server.users import add_user

    if password_stdin:
        password = sys.stdin.readline().rstrip("\r\n")
    else:
        password = typer.prompt("Password", hide_input=True, confirmation_prompt=True)
    with open_database(find_place(db)) as database:
        is_new = add_user(database, name, role, password)
    out.print(f"{name} is {'now' if is_new else 'still a user,'} {role}.", markup=False)


@user_app.command(name="list")
def list_users(db: Db = None, as_json: Json = False) -> None:
    """List users and their roles."""
    with open_database(find_place(db)) as database:
        rows = database.dicts("list_principals")
    if as_json:
        for row in rows:
            print_json(row)
        return
    cells: list[list[object]] = [
        [row["name"], row["role"], "token" if row["has_token"] else "", row["changed_at"]]
        for row in rows
    ]
    print_table(["user", "role", "", "changed"], cells)


@user_app.command()
def remove(name: Annotated[str, typer.Argument(help="Name of the user.")], db: Db = None) -> None:
    """Remove a user; what they remembered stays."""
    from kbwiki.server.users import remove_user

    with open_database(find_place(db)) as database:
        remove_user(database, name)
    out.print(f"{name} is no user any more.", markup=False)


@user_app.command()
def token(name: Annotated[str, typer.Argument(help="Name of the user.")], db: Db = None) -> None:
    """Print a new bearer token for a user; it is shown this once."""
    from kbwiki.server.users import make_token

    with open_database(find_place(db)) as database:
        out.file.write(make_token(database, name) + "\n")


def audit(
    action: Annotated[
        str, typer.Argument(help="`list`, or `undo` with the number of a change.")
    ] = "list",
    number: Annotated[int | None, typer.Argument(help="Number of the change.")] = None,
    n: Annotated[int, typer.Option("-n", min=1, max=10_000, help="How many to list.")] = 50,
    db: Db = None,
    as_json: Json = False,
) -> None:
    """List what agents changed over MCP, the latest first, or take a change back."""
    if action not in {"list", "undo"}:
        raise InputError(f"audit: there is no action {action!r}.", "list or undo.")
    place = find_place(db)
    if action == "undo":
        if number is None:
            raise InputError("audit: undo needs the number of a change.", "See `kbwiki audit`.")
        _undo(place, number)
        return
    with open_database(place) as database:
        rows = database.dicts("list_audit", {"id": number, "n": n})
    if as_json:
        for row in rows:
            print_json(row)
        return
    cells: list[list[object]] = [
        [
            row["id"],
            f"{row['made_at']:%Y-%m-%d %H:%M}",
            row["principal"],
            row["tool"],
            row["target"],
            f"undone by {row['undone_by']}" if row["undone_at"] else "",
        ]
        for row in rows
    ]
    print_table(["id", "at", "user", "tool", "what", ""], cells)


def _undo(place: Place, number: int) -> None:
    from kbwiki.server.desk import Caller
    from kbwiki.server.undo import undo

    with _open_desk(place, ()) as desk, desk.writers.lend() as database:
        said = undo(desk, database, Caller(_user(), "admin"), number)
    out.print(escape(said))
