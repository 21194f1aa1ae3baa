"""What came from the network or from standard input: kept as files under ``.kbwiki/fetched/``.

Owns those files and what kind of file an answer is. Beside each lies a ``.json`` that says where it
came from.
"""

import json
import os
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

from kbwiki.errors import InputError
from kbwiki.fetch import Limits, Page, canonical, fetch, is_public
from kbwiki.stages.files import FileItem
from kbwiki.text.normal import clean_line, short_hash
from kbwiki.text.readers import READERS, kind_of, looks_like_html, suffix_of

FOLDER = "fetched"
STDIN = "stdin://"
_KINDS = {
    "text/html": ".html",
    "application/xhtml+xml": ".html",
    "application/pdf": ".pdf",
    "application/x-pdf": ".pdf",
    "text/markdown": ".md",
    "text/x-markdown": ".md",
    "text/x-rst": ".rst",
    "text/x-tex": ".tex",
    "application/x-tex": ".tex",
    "text/csv": ".csv",
    "text/tab-separated-values": ".tsv",
    "application/x-ipynb+json": ".ipynb",
    "application/jsonl": ".jsonl",
    "application/x-ndjson": ".jsonl",
    "application/x-bibtex": ".bib",
    "text/x-bibtex": ".bib",
    "application/epub+zip": ".epub",
    "application/vnd.openxmlformats-officedocument.wordprocessingml.document": ".docx",
    "application/vnd.openxmlformats-officedocument.presentationml.presentation": ".pptx",
    "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet": ".xlsx",
}
_VAGUE = {
    "", "text/plain", "application/octet-stream", "binary/octet-stream", "application/json",
    "application/x-download", "application/force-download",
}  # fmt: skip
"""Media types that servers give to what they do not know."""


def fetch_item(
    address: str, home: Path, max_bytes: int, may_ask: Callable[[str], bool] = is_public
) -> FileItem:
    """Return an address as a file to ingest; one that could not be fetched has a ``problem``."""
    uri = clean_line(address)
    try:
        uri = canonical(address)
        page = fetch(uri, Limits(max_bytes), may_ask)
        suffix = _suffix(uri, page)
    except InputError as error:
        problem = error.message.removeprefix(f"{uri}: ").removesuffix(".")
        return FileItem(home / FOLDER, uri, problem=problem, hint=error.hint)
    charset = page.charset if page.kind.startswith("text/") or suffix == ".html" else ""
    about = {"uri": uri, "address": page.url, "type": page.kind, "charset": charset}
    return _keep(home, page.body, suffix, about)


def given_item(raw: bytes, title: str, home: Path) -> FileItem:
    """Return what came on standard input as a file to ingest, named by its title."""
    suffix = _magic(raw) or (".html" if looks_like_html(raw) else ".md")
    name = clean_line(title) or short_hash(raw.hex(), 16)
    return _keep(home, raw, suffix, {"uri": STDIN + name, "title": clean_line(title)})


def _suffix(uri: str, page: Page) -> str:
    """Return what kind of file an answer is: by its bytes, else its type, else its address."""
    magic = _magic(page.body)
    if magic:
        return magic
    known = _KINDS.get(page.kind, "")
    is_html = looks_like_html(page.body)
    if is_html and (known in {"", ".pdf"} or known not in READERS):
        return ".html"
    if known:
        return known
    named = suffix_of(urlsplit(uri).path)
    if page.kind in _VAGUE or page.kind.startswith("text/"):
        if named in READERS:
            return named
        if page.kind.startswith("text/"):
            return ".txt"
    what = page.kind or "of an unknown kind"
    raise InputError(f"{uri}: it is {what}: nothing here reads that.", "Save what it holds.")


def _magic(raw: bytes) -> str:
    return kind_of(raw) or (".pdf" if b"%PDF-" in raw[:1024] else "")


def _keep(home: Path, raw: bytes, suffix: str, about: dict[str, str]) -> FileItem:
    """Write bytes where they are not there already, and say beside them whence they are."""
    folder = home / FOLDER
    stem = short_hash(about["uri"], 16)
    path = folder / f"{stem}{suffix}"
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        if not path.is_file() or path.read_bytes() != raw:
            _write(path, raw)
        for other in folder.glob(f"{stem}.*"):
            if other.suffix not in {suffix, ".json"}:
                other.unlink()
        _write(folder / f"{stem}.json", json.dumps(about, ensure_ascii=False, indent=1).encode())
        info = path.stat()
    except OSError as error:
        what = (error.strerror or str(error)).lower()
        return FileItem(path, about["uri"], problem=what, hint=f"Is there room in {folder}?")
    return FileItem(
        path,
        about["uri"],
        info.st_size,
        info.st_mtime_ns,
        kind=suffix,
        charset=about.get("charset", ""),
        title=about.get("title", ""),
    )


def _write(path: Path, raw: bytes) -> None:
    new = path.with_name(f".{path.name}.{os.getpid()}")
    new.write_bytes(raw)
    new.replace(path)
