"""``kbwiki cache``: a model's replies in a file, to use them again."""

from pathlib import Path
from typing import Annotated

import typer

Db = Annotated[
    str | None, typer.Option("--db", help="Postgres URL to use instead of the embedded server.")
]
cache_app = typer.Typer(help="Keep a model's replies, to use them again.", no_args_is_help=True)


@cache_app.command(name="export")
def cache_export(
    file: Annotated[
        Path | None, typer.Argument(help="File to write; none: standard output.")
    ] = None,
    db: Db = None,
) -> None:
    """Write every reply kept, one JSON object a line."""
    from kbwiki.cli.money import save_cache

    save_cache(file, db=db)


@cache_app.command(name="import")
def cache_import(
    file: Annotated[Path, typer.Argument(help="A file that `kbwiki cache export` wrote.")],
    db: Db = None,
) -> None:
    """Take replies in from a file."""
    from kbwiki.cli.money import load_cache

    load_cache(file, db=db)
