"""Commands about calls to a language model: what they cost, and the replies kept."""

import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

import typer

from kbwiki.cli.console import err, out, print_json, print_table
from kbwiki.cli.engine import check_engine, engine_name
from kbwiki.cli.files import write_whole
from kbwiki.cli.run import open_services
from kbwiki.cli.store import find_place, open_database
from kbwiki.engines.prices import checked_on
from kbwiki.errors import InputError
from kbwiki.estimate import StagePlan, plan_build
from kbwiki.ledger import export_cache, import_cache
from kbwiki.text.normal import counted

_GUESS = (
    "How many pages there will be is a guess for sources that no model has read (here {}). "
    "`kbwiki build FILE` with one of the files makes it an estimate from what this model finds."
)


def show_plan(paths: list[Path], db: str | None, as_json: bool) -> None:
    """Print what a build would ask a model, and what that would cost; nothing is stored."""
    place = find_place(db, create=bool(paths))
    name = engine_name(place.settings)
    failures: list[str] = []
    with open_database(place) as database:
        check_engine(place.settings, database)
        if name == "local":
            plans = [
                StagePlan(stage, 0, 0, 0, 0, 0.0)
                for stage in ("extract", "resolve", "write", "classify-edges")
            ]
        else:
            with open_services(place, database, paths=paths) as (services, _):
                model = services.engine.name.partition(":")[2].rpartition(":")[0]
                with err.status("reading") as status:

                    def tell(stage: str, n: int) -> None:
                        status.update(f"{stage}: {n}")

                    plans, failures = plan_build(services, name, model, tell)
    if as_json:
        for plan in plans:
            print_json(asdict(plan))
    elif name == "local":
        out.print("engine local: no model would be asked, and nothing would be paid")
    else:
        columns = ["stage", "calls", "cached", "tokens in", "tokens out", "dollars"]
        print_table(columns, [_cells(plan) for plan in plans])
        out.print(f"model {model}, prices of {checked_on()}; how long replies are is an estimate")
        if guessed := sum(plan.guessed for plan in plans):
            out.print(_GUESS.format(guessed), markup=False)
    for failure in failures:
        err.print(f"failed: {failure}", markup=False)
    if failures:
        raise typer.Exit(1)


def _cells(plan: StagePlan) -> list[object]:
    dollars = "price not known" if plan.usd is None else f"{plan.usd:.4f}"
    tokens = [f"{plan.input_tokens:,}", f"{plan.output_tokens:,}"]
    return [plan.stage, plan.calls, plan.cached, *tokens, dollars]


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
            "no price" if row["unpriced"] and not row["usd"] else f"{row['usd'] or 0:.4f}",
        ]
        for row in rows
    ]
    print_table(columns, table)
    total = sum(row["usd"] or 0 for row in rows)
    without = "; calls without a price are not in it" if any(r["unpriced"] for r in rows) else ""
    out.print(f"${total:.4f} in all, by the prices of {checked_on()}{without}")


def save_cache(file: Path | None, db: str | None) -> None:
    """Write every reply kept to standard output, or to a file that is whole or left as it was."""
    with open_database(find_place(db)) as database:
        n = write_lines(file, export_cache(database))
    if file is not None:
        out.print(f"{file}: {counted(n, 'reply', 'replies')}")


def write_lines(file: Path | None, lines: Iterable[str]) -> int:
    """Write lines to standard output, or to a file that is whole or left as it was."""
    if file is None:
        sys.stdout.writelines(lines)
        return 0
    with _told(file):
        return write_whole(file, lines)


def read_lines(file: Path) -> list[str]:
    """Return the lines of a file of JSON lines; raise InputError for one that cannot be read."""
    # Not splitlines(): a text may hold U+2028, which JSON need not escape.
    with _told(file):
        return file.read_text("utf-8").split("\n")


def load_cache(file: Path, db: str | None) -> None:
    """Take replies in from a file; those that are there already stay."""
    lines = read_lines(file)
    with open_database(find_place(db, create=True)) as database:
        n = import_cache(database, lines)
    out.print(counted(n, "reply", "replies"))


@contextmanager
def _told(file: Path) -> Iterator[None]:
    """Turn what is wrong with a file into one clear message."""
    try:
        yield
    except OSError as error:
        what = (error.strerror or str(error)).lower()
        raise InputError(f"{file}: {what}.", "Name a file that you may use.") from error
    except UnicodeDecodeError as error:
        raise InputError(
            f"{file}: it is no UTF-8 text.", "Save it as UTF-8, or export it anew."
        ) from error
