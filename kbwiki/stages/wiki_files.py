"""The files of the wiki, in which people write too: replaced and removed only as they are known.

A part of export. What is at a path changes places with what is to be there in one step, and is then
looked at: so an edit that a person saves at any moment before is seen, and put back.
"""

import ctypes
import errno
import hashlib
import os
import re
import sys
import uuid
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

NEW, OLD = ".kbwiki-new", ".kbwiki-old"
"""End the names of files that nobody is to see: ours half-written; what may be a person's."""
ODD = ""
"""Stands for the hash of what is no file that can be read: a link to nowhere, a pipe, a folder."""
_ABSENT, _EXCHANGE = 1, 2
"""RENAME_NOREPLACE and RENAME_EXCHANGE of linux/fs.h."""
_HERE = -100
"""AT_FDCWD: where a path that is not absolute begins."""
_UNKNOWN = {errno.EINVAL, errno.ENOSYS, errno.ENOTSUP}
_DIGITS = 12
"""Of a hash in a name, which has room for no more beside the longest name of a page."""
_NAMES = 1000
"""Names that are tried for a file that has to lie beside another."""
_HIDDEN = re.compile(
    rf"\.(.+)\.([0-9a-f]{{{_DIGITS}}}|none)\.([0-9a-f]{{{_DIGITS}}}|none)\.[0-9a-f]{{8}}"
    + re.escape(OLD),
    re.DOTALL,
)


def bytes_of(path: Path) -> bytes | None:
    """Return what a file holds; None for what is no file, or cannot be read."""
    with suppress(OSError):
        if path.is_file():  # to read a pipe may take for ever
            return path.read_bytes()
    return None


def sha_of(path: Path) -> str | None:
    """Return the hash of a file, ``ODD`` for what cannot be read as one; None where is nothing."""
    raw = bytes_of(path)
    if raw is not None:
        return hashlib.sha256(raw).hexdigest()
    return ODD if os.path.lexists(path) else None


def put(path: Path, content: bytes, expected: str | None) -> bool:
    """Replace a file whose hash is as expected (None: there is none); False, and nothing, if not.

    A reader sees the old bytes or the new. What is ``ODD`` is never replaced.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    ours = hashlib.sha256(content).hexdigest()
    with _hidden(path, ours, expected) as hidden:
        new = path.with_name(f".{uuid.uuid4().hex}{NEW}")
        try:
            new.write_bytes(content)
            new.rename(hidden)
        finally:
            new.unlink(missing_ok=True)
        if expected == ODD or sha_of(path) != expected:
            return False
        if expected is None:
            return _rename(hidden, path, _ABSENT)
        return _rename(hidden, path, _EXCHANGE) and sha_of(hidden) in {expected, ours, None}


def remove(path: Path, expected: str) -> bool:
    """Remove a file whose hash is as expected; False, and nothing, if it is another."""
    with _hidden(path, None, expected) as old:
        if expected == ODD or sha_of(path) != expected:
            return False
        path.rename(old)
        return sha_of(old) == expected


def settle(folder: Path) -> None:
    """Remove what a killed export left below a folder; what a person wrote is given back.

    What cannot be is left for the next time.
    """
    for left in list(folder.rglob(".*.kbwiki-*")):
        with suppress(OSError):
            if left.name.endswith(NEW):
                left.unlink(missing_ok=True)
            else:
                _settle(left)


@contextmanager
def _hidden(path: Path, ours: str | None, expected: str | None) -> Iterator[Path]:
    """Yield a path beside another, at which what is to come there and what stood there may lie.

    At the end, also one by a fault, what lies there is removed if it is one of the two, by their
    hashes, and else given back. Its name tells all that takes, if this process is killed.
    """
    known = ".".join((sha or "none")[:_DIGITS] for sha in (ours, expected))
    hidden = path.with_name(f".{path.name}.{known}.{uuid.uuid4().hex[:8]}{OLD}")
    try:
        yield hidden
    finally:
        _settle(hidden)


def _settle(hidden: Path) -> None:
    """Remove a hidden file that is ours; a person's goes back where it was, or beside it.

    Beside it, under a free name, where a person saved another in between.
    """
    found = _HIDDEN.fullmatch(hidden.name)
    if found is None:
        return
    name, *known = found.groups()
    path, ours = hidden.with_name(name), known[0]
    if _short(hidden) not in {*known, None}:
        here = _short(path)
        if here is None:
            _rename(hidden, path, _ABSENT)
        elif here == ours and _rename(hidden, path, _EXCHANGE) and _short(hidden) != ours:
            _rename(hidden, path, _EXCHANGE)  # what was saved meanwhile is the later, and stays
    if _short(hidden) in known:
        hidden.unlink(missing_ok=True)
    for number in range(1, _NAMES):
        beside = path.with_name(f"{path.stem}.kept-{number}{path.suffix}")
        if not os.path.lexists(hidden):
            return
        if not os.path.lexists(beside):
            _rename(hidden, beside, _ABSENT)


def _short(path: Path) -> str | None:
    sha = sha_of(path)
    return sha and sha[:_DIGITS]


def _rename(source: Path, target: Path, flag: int) -> bool:
    """Rename a file to where there is none, or exchange two; False where that is not so (now).

    Where the system or its file system cannot, the target is replaced: then what is saved in the
    moment between the look at it and now is lost.
    """
    error = _renameat2(source, target, flag)
    if error in {errno.EEXIST, errno.ENOENT}:
        return False
    if error in _UNKNOWN:
        source.replace(target)
    elif error:
        raise OSError(error, os.strerror(error), str(target))
    return True


def _renameat2(source: Path, target: Path, flag: int) -> int:
    """Return 0 or the error's number, ENOSYS on systems other than Linux."""
    call = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if sys.platform != "linux" or call is None:
        return errno.ENOSYS
    if call(_HERE, os.fsencode(source), _HERE, os.fsencode(target), ctypes.c_uint(flag)) == 0:
        return 0
    return ctypes.get_errno()


def others(folder: Path, known: Collection[str]) -> Iterator[tuple[str, Path]]:
    """Yield the pages in a wiki whose names are not known, in order; hidden folders are a
    person's.
    """
    for where, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(names):
            path = Path(where, name)
            relative = path.relative_to(folder).as_posix()
            if name.endswith(".md") and not name.startswith(".") and relative not in known:
                yield relative, path
