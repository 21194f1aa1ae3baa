"""export: the store as Markdown files. The only stage that writes files.

Twice is byte-identical. A manifest of hashes in the wiki tells what is ours: only that is replaced
or removed, and only while nobody edited it.
"""

import errno
import hashlib
import json
import os
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

from kbwiki.db import Database
from kbwiki.errors import ConfigError
from kbwiki.stages import adopt
from kbwiki.stages.answer_pages import answer_pages
from kbwiki.stages.render import Edge, Page, Wiki
from kbwiki.stages.stage import Outcome, Services, Stage
from kbwiki.stages.wiki_files import ODD, bytes_of, put, remove, settle, sha_of
from kbwiki.text.normal import counted

MANIFEST = ".manifest.json"
LOG = "log.md"
LOGGED = "logged_call"
"""The setting that holds the last call to a model whose cost the log tells."""
_LOG_HEAD = "# Log\n"
_TRIES = 100
"""How often a file of ours that others save all the time is written anew."""
_NOT_TAKEN = (
    "a person changed a part of this file that is made anew each time; it was left as it is, and a "
    "later version will lie beside it. Delete the file to have it made anew"
)


@dataclass(slots=True)
class Changes:
    """Which files a run added, changed and removed, and which it had to leave alone."""

    added: list[str] = field(default_factory=list)
    changed: list[str] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)
    refused: list[tuple[str, str]] = field(default_factory=list)
    kept: list[str] = field(default_factory=list)
    """The files that now are as they were rendered."""

    def __bool__(self) -> bool:
        return bool(self.added or self.changed or self.removed)


def run(services: Services) -> Outcome:
    """Render every page and write those that differ."""
    database = services.database
    try:
        services.wiki.mkdir(parents=True, exist_ok=True)
        with _alone_in(services.wiki):
            adopt.follow(database)
            manifest = _read_manifest(services.wiki)
            copies = adopt.copies_in(services.wiki, manifest)
            manifest, taken = adopt.take_in(database, services.wiki, manifest, copies)
            wiki = load_wiki(database)
            files = wiki.files()
            gone = adopt.orphans(wiki, adopt.load_edits(database))
            changes = _write_all(services.wiki, files, manifest, gone)
            adopt.save_bases(database, wiki, files, changes.kept)
            if changes:
                cost = database.dicts("sum_calls_since_log")[0]
                if _log(services.wiki, changes, services.today, cost):
                    logged = {"name": LOGGED, "value": str(cost["last_id"])}
                    database.run("save_setting", logged)
                else:
                    changes.refused.append((LOG, "it could not be read; no entry was written"))
    except OSError as error:
        what = (error.strerror or str(error)).lower()
        raise ConfigError(
            f"{error.filename or services.wiki}: {what}.", "Check the wiki's folder."
        ) from error
    counts = [len(changes.added), len(changes.changed), len(changes.removed)]
    note = "{} added, {} changed, {} removed".format(*counts)
    note += f", edits of {counted(len(taken), 'page')} taken in" if taken else ""
    note += adopt.told_of_copies({n: t for n, t in copies.items() if n not in files}, wiki)
    return Outcome(n_done=sum(counts), note=note, failures=tuple(changes.refused))


@contextmanager
def _alone_in(folder: Path) -> Iterator[None]:
    """Keep other exports out of a folder: those of another database know nothing of our lock there.

    What a killed export left half-done is settled. A file system without locks goes without.
    """
    import fcntl  # absent on Windows

    fd = os.open(folder, os.O_RDONLY)
    try:
        with suppress(OSError):
            fcntl.flock(fd, fcntl.LOCK_EX)
        settle(folder)
        yield
    finally:
        os.close(fd)


def load_wiki(database: Database) -> Wiki:
    """Return all pages and edges of the store, as they are at one moment."""
    with database.snapshot():
        return _load_wiki(database)


def _load_wiki(database: Database) -> Wiki:
    citations: dict[tuple[str, str], list[dict[str, Any]]] = defaultdict(list)
    for row in database.dicts("list_citations"):
        citations[row["folder"], row["key"]].append(row)
    edges = [
        Edge(
            head=row["head"],
            tail=row["tail"],
            type=row["type"],
            symmetric=row["symmetric"],
            ordinal=row["ordinal"],
            n_sources=row["n_sources"],
            labels=row,
        )
        for row in database.dicts("list_typed_edges")
    ]
    pages = [_concept_page(row) for row in database.dicts("list_concept_pages")]
    pages += [_source_page(row) for row in database.dicts("list_source_pages")]
    edits = adopt.load_edits(database)
    pages = [adopt.lay_over(page, citations, edits) for page in pages]
    pages += answer_pages(database, citations)
    redirects = [row["title"] for row in database.dicts("list_redirects")]
    return Wiki(pages, edges, citations, redirects)


def _concept_page(row: dict[str, Any]) -> Page:
    front = {"sources": row["n_sources"], "updated": row["updated"]}
    return _page("concepts", row, row["kind"], front)


def _source_page(row: dict[str, Any]) -> Page:
    front = {
        "authors": row["authors"],
        "year": row["year"],
        "updated": row["dated"],
        "uri": row["uris"][0],
        "also_at": row["uris"][1:],
        "sha256": row["sha256"],
        "pages": row["n_pages"] or None,
        "notes": row["notes"],
        "concepts": row["concepts"],
    }
    return _page("sources", {**row, "aliases": []}, "source", front)


def _page(folder: str, row: dict[str, Any], kind: str, front: dict[str, Any]) -> Page:
    return Page(
        folder=folder,
        key=row["key"],
        slug=row["slug"],
        title=row["title"],
        lang=row["lang"],
        kind=kind,
        aliases=[name for name in sorted(row["aliases"]) if name != row["title"]],
        summary=row["summary"],
        body=row["body"],
        engine=row["engine"],
        front=front,
    )


def _write_all(
    folder: Path, files: dict[str, str], manifest: dict[str, str], gone: frozenset[str]
) -> Changes:
    """Write what differs; in ``gone`` are pages that hold words of a person and nothing of ours."""
    kept: dict[str, str] = {}
    changes = Changes()
    shas = {name: hashlib.sha256(text.encode()).hexdigest() for name, text in files.items()}
    writing = {name: sha for name, sha in shas.items() if manifest.get(name) != sha}
    if writing:
        # Else what a killed export wrote would pass for a person's words.
        _save_manifest(folder, {"version": 1, "files": manifest, "writing": writing})
    for name, text in sorted(files.items()):
        if name not in gone or not (folder / name).exists():
            _write_one(folder, name, text, manifest, kept, changes)
    shas |= {adopt.beside(name): sha for name, sha in shas.items() if name.endswith(".md")}
    changes.kept = [name for name, sha in kept.items() if shas.get(name) == sha]
    for name in sorted(manifest.keys() - kept.keys() - (files.keys() - gone)):
        if name in gone and (folder / name).exists():
            why = "its page is gone, but it holds a person's words; it was kept"
            changes.refused.append((name, why))
            kept[name] = manifest[name]
        else:
            _remove_one(folder, name, manifest[name], kept, changes)
    _save_manifest(folder, {"version": 1, "files": kept})
    return changes


def _save_manifest(folder: Path, manifest: dict[str, Any]) -> None:
    text = json.dumps(manifest, ensure_ascii=False, indent=1, sort_keys=True) + "\n"
    sha = hashlib.sha256(text.encode()).hexdigest()
    for _ in range(_TRIES):
        present = sha_of(folder / MANIFEST)
        if present == sha or put(folder / MANIFEST, text.encode(), present):
            return
    raise _not_to_be_had(folder / MANIFEST)


def _write_one(
    folder: Path,
    name: str,
    text: str,
    manifest: dict[str, str],
    kept: dict[str, str],
    changes: Changes,
) -> None:
    path = folder / name
    wanted = text.encode()
    sha = hashlib.sha256(wanted).hexdigest()
    present = sha_of(path)
    if present == ODD:
        what = "a folder" if path.is_dir() else "what is no file that can be read"
        changes.refused.append((name, f"{what} stands where the page belongs"))
        kept.update({name: manifest[name]} if name in manifest else {})
        return
    if present == sha:
        kept[name] = sha
        return
    if present is not None and manifest.get(name) != present:
        kept.update({name: manifest[name]} if name in manifest else {})
        if manifest.get(name) == sha:
            changes.refused.append((name, _NOT_TAKEN))
        else:
            _conflict(folder, name, wanted, manifest, kept, changes)
        return
    if not put(path, wanted, present):
        kept.update({name: manifest[name]} if name in manifest else {})
        _conflict(folder, name, wanted, manifest, kept, changes)
        return
    kept[name] = sha
    (changes.changed if present else changes.added).append(name)


def _conflict(
    folder: Path,
    name: str,
    wanted: bytes,
    manifest: dict[str, str],
    kept: dict[str, str],
    changes: Changes,
) -> None:
    """Leave a person's file as it is and lay ours beside it, unless they work on that one too."""
    beside = adopt.beside(name)
    present = sha_of(folder / beside)
    if present in {None, manifest.get(beside)} and put(folder / beside, wanted, present):
        kept[beside] = hashlib.sha256(wanted).hexdigest()
    elif beside in manifest:
        kept[beside] = manifest[beside]
    where = PurePosixPath(beside).name
    changes.refused.append((name, f"a person changed this file; ours is in {where}"))


def _remove_one(folder: Path, name: str, sha: str, kept: dict[str, str], changes: Changes) -> None:
    if sha_of(folder / name) is None:
        return
    if not remove(folder / name, sha):
        changes.refused.append(
            (name, "its page is gone, but a person changed the file; it was kept")
        )
        kept[name] = sha
        return
    changes.removed.append(name)


def _read_manifest(folder: Path) -> dict[str, str]:
    """Return the hashes of our files, together with those that a killed export got to write."""
    try:
        raw = bytes_of(folder / MANIFEST)
        if raw is None and os.path.lexists(folder / MANIFEST):
            raise _not_to_be_had(folder / MANIFEST)
        if raw is None:
            return {}
        found = json.loads(raw.decode("utf-8"))
        ours = {str(name): str(sha) for name, sha in found["files"].items()}
        for name, sha in found.get("writing", {}).items():
            if _is_inside(str(name)) and sha_of(folder / str(name)) == sha:
                ours[str(name)] = str(sha)
        return {name: sha for name, sha in ours.items() if _is_inside(name)}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ConfigError(
            f"{folder / MANIFEST}: it is no manifest of kbwiki.", "Delete it to start anew."
        ) from error


def _is_inside(name: str) -> bool:
    return not name.startswith("/") and ".." not in name.split("/")


def _log(folder: Path, changes: Changes, today: str, cost: dict[str, Any]) -> bool:
    """Put an entry for this run at the top of the log, where it can be; what stands there stays."""
    path = folder / LOG
    entry = _entry(changes, today, cost)
    for _ in range(_TRIES):
        raw = bytes_of(path)
        text = _LOG_HEAD if not raw else raw.decode("utf-8", "backslashreplace")
        text = text.replace("\r\n", "\n")
        head, found, rest = text.partition(_LOG_HEAD)
        text = head + found + entry + rest if found else _LOG_HEAD + entry + "\n" + text
        if put(path, text.encode(), None if raw is None else hashlib.sha256(raw).hexdigest()):
            return True
    return False


def _not_to_be_had(path: Path) -> OSError:
    what = "it is no file that can be read" if sha_of(path) == ODD else "it never stays as it is"
    return OSError(errno.EBUSY, what, str(path))


def _entry(changes: Changes, today: str, cost: dict[str, Any]) -> str:
    lines = [f"\n## {today}\n"]
    for verb, names in (
        ("added", changes.added),
        ("changed", changes.changed),
        ("removed", changes.removed),
    ):
        pages = [name for name in names if name != "index.md"]
        if not pages:
            continue
        # No links: a page may go later, and the log stays.
        shown = [f"`{name.removesuffix('.md')}`" for name in pages]
        more = f" and {len(shown) - 20} more" if len(shown) > 20 else ""
        lines.append(f"- {len(pages)} {verb}: {', '.join(shown[:20])}{more}")
    spent = (
        f"${cost['usd']:.4f}, {counted(cost['n'], 'call')}" if cost["n"] else "no model was asked"
    )
    return "\n".join([*lines, f"- cost: {spent}"]) + "\n"


STAGE = Stage(name="export", run=run)
