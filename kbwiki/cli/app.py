"""The commands. Each is thin: flags in, one use case, a table or JSON out."""

import enum
import io
import sys
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Annotated

import typer

from kbwiki.cli.console import out, print_json, print_table
from kbwiki.cli.store import make_home
from kbwiki.cli.words import WordsCommand
from kbwiki.verbs import STAGES

app = typer.Typer(
    name="kbwiki",
    help="Compile a folder of research into a cited wiki and a typed concept graph, in Postgres.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

Db = Annotated[
    str | None, typer.Option("--db", help="Postgres URL to use instead of the embedded server.")
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON, one object a line.")]
Jobs = Annotated[
    int | None, typer.Option("--jobs", "-j", help="Parallel workers; 0 means one for each core.")
]
MaxCost = Annotated[
    float | None, typer.Option("--max-cost", min=0, help="Stop before the run costs more dollars.")
]
Prune = Annotated[
    bool, typer.Option("--prune", help="Remove sources whose files are gone from these folders.")
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="With --prune: only say what would go.")]
Names = Annotated[
    list[str], typer.Argument(metavar="PATHS...", help="Files, folders, addresses; - for stdin.")
]


class By(enum.StrEnum):
    """What `cost` sums by."""

    TASK = "task"
    SOURCE = "source"
    MODEL = "model"
    DAY = "day"


def _version(value: bool) -> None:
    if value:
        from kbwiki import __version__

        out.print(f"kbwiki {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=_version, is_eager=True)
    ] = False,
) -> None:
    for stream in (sys.stdout, sys.stderr):
        # A locale that lacks a letter of a title must not end a run.
        if isinstance(stream, io.TextIOWrapper) and "utf" not in stream.encoding.lower():
            stream.reconfigure(errors="replace")


@app.command()
def init() -> None:
    """Make a knowledge base in this folder."""
    home = Path.cwd() / ".kbwiki"
    existed = home.is_dir()
    make_home(home)
    out.print(
        f"{home.parent}: {'is one already' if existed else 'ready'}. Next: kbwiki build FOLDER"
    )


@app.command()
def build(
    names: Names,
    prune: Prune = False,
    max_cost: MaxCost = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only say what a model would be asked and cost.")
    ] = False,
    db: Db = None,
    jobs: Jobs = None,
    as_json: Json = False,
) -> None:
    """Run every stage in order: from files to a wiki."""
    if dry_run:
        from kbwiki.cli.intake import only_paths
        from kbwiki.cli.money import show_plan

        if prune:
            ingest(names, prune, dry_run=True, db=db, as_json=as_json)
        show_plan(only_paths(names), db=db, as_json=as_json)
        return
    from kbwiki.cli.intake import Wanted
    from kbwiki.cli.run import run_stages

    wanted = Wanted(tuple(names), prune=prune)
    run_stages(list(STAGES), db, jobs, as_json, wanted, max_usd=max_cost)


@app.command(help=STAGES["ingest"])
def ingest(
    names: Names,
    prune: Prune = False,
    dry_run: DryRun = False,
    force: Annotated[
        bool, typer.Option("--force", help="Take in what would be quarantined.")
    ] = False,
    title: Annotated[str, typer.Option("--title", help="Title of what is read from stdin.")] = "",
    allow_private: Annotated[
        bool, typer.Option("--allow-private", help="Fetch from this machine and its network too.")
    ] = False,
    use_ocr: Annotated[
        bool, typer.Option("--ocr", help="Read pages of a PDF without letters, by tesseract.")
    ] = False,
    db: Db = None,
    jobs: Jobs = None,
    as_json: Json = False,
) -> None:
    """Read files into sources and chunks."""
    if dry_run:
        from kbwiki.cli.curate import preview_prune
        from kbwiki.cli.intake import only_paths

        if not prune:
            raise typer.BadParameter("it goes with --prune", param_hint="--dry-run")
        preview_prune(only_paths(names), db=db, as_json=as_json)
        return
    from kbwiki.cli.intake import Wanted
    from kbwiki.cli.run import run_stages

    wanted = Wanted(tuple(names), prune, force, title, allow_private, use_ocr)
    run_stages(["ingest"], db, jobs, as_json, wanted)


@app.command(name="classify-edges", help=STAGES["classify-edges"])
def classify_edges(
    batch: Annotated[
        bool, typer.Option("--batch", help="Ask the model until no edge is left without a verdict.")
    ] = False,
    limit: Annotated[
        int | None,
        typer.Option("--limit", min=0, max=10**9, help="Ask about so many more edges at most."),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only say what a model would be asked and cost.")
    ] = False,
    max_cost: MaxCost = None,
    db: Db = None,
    as_json: Json = False,
) -> None:
    """Type edges, then print how many there are of each type and method."""
    from kbwiki.cli.edges import classify

    classify(batch, limit, dry_run, max_cost, db=db, as_json=as_json)


@app.command(help=STAGES["embed"])
def embed(
    replace: Annotated[
        bool, typer.Option("--replace", help="Drop all vectors first, to change the model.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="With --replace: only say what would go.")
    ] = False,
    db: Db = None,
    as_json: Json = False,
) -> None:
    """Make vectors."""
    from kbwiki.cli.run import embed as run

    run(replace=replace, dry_run=dry_run, db=db, as_json=as_json)


def _add_stage(name: str, text: str) -> None:
    @app.command(name=name, help=text)
    def command(
        max_cost: MaxCost = None, db: Db = None, jobs: Jobs = None, as_json: Json = False
    ) -> None:
        from kbwiki.cli.run import run_stages

        run_stages([name], db=db, jobs=jobs, as_json=as_json, max_usd=max_cost)


for _name in ("extract", "resolve", "write", "link", "answer", "export"):
    _add_stage(_name, STAGES[_name])


@app.command()
def status(db: Db = None, as_json: Json = False) -> None:
    """Show what the store holds, what is stale and what failed."""
    from kbwiki.cli.show import show_status

    show_status(db=db, as_json=as_json)


class SearchMode(enum.StrEnum):
    """How `query` searches."""

    HYBRID = "hybrid"
    TEXT = "text"
    VECTOR = "vector"
    GRAPH = "graph"


class HitType(enum.StrEnum):
    """What `query` finds."""

    SOURCE = "source"
    CONCEPT = "concept"
    ARTICLE = "article"
    ANSWER = "answer"


class Language(enum.StrEnum):
    """A language of the store."""

    EN = "en"
    RU = "ru"


@app.command(cls=WordsCommand)
def query(
    question: Annotated[str, typer.Argument(help="What you want to know, in English or Russian.")],
    k: Annotated[int, typer.Option("-k", min=1, max=100, help="How many passages to show.")] = 8,
    mode: Annotated[
        SearchMode, typer.Option("--mode", help="By words, by meaning, over the graph, or all.")
    ] = SearchMode.HYBRID,
    lang: Annotated[
        Language | None, typer.Option("--lang", help="Only what is written in this language.")
    ] = None,
    source: Annotated[
        str, typer.Option("--source", help="Only what rests on sources with this in file or title.")
    ] = "",
    types: Annotated[
        list[HitType] | None,
        typer.Option("--type", help="Only hits of this type; may be repeated."),
    ] = None,
    since: Annotated[
        datetime | None,
        typer.Option("--since", formats=["%Y-%m-%d"], help="Only sources of this day or later."),
    ] = None,
    explain: Annotated[
        bool, typer.Option("--explain", help="Say of each hit why it is there.")
    ] = False,
    hits_only: Annotated[
        bool, typer.Option("--hits-only", help="Show passages, no answer.")
    ] = False,
    save: Annotated[
        bool, typer.Option("--save", help="File the answer as a page of the wiki.")
    ] = False,
    db: Db = None,
    as_json: Json = False,
) -> None:
    """Answer a question from the passages that fit it: by words, by meaning and over the graph."""
    from kbwiki.cli.ask import Show, ask
    from kbwiki.question import clean_question
    from kbwiki.search import Query

    wanted = Query(
        question=clean_question(question),
        k=k,
        mode=mode.value,
        lang=lang.value if lang else "",
        types=tuple(t.value for t in types or ()),
        source=source,
        since=since.date() if since else None,
    )
    ask(wanted, Show(hits_only, explain, save, as_json), db)


@app.command()
def show(
    slug: Annotated[
        str, typer.Argument(help="Slug, title or alias of a concept, or slug of a source.")
    ],
    citations: Annotated[
        bool, typer.Option("--citations", help="Print each statement with the words it rests on.")
    ] = False,
    db: Db = None,
    as_json: Json = False,
) -> None:
    """Print a page."""
    from kbwiki.cli.show import show_citations, show_page

    (show_citations if citations else show_page)(slug, db=db, as_json=as_json)


@app.command(name="list")
def list_pages(
    kind: Annotated[
        str | None,
        typer.Option("--kind", help="Only pages of this kind: model, method, ..., source."),
    ] = None,
    db: Db = None,
    as_json: Json = False,
) -> None:
    """List the pages."""
    from kbwiki.cli.show import show_list

    show_list(kind, db=db, as_json=as_json)


@app.command()
def lint(
    fix: Annotated[
        bool, typer.Option("--fix", help="First run the stages that bring the wiki up to date.")
    ] = False,
    db: Db = None,
    as_json: Json = False,
) -> None:
    """Report what is wrong: broken links, uncited statements, stale pages, doubles, orphans."""
    from kbwiki.cli.show import show_lint

    show_lint(fix=fix, db=db, as_json=as_json)


@app.command()
def config(as_json: Json = False) -> None:
    """Show every setting, its value and where it came from."""
    from kbwiki.config import describe_settings, find_home, load_settings

    home = find_home(Path.cwd())
    rows = describe_settings(load_settings((home.parent if home else Path.cwd()) / ".env"))
    if as_json:
        for row in rows:
            print_json(row)
        return
    print_table(["setting", "value", "origin", "help"], [list(row.values()) for row in rows])


@app.command()
def plan(
    paths: Annotated[
        list[Path] | None, typer.Argument(help="Files and folders to read besides.")
    ] = None,
    db: Db = None,
    as_json: Json = False,
) -> None:
    """Say what a build would ask a language model, and what that would cost."""
    from kbwiki.cli.money import show_plan

    show_plan(paths or [], db=db, as_json=as_json)


@app.command()
def cost(
    by: Annotated[By, typer.Option("--by", help="Sum by task, source, model or day.")] = By.TASK,
    db: Db = None,
    as_json: Json = False,
) -> None:
    """Show what calls to a language model have cost."""
    from kbwiki.cli.money import show_cost

    show_cost(by.value, db=db, as_json=as_json)


def _add_groups() -> None:
    from kbwiki.cli.cache import cache_app
    from kbwiki.cli.database import database_app
    from kbwiki.cli.decide import merge, rm, split, unmerge
    from kbwiki.cli.evals import eval_app
    from kbwiki.cli.hook import hook_app
    from kbwiki.cli.memory import TOP, memory_app
    from kbwiki.cli.serve import audit, serve, user_app
    from kbwiki.cli.source import source_app, sources

    verbs: dict[str, Callable[..., None]] = {
        "merge": merge,
        "unmerge": unmerge,
        "split": split,
        "rm": rm,
        **TOP,
        "serve": serve,
        "audit": audit,
        "sources": sources,
    }
    for name, verb in verbs.items():
        # What is remembered or recalled is a text that may begin with a dash, as a question may.
        app.command(name=name, cls=WordsCommand if name in TOP else None)(verb)
    app.add_typer(cache_app, name="cache")
    app.add_typer(memory_app, name="memory")
    app.add_typer(hook_app, name="hook")
    app.add_typer(user_app, name="user")
    app.add_typer(source_app, name="source")
    app.add_typer(database_app, name="db")
    from kbwiki.cli.edge import edge_app, graph

    app.command()(graph)
    app.add_typer(edge_app, name="edge")
    app.add_typer(eval_app, name="eval")


_add_groups()
