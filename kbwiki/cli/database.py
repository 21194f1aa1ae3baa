"""``kbwiki db``: the life of the store's database."""

import os
import subprocess
from pathlib import Path
from typing import Annotated

import typer

from kbwiki.cli.console import out, print_json, print_table, size
from kbwiki.cli.store import Place, find_place, open_database
from kbwiki.errors import ConfigError, DatabaseError, InputError
from kbwiki.text.normal import counted

database_app = typer.Typer(
    help="Start, stop, look at, save and restore the database.", no_args_is_help=True
)

Db = Annotated[
    str | None, typer.Option("--db", help="Postgres URL to use instead of the embedded server.")
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def _embedded_place() -> Place:
    place = find_place()
    if place.settings.database_url is not None:
        raise ConfigError(
            "db: KBWIKI_DATABASE_URL is set, so the server is not ours.",
            "Use your server's own tools.",
        )
    return place


@database_app.command()
def start() -> None:
    """Start the embedded server, if it is not up."""
    from kbwiki import embedded

    place = _embedded_place()
    embedded.ensure(embedded.locate(place.home), place.settings.idle_minutes)
    out.print("up")


@database_app.command()
def stop() -> None:
    """Stop the embedded server."""
    from kbwiki import embedded

    was_up = embedded.stop(embedded.locate(_embedded_place().home))
    out.print("stopped" if was_up else "it was not running")


@database_app.command()
def status(as_json: Json = False) -> None:
    """Show whether the embedded server is up, since when, and its size."""
    from kbwiki import embedded

    found = embedded.status(embedded.locate(_embedded_place().home))
    row = {
        "running": found.running,
        "pid": found.pid,
        "version": found.version,
        "bytes": found.n_bytes,
        "clients": found.n_clients,
        "uptime_s": round(found.uptime_s, 1),
    }
    if as_json:
        print_json(row)
        return
    row["bytes"] = size(found.n_bytes)
    print_table(["server", ""], [[name, value] for name, value in row.items()])


@database_app.command()
def url(db: Db = None) -> None:
    """Print the URL of the database, starting the embedded server if need be."""
    out.print(_url(find_place(db)), markup=False)


def _url(place: Place) -> str:
    if place.settings.database_url is not None:
        return place.settings.database_url.get_secret_value()
    from kbwiki import embedded

    return embedded.ensure(embedded.locate(place.home), place.settings.idle_minutes)


@database_app.command()
def migrate(db: Db = None, as_json: Json = False) -> None:
    """Bring the schema up to date; every other command does this too."""
    from kbwiki.db import migrate as run

    with open_database(find_place(db), migrate=False) as database:
        ran = run(database)
    if as_json:
        print_json({"ran": ran})
    else:
        out.print(f"ran {', '.join(ran)}" if ran else "the schema is up to date")


@database_app.command()
def psql(db: Db = None) -> None:
    """Open psql on the database."""
    from kbwiki import embedded

    place = find_place(db)
    program = str(embedded.binary("psql"))
    info, environment = _connection(place)
    os.execve(program, [program, info], {**os.environ, **environment})


@database_app.command()
def backup(file: Annotated[Path, typer.Argument(help="File to write.")], db: Db = None) -> None:
    """Write the whole store to one file."""
    place = find_place(db)
    if file.is_dir():
        raise InputError(f"{file}: it is a folder.", "Name a file to write.")
    new = file.with_name(file.name + ".new")
    info, environment = _connection(place)
    try:
        # The functions for models are the server's, or laid again; replies are kept in kb.cache.
        options = ["--format=custom", "--exclude-schema=ai", "--exclude-schema=ai_shim"]
        _tool("pg_dump", *options, f"--file={new}", info, environment=environment)
        new.replace(file)
    finally:
        new.unlink(missing_ok=True)
    out.print(f"{file}: {size(file.stat().st_size)}", markup=False)


@database_app.command()
def restore(
    file: Annotated[Path, typer.Argument(help="A file that `kbwiki db backup` wrote.")],
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only look whether the file can be read.")
    ] = False,
    force: Annotated[
        bool, typer.Option("--force", help="Replace a store that holds something.")
    ] = False,
    db: Db = None,
) -> None:
    """Replace the store's content by a backup, all of it or nothing."""
    from kbwiki.db import has_store, recover, replaced

    if not file.is_file():
        raise InputError(f"{file}: no such file.", "Make one with `kbwiki db backup FILE`.")
    listing = _tool("pg_restore", "--list", str(file))
    if dry_run:
        n_tables = sum(1 for line in listing.splitlines() if "TABLE DATA" in line)
        out.print(f"{file}: a backup with {counted(n_tables, 'table')}")
        return
    place = find_place(db, create=True)
    with open_database(place, migrate=False) as database:
        recover(database)
        n_sources = database.value("count_sources") if has_store(database) else 0
        if n_sources and not force:
            raise ConfigError(
                f"db: the store holds {counted(n_sources, 'source')}: restoring would replace it.",
                "Add --force, after `kbwiki db backup`.",
            )
        with replaced(database):
            info, environment = _connection(place)
            options = ("--single-transaction", "--no-owner", f"--dbname={info}")
            _tool("pg_restore", *options, str(file), environment=environment)
    with open_database(place) as database:
        out.print(f"restored: {counted(database.value('count_sources'), 'source')}")


def _connection(place: Place) -> tuple[str, dict[str, str]]:
    """Return a connection string for a program, and its password apart: arguments can be seen."""
    from kbwiki.db import without_password

    info, password = without_password(_url(place))
    return info, {"PGPASSWORD": password} if password else {}


def _tool(name: str, *args: str, environment: dict[str, str] | None = None) -> str:
    from kbwiki import embedded

    done = subprocess.run(
        [str(embedded.binary(name)), *args],
        env={**os.environ, **(environment or {})},
        capture_output=True,
        text=True,
        check=False,
        stdin=subprocess.DEVNULL,
    )
    if done.returncode:
        lines = [line for line in done.stderr.strip().splitlines() if line]
        hint = "Is the file a backup of kbwiki?" if name == "pg_restore" else ""
        raise DatabaseError(f"{name}: {lines[0] if lines else 'it failed'}.", hint)
    return done.stdout
