"""Files that are zip archives inside (Office, EPUB): bounded before anything unpacks them."""

import io
import zipfile
import zlib

from kbwiki.errors import InputError

MAX_UNPACKED = 500_000_000
"""Bytes that one packed file may hold unpacked."""
MAX_RATIO = 200
"""How many times its packed size a large part may unpack to."""
FAULTS = (
    zipfile.BadZipFile, KeyError, ValueError, RuntimeError, OSError, EOFError, NotImplementedError,
    zlib.error,
)  # fmt: skip
"""What reading a part of a broken or locked archive raises."""
LARGE = 10_000_000
"""Bytes from which on the ratio counts: a small part may be all zeros."""


def open_packed(raw: bytes, what: str) -> zipfile.ZipFile:
    """Return the archive in a file's bytes; InputError if it is none, a bomb or locked.

    ``what`` names the format in messages.
    """
    try:
        archive = zipfile.ZipFile(io.BytesIO(raw))
    except (zipfile.BadZipFile, ValueError, NotImplementedError) as error:
        if raw[:4] == b"\xd0\xcf\x11\xe0":
            raise InputError(
                f"{what}: it is encrypted or of an old format.", f"Save it as a plain {what}."
            ) from error
        raise InputError(f"{what}: it is broken or no {what}.", "Save a clean copy.") from error
    parts = archive.infolist()
    if sum(part.file_size for part in parts) > MAX_UNPACKED or any(map(is_bomb, parts)):
        raise InputError(f"{what}: it unpacks to far more than it is.", "It may be a zip bomb.")
    if any(part.flag_bits & 1 for part in parts):
        raise InputError(f"{what}: it is encrypted.", "Save a copy without a password.")
    return archive


def is_bomb(part: zipfile.ZipInfo) -> bool:
    """Tell whether a part says that it unpacks to much more than any text would."""
    return part.file_size > LARGE and part.file_size > MAX_RATIO * part.compress_size
