"""Words of English and Russian text: language, sentences, tokens, lemmas, coarse word classes.

Russian is read with pymorphy3's dictionary, English with simplemma's lemmas and HanTa's tagger; a
token's language goes by its script, since research notes mix both.
"""

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any

from kbwiki.records import Lang

_CYRILLIC = re.compile(r"[а-яёА-ЯЁ]")
_LATIN = re.compile(r"[A-Za-z]")
WORD = re.compile(r"[^\W_]+(?:(?:['’](?=[^\W_]{3,}))[^\W_]+)*(?:\+\+|#)?")
_TOKEN = re.compile(
    r"[^\W_]+(?:[-‑–./'’&][^\W_]+)*(?:\+\+|#)?|['’]s\b|[^\w\s]|_",
)
_ACRONYM_PLURAL = re.compile(r"[A-Z][A-Za-z0-9]*[A-Z0-9]s")
_PLURAL = re.compile(r"[^aiosu]s$")
_ABBREVIATION = re.compile(
    r"(?:\b(?:e\.g|i\.e|cf|vs|approx|etc|al|resp|ca|eqs?|figs?|secs?|tabs?|refs?|chs?|no|nos|vols?|pp?|"
    r"dr|mr|mrs|ms|prof|st|jr|sr|inc|ltd|eds?|est|dept|univ|т|т\.\s?е|т\.\s?д|т\.\s?п|т\.\s?к|т\.\s?н|"
    r"др|пр|см|ср|рис|табл|гл|с|стр|им|г|гг|в|вв|напр|англ|рус|лат|прим|ред|изд|акад|проф)|\b[A-ZА-ЯЁ])"
    r"\.[)\]]?\s*$",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Token:
    """A word or a mark of punctuation; a hyphenated compound is one token."""

    start: int
    end: int
    text: str

    @property
    def is_word(self) -> bool:
        """Tell whether it holds a letter or digit and is no possessive ending."""
        return self.text[0] not in "'’" and (self.text[0].isalnum())


def lang_of(text: str) -> Lang:
    """Return ``ru`` where Cyrillic letters are at least a third of all letters, else ``en``."""
    n_cyrillic = len(_CYRILLIC.findall(text))
    return "ru" if n_cyrillic and n_cyrillic * 2 >= len(_LATIN.findall(text)) else "en"


def sentences(text: str, lang: Lang) -> list[tuple[int, int]]:
    """Return the spans of the sentences of one paragraph, without the white space around them."""
    spans: list[tuple[int, int]] = []
    for start, end in _raw_sentences(text, lang):
        if spans and _continues(text, spans[-1], start):
            spans[-1] = (spans[-1][0], end)
        else:
            spans.append((start, end))
    return spans


def _raw_sentences(text: str, lang: Lang) -> Iterator[tuple[int, int]]:
    if lang == "ru":
        import razdel

        for part in razdel.sentenize(text):
            if part.start < part.stop:
                yield part.start, part.stop
        return
    import sentencex

    at = 0
    for piece in sentencex.segment("en", text):
        start = at + len(piece) - len(piece.lstrip())
        end = at + len(piece.rstrip())
        at += len(piece)
        if start < end:
            yield start, end


def _continues(text: str, before: tuple[int, int], start: int) -> bool:
    """Tell whether a segmenter cut inside a sentence: after an abbreviation or before a small letter."""
    head = text[start : start + 1]
    if head.islower() and text[start : start + 2] != "e.":
        return True
    last = text[max(before[0], before[1] - 24) : before[1]]
    found = _ABBREVIATION.search(last)
    if not found:
        return False
    word = found.group().rstrip(" .)]").lower()
    ends_often = word in {"etc", "al", "др", "пр", "т. д", "т.д", "т. п", "т.п", "г", "гг", "в", "вв", "с", "no"}
    return head.isdigit() or not ends_often


def tokens(text: str) -> list[Token]:
    """Return words (compounds whole) and punctuation of a text, in order."""
    return [Token(m.start(), m.end(), m.group()) for m in _TOKEN.finditer(text)]


@dataclass(frozen=True, slots=True)
class Stream:
    """The words of a text as three parallel lists: lemma, start, end; compounds are split."""

    lemmas: list[str]
    starts: list[int]
    ends: list[int]


def stream(text: str) -> Stream:
    """Return the lemma stream in which concept names are looked up."""
    lemmas: list[str] = []
    starts: list[int] = []
    ends: list[int] = []
    for match in WORD.finditer(text):
        lemmas.append(lemma(match.group()))
        starts.append(match.start())
        ends.append(match.end())
    return Stream(lemmas, starts, ends)


def lemma_key(name: str) -> str:
    """Return the lemmas of a name's words, joined by spaces: equal for all its forms."""
    return " ".join(lemma(m.group()) for m in WORD.finditer(unicodedata.normalize("NFKC", name)))


@lru_cache(maxsize=200_000)
def lemma(word: str) -> str:
    """Return the dictionary form of one word, lower case, ё as е; unknown words stay as they are."""
    if _ACRONYM_PLURAL.fullmatch(word):
        word = word[:-1]
    low = word.casefold().replace("ё", "е")
    if _CYRILLIC.search(low):
        return str(_morph().parse(low)[0].normal_form).replace("ё", "е")
    if not low.isalpha() or len(low) < 4 or word.isupper():
        return low
    import simplemma

    found = simplemma.lemmatize(low, lang="en").casefold()
    # A name that the dictionary lacks (DeltaNets) still loses its plural.
    return found[:-1] if found == low and _PLURAL.search(low) else found


@cache
def _morph() -> Any:
    import pymorphy3

    return pymorphy3.MorphAnalyzer()


@lru_cache(maxsize=100_000)
def parses(word: str) -> tuple[Any, ...]:
    """Return pymorphy3's readings of a Russian word, likeliest first."""
    return tuple(_morph().parse(word.casefold()))


def is_russian(word: str) -> bool:
    """Tell whether a word is written in Cyrillic."""
    return bool(_CYRILLIC.search(word))

