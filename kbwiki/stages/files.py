"""The files under the paths that a person names: what is there, what is ignored, safe reading."""

import hashlib
import json
import os
import re
import stat
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pathspec

from kbwiki.errors import InputError
from kbwiki.stages.archives import SUFFIXES, is_archive, list_members
from kbwiki.text.normal import clean_line
from kbwiki.text.readers import READERS, suffix_of

IGNORE_FILE = ".kbwikiignore"
_MANIFEST = ".manifest.json"
_ADDRESS = re.compile(r"[a-z][a-z0-9+.-]*://|arxiv:(?!//)", re.IGNORECASE)
_ESCAPED = re.compile(rb"\\(?:\\|x([0-9a-f]{2}))")


@dataclass(frozen=True, slots=True)
class FileItem:
    """A file to read, or, with ``problem``, a path that cannot be read."""

    path: Path
    uri: str
    size: int = 0
    mtime_ns: int = 0
    problem: str = ""
    hint: str = ""
    read: Callable[[int], bytes] | None = None
    """For a member of an archive: returns at most so many of its bytes."""
    kind: str = ""
    """The suffix of what it is, where its uri does not end in it: for a page that was fetched."""
    charset: str = ""
    title: str = ""
    """These two as whoever gave the file said, where they did."""

    @property
    def suffix(self) -> str:
        """The suffix that picks its reader."""
        return self.kind or suffix_of(self.uri)


@dataclass(slots=True)
class Found:
    """What a walk saw: every file by its uri, the folders named, and those it learnt nothing of.

    A folder is blind if it could not be read, holds nothing (a disk may not be mounted there) or
    was walked under another name: that a file is not seen in it does not say that it is gone.
    """

    files: dict[str, FileItem] = field(default_factory=dict)
    named: set[Path] = field(default_factory=set)
    blind: set[Path] = field(default_factory=set)
    unread: Counter[str] = field(default_factory=Counter)
    """How many files no reader knows, by suffix."""


def uri_of(path: Path, root: Path) -> str:
    """Return a file's name in the store: from ``root`` where it lies in it, else absolute.

    Bytes that are not UTF-8 are written as ``\\xff``, a backslash twice: each path has its own uri.
    """
    try:
        name = path.relative_to(root).as_posix()
    except ValueError:
        name = path.as_posix()
    return os.fsencode(name).replace(b"\\", b"\\\\").decode("utf-8", "backslashreplace")


def is_remote(uri: str) -> bool:
    """Tell whether a uri is no path, but an address that was fetched or standard input."""
    return "://" in uri  # a path never has two slashes in a row


def is_address(name: str) -> bool:
    """Tell whether a name that a person gave is an address and no path, be it a wrong one."""
    return bool(_ADDRESS.match(name))


def path_of(uri: str, root: Path) -> Path:
    """Return the path that has a uri."""
    raw = uri.encode("utf-8", "surrogateescape")
    name = _ESCAPED.sub(lambda m: bytes.fromhex(m[1].decode()) if m[1] else b"\\", raw)
    return root / os.fsdecode(name)


def find_files(paths: tuple[Path, ...], root: Path, wiki: Path) -> Found:
    """Return every readable kind of file under the paths, in path order.

    Hidden files, those that a ``.kbwikiignore`` (gitignore's syntax) names and exported wikis are
    left out; a folder is walked once, whatever its names. Raises InputError where a
    ``.kbwikiignore`` cannot be read.
    """
    walk = _Walk(root, wiki)
    for path in paths:
        walk.name(Path(os.path.abspath(path)))
    return walk.found


_Spec = tuple[Path, pathspec.GitIgnoreSpec]


class _Walk:
    def __init__(self, root: Path, wiki: Path) -> None:
        self.root = root
        self.wiki = wiki
        self.found = Found()
        self.seen: dict[tuple[int, int], Path] = {}
        self.wikis: dict[Path, bool] = {}
        self.n_hits = 0

    def name(self, path: Path) -> None:
        """Add what lies under a path that a person named."""
        self.found.named.add(path)
        try:
            info = path.stat()
        except OSError as error:
            self._problem(path, f"{error.strerror or error}".lower(), "Check the path.")
            return
        if self._is_exported(path):
            self._problem(
                path, "it is part of an exported wiki", "Name the notes, not what came of them."
            )
        elif stat.S_ISDIR(info.st_mode):
            n_hits = self.n_hits
            self._folder(path, [s for folder in self._above(path) for s in self._ignored(folder)])
            if self.n_hits == n_hits:
                known = ", ".join([*READERS, *SUFFIXES])
                self._problem(path, "no file to read in this folder", f"Known kinds: {known}.")
        else:
            self._file(path, info)

    def _above(self, path: Path) -> list[Path]:
        """Return the folders from the root to above a path, outermost first."""
        inside = [p for p in reversed(path.parents) if p.is_relative_to(self.root)]
        return inside if path.is_relative_to(self.root) else []

    def _ignored(self, folder: Path) -> list[_Spec]:
        path = folder / IGNORE_FILE
        where = clean_line(uri_of(path, self.root))
        try:
            lines = path.read_text("utf-8").splitlines()
            return [(folder, pathspec.GitIgnoreSpec.from_lines(lines))]
        except (FileNotFoundError, NotADirectoryError):
            return []
        except OSError as error:
            what = (error.strerror or str(error)).lower()
            raise InputError(f"{where}: {what}.", "Nothing was read. Check its permissions.") from (
                error
            )
        except UnicodeDecodeError as error:
            raise InputError(
                f"{where}: it is not UTF-8.", "Nothing was read. Save it as UTF-8."
            ) from error
        except ValueError as error:
            raise InputError(f"{where}: {error}", "Nothing was read. Mend the pattern.") from error

    def _folder(self, folder: Path, specs: list[_Spec]) -> None:
        try:
            info = folder.stat()
            walked = self.seen.setdefault((info.st_dev, info.st_ino), folder)
            if walked is not folder:
                self.n_hits += 1
                if walked != folder:
                    self.found.blind.add(folder)
                return
            entries = sorted(os.scandir(folder), key=lambda e: e.name)
        except OSError as error:
            self._problem(folder, f"{error.strerror or error}".lower(), "Check its permissions.")
            return
        specs = specs + self._ignored(folder)
        entries = [entry for entry in entries if not entry.name.startswith(".")]
        if not entries:
            self.found.blind.add(folder)
        for entry in entries:
            self._entry(entry, specs)

    def _entry(self, entry: os.DirEntry[str], specs: list[_Spec]) -> None:
        path = Path(entry.path)
        try:
            is_folder = entry.is_dir()
        except OSError:
            is_folder = False
        if _is_ignored(path, is_folder, specs):
            return
        is_readable = suffix_of(entry.name) in READERS or is_archive(entry.name)
        if is_folder:
            if not self._is_exported(path, linked=entry.is_symlink()):
                self._folder(path, specs)
        elif is_readable and not (entry.is_symlink() and self._is_exported(path)):
            try:
                self._file(path, entry.stat())
            except OSError as error:
                self._problem(path, f"{error.strerror or error}".lower(), "A broken link?")
        elif not os.path.exists(path):  # a link that leads nowhere
            self.found.blind.add(path)
        elif not is_readable:
            self.found.unread[suffix_of(entry.name) or entry.name] += 1

    def _is_exported(self, path: Path, linked: bool = True) -> bool:
        """Tell whether a path is or lies in a wiki; what stands above one not linked is known."""
        real = Path(os.path.realpath(path))
        return any(self._is_wiki(folder) for folder in (real, *(real.parents if linked else ())))

    def _is_wiki(self, folder: Path) -> bool:
        if folder not in self.wikis:
            self.wikis[folder] = _is_same(folder, self.wiki) or _has_manifest(folder)
        return self.wikis[folder]

    def _file(self, path: Path, info: os.stat_result) -> None:
        if not stat.S_ISREG(info.st_mode):
            self._problem(path, "it is no regular file", "Leave it out with .kbwikiignore.")
            return
        if is_archive(path.name):
            self._archive(path, info)
            return
        self._add(FileItem(path, uri_of(path, self.root), info.st_size, info.st_mtime_ns))

    def _archive(self, path: Path, info: os.stat_result) -> None:
        """Add the files in an archive, under its path as if it were a folder."""
        specs = [s for folder in self._above(path) for s in self._ignored(folder)]
        try:
            listing = list_members(path)
        except InputError as error:
            self._problem(path, error.message, error.hint)
            return
        n_hits = self.n_hits
        for member in listing.members:
            inside = path / member.name
            if _is_ignored(inside, False, specs):
                continue
            uri = uri_of(inside, self.root)
            if member.problem:
                self._add(FileItem(inside, uri, problem=member.problem, hint=member.hint))
            elif suffix_of(member.name) in READERS:
                self._add(FileItem(inside, uri, member.size, info.st_mtime_ns, read=member.read))
            else:
                self.found.unread[suffix_of(member.name) or inside.name] += 1
        if listing.is_cut:
            what = "it is cut: what is whole in it was read"
            self._problem(path, what, "Get the whole archive.")
        elif self.n_hits == n_hits:
            self._problem(path, "no file to read in this archive", "See what it holds.")

    def _problem(self, path: Path, problem: str, hint: str) -> None:
        self.found.blind.add(path)
        self._add(FileItem(path, uri_of(path, self.root), problem=problem, hint=hint))

    def _add(self, item: FileItem) -> None:
        self.n_hits += 1
        self.found.files.setdefault(item.uri, item)


def _is_ignored(path: Path, is_folder: bool, specs: list[_Spec]) -> bool:
    """Tell what the innermost file of patterns that says anything of a path says."""
    for folder, spec in reversed(specs):
        name = path.relative_to(folder).as_posix() + ("/" if is_folder else "")
        include = spec.check_file(name).include
        if include is not None:
            return include
    return False


def _is_same(one: Path, other: Path) -> bool:
    try:
        return os.path.samestat(one.stat(), other.stat())
    except OSError:
        return False


def _has_manifest(folder: Path) -> bool:
    """Tell whether a folder holds the manifest that `export` writes."""
    try:
        content = json.loads((folder / _MANIFEST).read_bytes())
    except (OSError, ValueError, RecursionError):
        return False
    return (
        isinstance(content, dict)
        and isinstance(content.get("version"), int)
        and isinstance(content.get("files"), dict)
    )


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
    if item.read is not None:
        return _read_member(item, where, max_bytes)
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


def _read_member(item: FileItem, where: str, max_bytes: int) -> tuple[bytes, str]:
    assert item.read is not None
    try:
        raw = item.read(max_bytes + 1)
    except InputError as error:
        raise InputError(f"{where}: {error.message}.", error.hint) from error
    if len(raw) != item.size:
        raise InputError(f"{where}: its archive is cut or changed.", "Run the command again.")
    return raw, hashlib.sha256(raw).hexdigest()
