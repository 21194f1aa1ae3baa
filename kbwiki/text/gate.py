"""Whether the text of a page is text: what a bad font, scan or extractor leaves is told apart.

Owns the thresholds. Knows nothing of PDF.
"""

import re
import unicodedata
from collections.abc import Iterable

_CID = re.compile(r"\(cid:\d+\)")
_WORD = re.compile(r"[^\W\d_]{3,}")
_LATIN_1 = re.compile(r"[\u00c0-\u00ff]")
_OTHERS = ("de", "fr", "es", "uk")
"""Asked one after the other: a dictionary takes a second to load, and few stay loaded."""
MIN_SIGNS = 40
"""Signs, spaces apart, from which on the share of letters is judged."""
MIN_WORDS = 20
"""Words of three letters or more from which on it is asked whether anybody knows them."""
MIN_LATIN_1 = 10
"""Letters from which on it is asked whether most are accented."""
MIN_LETTERS = 0.2
MAX_UNMAPPED = 0.05
MIN_KNOWN = 0.1


def refusal(text: str) -> str:
    """Return why the text of a page is junk, or an empty string.

    A page of figures or formulas has few letters and is no junk; junk has next to none, or words
    that no language knows.
    """
    signs = re.sub(r"\s", "", _CID.sub("\ufffd", text))
    if not signs:
        return ""
    unmapped = sum(c == "\ufffd" or unicodedata.category(c) in {"Co", "Cn"} for c in signs)
    if unmapped > MAX_UNMAPPED * len(signs):
        return "its fonts do not say what letters they draw"
    letters = sum(map(str.isalpha, signs))
    figures = sum(c.isdecimal() for c in signs)
    if len(signs) >= MIN_SIGNS and letters < MIN_LETTERS * len(signs) and not figures:
        return "it holds next to no letters"
    words = _WORD.findall(text)
    if _is_mistaken("".join(words)):
        return "its letters are of no language: Cyrillic, perhaps, taken for Western"
    if len(words) >= MIN_WORDS and _known(words) < MIN_KNOWN:
        return "no word of it is known"
    return ""


def _is_mistaken(letters: str) -> bool:
    """Tell whether most letters are accented: one-byte Cyrillic read as Western."""
    return len(letters) >= MIN_LATIN_1 and len(_LATIN_1.findall(letters)) > 0.5 * len(letters)


def _known(words: list[str]) -> float:
    """Return the share of words that some language knows; the dictionaries are asked in turn."""
    from kbwiki.text.words import is_known

    sample = words[:: max(1, len(words) // 200)]
    share = 0.0
    for lang in ("en", *_OTHERS):
        share = sum(is_known(word, lang) for word in sample) / len(sample)
        if share >= MIN_KNOWN:
            break
    return share


def ranges(numbers: Iterable[int]) -> str:
    """Return numbers as ``3-7, 9``; they are in order."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ", ".join(str(a) if a == b else f"{a}-{b}" for a, b in runs)
