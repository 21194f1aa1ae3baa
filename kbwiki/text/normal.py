"""Names and text in one form: what is cleaned at the door, keys, slugs and file names.

Owns every rule about characters. Knows nothing about languages, files or the database.
"""

import hashlib
import re
import unicodedata
from functools import lru_cache

MAX_SLUG_BYTES = 190
"""Bytes of a slug; with ``.md`` and a conflict suffix a file name stays under 255."""
_MAX_NAME = 200
"""Characters of a name whose key is kept in memory; a text is no name."""

_TERMINAL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
"""How a terminal is told to set colours."""
_CONTROL = re.compile(
    r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u00ad\u200b\u2060\ufffe\uffff\ud800-\udfff]"
)
_DASHES = re.compile(r"[-_\u00ad\u2010-\u2015\u2212\ufe58\ufe63\uff0d]+")
_SPACES = re.compile(r"\s+")
# Characters that a file system, Obsidian or a Markdown link cannot carry; NFKC maps each back.
_RESERVED = str.maketrans({c: chr(ord(c) + 0xFEE0) for c in '<>:"/\\|?*#^[]%`'})
_WINDOWS = re.compile(r"(con|prn|aux|nul|com[0-9]|lpt[0-9])(\..*)?")


def clean_text(text: str) -> str:
    """Return text as the store keeps it: NFC, ``\\n`` line ends, no NUL, control bytes, BOM or soft
    hyphens.
    """
    text = text.replace("\r\n", "\n").replace("\r", "\n").replace("\x0c", "\n")
    text = text.replace("\ufeff", "").replace("\u00a0", " ").replace("\u202f", " ")
    return unicodedata.normalize("NFC", _CONTROL.sub("", _TERMINAL.sub("", text)))


def clean_line(text: str) -> str:
    """Return ``clean_text`` on one line, spaces folded and trimmed."""
    return _SPACES.sub(" ", clean_text(text)).strip()


def shorten(line: str, limit: int) -> str:
    """Return a line cut at a space to at most ``limit`` characters."""
    if len(line) <= limit:
        return line
    head, space, _ = line[: limit + 1].rpartition(" ")
    return head if space else line[:limit]


def canonical_key(name: str) -> str:
    """Return the form under which two spellings of one name are equal.

    NFKC, case folded, ё as е, dashes, underscores and spaces as one space.
    """
    # A whole text would fill the memory of names.
    return _key_of(name) if len(name) <= _MAX_NAME else _key_of.__wrapped__(name)


@lru_cache(maxsize=4096)
def _key_of(name: str) -> str:
    text = unicodedata.normalize("NFKC", clean_text(name)).casefold().replace("ё", "е")
    return _SPACES.sub(" ", _DASHES.sub(" ", unicodedata.normalize("NFC", text))).strip()


def short_hash(text: str, length: int = 8) -> str:
    """Return the first hex digits of the text's sha256."""
    return hashlib.sha256(text.encode()).hexdigest()[:length]


def slugify(name: str) -> str:
    """Return a file-name-safe, lower-case view of a name, in its own script.

    Reserved characters become their full-width twins, so that NFKC gives them back. At most
    ``MAX_SLUG_BYTES`` bytes; a cut name ends in a hash of the whole.
    """
    text = _SPACES.sub("-", clean_line(name).lower()).translate(_RESERVED)
    text = re.sub(r"-{2,}", "-", text).strip("-") or "untitled"
    if text.startswith("."):
        text = "．" + text[1:]
    if text.endswith("."):
        text = text[:-1] + "．"
    if _WINDOWS.fullmatch(text):
        name, dot, rest = text.partition(".")  # Windows looks at what stands before the first dot
        text = f"{name}-{short_hash(text, 4)}{dot}{rest}"
    raw = text.encode()
    if len(raw) > MAX_SLUG_BYTES:
        cut = raw[: MAX_SLUG_BYTES - 9].decode(errors="ignore").rstrip("-")
        text = f"{cut}-{short_hash(text)}"
    return text


def assign_slugs(names: dict[str, str]) -> dict[str, str]:
    """Return a slug for each key of ``{key: name}``, unique among them.

    Of the names that share a slug the first in key order keeps it; the others get a hash of their
    key. The result depends on the set alone, not on its order.
    """
    slugs: dict[str, str] = {}
    taken: set[str] = set()
    for key in sorted(names):
        slug = slugify(names[key])
        if slug in taken:
            slug = f"{slug}-{short_hash(key)}"
        taken.add(slug)
        slugs[key] = slug
    return slugs


def counted(n: int, one: str, many: str = "") -> str:
    """Return a count with its noun, the plural of which is ``many``, else with an s.

    >>> counted(1, "page"), counted(0, "page"), counted(2, "memory", "memories")
    ('1 page', '0 pages', '2 memories')
    """
    return f"{n} {one if n == 1 else many or one + 's'}"


def capitalise(name: str) -> str:
    """Return the name with its first letter in upper case, the rest as it is."""
    return name[:1].upper() + name[1:]


_MATH = re.compile(r"(\$\$[^$]+\$\$|(?<![\\$])\$(?=[^\s$])[^$\n]*?(?<=[^\s\\$])\$(?![\d$]))")
_SPECIAL = re.compile(r"([\\`*_\[\]<>|~^$]|&(?=#?\w+;)|%(?=%)|(?<=%)%)")
_MATH_LESS = re.compile(r"(?<!\\)((?:\\\\)*)\\?<(\s*)(?=(\$)?)")
_MATH_PAIR = re.compile(r"\[(?=[\[^])|\](?=\])|%(?=%)")
_LINE_START = re.compile(r"^(\s*)(\d{1,9}(?=[.)](?:\s|$)))?((?(2)[.)]|(?:[#+=-])))")


def split_formulas(text: str) -> list[str]:
    """Return the parts of a text: words and formulas between dollars by turns, words first."""
    return _MATH.split(text)


def _safe_formula(formula: str) -> str:
    """Return a formula that is set alike and is no markup where formulas are not known."""

    def less(match: re.Match[str]) -> str:
        # A formula ends in no space, and TeX takes letters that follow for more of the name.
        return f"{match[1]}\\lt{'{}' if match[3] else ' '}"

    return _MATH_PAIR.sub(r"\g<0> ", _MATH_LESS.sub(less, formula))


def escape_markdown(text: str) -> str:
    """Return plain text as Markdown that shows it unchanged; formulas between dollars stay
    formulas, but hold no sign of HTML, links, footnotes or comments.
    """
    parts = split_formulas(text)
    plain = [
        _SPECIAL.sub(r"\\\1", part) if i % 2 == 0 else _safe_formula(part)
        for i, part in enumerate(parts)
    ]
    return _LINE_START.sub(r"\1\2\\\3", "".join(plain), count=1)
