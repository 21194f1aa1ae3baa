"""Archives of files (.zip, .tar, .tar.gz): what is in them, within bounds, and its bytes.

A member is a file under its archive's path, as if that were a folder. Nothing is ever unpacked to
a path that an archive names.
"""

import gzip
import os
import tarfile
import tempfile
import weakref
import zipfile
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path, PurePosixPath
from typing import IO

from kbwiki.errors import InputError

SUFFIXES = (".zip", ".tar", ".tar.gz", ".tgz")
MAX_MEMBERS = 10_000
MAX_DEPTH = 20
MAX_UNPACKED = 1_000_000_000
"""Bytes that an archive may hold unpacked."""
MAX_RATIO = 200
"""How many times its packed size a member or archive of over ``LARGE`` bytes may unpack to."""
LARGE = 10_000_000
_FAULTS = (
    zipfile.BadZipFile, tarfile.TarError, RuntimeError, OSError, EOFError, ValueError,
    NotImplementedError, zlib.error,
)  # fmt: skip
_END = bytes(tarfile.BLOCKSIZE)
_WHOLE = "Get the whole archive."


@dataclass(frozen=True, slots=True)
class Member:
    """A file in an archive; ``read`` returns at most so many of its bytes.

    With ``problem`` it cannot be read.
    """

    name: str
    size: int = 0
    read: Callable[[int], bytes] | None = None
    problem: str = ""
    hint: str = ""


@dataclass(frozen=True, slots=True)
class Listing:
    """The files of an archive in order of their names; with ``is_cut`` there were more."""

    members: tuple[Member, ...]
    is_cut: bool = False


class _Cut(Exception):
    """The bytes of an archive end before it does."""


def is_archive(name: str) -> bool:
    """Tell whether a file's name is that of an archive."""
    return name.lower().endswith(SUFFIXES)


def list_members(path: Path) -> Listing:
    """Return the files of an archive, hidden ones left out; of a tar that was cut, the whole ones.

    Raises InputError, whose message begins with what is wrong, where it cannot be opened, holds
    nothing whole or passes the bounds on count and size.
    """
    members: list[Member] = []
    is_cut = False
    try:
        with path.open("rb") as file:
            head = file.read(4)
        members.extend(_zip(path) if head[:2] == b"PK" else _tar(path))
    except _Cut as error:
        if not members:
            raise InputError("it is broken or no archive", "Save a clean copy.") from error
        is_cut = True
    except _FAULTS as error:
        raise InputError("it is broken or no archive", "Save a clean copy.") from error
    return Listing(tuple(_told_apart(sorted(members, key=lambda m: m.name))), is_cut)


def _told_apart(members: list[Member]) -> list[Member]:
    """Return members with names of their own: an archive may hold two of one name."""
    seen: Counter[str] = Counter()
    out: list[Member] = []
    for member in members:
        seen[member.name] += 1
        path, n = PurePosixPath(member.name), seen[member.name]
        other = path.with_name(f"{path.stem} ({n}){path.suffix}").as_posix() if n > 1 else ""
        out.append(replace(member, name=other or member.name))
    return out


def _checked(name: str, size: int) -> Member | None:
    """Return a member with its problem; None where it is hidden."""
    path = PurePosixPath(name.replace("\\", "/"))
    shown = "/".join(part for part in path.parts if part not in {"/", ".."})
    if not shown:
        return Member("one without a name", size, problem="it has no name", hint="Pack it anew.")
    if path.is_absolute() or ".." in path.parts or path.parts[0].endswith(":"):
        return Member(shown, size, problem="its path leads outside its archive", hint="Rename it.")
    if any(part.startswith(".") or part == "__MACOSX" for part in path.parts):
        return None
    if len(path.parts) > MAX_DEPTH:
        return Member(
            shown, size, problem=f"it lies over {MAX_DEPTH} folders deep", hint="Move it."
        )
    if is_archive(name):
        return Member(
            shown, size, problem="it is an archive in an archive", hint="Unpack the outer one."
        )
    return Member(shown, size)


def _count(n_members: int, n_bytes: int) -> None:
    if n_members > MAX_MEMBERS:
        raise InputError(f"it holds over {MAX_MEMBERS:,} files", "Unpack what is wanted of it.")
    if n_bytes > MAX_UNPACKED:
        raise InputError(
            f"it unpacks to over {MAX_UNPACKED / 1e6:.0f} MB", "Unpack what is wanted of it."
        )


def _zip(path: Path) -> Iterator[Member]:
    with zipfile.ZipFile(path) as archive:
        parts = [part for part in archive.infolist() if not part.is_dir()]
    _count(len(parts), sum(part.file_size for part in parts))
    for part in parts:
        member = _checked(_name_of(part), part.file_size)
        if member is None or member.problem:
            yield from filter(None, [member])
        elif part.flag_bits & 1:
            yield Member(member.name, problem="it is encrypted", hint="Unpack its archive.")
        elif part.file_size > LARGE and part.file_size > MAX_RATIO * part.compress_size:
            yield _bomb(member.name)
        else:
            yield Member(member.name, part.file_size, partial(_read_part, path, part))


def _bomb(name: str) -> Member:
    return Member(name, problem="it unpacks to far more than it is", hint="It may be a zip bomb.")


def _name_of(part: zipfile.ZipInfo) -> str:
    """Return a part's name; without the flag of UTF-8 it is in the code page of old Windows."""
    if part.flag_bits & 0x800:
        return part.filename
    try:
        raw = part.filename.encode("cp437")
    except UnicodeEncodeError:
        return part.filename
    for encoding in ("utf-8", "cp866"):
        try:
            return raw.decode(encoding)
        except UnicodeDecodeError:
            continue
    return part.filename


def _read_part(path: Path, part: zipfile.ZipInfo, limit: int) -> bytes:
    try:
        with zipfile.ZipFile(path) as archive, archive.open(part) as file:
            return file.read(limit)
    except _FAULTS as error:
        raise InputError("it is broken in its archive", "Pack it anew.") from error


class _Spool:
    """An open file that is closed with the last member that is read from it."""

    def __init__(self, file: IO[bytes]) -> None:
        self.fd = os.dup(file.fileno())
        weakref.finalize(self, os.close, self.fd)

    def read(self, start: int, size: int, limit: int) -> bytes:
        """Return a span of it, at most ``limit`` bytes; safe from several threads."""
        return os.pread(self.fd, min(size, limit), start)


def _tar(path: Path) -> Iterator[Member]:
    """Yield the members of a tar; a packed one is unpacked once, into a file without a name.

    Raises _Cut behind the last one where the tar has no end.
    """
    with _unpacked(path) as file, tarfile.open(fileobj=file, mode="r:") as archive:
        spool = _Spool(file)
        end = os.fstat(spool.fd).st_size
        number = 0
        while part := _next(archive):
            number += 1
            _count(number, 0)
            if part.isdir():
                continue
            member = _checked(part.name, part.size)
            if member is None or member.problem:
                yield from filter(None, [member])
            elif not part.isreg() or part.issparse():
                yield Member(member.name, problem="it is no regular file", hint="Pack the file.")
            elif part.offset_data + part.size > end:
                yield Member(member.name, problem="its archive is cut there", hint=_WHOLE)
            else:
                yield Member(
                    member.name, part.size, partial(spool.read, part.offset_data, part.size)
                )
        # tarfile takes a broken header for the end; the end is an empty one.
        if spool.read(archive.offset, tarfile.BLOCKSIZE, tarfile.BLOCKSIZE) != _END:
            raise _Cut


def _next(archive: tarfile.TarFile) -> tarfile.TarInfo | None:
    try:
        return archive.next()
    except (tarfile.TarError, EOFError) as error:
        raise _Cut from error


def _unpacked(path: Path) -> IO[bytes]:
    packed = path.open("rb")
    is_packed = packed.read(2) == b"\x1f\x8b"
    packed.seek(0)
    if not is_packed:
        return packed
    spool = tempfile.TemporaryFile()  # noqa: SIM115 - the caller closes it
    try:
        with packed, gzip.open(packed) as file:
            _unpack(file, spool, path.stat().st_size)
    except BaseException:
        spool.close()
        raise
    spool.seek(0)
    return spool


def _unpack(file: gzip.GzipFile, spool: IO[bytes], packed_size: int) -> None:
    n_bytes = 0
    while piece := _piece(file):
        n_bytes += len(piece)
        _count(0, n_bytes)
        if n_bytes > LARGE and n_bytes > MAX_RATIO * packed_size:
            raise InputError("it unpacks to far more than it is", "It may be a zip bomb.")
        spool.write(piece)


def _piece(file: gzip.GzipFile) -> bytes:
    """Return some of what a file holds; nothing where its bytes end or break before it does."""
    try:
        return file.read1(1_000_000)
    except (EOFError, zlib.error):
        return b""
