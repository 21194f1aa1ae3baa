"""The files under the paths that a person names: what is there, what is ignored, safe reading."""

import hashlib
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pathspec

from kbwiki.errors import InputError
from kbwiki.text.normal import clean_line
from kbwiki.text.readers import READERS, suffix_of

IGNORE_FILE = ".kbwikiignore"


@dataclass(frozen=True, slots=True)
class FileItem:
    """A file to read, or, with ``problem``, a path that cannot be read."""

    path: Path
    uri: str
    size: int = 0
    mtime_ns: int = 0
    problem: str = ""
    hint: str = ""


def uri_of(path: Path, root: Path) -> str:
    """Return a file's name in the store: from ``root`` where it lies in it, else absolute."""
    try:
        name = path.relative_to(root).as_posix()
    except ValueError:
        name = path.as_posix()
    return os.fsencode(name).decode("utf-8", "backslashreplace").replace("\x00", "")


def find_files(paths: tuple[Path, ...], root: Path, wiki: Path) -> Iterator[FileItem]:
    """Yield every readable kind of file under the paths, each once, in path order.

    Hidden files, those that a ``.kbwikiignore`` (gitignore's syntax) names and the exported wiki
    are left out; a symbolic link to a folder above itself ends there.
    """
    seen: set[tuple[int, int]] = set()
    for path in paths:
        absolute = Path(os.path.abspath(path))
        try:
            info = absolute.stat()
        except OSError as error:
            yield _problem(absolute, root, f"{error.strerror or error}".lower(), "Check the path.")
            continue
        if not stat.S_ISDIR(info.st_mode):
            yield _file(absolute, root, info)
            continue
        found = False
        for item in _walk(
            absolute, absolute, root, wiki, seen, _ignored(root) + _ignored(absolute)
        ):
            found = True
            yield item
        if not found:
            known = ", ".join(READERS)
            yield _problem(
                absolute, root, "no file to read in this folder", f"Known kinds: {known}."
            )


def _ignored(folder: Path) -> list[str]:
    try:
        return (folder / IGNORE_FILE).read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        return []


def _walk(
    folder: Path, top: Path, root: Path, wiki: Path, seen: set[tuple[int, int]], ignored: list[str]
) -> Iterator[FileItem]:
    spec = pathspec.GitIgnoreSpec.from_lines(ignored)
    try:
        info = folder.stat()
        if (info.st_dev, info.st_ino) in seen or folder == wiki:
            return
        seen.add((info.st_dev, info.st_ino))
        entries = sorted(os.scandir(folder), key=lambda e: e.name)
    except OSError as error:
        yield _problem(folder, root, f"{error.strerror or error}".lower(), "Check its permissions.")
        return
    for entry in entries:
        path = Path(entry.path)
        relative = path.relative_to(top).as_posix()
        try:
            is_folder = entry.is_dir()
        except OSError:
            is_folder = False
        if entry.name.startswith(".") or spec.match_file(relative + ("/" if is_folder else "")):
            continue
        if is_folder:
            yield from _walk(path, top, root, wiki, seen, ignored)
        elif suffix_of(entry.name) in READERS:
            try:
                yield _file(path, root, entry.stat())
            except OSError as error:
                yield _problem(path, root, f"{error.strerror or error}".lower(), "A broken link?")


def _file(path: Path, root: Path, info: os.stat_result) -> FileItem:
    if not stat.S_ISREG(info.st_mode):
        return _problem(path, root, "it is no regular file", "Leave it out with .kbwikiignore.")
    return FileItem(path, uri_of(path, root), info.st_size, info.st_mtime_ns)


def _problem(path: Path, root: Path, problem: str, hint: str) -> FileItem:
    return FileItem(path, uri_of(path, root), problem=problem, hint=hint)


def read_file(item: FileItem, max_bytes: int) -> tuple[bytes, str]:
    """Return the bytes of a file and their sha256; a file that changes meanwhile is refused."""
    where = clean_line(item.uri)
    if item.problem:
        raise InputError(f"{where}: {item.problem}.", item.hint)
    if item.size > max_bytes:
        raise InputError(
            f"{where}: {item.size / 1e6:.0f} MB is over the limit of {max_bytes / 1e6:.0f} MB.",
            "Split it, or set KBWIKI_MAX_FILE_MB.",
        )
    try:
        with item.path.open("rb") as file:
            before = os.fstat(file.fileno())
            raw = file.read(max_bytes + 1)
            after = os.fstat(file.fileno())
    except OSError as error:
        raise InputError(
            f"{where}: {(error.strerror or str(error)).lower()}.", "Check its permissions."
        ) from error
    if (before.st_size, before.st_mtime_ns) != (after.st_size, after.st_mtime_ns) or len(
        raw
    ) != after.st_size:
        raise InputError(f"{where}: the file changed while it was read.", "Run the command again.")
    return raw, hashlib.sha256(raw).hexdigest()
