"""Text that was read in a wrong encoding once and saved so: bytes are whole, and letters wrong.

Owns how it looks, and the proof: in the right encodings the same bytes are words.
"""

import re
from collections.abc import Iterator

_LOOKS = {
    "utf-8 as cp1251": re.compile(r"[РС][^\sА-Яа-яё]|[РС][°-ї]"),
    "utf-8 as cp1252": re.compile(r"[ÐÑ]."),
    "cp1251 as cp1252": re.compile(r"[À-ÿ]{2}"),
    "cp1251 as koi8_r": re.compile(r"[А-ЯЁ]"),
    "cp866 as cp1251": re.compile(r"[®¤«¬Ё§Ґ¦¨©­][а-яё]|[а-яё][®¤«¬Ё§Ґ¦¨©­]"),
}
"""What letters of an encoding are like that were taken for those of another."""
_MANY = 0.3
"""The share of what is not ASCII that must look so."""
_FEW = 20
"""Signs that are not ASCII below which nothing is said."""
_SAMPLE = 4_000
_MIN_KNOWN = 0.3
"""The share of its words that a dictionary must know then."""
_MIN_LOST = 0.5
_LOST = re.compile(r"\?{2,}")


def mistaken(text: str) -> str:
    """Return how a text was spoilt before it came here, or nothing."""
    lost = sum(len(found) for found in _LOST.findall(text[:_SAMPLE]))
    if lost >= _FEW and lost > _MIN_LOST * len(re.sub(r"\s", "", text[:_SAMPLE])):
        return "question marks stand where its letters were"
    if text.isascii():
        return ""
    letters = re.sub(r"[\x00-\x7f]+", " ", text)[:_SAMPLE]
    n_signs = len(letters) - letters.count(" ")
    if n_signs < _FEW:
        return ""
    for name, look in _LOOKS.items():
        looks = sum(len(found) for found in look.findall(letters))
        if looks > _MANY * n_signs and _is_proved(letters, *name.split(" as ")):
            return f"its letters are those of {name.replace(' as ', ' taken for ')}"
    return ""


def _is_proved(text: str, right: str, wrong: str) -> bool:
    """Tell whether a text is of words once it is read right."""
    from kbwiki.text.words import is_known

    read = b"".join(_bytes(text, wrong)).decode(right, "ignore")
    words = re.findall(r"[а-яё]{3,}", read.lower())
    return len(words) > 2 and sum(is_known(w, "en") for w in words) > _MIN_KNOWN * len(words)


def _bytes(text: str, encoding: str) -> Iterator[bytes]:
    """Yield the bytes that a sign was; one that its encoding lacks was taken as it stands."""
    for sign in text:
        try:
            yield sign.encode(encoding)
        except UnicodeEncodeError:
            if ord(sign) < 256:
                yield bytes([ord(sign)])
