"""``kbwiki sources`` and ``kbwiki source``: what was read of each file."""

from difflib import get_close_matches
from itertools import pairwise
from typing import Annotated, Any

import typer
from rich.markup import escape

from kbwiki.cli.console import err, out, print_json, print_table
from kbwiki.cli.store import find_place, open_database
from kbwiki.errors import NotFoundError

source_app = typer.Typer(help="Look at what was read of one file.", no_args_is_help=True)

Db = Annotated[
    str | None, typer.Option("--db", help="Postgres URL to use instead of the embedded server.")
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON, one object a line.")]
_FIRST = 800
"""Characters of a source that are shown."""


def sources(
    failed: Annotated[
        bool, typer.Option("--failed", help="Only files that could not be read, and why.")
    ] = False,
    db: Db = None,
    as_json: Json = False,
) -> None:
    """List the files that the store holds, and what was read of each."""
    with open_database(find_place(db)) as database:
        rows = database.dicts("list_failures" if failed else "list_sources")
    rows = [row for row in rows if not failed or row["stage"] == "ingest"]
    if as_json:
        for row in rows:
            print_json(row)
        return
    if failed:
        told = ["quarantined" if row["is_quarantined"] else "failed" for row in rows]
        shown = [
            [row["item"], what, row["reason"].removeprefix(f"{row['item']}: "), row["hint"]]
            for row, what in zip(rows, told, strict=True)
        ]
        print_table(["uri", "", "reason", "hint"], shown)
        return
    names = ["uri", "title", "lang", "year", "pages", "chunks", "characters", "concepts"]
    print_table(names, [[row[name] for name in names] for row in rows])
    for row in rows:
        for note in row["notes"]:
            err.print(f"[yellow]note[/yellow] {escape(row['uri'])}: {escape(note)}")


@source_app.command(name="show")
def show(
    uri: Annotated[str, typer.Argument(help="File as `kbwiki sources` names it.")],
    db: Db = None,
    as_json: Json = False,
) -> None:
    """Print metadata, outline, pages, chunks and first lines of a source."""
    with open_database(find_place(db)) as database:
        found = database.dicts("show_source", {"uri": uri})
        uris = [row["uri"] for row in database.dicts("list_source_uris")]
    if not found:
        near = ", ".join(get_close_matches(uri, uris, n=3))
        hint = f"Did you mean: {near}?" if near else "See `kbwiki sources`."
        raise NotFoundError(f"{uri}: no source has this name.", hint)
    [row] = found
    text = row.pop("text")
    blocks, pages = row.pop("blocks"), row.pop("pages")
    outline = [(level, text[a:b]) for kind, a, b, level in blocks if kind == "heading"]
    starts = [*pages, len(text)]
    sizes = [b - a for a, b in pairwise(starts)]
    if as_json:
        shown = [{"level": level, "heading": heading} for level, heading in outline]
        print_json({**row, "outline": shown, "page_characters": sizes, "first": text[:_FIRST]})
        return
    _print(row, outline, sizes)
    out.print(f"\n{text[:_FIRST]}", markup=False)


def _print(row: dict[str, Any], outline: list[tuple[int, str]], sizes: list[int]) -> None:
    read, whole = row.pop("coverage") or (1, 1)
    kept, signs = row.pop("signs") or (1, 1)
    fields: list[list[object]] = [
        [name, ", ".join(map(str, value)) if isinstance(value, list) else value]
        for name, value in row.items()
    ]
    parts = f"{100 * read / max(1, whole):.0f} %"
    if signs > 1:
        parts += f", {100 * kept / signs:.0f} % of its signs"
    print_table(["source", ""], [*fields, ["came through", parts]])
    if sizes:
        print_table(["page", "characters"], [[at, size] for at, size in enumerate(sizes, 1)])
    for level, heading in outline:
        out.print(f"{'  ' * max(0, level - 1)}{heading}", markup=False)
