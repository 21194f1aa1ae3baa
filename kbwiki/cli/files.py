"""Files that commands write: whole, or as they were; through links, to where these lead."""

import os
import shutil
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path


def write_whole(file: Path, lines: Iterable[str]) -> int:
    """Write lines to a file that is there whole or not at all; return how many there were.

    What is no regular file, such as a device or a pipe, is written to as it is.
    """
    target = Path(os.path.realpath(file))
    if target.exists() and not target.is_file():
        with target.open("w", encoding="utf-8", newline="\n") as stream:
            return _write(stream.write, lines)
    handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name[:100]}.")
    new = Path(name)
    try:
        with open(handle, "w", encoding="utf-8", newline="\n") as stream:
            n = _write(stream.write, lines)
        if target.exists():
            shutil.copymode(target, new)
        else:
            new.chmod(0o666 & ~_umask())
        new.replace(target)
    finally:
        new.unlink(missing_ok=True)
    return n


def _write(write: Callable[[str], object], lines: Iterable[str]) -> int:
    n = 0
    for line in lines:
        write(line)
        n += 1
    return n


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
