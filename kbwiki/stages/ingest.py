"""ingest: files become Sources and Chunks.

A file whose size and time are as recorded is not opened; one whose bytes are known is not parsed.
"""

import os
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

from kbwiki.errors import ConfigError, InputError
from kbwiki.records import Chunk, Document
from kbwiki.stages.files import (
    FileItem,
    Found,
    find_files,
    is_address,
    is_remote,
    path_of,
    read_file,
)
from kbwiki.stages.reading import Job, Readers
from kbwiki.stages.stage import BATCH, Intake, Partial, Services, Stage
from kbwiki.text.normal import clean_line
from kbwiki.text.readers import reader_kind
from kbwiki.text.words import lang_of

READER = "reader-10"
"""Part of every fingerprint; a new value makes all sources stale."""
BY_OCR = "+ocr"
"""Ends the reader of what was read with OCR at hand."""
_LOOK_UP = 4 * BATCH
_SHOWN = 5
"""Kinds of files that are named among those not read."""


@dataclass(frozen=True, slots=True)
class Read:
    """A file's hash, and its Document and chunks unless the store has these bytes already.

    ``title`` is what the bytes say; the Document of a file that gives no title bears its name.
    """

    item: FileItem
    sha256: str
    document: Document | None
    chunks: tuple[Chunk, ...] = ()
    title: str = ""


@dataclass(slots=True)
class _Run:
    """A run over the files of its paths: what the walk saw and what is left to look at."""

    root: Path
    found: Found
    todo: dict[str, FileItem]
    shas: set[tuple[str, str]]
    """The bytes that the store holds as this run would read them, as (sha256, reader)."""
    use_ocr: bool = False
    seen: set[str] = field(default_factory=set)
    """The uris of what an earlier run read with OCR: it is not read without it again."""
    kinds: dict[str, str] = field(default_factory=dict)
    readers: Readers = field(default_factory=Readers)
    unindexed: list[int] = field(default_factory=list)
    """Sources whose chunks search cannot find yet."""

    def is_named(self, uri: str) -> bool:
        """Tell whether a uri lies under a folder that this run walked or should have walked."""
        if is_remote(uri):
            return False
        return not self.found.named.isdisjoint(path_of(uri, self.root).parents)

    def is_lost(self, uri: str) -> bool:
        """Tell whether this run's walk should have seen a uri and did not."""
        return uri not in self.found.files and self.is_named(uri)

    def is_blind(self, uri: str) -> bool:
        """Tell whether a uri lies in a folder of which the walk learnt nothing."""
        path = path_of(uri, self.root)
        return not self.found.blind.isdisjoint((path, *path.parents))

    def reader(self, uris: list[str]) -> str:
        """Return how bytes with these names are to be read: as the first name that stands says."""
        standing = sorted((is_remote(u), u) for u in uris if not self.is_lost(u))
        first = standing[0][1] if standing else uris[0]
        item = self.found.files.get(first)
        return _reader(item) if item else READER + reader_kind(first)

    def is_right(self, row: dict[str, Any], reader: str) -> bool:
        """Tell whether what the store holds is as a reader would read it in this run."""
        if row["reader"] == reader:
            return not (self.use_ocr and row["is_partial"] and reader == READER + ".pdf")
        return bool(row["reader"] == reader + BY_OCR)


def _reader(item: FileItem) -> str:
    return READER + reader_kind(f"_{item.suffix}")


def _run(services: Services) -> _Run:
    """Return this run, begun at the first call: the tree is walked once."""
    run = services.memo.get("ingest")
    if not isinstance(run, _Run):
        found = find_files(services.paths, services.root, services.wiki)
        found.files.update({item.uri: item for item in services.fetched})
        run = _Run(services.root, found, dict(found.files), set(), services.use_ocr)
        for row in services.database.dicts("list_shas"):
            reader = row["reader"].removesuffix(BY_OCR)
            if run.is_right(row, reader):
                run.shas.add((row["sha256"], reader))
        services.memo["ingest"] = run
    return run


def pending(services: Services, skip: list[str]) -> list[FileItem]:
    """Return the files that are new, or whose size or time changed, or that are read otherwise."""
    run = _run(services)
    left_out = set(skip)
    out: list[FileItem] = []
    while len(out) < BATCH:
        items = list(islice((i for u, i in run.todo.items() if u not in left_out), _LOOK_UP))
        if not items:
            break
        params = {"uris": [item.uri for item in items]}
        known = {row["uri"]: row for row in services.database.dicts("list_known", params)}
        for item in items:
            if not _is_stale(run, item, known.get(item.uri)):
                del run.todo[item.uri]
                run.kinds.setdefault(item.uri, "same")
            elif len(out) < BATCH:
                left_out.add(item.uri)
                out.append(item)
    return out


def _is_stale(run: _Run, item: FileItem, row: dict[str, Any] | None) -> bool:
    if row is not None and row["reader"].endswith(BY_OCR):
        run.seen.add(item.uri)
    if row is None or (row["size"], row["mtime_ns"]) != (item.size, item.mtime_ns):
        return True
    reader = run.reader(row["uris"])
    # Only a file of the right kind can mend what was read otherwise.
    return not run.is_right(row, reader) and reader == _reader(item)


def work(services: Services, item: FileItem) -> Read:
    """Return what a file holds."""
    raw, sha = read_file(item, services.max_file_bytes)
    if (sha, _reader(item)) in _run(services).shas:
        return Read(item, sha, None)
    try:
        parsed = _run(services).readers.read(
            Job(
                item.uri,
                raw,
                item.suffix,
                item.charset,
                item.title,
                services.force,
                _by_ocr(services, item),
            )
        )
    except ConfigError as error:
        if services.use_ocr:
            raise
        raise InputError(f"{clean_line(item.uri)}: {error.message}", error.hint) from error
    except InputError as error:
        where = clean_line(item.uri)
        message = error.message if error.message.startswith(where) else f"{where}: {error.message}"
        raise type(error)(message, error.hint) from error
    return Read(item, sha, parsed.document, parsed.chunks, parsed.title)


def _by_ocr(services: Services, item: FileItem) -> bool:
    """Tell whether a file is read with OCR: it was asked for, or was when it was last read."""
    is_pdf = _reader(item) == READER + ".pdf"
    return is_pdf and (services.use_ocr or item.uri in _run(services).seen)


def save(services: Services, item: FileItem, read: Read) -> None:
    """Store a source, its uri, its chunks; drop what no file holds any more."""
    database = services.database
    run = _run(services)
    old = database.value("find_uri", {"uri": item.uri})
    # Else two processes that exchange the bytes of two files lock these rows crosswise, and one
    # may remove a source while the other names it.
    database.run("lock_shas", {"shas": [read.sha256, old or read.sha256]})
    stored = database.dicts("find_source", {"sha256": read.sha256})
    reader = run.reader([item.uri, *(stored[0]["uris"] if stored else [])])
    is_mine = reader == _reader(item)
    # Laying chunks anew takes the mentions in them away, so what is read as it should be stays.
    if not stored or (is_mine and not run.is_right(stored[0], reader)):
        if read.document is None:
            # It was stored when the run began; `pending` offers the file again, to be read.
            run.shas.discard((read.sha256, _reader(item)))
            return
        _save_source(services, read, read.document)
    params = {"uri": item.uri, "sha256": read.sha256, "size": item.size, "mtime_ns": item.mtime_ns}
    database.run("save_uri", params)
    run.kinds[item.uri] = "new" if old is None else "same" if old == read.sha256 else "changed"
    if old not in {None, read.sha256}:
        database.run("delete_unnamed_source", {"sha256": old})
    if len(run.unindexed) >= BATCH:
        # Last, so that whoever waits for the index is waited for by nobody.
        database.run("index_chunks", {"sources": run.unindexed})
        run.unindexed = []


def _save_source(services: Services, read: Read, document: Document) -> None:
    database = services.database
    reader = _reader(read.item) + BY_OCR * _by_ocr(services, read.item)
    source_id = database.value("save_source", {**_source(read, document), "reader": reader})
    database.run("delete_chunks", {"source_id": source_id})
    text = document.text
    chunks = [_chunk(chunk, text[chunk.start : chunk.end]) for chunk in read.chunks]
    database.run("save_chunks", {"source_id": source_id, "chunks": {"chunks": chunks}})
    _run(services).unindexed.append(source_id)
    _run(services).shas.add((read.sha256, _reader(read.item)))


def _source(read: Read, document: Document) -> dict[str, object]:
    return {
        "sha256": read.sha256,
        "title": read.title,
        "authors": list(document.authors),
        "year": document.year,
        "dated": document.dated,
        "lang": lang_of(document.text),
        "text": document.text,
        "structure": {
            "blocks": [[b.kind, b.start, b.end, b.level] for b in document.blocks],
            "marks": [[m.kind, m.start, m.end, m.target] for m in document.marks],
            "pages": list(document.pages),
            "aliases": list(document.aliases),
            "coverage": list(document.coverage),
            "characters": list(document.characters),
            "ids": list(document.ids),
            "references": [[r.key, list(r.authors), r.year] for r in document.references],
        },
        "notes": list(document.notes),
        "is_partial": document.coverage[0] < document.coverage[1],
    }


def _chunk(chunk: Chunk, text: str) -> dict[str, object]:
    return {
        "ordinal": chunk.ordinal,
        "start_at": chunk.start,
        "end_at": chunk.end,
        "page": chunk.page,
        "headings": list(chunk.headings),
        "lang": chunk.lang,
        "text": text,
    }


def finish(services: Services) -> str:
    """Let go of names that files no longer have; return how many files were new, changed, ...

    A file that vanished while its bytes stand under another name was moved. Any other is only
    reported, unless the run is to prune: it may lie on a disk that is not mounted today. So even
    then it stays where the walk learnt nothing of its folder.
    """
    run = _run(services)
    del services.memo["ingest"]
    run.readers.close()
    counts = Counter(kind for uri, kind in run.kinds.items() if uri not in run.todo)
    moved, n_renamed, vanished, unsure = _lost(run, _names(services))
    counts["new"] -= n_renamed
    said = [f"{counts['new']} new", f"{counts['changed']} changed", f"{counts['same']} as before"]
    with services.database.transaction():
        services.database.run("delete_uris", {"uris": moved + vanished * services.prune})
        if services.prune:
            services.database.run("delete_sources_without_uri")
    services.database.run("settle_index")
    services.intake = Intake(
        {
            "read": counts["new"],
            "unchanged": counts["same"],
            "changed": counts["changed"],
            "moved": len(moved),
        },
        tuple(
            row
            for row in services.database.rows("list_partial", Partial)
            if row.uri in run.found.files
        ),
        dict(run.found.unread),
    )
    if moved:
        said.append(f"{len(moved)} moved")
    if vanished and services.prune:
        said.append(f"{len(vanished)} pruned")
    elif vanished:
        said.append(f"{_several(vanished, 'vanished')}: --prune removes them")
    if unsure:
        said.append(
            f"{_several(unsure, 'not found')}: kept, for their folder is away, empty or closed"
        )
    if run.found.unread:
        unread = sorted(run.found.unread.items(), key=lambda each: (-each[1], each[0]))
        kinds = ", ".join(f"{n} {kind}" for kind, n in unread[:_SHOWN])
        more = ", ..." if len(run.found.unread) > _SHOWN else ""
        said.append(f"{run.found.unread.total()} of kinds that are not read ({kinds}{more})")
    return ", ".join(said)


def _several(uris: list[str], what: str) -> str:
    shown = ", ".join(uris[:3]) + (", ..." if len(uris) > 3 else "")
    return f"{len(uris)} {what} ({shown})"


def vanished(services: Services) -> tuple[list[str], list[str]]:
    """Return the uris that a run over these paths would prune; nothing is taken in or let go.

    With them come the other names of their bytes that stand for other bytes by now. Files that are
    new or changed are hashed, to tell a file that was moved from one that is gone.
    """
    run = _run(services)
    names = _names(services)
    owner = {uri: source_id for source_id, uris in names.items() for uri in uris}
    seen: list[str] = []
    left: list[str] = []
    while items := pending(services, seen):
        for item in items:
            seen.append(item.uri)
            try:
                _, sha = read_file(item, services.max_file_bytes)
            except InputError:
                continue  # it keeps what the store has of it
            if item.uri in owner:
                names[owner[item.uri]].remove(item.uri)
                left.append(item.uri)
            for row in services.database.dicts("find_source", {"sha256": sha}):
                names[owner[row["uris"][0]]].append(item.uri)
    del services.memo["ingest"]
    gone = _lost(run, names)[2]
    pruned = {owner[uri] for uri in gone}
    return gone, [uri for uri in left if owner[uri] in pruned and uri not in names[owner[uri]]]


def _names(services: Services) -> dict[int, list[str]]:
    """Return the uris of each source."""
    names: dict[int, list[str]] = defaultdict(list)
    for row in services.database.dicts("list_source_uris"):
        names[row["source_id"]].append(row["uri"])
    return names


def _lost(run: _Run, names: dict[int, list[str]]) -> tuple[list[str], int, list[str], list[str]]:
    """Return the uris under this run's folders that were not seen there: moved ones, those that
    are gone, and those of which the walk can tell nothing. With the moved ones comes how many of
    them stand under a name that is new.
    """
    moved: list[str] = []
    n_renamed = 0
    vanished: list[str] = []
    unsure: list[str] = []
    for uris in names.values():
        lost = [uri for uri in uris if run.is_lost(uri)]
        if not lost:
            continue
        others = set(uris).difference(lost)
        if any(u in run.found.files or _stands(u, run.root) for u in others):
            moved += lost
            n_renamed += min(len(lost), sum(run.kinds.get(uri) == "new" for uri in others))
        else:
            for uri in lost:
                (unsure if run.is_blind(uri) else vanished).append(uri)
    return sorted(moved), n_renamed, sorted(vanished), sorted(unsure)


def _stands(uri: str, root: Path) -> bool:
    return is_remote(uri) or os.path.lexists(path_of(uri, root))


def gone(services: Services, items: list[str]) -> list[str]:
    """Return those that lie under the paths of this run or are no longer on the disk.

    An address is not: no run asks for it again unless it is named, so its failure stays.
    """
    run = _run(services)
    return [
        item
        for item in items
        if not is_address(item)
        and (
            run.is_named(item)
            or not _is_there(path := path_of(item, services.root))
            or path in run.found.named
        )
    ]


def _is_there(path: Path) -> bool:
    """Tell whether a path is there, or lies in an archive that is."""
    return os.path.lexists(path) or any(folder.is_file() for folder in path.parents)


STAGE = Stage(
    name="ingest",
    key=lambda item: item.uri,
    pending=pending,
    work=work,
    save=save,
    finish=finish,
    gone=gone,
)
