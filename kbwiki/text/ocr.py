"""Letters read off the picture of a page by tesseract, where it is installed.

Owns how the program is found, asked and believed. Knows nothing of PDF: it is given grey pixels.
"""

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

from kbwiki.errors import ConfigError, InputError

LANGS = ("rus", "eng")
DPI = 300
MAX_PIXELS = 40_000_000
"""A larger picture is rendered smaller: a poster at 300 dots an inch fills the memory."""
TIMEOUT_S = 180
MIN_SURE = 40.0
"""Percent of confidence under which a word is noise: a speck, a ruling, a piece of a picture."""
_LATIN, _CYRILLIC = "AaBCcEeHKMOoPpTXxy", "АаВСсЕеНКМОоРрТХху"
_TO_LATIN, _TO_CYRILLIC = (
    str.maketrans(_CYRILLIC, _LATIN),
    str.maketrans(_LATIN, _CYRILLIC),
)
_IS_LATIN = re.compile(f"(?![{_LATIN}])[A-Za-z]")
_IS_CYRILLIC = re.compile(f"(?![{_CYRILLIC}])[А-Яа-яЁё]")
_HINT = "Install it, for instance: apt install tesseract-ocr tesseract-ocr-rus."


@dataclass(frozen=True, slots=True)
class SeenLine:
    """A line that was seen, in pixels from the top left corner; its words with their edges."""

    words: tuple[tuple[str, int, int], ...]
    top: int
    bottom: int
    block: int
    paragraph: int


@cache
def languages() -> str:
    """Return the languages to read in, such as ``rus+eng``.

    Raises ConfigError where tesseract or both languages are missing.
    """
    if shutil.which("tesseract") is None:
        raise ConfigError("--ocr: tesseract is not installed.", _HINT)
    done = subprocess.run(
        ["tesseract", "--list-langs"], capture_output=True, text=True, check=False, timeout=60
    )
    there = set(done.stdout.split())
    known = [lang for lang in LANGS if lang in there]
    if not known:
        raise ConfigError("--ocr: tesseract knows neither Russian nor English.", _HINT)
    return "+".join(known)


def see(width: int, height: int, grey: bytes, dpi: int = DPI) -> Iterator[SeenLine]:
    """Yield the lines of a picture in reading order; ``grey`` is a byte for each pixel, by rows.

    Raises InputError where tesseract fails or takes over ``TIMEOUT_S``.
    """
    command = ["tesseract", "stdin", "stdout", "-l", languages(), "--dpi", str(dpi), "--psm", "3"]
    image = b"P5 %d %d 255\n" % (width, height) + grey
    try:
        done = subprocess.run(
            [*command, "tsv"],
            input=image,
            capture_output=True,
            check=True,
            timeout=TIMEOUT_S,
            env={**os.environ, "OMP_THREAD_LIMIT": "1"},
        )
    except subprocess.TimeoutExpired as error:
        raise InputError(f"ocr: it took over {TIMEOUT_S} s", "Is the page a picture?") from error
    except (subprocess.CalledProcessError, OSError) as error:
        raise InputError("ocr: tesseract failed", _HINT) from error
    yield from _lines(done.stdout.decode("utf-8", "replace"))


def in_one_script(words: list[str]) -> list[str]:
    """Return the words of a line with letters that look alike in both scripts in the right one.

    That is the script of the word's other letters, or, where it has none, of the rest of the line.
    """
    latin, cyrillic = (len(script.findall(" ".join(words))) for script in (_IS_LATIN, _IS_CYRILLIC))
    out: list[str] = []
    for word in words:
        sure = [len(script.findall(word)) for script in (_IS_LATIN, _IS_CYRILLIC)]
        is_acronym = max(sure) == 0 and word.isupper() and len(word) > 1
        if min(sure) > 0 or is_acronym or max(sure) == 0 == max(latin, cyrillic):
            out.append(word)  # it has sure letters of both scripts, or nothing tells
        else:
            is_latin = sure[0] > sure[1] if max(sure) else latin > cyrillic
            out.append(word.translate(_TO_LATIN if is_latin else _TO_CYRILLIC))
    return out


def _lines(table: str) -> Iterator[SeenLine]:
    """Read tesseract's table: a row a word, with its block, paragraph, line, box and confidence."""
    rows: dict[tuple[int, ...], list[tuple[str, int, int, int, int]]] = {}
    for row in table.splitlines()[1:]:
        fields = row.split("\t")
        if len(fields) != 12 or fields[0] != "5" or float(fields[10]) < MIN_SURE:
            continue
        if not re.search(r"\w", fields[11]) and len(fields[11]) > 3:
            continue  # a ruling
        key = tuple(map(int, fields[2:5]))
        left, top, width, height = map(int, fields[6:10])
        rows.setdefault(key, []).append((fields[11], left, left + width, top, top + height))
    for (block, paragraph, _), words in rows.items():
        texts = in_one_script([word[0] for word in words])
        yield SeenLine(
            tuple((text, word[1], word[2]) for text, word in zip(texts, words, strict=True)),
            min(word[3] for word in words),
            max(word[4] for word in words),
            block,
            paragraph,
        )
