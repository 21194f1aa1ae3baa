"""Commands that measure a part of kbwiki on labelled rows; they leave the store as it was."""

import enum
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Annotated

import typer

from kbwiki.cli.console import out, print_json, print_table
from kbwiki.cli.store import Place, find_place, open_database, open_embedder

if TYPE_CHECKING:
    from kbwiki.engines import Engine
    from kbwiki.text.sameness import EmbedNames

eval_app = typer.Typer(
    help="Measure how well a part does, on labelled rows of your own.", no_args_is_help=True
)

Rows = Annotated[Path, typer.Argument(help="Tab-separated rows under a line of column names.")]
Db = Annotated[
    str | None, typer.Option("--db", help="Postgres URL to use instead of the embedded server.")
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON, one object a line.")]


@eval_app.command()
def same(file: Rows, db: Db = None, as_json: Json = False) -> None:
    """Tell which names are one concept: columns first, second, same (yes, no), two texts."""
    from kbwiki.evaluate.same import judge_rows, measure, read_rows

    rows = read_rows(file)
    with _open_engine(db) as (engine, embed):
        judged = judge_rows(rows, engine, embed)
    tables = {
        split: measure([j for j in judged if split in {"all", j.row.split}])
        for split in ("tune", "unseen", "all")
    }
    missed = [j for j in judged if j.row.same != (j.band not in {"queue", "apart"})]
    if as_json:
        for split, table in tables.items():
            print_json({"split": split, **table})
        for j in missed:
            label = {"first": j.row.first, "second": j.row.second, "same": j.row.same}
            print_json({**label, "band": j.band, "split": j.row.split})
        return
    _show_same(tables)
    wrong: list[list[object]] = [
        [j.row.first, j.row.second, j.band] for j in missed if j.band != "queue"
    ]
    print_table(["one", "other", "became"], wrong, "judged wrongly")


class EvalMode(enum.StrEnum):
    """A way to search that is measured."""

    TEXT = "text"
    VECTOR = "vector"
    GRAPH = "graph"
    HYBRID = "hybrid"


@eval_app.command()
def search(
    file: Annotated[Path, typer.Argument(help="JSON lines: id, question, expect, kind.")],
    mode: Annotated[
        list[EvalMode] | None, typer.Option("--mode", help="Only this way; may be repeated.")
    ] = None,
    k: Annotated[str, typer.Option("--k", help="Ranks at which recall is taken.")] = "1,2,5,10",
    by_lang: Annotated[
        bool, typer.Option("--by-lang", help="Questions of each language apart as well.")
    ] = False,
    file_out: Annotated[
        Path | None, typer.Option("--out", help="File for the ranked pages of each question.")
    ] = None,
    db: Db = None,
    as_json: Json = False,
) -> None:
    """Tell how well search finds the pages that questions expect, by words, vectors and graph."""
    from kbwiki.cli.evals_search import measure_search

    modes = [m.value for m in mode or EvalMode]
    measure_search(file, modes, k, by_lang=by_lang, out_file=file_out, db=db, as_json=as_json)


@eval_app.command()
def edges(file: Rows, db: Db = None, as_json: Json = False) -> None:
    """Tell how well cue rules type edges: columns text, head, tail, type (none: denied)."""
    from dataclasses import asdict

    from kbwiki.evaluate.edges import Half, evaluate, half_of, read_cases, score

    cases = read_cases(file)
    with open_database(find_place(db)) as database:
        results, symmetric = evaluate(database.url, cases)
    halves: tuple[Half, ...] = ("tune", "unseen", "all")
    tables = {
        half: score([r for r in results if half in {"all", half_of(r.case.text)}], symmetric)
        for half in halves
    }
    if as_json:
        for half, scores in tables.items():
            print_json({"split": half, **asdict(scores)})
        return
    names = ("type", "direction", "both", "mirror", "coverage")
    rows: list[list[object]] = [
        [
            half,
            s.n,
            *(_percent(getattr(s, name)) for name in names),
            f"{s.n_denied_held}/{s.n_denied}",
        ]
        for half, s in tables.items()
    ]
    print_table(
        [
            "rows",
            "n",
            "type",
            "direction",
            "type + direction",
            "mirror",
            "coverage",
            "denied, held",
        ],
        rows,
    )
    out.print(
        "direction: of edges with a directed type; mirror: the same with the ends stored in the "
        "other order; coverage: of stated types, how many got one; denied, held: denied edges that "
        "were typed as if they held."
    )


def _show_same(tables: dict[str, dict[str, object]]) -> None:
    rows: list[list[object]] = []
    for split, table in tables.items():
        bands = table["bands"]
        assert isinstance(bands, dict)
        rows += [
            [split, band, b["merged"], b["wrong"], _percent(b["precision"]), _percent(b["recall"])]
            for band, b in bands.items()
        ]
    print_table(["pairs", "band", "merged", "wrong", "precision", "recall so far"], rows)
    names = ("duplicates", "queued", "queued_apart", "false_merges", "false_merges_alone")
    totals = [
        [split, table["pairs"], *(_percent(table[name]) for name in names)]
        for split, table in tables.items()
    ]
    print_table(["pairs", "n", *(name.replace("_", " ") for name in names)], totals)
    out.print(
        "duplicates: true pairs left as two with nobody asked; queued: true pairs that wait for a "
        "person; queued apart: different ones that do; false merges: different ones made one; "
        "alone: in a store that holds nothing like them."
    )


def _percent(share: object) -> str:
    return f"{share:.1%}" if isinstance(share, float) else "-"


@contextmanager
def _open_engine(db: str | None) -> Iterator[tuple["Engine", "EmbedNames | None"]]:
    """Yield the engine of the settings and a way to embed names, None where there is no embedder.

    A database is opened only for an engine whose calls go into the ledger.
    """
    from kbwiki.cli.console import notice
    from kbwiki.cli.engine import engine_name, open_engine
    from kbwiki.config import find_home, load_settings
    from kbwiki.engines.local import LocalEngine
    from kbwiki.errors import ConfigError

    home = find_home(Path.cwd())
    root = home.parent if home else Path.cwd()
    place = Place(load_settings(root / ".env", database_url=db), root, home or root)
    embed: EmbedNames | None = None
    try:
        embedder = open_embedder(place, notice)
        embed = partial(embedder.embed, kind="query")
    except ConfigError as error:
        notice(f"no vectors: {error}")
    if engine_name(place.settings) == "local":
        yield LocalEngine(), embed
        return
    stop = Event()
    place = find_place(db)
    with open_database(place) as database:
        engine, ledger = open_engine(place, database.url, None, stop)
        try:
            yield engine, embed
        finally:
            stop.set()
            engine.close()
            if ledger:
                ledger.close()


@eval_app.command()
def memory(
    file: Annotated[
        Path, typer.Argument(help='Lines of {"question": ..., "expect": [keys of memories]}.')
    ],
    k: Annotated[str, typer.Option("--k", help="Ranks to look at.")] = "1,2,5,10,16",
    db: Db = None,
    as_json: Json = False,
) -> None:
    """Tell how many of the memories that questions expect are recalled."""
    from kbwiki.cli.evals_search import measure_memory

    measure_memory(file, k, db, as_json)
