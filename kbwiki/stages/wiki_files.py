"""The files of the wiki, in which people write too: replaced and removed only as they are known.

A part of export. What is at a path changes places with what is to be there in one step, and is then
looked at: so an edit that a person saves at any moment before is seen, and put back.
"""

import ctypes
import errno
import hashlib
import os
import sys
import uuid
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path

NEW = ".kbwiki-new"
"""Ends the names of files that nobody is to see."""
_ABSENT, _EXCHANGE = 1, 2
"""RENAME_NOREPLACE and RENAME_EXCHANGE of linux/fs.h."""
_HERE = -100
"""AT_FDCWD: where a path that is not absolute begins."""
_UNKNOWN = {errno.EINVAL, errno.ENOSYS, errno.ENOTSUP}


def sha_of(path: Path) -> str | None:
    """Return the hash of a file, or None where there is none."""
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except (FileNotFoundError, NotADirectoryError):
        return None


def put(path: Path, content: bytes, expected: str | None) -> bool:
    """Replace a file whose hash is as expected (None: there is none); False, and nothing, if not.

    A reader sees the old bytes or the new.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with _hidden(path) as new:
        new.write_bytes(content)
        if sha_of(path) != expected:
            return False
        if expected is None:
            return _rename(new, path, _ABSENT)
        if not _rename(new, path, _EXCHANGE):
            return False
        if not new.exists() or sha_of(new) == expected:
            return True
        _give_back(new, path, hashlib.sha256(content).hexdigest())
        return False


def remove(path: Path, expected: str) -> bool:
    """Remove a file whose hash is as expected; False, and nothing, if it is another."""
    with _hidden(path) as old:
        if sha_of(path) != expected:
            return False
        path.rename(old)
        if sha_of(old) == expected:
            return True
        _rename(old, path, _ABSENT)  # unless a person saved it once more by now
        return False


def _give_back(theirs: Path, path: Path, ours: str) -> None:
    """Exchange again; what was saved once more in between is the later of the two, and stays."""
    _rename(theirs, path, _EXCHANGE)
    if sha_of(theirs) not in {ours, None}:
        _rename(theirs, path, _EXCHANGE)


@contextmanager
def _hidden(path: Path) -> Iterator[Path]:
    """Yield a path beside another; what stands there at the end is removed."""
    hidden = path.parent / f".{uuid.uuid4().hex}{NEW}"
    try:
        yield hidden
    finally:
        hidden.unlink(missing_ok=True)


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
