"""``merge``, ``unmerge``, ``split``, ``rm``: what a person decides about concepts and sources."""

from typing import Annotated

import typer

Db = Annotated[
    str | None, typer.Option("--db", help="Postgres URL to use instead of the embedded server.")
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON, one object a line.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only say what would change.")]


def merge(
    first: Annotated[
        str, typer.Argument(help="Concept that stays; or `list`, for what is decided or doubtful.")
    ],
    second: Annotated[str | None, typer.Argument(help="Concept that becomes a name of it.")] = None,
    apart: Annotated[
        bool, typer.Option("--apart", help="Decide that they are two, and stay two.")
    ] = False,
    dry_run: DryRun = False,
    db: Db = None,
    as_json: Json = False,
) -> None:
    """Make two concepts one, or list what was decided and what is doubtful."""
    from kbwiki.cli import curate

    if second is None and first == "list":
        curate.list_decisions(db=db, as_json=as_json)
        return
    if second is None:
        raise typer.BadParameter("name the second concept", param_hint="SECOND")
    decide = curate.set_apart if apart else curate.merge
    decide(first, second, dry_run=dry_run, db=db, as_json=as_json)


def unmerge(
    concept: Annotated[str, typer.Argument(help="Concept into which others were merged.")],
    alias: Annotated[str | None, typer.Argument(help="Name to split out of it.")] = None,
    dry_run: DryRun = False,
    db: Db = None,
    as_json: Json = False,
) -> None:
    """Take a merge back, or split a name out of a concept."""
    from kbwiki.cli import curate

    curate.unmerge(concept, alias, dry_run=dry_run, db=db, as_json=as_json)


def split(
    concept: Annotated[str, typer.Argument(help="Concept whose name means two things.")],
    files: Annotated[list[str], typer.Argument(help="Files in which it means the other thing.")],
    title: Annotated[
        str, typer.Option("--as", help="Title of the other thing; the concept's own: no other.")
    ] = "",
    undo: Annotated[
        bool, typer.Option("--undo", help="Take back what was decided for these files.")
    ] = False,
    dry_run: DryRun = False,
    db: Db = None,
    as_json: Json = False,
) -> None:
    """Make two concepts of one name, by the files that mean the one or the other."""
    from kbwiki.cli import curate

    if bool(title.strip()) == undo:
        raise typer.BadParameter("give a title, or --undo", param_hint="--as")
    if undo:
        curate.unsplit(concept, files, dry_run=dry_run, db=db, as_json=as_json)
    else:
        curate.split(concept, files, title.strip(), dry_run=dry_run, db=db, as_json=as_json)


def rm(
    files: Annotated[
        list[str], typer.Argument(help="Files as `kbwiki sources` says; answers/NAME.")
    ],
    dry_run: DryRun = False,
    db: Db = None,
    as_json: Json = False,
) -> None:
    """Remove sources and all that nothing else supports."""
    from kbwiki.cli import curate

    curate.remove(files, dry_run=dry_run, db=db, as_json=as_json)
