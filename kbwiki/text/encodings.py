"""Bytes to text: which encoding a file is in, judged by the whole of it.

UTF-8 that is whole is UTF-8: a text of anything else hardly ever is. Then a declared charset counts
if the bytes decode so into words. Else what is not ASCII is looked at, all over the file: read in
each encoding, how much of it are words?
"""

import codecs
import re
from collections.abc import Iterable
from dataclasses import dataclass

from kbwiki.errors import InputError
from kbwiki.text.mistaken import mistaken

_CYRILLIC = ("cp1251", "koi8_r", "koi8_u", "cp866", "mac_cyrillic", "iso8859_5")
_WESTERN = ("cp1252", "latin_1", "cp437", "mac_roman", "iso8859_2", "cp1250")
_WORD = re.compile(rb"[A-Za-z\x80-\xff]*[\x80-\xff][A-Za-z\x80-\xff]*")
_MAX_WORDS = 400
_SURE = 1.2
_MIN_SCORE = 0.5
_MIN_KNOWN = 0.15
"""The share of its words that a dictionary must know, so that a guess is believed."""
_MIN_OURS = 0.3
"""That share for the languages that are tried first."""
_FEW = 4
"""Words up to which a text may well hold none that is known: names."""
_CONTROL = bytes({*range(1, 32), 127} - set(b"\t\n\v\f\r\x1b"))
_MAX_CONTROL = 0.02
"""The share of control bytes, NUL apart, from which on a file is no text."""
_MARKS = "“”„‘’«»‹›—–…•·№£€©®™§°†‡±×÷¿¡"
"""What stands beside words and is none; a text may hold no other sign that is not ASCII."""
_OFTEN = frozenset("оеаинтсрвлкмдпуяыьгзбчйхжшюцщэфъёіїєґ")
_MAX_BROKEN = 0.01
"""The share of its letters that may be broken in a text that is UTF-8 but for them."""
_LANGUAGES = {
    "Bulgarian": "bg", "Croatian": "hbs", "Czech": "cs", "Dutch": "nl", "English": "en",
    "Estonian": "et", "Finnish": "fi", "French": "fr", "German": "de", "Greek": "el",
    "Hungarian": "hu", "Italian": "it", "Macedonian": "mk", "Polish": "pl", "Portuguese": "pt",
    "Romanian": "ro", "Russian": "en", "Slovak": "sk", "Spanish": "es", "Swedish": "sv",
    "Turkish": "tr", "Ukrainian": "uk",
}  # fmt: skip
"""Those of charset-normalizer's languages that have a dictionary here."""


@dataclass(frozen=True, slots=True)
class Decoded:
    """A text, and, in ``doubt``, why it may have been read in a wrong encoding."""

    text: str
    doubt: str = ""


def decode(raw: bytes, declared: str = "") -> Decoded:
    """Return the text of bytes: UTF-8, a declared charset if it decodes so, the likeliest of many.

    Lines of another encoding than the others are read in their own. Bytes that are broken in a
    text of UTF-8 become U+FFFD. Raises InputError where nothing fits or the bytes are no text.
    """
    mark = marked(raw)
    if mark.startswith("utf-16") and len(raw) % 2:
        raw = raw[:-1]
    for encoding in filter(None, (mark, declared if raw.isascii() else "", "utf-8")):
        try:
            text = raw.decode(encoding)
        except (UnicodeError, LookupError):
            continue
        if not mark and _is_binary(raw):
            break
        return Decoded(text, mistaken(text))
    if _is_binary(raw):
        raise InputError("text: the encoding was not recognised.", "Save the file as UTF-8.")
    said = as_declared(raw, declared)
    if said is not None:
        return Decoded(said)
    text = raw.decode("utf-8", "replace")
    n_broken = text.count("\ufffd") - raw.count(b"\xef\xbf\xbd")
    if n_broken <= _MAX_BROKEN * sum(not c.isascii() for c in text):
        return Decoded(text)
    return _guessed(raw)


def marked(raw: bytes) -> str:
    """Return the encoding that a byte order mark, escapes of Japanese mail, or the zero bytes of
    UTF-16, give away.
    """
    if raw[:3] == b"\xef\xbb\xbf":
        return "utf-8-sig"
    if raw[:2] in {b"\xff\xfe", b"\xfe\xff"}:
        return "utf-16"
    if b"\x1b$B" in raw and raw.isascii():
        return "iso2022_jp"
    step = max(1, len(raw) // 4096) * 2
    for first, encoding in ((1, "utf-16-le"), (0, "utf-16-be")):
        high = raw[first::step]
        if len(raw) > 1 and sum(byte in {0, 4} for byte in high) > 0.9 * len(high):
            return encoding
    return ""


def _is_binary(raw: bytes) -> bool:
    return len(raw) - len(raw.translate(None, _CONTROL)) > _MAX_CONTROL * len(raw)


def as_declared(raw: bytes, declared: str) -> str | None:
    """Return the text as its charset says; None if it does not decode so, is UTF-8, or Russian in
    another charset: one of one byte decodes anything, so that its words alone tell.
    """
    if not raw.isascii() and _is_utf8(raw):
        return None
    try:
        text = raw.decode(declared)
        name = codecs.lookup(declared).name
    except (UnicodeError, LookupError):
        return None
    if name.startswith(("utf-16", "utf-32")):
        return None  # it was read in ASCII, or somebody guessed
    sample = _sample(raw)
    own = _of_words(sample, declared, True) if _is_cyrillic(name) else 0.0
    others = max(_of_words(sample, each, True) for each in _CYRILLIC)
    return None if others > max(_SURE, own + 0.3) else text


def _is_cyrillic(name: str) -> bool:
    return name in {codecs.lookup(each).name for each in _CYRILLIC}


def _guessed(raw: bytes) -> Decoded:
    """Return the text of lines of which some may be UTF-8 and others of two encodings more."""
    lines = raw.split(b"\n")
    texts: dict[int, str] = {}
    for at, line in enumerate(lines):
        if line.isascii() or _is_utf8(line):
            texts[at] = line.decode("utf-8")
    n_letters = sum(not text.isascii() for text in texts.values())
    rest = [at for at in range(len(lines)) if at not in texts]
    if n_letters < 0.02 * len(rest):  # a line may be UTF-8 by chance
        texts = {at: text for at, text in texts.items() if text.isascii()}
        rest = [at for at in range(len(lines)) if at not in texts]
    odd = b"\n".join(lines[at] for at in rest)
    encoding, is_sure = _likeliest(odd)
    if encoding is None:
        raise InputError("text: the encoding was not recognised.", "Save the file as UTF-8.")
    for at in rest:
        texts[at] = _line(lines[at], encoding)
    doubt = "" if is_sure else f"its words are known to no dictionary here, read as {encoding}"
    return Decoded("\n".join(texts[at] for at in range(len(lines))), doubt)


def _is_utf8(line: bytes) -> bool:
    try:
        return not line.decode("utf-8").isascii()
    except UnicodeDecodeError:
        return False


def _line(line: bytes, encoding: str) -> str:
    """Return a line of a text in its encoding, or in another if only that makes words of it."""
    sample = _sample(line) if encoding in _CYRILLIC else []
    words = [word.decode(encoding, "replace") for word in sample]
    if len(words) > 2 and _known(words, "en") < _MIN_OURS:  # two may be names
        scores = {each: _of_words(sample, each, True) for each in _CYRILLIC}
        best = max(scores, key=lambda each: scores[each])
        encoding = best if scores[best] > max(_SURE, scores[encoding] + 0.3) else encoding
    return line.decode(encoding, "replace")


def _sample(raw: bytes) -> list[bytes]:
    words = list(dict.fromkeys(word.group() for word in _WORD.finditer(raw)))
    return words[:: max(1, len(words) // _MAX_WORDS)]


def _likeliest(raw: bytes) -> tuple[str | None, bool]:
    """Return the encoding in which most of what is not ASCII are words, and whether they are."""
    sample = _sample(raw)
    best: tuple[float, str] | None = None
    for encoding in (*_CYRILLIC, *_WESTERN):
        if best and best[0] > _SURE and encoding in _WESTERN:
            break  # their dictionaries take a second to load
        try:
            raw.decode(encoding)
        except UnicodeDecodeError:
            continue
        score = _of_words(sample, encoding, encoding in _CYRILLIC)
        if score > (best[0] if best else 0.0):
            best = score, encoding
    if best and best[0] >= _MIN_SCORE:
        words = [word.decode(best[1], "replace").strip(_MARKS) for word in sample]
        long = [word for word in words if len(word) > 2]
        langs = ("en", "uk") if best[1] in _CYRILLIC else ("en", "de", "fr", "es")
        if len(long) <= _FEW or any(_known(long, lang) >= _MIN_OURS for lang in langs):
            return best[1], True
    guess = _guess(raw)
    return guess if guess[0] or best is None else (best[1], False)


def _of_words(sample: list[bytes], encoding: str, is_cyrillic: bool) -> float:
    """Return how much words look like words, from 0 to 2: known to a dictionary, of one script,
    capitals at their beginning alone, of letters that are often used.
    """
    try:
        words = [word.decode(encoding).strip(_MARKS) for word in sample]
    except UnicodeDecodeError:
        return 0.0
    letters = "".join(words)
    proper = [word for word in words if _is_proper(word)]
    shape = sum(map(len, proper)) / len(letters) if letters else 1.0
    langs = ("en",) if is_cyrillic else ("en", "de", "fr", "es")
    asked = [word for word in words if len(word) > 2] or [word for word in words if word]
    usual = 1.0
    if is_cyrillic:
        usual = sum(c in _OFTEN for c in letters.lower()) / len(letters) if letters else 0.0
    known = max(_known(asked, lang) for lang in langs)
    return known + shape * usual * (1.0 if is_cyrillic else 0.8)


def _known(words: Iterable[str], lang: str) -> float:
    """Return the share of words that a dictionary knows."""
    from kbwiki.text.words import is_known

    found = [is_known(word, lang) for word in words]
    return sum(found) / max(1, len(found))


def _is_proper(word: str) -> bool:
    """Tell whether a word is of letters of one script, in the case that words are."""
    if not word.isalpha() or not (word[1:].islower() or word.isupper() or len(word) == 1):
        return False
    return len({"а" <= c <= "я" or c in "ёіїєґў" for c in word.lower()}) == 1


def _guess(raw: bytes) -> tuple[str | None, bool]:
    """Return what charset-normalizer says of other languages than ours, and whether to believe it:
    their dictionary, where there is one, knows the words.
    """
    from charset_normalizer import from_bytes

    matches = list(from_bytes(b"\n".join(raw.split(b"\n")[:2_000])[:200_000]))
    found: list[tuple[float, bool, str]] = []
    for match in matches:
        if match.coherence < matches[0].coherence:
            break
        try:
            text = raw.decode(match.encoding)
        except UnicodeDecodeError:
            continue
        lang = _LANGUAGES.get(match.language)
        if lang is None:
            is_told = match.multi_byte_usage > 0 or match.coherence >= _MIN_KNOWN
            found.append((match.coherence, is_told, match.encoding))
        else:
            share = _known(re.findall(r"[^\W\d_]{3,}", text)[:_MAX_WORDS], lang)
            found.append((share, share >= _MIN_KNOWN, match.encoding))
    best = max(found, key=lambda each: each[0], default=None)
    return (None, False) if best is None else (best[2], best[1])
