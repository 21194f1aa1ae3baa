"""Commands about calls to a language model: what they cost, and the replies kept."""

import sys
from pathlib import Path

from kbwiki.cli.console import out, print_json, print_table
from kbwiki.cli.store import find_place, open_database
from kbwiki.engines.prices import checked_on
from kbwiki.errors import InputError
from kbwiki.ledger import export_cache, import_cache


def show_cost(by: str, db: str | None, as_json: bool) -> None:
    """Print the ledger summed by task, source, model or day."""
    with open_database(find_place(db)) as database:
        rows = database.dicts("sum_calls", {"by": by})
    if as_json:
        for row in rows:
            print_json(row)
        return
    columns = [by, "calls", "cached", "failed", "tokens in", "tokens out", "dollars"]
    table: list[list[object]] = [
        [
            row["name"],
            row["calls"],
            row["cached"],
            row["failed"],
            f"{row['input_tokens']:,}",
            f"{row['output_tokens']:,}",
            f"{row['usd'] or 0:.4f}" + (" and more: no price" if row["unpriced"] else ""),
        ]
        for row in rows
    ]
    print_table(columns, table)
    total = sum(row["usd"] or 0 for row in rows)
    out.print(f"${total:.4f} in all, by the prices of {checked_on()}")


def save_cache(file: Path | None, db: str | None) -> None:
    """Write every reply kept to a file, or to standard output."""
    with open_database(find_place(db)) as database:
        if file is None:
            sys.stdout.writelines(export_cache(database))
            return
        new = file.with_name(file.name + ".new")
        with new.open("w", encoding="utf-8") as stream:
            stream.writelines(export_cache(database))
        new.replace(file)
    out.print(f"{file}: {len(file.read_text('utf-8').splitlines())} replies")


def load_cache(file: Path, db: str | None) -> None:
    """Take replies in from a file; those that are there already stay."""
    if not file.is_file():
        raise InputError(f"{file}: no such file.", "Write one with `kbwiki cache export FILE`.")
    lines = file.read_text("utf-8").splitlines()
    with open_database(find_place(db, create=True)) as database:
        n = import_cache(database, lines)
    out.print(f"{n} replies")
