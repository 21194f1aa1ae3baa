"""Files that agents had taken in: written, built into pages, and taken back whole.

A file that came over the wire is a note in a folder of the store's own. The source that a file
becomes is one transaction with the row of the audit; a note that a server which was killed had
written before that is put back by the next that writes there.
"""

import hashlib
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from kbwiki import curate
from kbwiki.db import Database
from kbwiki.errors import InputError, KbwikiError, NotFoundError
from kbwiki.pages import find_page
from kbwiki.pipeline import Report, run_stages, stage_named
from kbwiki.server.desk import Desk
from kbwiki.stages.files import uri_of
from kbwiki.stages.resolve import STAGE as RESOLVE
from kbwiki.stages.stage import Services, Stage

ADDED = "added"
"""The folder, below the store's own, of texts that came over the wire."""
AFTER = ("resolve", "write", "link", "classify-edges", "embed", "answer", "export")
_TOLD = {"ingest", "extract", "write"}

Also = Callable[[], None]
"""What is written in the same transaction."""


class _Silent:
    """Progress that nobody sees."""

    def begin(self, stage: str, total: int | None) -> None:
        """Show nothing."""

    def advance(self, item: str, failed: bool) -> None:
        """Show nothing."""

    def end(self, report: object) -> None:
        """Show nothing."""


def rebuild(desk: Desk, database: Database, names: tuple[str, ...]) -> list[str]:
    """Run stages, one rebuild at a time; return what could not be read or written."""
    with desk.building, desk.services(database) as services:
        return _told(run_stages([stage_named(name) for name in names], services, _Silent()))


def _told(reports: list[Report]) -> list[str]:
    # Without vectors a page is still written, and found by its words.
    return [f"{r.stage}: {why}" for r in reports if r.stage in _TOLD for _, why in r.failures]


def place_of(desk: Desk, path: Path, is_ours: bool) -> dict[str, Any]:
    """Return where a file lies, and whether it is only here for the wire."""
    return {"path": str(path), "uri": uri_of(path, desk.home.parent), "is_ours": is_ours}


def uris_of(database: Database, uri: str) -> list[str]:
    """Return the names in the store of a file, or of the files in an archive."""
    rows = database.dicts("list_source_uris")
    return [r["uri"] for r in rows if r["uri"] == uri or r["uri"].startswith(f"{uri}/")]


def write_note(
    desk: Desk, database: Database, tool: str, path: Path, text: str, also: Callable[[bytes], None]
) -> None:
    """Write a note and take it in; ``also`` gets what it held before, empty if it was not there.

    Where that fails, the note is as it was. Raises InputError for what cannot be written or read.
    """
    uri = uri_of(path, desk.home.parent)
    _settle(database, path, uri)
    aside = _aside(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        before = path.read_bytes() if path.exists() else b""
        _put(aside, before)
        _put(path, text.encode())
    except OSError as error:
        with suppress(OSError):
            aside.unlink()  # the note is as it was
        what = (error.strerror or str(error)).lower()
        raise InputError(f"{path.name}: {what}.", "The server cannot write there.") from error
    try:
        take_in(desk, database, tool, path, lambda: also(before))
    except BaseException:
        # A store that cannot be asked whether it has the text is asked by the next that writes.
        with suppress(Exception):
            _settle(database, path, uri)
            database.run("forget_failures", {"stage": "ingest", "items": [uri]})
        raise
    aside.unlink(missing_ok=True)


def _aside(path: Path) -> Path:
    """Return where a note lies that is being written anew; empty if there was none."""
    return path.with_name(f"{path.name}.before")


def _put(path: Path, content: bytes) -> None:
    new = path.with_name(f"{path.name}.new")
    try:
        new.write_bytes(content)
        new.replace(path)
    finally:
        new.unlink(missing_ok=True)


def _settle(database: Database, path: Path, uri: str) -> None:
    """Put back what a note held, where a server was killed before the store had the new text."""
    aside = _aside(path)
    with suppress(OSError):
        now = hashlib.sha256(path.read_bytes()).hexdigest() if path.exists() else ""
        is_taken = now == database.value("find_uri", {"uri": uri})
        if not is_taken and aside.exists() and aside.stat().st_size:
            aside.replace(path)
        elif not is_taken and (aside.exists() or not uris_of(database, uri)):
            path.unlink(missing_ok=True)
        aside.unlink(missing_ok=True)


def take_in(desk: Desk, database: Database, tool: str, path: Path, also: Also) -> None:
    """Make a file a source; ``also`` runs in the transaction that does.

    Where the store has the file as it is, ``also`` runs by itself. Raises InputError for a file
    that cannot be read.
    """
    stage = stage_named("ingest")
    written: list[str] = []

    def save(services: Services, item: Any, read: Any) -> None:
        stage.save(services, item, read)
        now = {(r["size"], r["mtime_ns"]) for r in database.dicts("list_known", _of(item.uri))}
        # The first file of an archive stands for all; it may be saved again after a collision.
        if (item.size, item.mtime_ns) in now and written in ([], [item.uri]):
            also()
            written[:] = [item.uri]

    failed = _run(desk, database, replace(stage, save=save), path)
    if failed and not written:
        raise InputError(f"{tool}: {failed[0]}", "Nothing was kept.")
    if not written:
        also()


def _of(uri: str) -> dict[str, list[str]]:
    return {"uris": [uri]}


def _run(desk: Desk, database: Database, stage: Stage, path: Path) -> list[str]:
    with desk.building, desk.services(database) as services:
        services.paths = (path,)
        return _told(run_stages([stage], services, _Silent()))


def make_pages(desk: Desk, database: Database, tool: str, number: int, concept: str = "") -> None:
    """Make the pages that a file of the audit feeds.

    Where that fails, or makes no ``concept`` that was to be, file and row are taken back.
    """
    [row] = database.dicts("list_audit", {"id": number, "n": 1})
    try:
        if failed := rebuild(desk, database, ("extract", *AFTER)):
            raise InputError(f"{tool}: {failed[0]}", "Nothing was kept.")
        if concept and not _is_concept(database, concept):
            raise InputError(
                f"{tool}: {concept} is no name that a text can be about.",
                "Nothing was kept. Give the name in words.",
            )
    except KbwikiError:
        # A file that is not ours and was a source before stays one, and the row with it.
        if row["before"] is not None or not row["after"].get("was_known"):
            with suppress(KbwikiError):
                take_back(desk, database, row, lambda: _drop(database, number))
                rebuild(desk, database, ("extract", *AFTER))
        raise


def _drop(database: Database, number: int) -> None:
    database.run("delete_audit", {"id": number})


def _is_concept(database: Database, name: str) -> bool:
    try:
        return bool(find_page(database, name)["folder"] == "concepts")
    except NotFoundError:
        return False


def take_back(desk: Desk, database: Database, row: dict[str, Any], also: Also) -> None:
    """Give a file of the audit back the text that it had, or remove it; no page is made anew."""
    path = Path(row["after"]["path"])
    if row["before"] is not None:
        write_note(desk, database, row["tool"], path, row["before"]["text"], lambda _: also())
        return
    uri = row["after"]["uri"]
    with (
        desk.building, desk.services(database) as services,
        database.locked(RESOLVE.name), database.transaction(),
    ):  # fmt: skip
        curate.remove_sources(services, uris_of(database, uri) or [uri], False)
        also()
    if row["after"]["is_ours"]:
        path.unlink(missing_ok=True)
