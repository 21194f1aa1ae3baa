"""Bytes to text: which encoding a file is in, judged by the whole of it.

A charset that is declared counts if the bytes decode so. Else what is not ASCII is looked at, all
over the file: read in each encoding, how much of it are words?
"""

import re

from kbwiki.errors import InputError

_CYRILLIC = ("cp1251", "koi8_r", "cp866", "mac_cyrillic", "iso8859_5")
_WESTERN = ("cp1252", "latin_1", "cp437", "mac_roman", "iso8859_2", "cp1250")
_WORD = re.compile(rb"[A-Za-z\x80-\xff]*[\x80-\xff][A-Za-z\x80-\xff]*")
_MAX_WORDS = 400
_SURE = 1.2
_MIN_SCORE = 0.5
_CONTROL = bytes({*range(32), 127} - set(b"\t\n\v\f\r\x1b"))
_MAX_CONTROL = 0.02
"""The share of control bytes from which on a file is no text."""
_MARKS = "“”„‘’«»‹›—–…•·№£€©®™§°†‡±×÷¿¡"
"""What stands beside words and is none; a text may hold no other sign that is not ASCII."""
_OFTEN = frozenset("оеаинтсрвлкмдпуяыьгзбчйхжшюцщэфъё")
_MAX_BROKEN = 0.01
"""The share of its letters that may be broken in a text that is UTF-8 but for them."""


def decode(raw: bytes, declared: str = "") -> str:
    """Return the text of bytes: a declared charset if it decodes, UTF-8, else the likeliest of a
    few. Bytes that are broken in a text of UTF-8 become U+FFFD.

    Raises InputError where nothing fits.
    """
    for encoding in filter(None, (marked(raw), declared, "utf-8")):
        try:
            return raw.decode(encoding)
        except (UnicodeError, LookupError):
            continue
    text = raw.decode("utf-8", "replace")
    n_broken = text.count("\ufffd") - raw.count(b"\xef\xbf\xbd")
    if n_broken <= _MAX_BROKEN * sum(not c.isascii() for c in text):
        return text
    n_control = len(raw) - len(raw.translate(None, _CONTROL))
    best = _likeliest(raw) if n_control <= _MAX_CONTROL * len(raw) else None
    if best is None:
        raise InputError("text: the encoding was not recognised.", "Save the file as UTF-8.")
    return raw.decode(best, "replace")


def marked(raw: bytes) -> str:
    """Return the encoding that a byte order mark, or the zero bytes of UTF-16, give away."""
    if raw[:3] == b"\xef\xbb\xbf":
        return "utf-8-sig"
    if raw[:2] in {b"\xff\xfe", b"\xfe\xff"}:
        return "utf-16"
    if len(raw) % 2 == 0:
        step = max(1, len(raw) // 4096) * 2
        for first, encoding in ((1, "utf-16-le"), (0, "utf-16-be")):
            high = raw[first::step]
            if sum(byte in {0, 4} for byte in high) > 0.9 * len(high):
                return encoding
    return ""


def _likeliest(raw: bytes) -> str | None:
    """Return the encoding in which most of what is not ASCII are words, or None."""
    words = list(dict.fromkeys(word.group() for word in _WORD.finditer(raw)))
    sample = words[:: max(1, len(words) // _MAX_WORDS)]
    best: tuple[float, str] | None = None
    for encoding in (*_CYRILLIC, *_WESTERN):
        try:
            raw.decode(encoding)
            texts = [word.decode(encoding) for word in sample]
        except UnicodeDecodeError:
            continue
        if best and best[0] > _SURE and encoding in _WESTERN:
            break  # their dictionaries take a second to load
        score = _score(texts, encoding in _CYRILLIC)
        if score > (best[0] if best else 0.0):
            best = score, encoding
    return best[1] if best and best[0] >= _MIN_SCORE else _guess(raw)


def _score(words: list[str], is_cyrillic: bool) -> float:
    """Return how much words look like words, from 0 to 2: known to a dictionary, of one script,
    capitals at their beginning alone, of letters that are often used.
    """
    from kbwiki.text.words import is_known

    words = [word.strip(_MARKS) for word in words]
    letters = "".join(words)
    proper = [word for word in words if _is_proper(word)]
    shape = sum(map(len, proper)) / len(letters) if letters else 1.0
    langs = ("en",) if is_cyrillic else ("en", "de", "fr", "es")
    asked = [word for word in words if len(word) > 2] or [word for word in words if word]
    known = max(sum(is_known(word, lang) for word in asked) for lang in langs) / max(1, len(asked))
    usual = 1.0
    if is_cyrillic:
        usual = sum(c in _OFTEN for c in letters.lower()) / len(letters) if letters else 0.0
    return known + shape * usual * (1.0 if is_cyrillic else 0.8)


def _is_proper(word: str) -> bool:
    """Tell whether a word is of letters of one script, in the case that words are."""
    if not word.isalpha() or not (word[1:].islower() or word.isupper() or len(word) == 1):
        return False
    return len({"а" <= c <= "я" or c == "ё" for c in word.lower()}) == 1


def _guess(raw: bytes) -> str | None:
    """Return what charset-normalizer says of what is not ASCII: other languages than ours."""
    from charset_normalizer import from_bytes

    best = from_bytes(b" ".join(_WORD.findall(raw)[:20_000])).best()
    if best is None:
        return None
    try:
        raw.decode(best.encoding)
    except UnicodeDecodeError:
        return None
    return best.encoding
