"""Commands of agent memory: recall, remember, forget, memory-status, and what a person does."""

import getpass
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape

from kbwiki.cli.console import err, notice, out, print_json, print_table, progress
from kbwiki.cli.store import Place, find_place, open_database, open_embedder
from kbwiki.errors import ConfigError, InputError
from kbwiki.text.normal import counted

if TYPE_CHECKING:
    from kbwiki.db import Database
    from kbwiki.embedders import Embedder
    from kbwiki.memory.keep import Status
    from kbwiki.memory.keeper import Keeper
    from kbwiki.memory.recall import Recalled

memory_app = typer.Typer(
    help="Look after memories: pin, supersede, restore, list, export.", no_args_is_help=True
)

Db = Annotated[
    str | None, typer.Option("--db", help="Postgres URL to use instead of the embedded server.")
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON, one object a line.")]
Agent = Annotated[
    str | None, typer.Option("--agent", help="Who says or asks it; else the system's user.")
]
Session = Annotated[
    str, typer.Option("--session", help="Session of the agent; memories of one follow each other.")
]
Domain = Annotated[str, typer.Option("--domain", help="Such as infra or a project's name.")]
Topic = Annotated[str, typer.Option("--topic", help="Such as bug_fix or question.")]
Number = Annotated[int, typer.Argument(metavar="ID", help="Number of the memory.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only say what would change.")]
AllowSecrets = Annotated[
    bool, typer.Option("--allow-secrets", help="Keep what looks like a key or a password.")
]


@contextmanager
def open_keeper(
    db: str | None,
    agent: str | None,
    session: str = "",
    vectors: bool = True,
    create: bool = True,
) -> Iterator["Keeper"]:
    """Yield the keeper of an agent at the store around the working directory.

    Without ``create`` it raises NotFoundError where there is no store.
    """
    from kbwiki.memory.keeper import Keeper

    place = find_place(db, create=create)
    with open_database(place) as database:
        embedder = memory_embedder(place, database) if vectors else None
        name = (agent or _user()).strip()
        if not name:
            raise InputError("memory: the agent has no name.", "Give one: --agent NAME.")
        yield Keeper(database, embedder, name, session=session, is_admin=True)


def memory_embedder(place: Place, database: "Database") -> "Embedder | None":
    """Return the embedder, or None, after telling why, where its vectors would not fit."""
    try:
        embedder = open_embedder(place, notice)
    except ConfigError as error:
        notice(f"memory goes by words alone: {error}")
        return None
    stored = database.value("read_setting", {"name": "embedder"})
    if stored not in {None, embedder.name}:
        notice(
            f"memory goes by words alone: the store's vectors are of {stored}; "
            "run `kbwiki embed --replace`"
        )
        return None
    return embedder


def _user() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError):  # a container's user without a name
        return "user"


def recall(
    query: Annotated[str, typer.Argument(help="What you want to know.")],
    k: Annotated[int, typer.Option("-k", min=1, max=100, help="How many memories.")] = 16,
    domain: Domain = "",
    topic: Topic = "",
    agent: Agent = None,
    session: Session = "",
    db: Db = None,
    as_json: Json = False,
) -> None:
    """Find memories of agents that fit a question, and what they are joined to."""
    from kbwiki.memory.recall import recall as find

    with open_keeper(db, agent, session, create=False) as keeper:
        found = find(keeper, query, k=k, domain=domain, topic=topic)
    if as_json:
        print_json(recalled_json(found))
        raise typer.Exit(0 if found.nodes else 4)
    for node in found.nodes:
        marks = " ".join(filter(None, [node.domain, node.topic, f"{node.at:%Y-%m-%d}", node.agent]))
        old = f"  superseded by {node.superseded_by}" if node.superseded_by else ""
        out.print(f"[bold]{node.id}[/bold]  {node.score:.2f}  [dim]{escape(marks + old)}[/dim]")
        out.print(f"   {escape(node.text)}")
    if found.garland:
        out.print(f"\n[bold]Garland[/bold]\n{escape(found.garland)}")
    if not found.nodes:
        out.print(f"Nothing fits, of {counted(found.total, 'memory', 'memories')}.")
        raise typer.Exit(4)


def recalled_json(found: "Recalled") -> dict[str, Any]:
    """Return what was recalled in VecMory's shape, with the garland's paths besides."""
    return {
        "nodes": [
            {
                "id": n.id,
                "score": n.score,
                "text": n.text,
                "domain": n.domain,
                "topic": n.topic,
                "essence": list(n.essence),
                "at": n.at.isoformat(),
                "agent": n.agent,
                "supersededBy": n.superseded_by,
            }
            for n in found.nodes
        ],
        "garland": found.garland,
        "total": found.total,
        "paths": [
            {
                "start": path.start,
                "steps": [
                    {"type": s.type, "forward": s.forward, "kind": s.kind, "ref": s.ref}
                    for s in path.links
                ],
            }
            for path in found.paths
        ],
    }


def remember(
    text: Annotated[str, typer.Argument(help="What was learnt: request, error, solution.")],
    domain: Domain = "",
    topic: Topic = "",
    essence: Annotated[
        list[str] | None, typer.Option("--essence", help="A key word; up to three times.")
    ] = None,
    edge_type: Annotated[
        str,
        typer.Option(
            "--edge-type",
            help="How it is joined: SIMILAR_TO, CAUSED_BY, FOLLOWED_BY, BELONGS_TO, REFERENCES.",
        ),
    ] = "SIMILAR_TO",
    to: Annotated[
        int | None, typer.Option("--to", help="Number of the memory it is joined to.")
    ] = None,
    key: Annotated[
        str | None, typer.Option("--key", help="Your own key: a retry keeps it once.")
    ] = None,
    private: Annotated[bool, typer.Option("--private", help="Only this agent finds it.")] = False,
    allow_secrets: AllowSecrets = False,
    agent: Agent = None,
    session: Session = "",
    db: Db = None,
    as_json: Json = False,
) -> None:
    """Keep what was learnt, for agents to recall."""
    from kbwiki.memory.remember import EDGE_TYPES, Note
    from kbwiki.memory.remember import remember as keep

    kind = next((name for name in EDGE_TYPES if name == edge_type.upper()), None)
    if kind is None:
        raise InputError(f"remember: there is no edge type {edge_type!r}.", ", ".join(EDGE_TYPES))
    note = Note(text, domain, topic, tuple(essence or ()), kind, to, key, private, allow_secrets)
    with open_keeper(db, agent, session) as keeper:
        kept = keep(keeper, note)
    if as_json:
        neighbors, scores = list(kept.neighbors), list(kept.scores)
        print_json({"id": kept.id, "neighbors": neighbors, "scores": scores})
        return
    near = ", ".join(map(str, kept.neighbors))
    again = "" if kept.is_new else " was there, and counts once more"
    out.print(f"memory {kept.id}{again}" + (f"; near: {near}" if near else ""))


def forget(number: Number, dry_run: DryRun = False, agent: Agent = None, db: Db = None) -> None:
    """Delete a memory and its edges."""
    from kbwiki.memory.keep import forget as delete

    with open_keeper(db, agent, vectors=False, create=False) as keeper:
        out.print(escape(delete(keeper, number, dry_run)))


def memory_status(agent: Agent = None, db: Db = None, as_json: Json = False) -> None:
    """Show how many memories there are, of what and whom."""
    from kbwiki.memory.keep import memory_status as count

    with open_keeper(db, agent, vectors=False, create=False) as keeper:
        status = count(keeper)
    if as_json:
        print_json(status_json(status))
        return
    for name, value in status_json(status).items():
        is_count = isinstance(value, dict)
        shown = ", ".join(f"{k or '(none)'} {n}" for k, n in value.items()) if is_count else value
        out.print(f"{name}: {escape(str(shown))}")


def status_json(status: "Status") -> dict[str, Any]:
    """Return the status in VecMory's words, and ours besides."""
    return {
        "total": status.total,
        "withNeighbors": status.with_neighbors,
        "avgDegree": status.avg_degree,
        "byDomain": status.by_domain,
        "archived": status.archived,
        "duplicatesRefused": status.duplicates_refused,
        "oldest": _iso(status.oldest),
        "newest": _iso(status.newest),
        "byAgent": status.by_agent,
    }


def _iso(moment: datetime | None) -> str | None:
    return moment.isoformat() if moment else None


@memory_app.command()
def pin(number: Number, agent: Agent = None, db: Db = None) -> None:
    """Keep a memory from ever being archived."""
    from kbwiki.memory import keep

    with open_keeper(db, agent, vectors=False, create=False) as keeper:
        keep.pin(keeper, number, True)
    out.print(f"memory {number} is pinned.")


@memory_app.command()
def unpin(number: Number, agent: Agent = None, db: Db = None) -> None:
    """Let a pinned memory fade again."""
    from kbwiki.memory import keep

    with open_keeper(db, agent, vectors=False, create=False) as keeper:
        keep.pin(keeper, number, False)
    out.print(f"memory {number} is no longer pinned.")


@memory_app.command()
def supersede(
    old: Annotated[int, typer.Argument(help="Number of the memory that no longer holds.")],
    new: Annotated[int, typer.Argument(help="Number of the one that holds now.")],
    agent: Agent = None,
    db: Db = None,
) -> None:
    """Mark a memory as replaced by a newer one; it stays and ranks last."""
    from kbwiki.memory import keep

    with open_keeper(db, agent, vectors=False, create=False) as keeper:
        keep.supersede(keeper, old, new)
    out.print(f"memory {old} is superseded by {new}.")


@memory_app.command()
def restore(number: Number, agent: Agent = None, db: Db = None) -> None:
    """Bring an archived or superseded memory back."""
    from kbwiki.memory import keep

    with open_keeper(db, agent, vectors=False, create=False) as keeper:
        keep.restore(keeper, number)
    out.print(f"memory {number} is back.")


@memory_app.command()
def why(number: Number, agent: Agent = None, db: Db = None, as_json: Json = False) -> None:
    """Show what decides how a memory ranks: use, age, edges, who said it and when."""
    from kbwiki.memory import keep

    with open_keeper(db, agent, vectors=False, create=False) as keeper:
        row = keep.why(keeper, number)
    if as_json:
        print_json(row)
        return
    edges = row.pop("edges")
    for name, value in row.items():
        shown = f"{value:.3f}" if isinstance(value, float) else value
        out.print(f"{name}: {escape(str(shown))}")
    cells = [
        [e["type"], "to" if e["forward"] else "from", e["memory_id"] or e["concept"] or e["domain"]]
        for e in edges
    ]
    print_table(["edge", "", "what"], cells)


@memory_app.command(name="list")
def list_(
    domain: Domain = "",
    topic: Topic = "",
    archived: Annotated[bool, typer.Option("--archived", help="Only archived ones.")] = False,
    agent: Agent = None,
    db: Db = None,
    as_json: Json = False,
) -> None:
    """List memories, oldest first."""
    from kbwiki.memory.keep import list_memories

    with open_keeper(db, agent, vectors=False, create=False) as keeper:
        rows = list_memories(keeper, domain, topic, archived)
    if as_json:
        for row in rows:
            print_json(row)
        return
    cells: list[list[object]] = [
        [
            row["id"],
            f"{row['at']:%Y-%m-%d}",
            row["agent"],
            row["domain"],
            row["n_uses"],
            _state(row),
            " ".join(row["text"].split())[:80],
        ]
        for row in rows
    ]
    print_table(["id", "at", "agent", "domain", "uses", "state", "text"], cells)


def _state(row: dict[str, Any]) -> str:
    if row["superseded_by"]:
        return f"superseded by {row['superseded_by']}"
    return "pinned" if row["is_pinned"] else "archived" if row["is_archived"] else ""


@memory_app.command(name="half-life")
def half_life(
    days: Annotated[
        float | None, typer.Argument(help="Days until an unused memory counts half.")
    ] = None,
    topic: Annotated[str, typer.Option("--topic", help="Only for this topic.")] = "",
    reset: Annotated[bool, typer.Option("--reset", help="Back to the default.")] = False,
    db: Db = None,
) -> None:
    """Show or set how fast memories fade, in all or in one topic."""
    from kbwiki.memory import keep

    with open_keeper(db, None, vectors=False, create=False) as keeper:
        if reset or days is not None:
            keep.set_half_life(keeper, topic, None if reset else days)
        known = keep.half_lives(keeper)
    cells: list[list[object]] = [[name or "(all others)", f"{n:g}"] for name, n in known.items()]
    print_table(["topic", "days"], cells)


@memory_app.command(name="export")
def export_(
    file: Annotated[
        Path | None, typer.Argument(help="File to write; none: standard output.")
    ] = None,
    db: Db = None,
) -> None:
    """Write every memory with its edges, one JSON object a line."""
    from kbwiki.cli.money import write_lines
    from kbwiki.memory.transfer import export_memories

    with open_database(find_place(db)) as database:
        n = write_lines(file, export_memories(database))
    if file is not None:
        out.print(f"{file}: {counted(n, 'memory', 'memories')}")


@memory_app.command(name="import")
def import_(
    file: Annotated[
        Path, typer.Argument(help="Lines of {key, text, domain, session, at}, or an export.")
    ],
    allow_secrets: AllowSecrets = False,
    agent: Agent = None,
    db: Db = None,
    as_json: Json = False,
) -> None:
    """Take memories in: plain rows, our own export, or VecMory's."""
    from kbwiki.cli.money import read_lines
    from kbwiki.memory.transfer import import_memories, read_rows

    try:
        rows = read_rows(read_lines(file))
    except InputError as error:
        raise InputError(f"{file}, {error.message}", error.hint) from error
    with open_keeper(db, agent) as keeper, progress("memories", len(rows)) as step:
        done = import_memories(keeper, rows, step, allow_secrets=allow_secrets)
    for refused in done.refused:
        err.print(f"refused: {refused}", markup=False)
    counts = {"new": done.n_new, "known": done.n_known, "refused": len(done.refused)}
    if as_json:
        print_json(counts)
    else:
        out.print(", ".join(f"{n} {name}" for name, n in counts.items()))
    if done.refused:
        raise typer.Exit(1)


TOP: dict[str, Callable[..., None]] = {
    "recall": recall,
    "remember": remember,
    "forget": forget,
    "memory-status": memory_status,
}
"""The verbs that stand at the top of the command line, by name."""
