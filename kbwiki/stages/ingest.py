"""ingest: files become Sources and Chunks.

A file whose size and time are as recorded is not opened; one whose bytes are known is not parsed.
"""

import os
from collections import defaultdict
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath

from kbwiki.errors import InputError
from kbwiki.records import Chunk, Document
from kbwiki.stages.files import FileItem, find_files, read_file
from kbwiki.stages.stage import BATCH, Services, Stage
from kbwiki.text.chunks import chunk_document
from kbwiki.text.normal import clean_line
from kbwiki.text.readers import read_document
from kbwiki.text.words import lang_of

READER = "reader-2"
"""Part of every fingerprint; a new value makes all sources stale."""


@dataclass(frozen=True, slots=True)
class Read:
    """A file's hash, and its Document and chunks unless the store has these bytes already."""

    item: FileItem
    sha256: str
    document: Document | None
    chunks: tuple[Chunk, ...] = ()


def pending(services: Services, skip: list[str]) -> list[FileItem]:
    """Return the files that are new, or whose size or time changed."""
    database = services.database
    known = {
        row["uri"]: (row["size"], row["mtime_ns"], row["reader"])
        for row in database.dicts("list_uris")
    }
    services.memo["shas"] = {
        row["sha256"] for row in database.dicts("list_shas", {"reader": READER})
    }
    skipped = set(skip)
    out: dict[str, FileItem] = {}
    n_found = 0
    for item in find_files(services.paths, services.root, services.wiki):
        n_found += 1
        if item.uri not in skipped and known.get(item.uri) != (item.size, item.mtime_ns, READER):
            out[item.uri] = item
            if len(out) == BATCH:
                break
    services.memo["n_found"] = max(n_found, services.memo.get("n_found", 0))
    return list(out.values())


def work(services: Services, item: FileItem) -> Read:
    """Return what a file holds."""
    raw, sha = read_file(item, services.max_file_bytes)
    if sha in services.memo["shas"]:
        return Read(item, sha, None)
    try:
        document = read_document(item.uri, raw)
    except InputError as error:
        where = clean_line(item.uri)
        message = error.message if error.message.startswith(where) else f"{where}: {error.message}"
        raise InputError(message, error.hint) from error
    if not document.title:
        stem = PurePosixPath(item.uri).stem
        document = replace(document, title=clean_line(stem.replace("_", " ").replace("-", " ")))
    return Read(item, sha, document, tuple(chunk_document(document)))


def save(services: Services, item: FileItem, read: Read) -> None:
    """Store a source, its uri, its chunks and their postings; drop what no file holds any more."""
    database = services.database
    old = database.value("find_uri", {"uri": item.uri})
    # Else two processes that exchange the bytes of two files lock these rows crosswise, and one
    # may remove a source while the other names it.
    database.run("lock_shas", {"shas": [read.sha256, old or read.sha256]})
    if read.document is not None:
        source_id = database.value("save_source", _source(read, read.document))
        database.run("delete_chunks", {"source_id": source_id})
        text = read.document.text
        database.run_many(
            "save_chunk",
            [_chunk(source_id, chunk, text[chunk.start : chunk.end]) for chunk in read.chunks],
        )
        database.run("save_postings", {"source_id": source_id})
    params = {"uri": item.uri, "sha256": read.sha256, "size": item.size, "mtime_ns": item.mtime_ns}
    database.run("save_uri", params)
    kind = "n_new" if old is None else "n_same" if old == read.sha256 else "n_changed"
    services.memo[kind] = services.memo.get(kind, 0) + 1
    if kind == "n_changed":
        database.run("delete_unnamed_source", {"sha256": old})


def _source(read: Read, document: Document) -> dict[str, object]:
    return {
        "sha256": read.sha256,
        "title": clean_line(document.title),
        "authors": list(document.authors),
        "year": document.year,
        "dated": document.dated,
        "lang": lang_of(document.text),
        "text": document.text,
        "structure": {
            "blocks": [[b.kind, b.start, b.end, b.level] for b in document.blocks],
            "marks": [[m.kind, m.start, m.end, m.target] for m in document.marks],
            "pages": list(document.pages),
        },
        "notes": list(document.notes),
        "reader": READER,
    }


def _chunk(source_id: int, chunk: Chunk, text: str) -> dict[str, object]:
    return {
        "source_id": source_id,
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
    reported, unless the run is to prune: it may lie on a disk that is not mounted today.
    """
    memo = services.memo
    counts = [memo.get(name, 0) for name in ("n_new", "n_changed", "n_same")]
    n_left = max(0, memo.get("n_found", 0) - sum(counts))
    said = [f"{counts[0]} new", f"{counts[1]} changed", f"{n_left + counts[2]} as before"]
    moved, vanished = _lost(services)
    with services.database.transaction():
        services.database.run("delete_uris", {"uris": moved + vanished * services.prune})
        if services.prune:
            services.database.run("delete_sources_without_uri")
    if moved:
        said.append(f"{len(moved)} moved")
    if vanished and services.prune:
        said.append(f"{len(vanished)} pruned")
    elif vanished:
        shown = ", ".join(vanished[:3]) + (", ..." if len(vanished) > 3 else "")
        said.append(f"{len(vanished)} vanished ({shown}): --prune removes them")
    return ", ".join(said)


def _lost(services: Services) -> tuple[list[str], list[str]]:
    """Return the uris under this run's folders that are gone: moved ones, and all others."""
    walked = {Path(os.path.abspath(path)) for path in services.paths}
    names: dict[int, list[str]] = defaultdict(list)
    for row in services.database.dicts("list_source_uris"):
        names[row["source_id"]].append(row["uri"])
    moved: list[str] = []
    vanished: list[str] = []
    for uris in names.values():
        gone = [uri for uri in uris if not os.path.lexists(services.root / uri)]
        mine = [uri for uri in gone if not walked.isdisjoint((services.root / uri).parents)]
        if len(gone) < len(uris):
            moved += mine
        else:
            vanished += mine
    return sorted(moved), sorted(vanished)


def gone(services: Services, items: list[str]) -> list[str]:
    """Return those that lie under the paths of this run or are no longer on the disk."""
    walked = {Path(os.path.abspath(path)) for path in services.paths}
    found = [(item, services.root / item) for item in items]
    return [
        item
        for item, path in found
        if not walked.isdisjoint((path, *path.parents)) or not os.path.lexists(path)
    ]


STAGE = Stage(
    name="ingest",
    key=lambda item: item.uri,
    pending=pending,
    work=work,
    save=save,
    finish=finish,
    gone=gone,
)
