"""What people decide about a store: names that are one concept, sources that go.

Each decision is one transaction that also resolves and links anew, so that a dry run can show what
it would change and leave no trace. Since resolve is a function of sources and decisions, taking a
decision back restores what was.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from kbwiki.db import Database
from kbwiki.errors import InputError, NotFoundError
from kbwiki.stages import link, resolve
from kbwiki.stages.stage import Services
from kbwiki.text.normal import canonical_key
from kbwiki.text.words import lemma_key


@dataclass(frozen=True, slots=True)
class Effect:
    """What a decision adds and removes, each as (kind, name)."""

    added: tuple[tuple[str, str], ...]
    removed: tuple[tuple[str, str], ...]


class _Undo(Exception):
    """Ends a dry run's transaction."""


def merge(services: Services, first: str, second: str, dry_run: bool = False) -> Effect:
    """Make two concepts one, under the first's title; raise NotFoundError for an unknown one."""
    a, b = (_concept(services.database, name) for name in (first, second))
    if a["id"] == b["id"]:
        raise InputError(f"merge: {first} and {second} are one concept already.", "")
    row = _decision(a["title"], b["title"], True)
    return _apply(services, lambda: services.database.run("save_decision", row), dry_run)


def set_apart(services: Services, first: str, second: str, dry_run: bool = False) -> Effect:
    """Keep two concepts two, whatever looks alike; raise InputError where they are one already."""
    a, b = (_concept(services.database, name) for name in (first, second))
    if a["id"] == b["id"]:
        raise InputError(
            f"merge: {first} and {second} are one concept.", "Split it: kbwiki unmerge A B."
        )
    row = _decision(a["title"], b["title"], False)
    return _apply(services, lambda: services.database.run("save_decision", row), dry_run)


def unmerge(
    services: Services, name: str, part: str | None = None, dry_run: bool = False
) -> Effect:
    """Take back the last merge into a concept; with ``part``, split that name out of it.

    Raises InputError where there is nothing to take apart.
    """
    database = services.database
    concept = _concept(database, name)
    keys = {lemma_key(n) for n in concept["names"]}
    merged = [m for m in database.dicts("list_merges") if {m["first"], m["second"]} & keys]
    if part is None:
        if not merged:
            raise InputError(
                f"unmerge: nothing was merged into {concept['title']} by hand.",
                "Name the alias to split out: kbwiki unmerge CONCEPT ALIAS.",
            )
        return _apply(services, lambda: _forget(database, merged[:1]), dry_run)
    key = lemma_key(part)
    of_part = [m for m in merged if m["second"] == key] or [m for m in merged if m["first"] == key]
    if of_part:
        return _apply(services, lambda: _forget(database, of_part), dry_run)
    if key not in keys - {lemma_key(concept["title"])}:
        raise InputError(
            f"unmerge: {part} is no other name of {concept['title']}.", "See `kbwiki show`."
        )
    if not database.dicts("list_candidate_keys", {"keys": [key]}):
        raise InputError(
            f"unmerge: no source says anything of {part} by itself.", "It stays a name."
        )
    row = _decision(concept["title"], part, False)
    return _apply(services, lambda: database.run("save_decision", row), dry_run)


def split(
    services: Services, name: str, uris: Sequence[str], title: str, dry_run: bool = False
) -> Effect:
    """Let a concept's names mean another thing in these files: what ``title`` says.

    The concept's own title says that they mean no other thing there. Raises NotFoundError for a
    file that the store does not hold, InputError for one that does not name the concept.
    """
    database = services.database
    concept = _concept(database, name)
    own = {"name": lemma_key(concept["title"]), "name_title": concept["title"]}
    if not lemma_key(title):
        raise InputError(f"split: {title or 'nothing'} is no title.", "Give it words.")
    other = "" if lemma_key(title) == own["name"] else title
    rows: list[dict[str, Any]] = []
    for file in _files(database, concept, uris):
        if not file["is_named"]:
            raise InputError(
                f"split: {file['uri']} does not name {concept['title']}.", "See its page."
            )
        # A thing that was split out before is still called as the text calls it.
        called = {lemma_key(t): n for t, n in zip(file["titles"], file["named"], strict=True)}
        rows.append({**called.get(own["name"], own), "title": other, **file})

    def change() -> None:
        database.run_many("delete_splits", rows)
        database.run_many("save_split", rows)

    return _apply(services, change, dry_run)


def unsplit(services: Services, name: str, uris: Sequence[str], dry_run: bool = False) -> Effect:
    """Take back what was said of a concept's names in these files; raise InputError for nothing."""
    database = services.database
    concept = _concept(database, name)
    keys = {lemma_key(n) for n in (*concept["names"], concept["title"])}
    rows: list[dict[str, Any]] = []
    for file in _files(database, concept, uris):
        mine = [
            {**named, **file}
            for named, title in zip(file["named"], file["titles"], strict=True)
            if {named["name"], lemma_key(title)} & keys
        ]
        if not mine:
            raise InputError(
                f"split: nothing was said of {concept['title']} in {file['uri']}.",
                "See `kbwiki merge list`.",
            )
        rows += mine
    return _apply(services, lambda: database.run_many("delete_splits", rows), dry_run)


def _files(
    database: Database, concept: dict[str, Any], uris: Sequence[str]
) -> list[dict[str, Any]]:
    params = {"uris": list(uris), "concept_id": concept["id"]}
    found = database.dicts("list_split_files", params)
    missing = sorted(set(uris) - {row["uri"] for row in found})
    if missing:
        raise NotFoundError(f"{missing[0]}: the store holds no such file.", "See `kbwiki sources`.")
    for row in found:
        names = zip(row.pop("names"), row.pop("name_titles"), strict=True)
        row["named"] = [{"name": name, "name_title": shown} for name, shown in names]
    return found


def remove_sources(services: Services, names: Sequence[str], dry_run: bool = False) -> Effect:
    """Remove files from the store with all that nothing else supports, their failures, and filed
    questions.

    ``names`` are uris of files and slugs of answers. Raises NotFoundError for one that the store
    does not hold; then nothing is removed.
    """
    database = services.database
    known = {row["uri"] for row in database.dicts("find_uris", {"uris": list(names)})}
    filed = {row["slug"] for row in database.dicts("list_filed")} & set(names)
    failed = {row["item"] for row in database.dicts("list_failed_items", {"stage": "ingest"})}
    missing = [name for name in names if name not in known | filed | failed]
    if missing:
        raise NotFoundError(f"{missing[0]}: the store holds no such file.", "See `kbwiki sources`.")

    def remove() -> None:
        database.run("unfile_answers", {"slugs": sorted(filed)})
        database.run("delete_uris", {"uris": sorted(known)})
        database.run("delete_sources_without_uri")
        database.run("forget_failures", {"stage": "ingest", "items": list(names)})

    return _apply(services, remove, dry_run)


def _forget(database: Database, merged: Sequence[dict[str, Any]]) -> None:
    database.run_many("delete_decision", merged)


def _decision(first: str, second: str, same: bool) -> dict[str, object]:
    return {
        "first": lemma_key(first),
        "second": lemma_key(second),
        "same": same,
        "first_title": first,
        "second_title": second,
    }


def _concept(database: Database, name: str) -> dict[str, Any]:
    slug = name.removeprefix("concepts/").removesuffix(".md")
    found = database.dicts("find_concept", {"slug": slug, "keys": [canonical_key(name)]})
    if not found:
        raise NotFoundError(
            f"{name}: no concept has this slug, title or alias.", "See `kbwiki list`."
        )
    return found[0]


def _apply(services: Services, change: Callable[[], object], dry_run: bool) -> Effect:
    """Make a change, resolve and link anew, and tell what differs; undo it all in a dry run."""
    database = services.database
    effect = Effect((), ())
    try:
        with database.locked("resolve"), database.transaction():
            before = _pages(database)
            change()
            resolve.run(services, may_ask=False)
            link.run(services)
            after = _pages(database)
            effect = Effect(tuple(sorted(after - before)), tuple(sorted(before - after)))
            if dry_run:
                raise _Undo
    except _Undo:
        pass
    return effect


def _pages(database: Database) -> set[tuple[str, str]]:
    return {(row["kind"], row["name"]) for row in database.dicts("list_pages_now")}
