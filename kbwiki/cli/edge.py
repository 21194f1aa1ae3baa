"""``kbwiki edge`` and ``kbwiki graph``: edges of the graph, and a person's word on them."""

import enum
from typing import Annotated, Any

import typer
from rich.markup import escape

from kbwiki.cli.console import notice, out, print_json
from kbwiki.cli.store import find_place, open_database
from kbwiki.text.normal import counted

edge_app = typer.Typer(help="Show single edges, or say how two concepts are linked.")

First = Annotated[str, typer.Argument(help="Slug, title or alias of a concept.")]
Second = Annotated[str, typer.Argument(help="Another one.")]
Db = Annotated[
    str | None, typer.Option("--db", help="Postgres URL to use instead of the embedded server.")
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON, one object a line.")]


def tell_wait() -> None:
    """Say why nothing happens."""
    notice("another process types edges just now; waiting for it")


class GraphFormat(enum.StrEnum):
    """How `graph` writes edges."""

    TEXT = "text"
    MERMAID = "mermaid"
    JSON = "json"
    GRAPHML = "graphml"
    DOT = "dot"


def graph(
    slug: First,
    depth: Annotated[int, typer.Option("--depth", min=1, max=3, help="How many steps to go.")] = 1,
    types: Annotated[
        list[str] | None,
        typer.Option("--type", help="Only edges of this type (uses, used_in, ...)."),
    ] = None,
    form: Annotated[
        GraphFormat, typer.Option("--format", help="What to write.")
    ] = GraphFormat.TEXT,
    every: Annotated[bool, typer.Option("--all", help="Show related_to edges too.")] = False,
    db: Db = None,
    as_json: Json = False,
) -> None:
    """Print the typed edges around a concept, with their evidence."""
    from kbwiki.cli.graph import show_graph

    show_graph(slug, depth, every, types or [], form.value, db=db, as_json=as_json)


@edge_app.command(name="show")
def show(first: First, second: Second, db: Db = None, as_json: Json = False) -> None:
    """Print an edge, who typed it, and the sentences that it rests on."""
    from kbwiki.edges import read_edge

    with open_database(find_place(db)) as database:
        edge = read_edge(database, first, second)
    if as_json:
        print_json(edge)
        return
    _print(edge)
    facts = [f"typed by {edge['method'] or 'nobody yet'}"]
    if edge["confidence"] is not None:
        facts.append(f"confidence {edge['confidence']:.2f}")
    if edge["rule"]:
        facts.append(f"rule “{edge['rule']}”")
    if edge["model"]:
        facts.append(f"model {edge['model']}, prompt {edge['prompt_version']}")
    if edge["answer"]:
        facts.append(f"answers {edge['answer']}, mirrored {edge['mirror_answer'] or 'not asked'}")
    if edge["needs_review"]:
        facts.append("needs review")
    out.print(f"   [dim]{escape('; '.join(facts))}[/dim]")
    for row in edge["evidence"]:
        page = f", p. {row['page']}" if row["page"] else ""
        span = f"{row['start_at']}–{row['end_at']}"
        out.print(f"   [dim]sources/{escape(row['source'])}{page}, {span} ({row['kind']}):[/dim]")
        out.print(f"   “{escape(row['text'])}”")


def _print(edge: dict[str, Any]) -> None:
    head, tail = (f"[bold]{escape(edge[end])}[/bold]" for end in ("head", "tail"))
    if edge["type"] is None:
        out.print(f"{head} - {edge['status']} - {tail}")
        return
    out.print(f"{head} -{edge['type']}{'--' if edge['symmetric'] else '->'} {tail}")
    if not edge["symmetric"]:
        out.print(f"{tail} -{edge['inverse']}-> {head}")


@edge_app.command(name="set")
def set_type(
    first: First,
    type_name: Annotated[
        str,
        typer.Argument(
            metavar="TYPE",
            help="A type or its other reading (uses, used_in, ...); none: not linked; auto: take "
            "your word back.",
        ),
    ],
    second: Second,
    db: Db = None,
    as_json: Json = False,
) -> None:
    """Say how two concepts are linked; no classifier changes it."""
    from kbwiki.edges import AUTO, set_edge

    with open_database(find_place(db)) as database:
        edge = set_edge(database, first, type_name, second, tell_wait)
    if as_json:
        edge.pop("id", None)
        print_json(edge)
        return
    if type_name.strip().casefold() == AUTO:
        out.print("Taken back. Next: kbwiki classify-edges")
        return
    if edge["status"] == "gone":
        out.print("Kept: they are not linked.")
        return
    _print(edge)


@edge_app.command()
def dedup(
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would change.")] = False,
    db: Db = None,
    as_json: Json = False,
) -> None:
    """Drop words on a pair of concepts that a later one replaced, as after a merge."""
    from kbwiki.edges import drop_doubles

    with open_database(find_place(db)) as database:
        rows = drop_doubles(database, dry_run, tell_wait)
    for row in rows:
        if as_json:
            print_json(row)
        else:
            out.print(f"{row['head_key']} {row['type'] or 'none'} {row['tail_key']}", markup=False)
    if not as_json:
        out.print(f"{len(rows)} {'would go' if dry_run else 'gone'}; edges are one for each pair.")


@edge_app.command()
def review(db: Db = None, as_json: Json = False) -> None:
    """List the edges on which a model's two answers and the rules differ."""
    with open_database(find_place(db)) as database:
        rows = database.dicts("list_reviews")
    for row in rows:
        if as_json:
            print_json(row)
            continue
        said = f"answers {row['answer']} and {row['mirror_answer']}, rules {row['rule_type']}"
        out.print(f"{row['head']} - {row['tail']}: {said}", markup=False)
    if not as_json:
        hint = " Decide: kbwiki edge set A TYPE B" if rows else ""
        out.print(f"{counted(len(rows), 'edge needs', 'edges need')} a look.{hint}")
