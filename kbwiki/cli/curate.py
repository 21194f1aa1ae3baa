"""Commands by which a person decides: merge, unmerge, rm, sources."""

from collections.abc import Callable
from pathlib import Path

from kbwiki import curate
from kbwiki.cli.console import out, print_json, print_table
from kbwiki.cli.run import open_services, run_stages
from kbwiki.cli.store import find_place, open_database
from kbwiki.curate import Effect
from kbwiki.stages import ingest
from kbwiki.stages.files import is_address, uri_of
from kbwiki.stages.stage import Services

AFTER = ["resolve", "write", "classify-edges", "embed", "answer", "export"]


def list_decisions(db: str | None, as_json: bool) -> None:
    """Print what was decided by hand, what was joined without, and what waits for a person."""
    with open_database(find_place(db)) as database:
        decided = database.dicts("list_decided")
        found = database.dicts("list_likenesses")
        parted = database.dicts("list_split")
        homonyms = database.dicts("list_homonyms")
    if as_json:
        for row in decided:
            print_json({**row, "status": "decided"})
        for row in parted:
            print_json({**row, "status": "split"})
        for row in found:
            print_json(row)
        for row in homonyms:
            print_json({**row, "status": "may be two"})
        return
    table: list[list[object]] = [
        [
            row["first_title"],
            "is" if row["same"] else "is not",
            row["second_title"],
            "",
            f"decided {row['decided_at']:%Y-%m-%d}",
        ]
        for row in decided
    ]
    table += [
        [
            row["name_title"],
            "is" if row["title"] else "is no other",
            f"{row['title']} in {row['uri']}" if row["title"] else f"in {row['uri']}",
            "",
            f"decided {row['decided_at']:%Y-%m-%d}",
        ]
        for row in parted
    ]
    words = {"merged": "is", "apart": "is not", "doubtful": "may be"}
    table += [
        [
            row["first_title"],
            words[row["status"]],
            row["second_title"],
            f"{row['score']:.2f}",
            f"{row['band']}: {row['reason']}",
        ]
        for row in found
    ]
    table += [
        [row["title"], "may be two", f"in {', '.join(row['uris'])}", "", row["reason"]]
        for row in homonyms
    ]
    print_table(["concept", "", "other", "score", "why"], table)
    if any(row["status"] == "doubtful" for row in found):
        out.print("Settle what may be: kbwiki merge A B, or kbwiki merge A B --apart.")
    if homonyms:
        out.print("Settle what may be two: kbwiki split A FILE --as TITLE; --as A if not.")


def merge(first: str, second: str, dry_run: bool, db: str | None, as_json: bool) -> None:
    """Make two concepts one, then rewrite what that changes."""
    _decide(lambda s: curate.merge(s, first, second, dry_run), dry_run, db, as_json)


def set_apart(first: str, second: str, dry_run: bool, db: str | None, as_json: bool) -> None:
    """Keep two concepts two for good."""
    _decide(lambda s: curate.set_apart(s, first, second, dry_run), dry_run, db, as_json)


def unmerge(name: str, part: str | None, dry_run: bool, db: str | None, as_json: bool) -> None:
    """Take a merge back, then rewrite what that changes."""
    _decide(lambda s: curate.unmerge(s, name, part, dry_run), dry_run, db, as_json)


def remove(names: list[str], dry_run: bool, db: str | None, as_json: bool) -> None:
    """Remove sources by uri or path and questions by slug, then rewrite what that changes."""
    root = find_place(db).root

    def change(services: Services) -> Effect:
        filed = {row["slug"] for row in services.database.dicts("list_filed")} & set(names)
        uris = _uris(services, [name for name in names if name not in filed], root)
        return curate.remove_sources(services, [*sorted(filed), *uris], dry_run)

    _decide(change, dry_run, db, as_json)


def split(
    name: str, files: list[str], title: str, dry_run: bool, db: str | None, as_json: bool
) -> None:
    """Let a name mean another thing in these files; with its own title, say that it does not."""
    root = find_place(db).root
    _decide(
        lambda s: curate.split(s, name, _uris(s, files, root), title, dry_run),
        dry_run,
        db,
        as_json,
    )


def unsplit(name: str, files: list[str], dry_run: bool, db: str | None, as_json: bool) -> None:
    """Take back what was said of a name in these files."""
    root = find_place(db).root
    _decide(lambda s: curate.unsplit(s, name, _uris(s, files, root), dry_run), dry_run, db, as_json)


def _uris(services: Services, names: list[str], root: Path) -> list[str]:
    known = {row["uri"] for row in services.database.dicts("list_source_uris")}
    return [n if n in known or is_address(n) else uri_of(Path(n).absolute(), root) for n in names]


def preview_prune(paths: list[Path], db: str | None, as_json: bool) -> None:
    """Say which files have vanished from these folders, and what would go with them."""
    place = find_place(db)
    with (
        open_database(place) as database,
        open_services(place, database, paths=paths) as (services, _),
    ):
        gone, left = ingest.vanished(services)
        effect = curate.remove_sources(services, [*gone, *left], dry_run=True)
    if as_json:
        print_json({"vanished": gone, "removed": effect.removed, "dry_run": True})
        return
    for uri in gone:
        out.print(f"vanished: {uri}", markup=False)
    _print_effect(effect)
    out.print("dry run: nothing was changed" if gone else "dry run: no file has vanished")


def _print_effect(effect: Effect) -> None:
    for verb, names in (("removed", effect.removed), ("added", effect.added)):
        for kind, name in names:
            out.print(f"{verb} {kind}: {name}", markup=False)


def _decide(
    change: Callable[[Services], Effect], dry_run: bool, db: str | None, as_json: bool
) -> None:
    place = find_place(db)
    with open_database(place) as database, open_services(place, database) as (services, _):
        effect = change(services)
    if as_json:
        print_json({"added": effect.added, "removed": effect.removed, "dry_run": dry_run})
    else:
        _print_effect(effect)
        if dry_run:
            out.print("dry run: nothing was changed")
    if not dry_run:
        run_stages(AFTER, db=db, jobs=None, as_json=as_json)
