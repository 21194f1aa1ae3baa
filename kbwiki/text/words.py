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

from kbwiki.records import Document, Lang
from kbwiki.text.tagger import is_listed

_CYRILLIC = re.compile(r"[а-яёА-ЯЁ]")
_LATIN = re.compile(r"[A-Za-z]")
WORD = re.compile(r"[^\W_]+(?:(?:['’](?=[^\W_]{3,}))[^\W_]+)*(?:\+\+|#)?")
FORMULA = "¤"
"""Stands for each character of a formula where names are looked for."""
_TOKEN = re.compile(
    r"¤+|"
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


MAX_SENTENCE = 2_000
"""Characters; what is longer is no sentence, but a table or data read as text."""
_MAX_WORD = 60
_WINDOW = 10_000
_WIDE_SPACE = re.compile(r"[^\S\x00-\x7f]")
_LIKELY_END = re.compile(r"[.!?…]\s+(?=[A-ZА-ЯЁ])")


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
        if spans and end - spans[-1][0] <= MAX_SENTENCE and _continues(text, spans[-1], start):
            spans[-1] = (spans[-1][0], end)
        else:
            spans.append((start, end))
    return [piece for start, end in spans for piece in _short(text, start, end)]


def _short(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    """Yield a sentence, or, where it is too long for one, pieces of it cut at spaces."""
    while end - start > MAX_SENTENCE:
        space = text.rfind(" ", start + 1, start + MAX_SENTENCE)
        cut = space if space > 0 else start + MAX_SENTENCE
        yield start, cut
        start = cut + (space > 0)
    if start < end:
        yield start, end


def _raw_sentences(text: str, lang: Lang) -> Iterator[tuple[int, int]]:
    """Yield what the segmenters find, a window at a time: neither is linear in every text."""
    segment = _russian_sentences if lang == "ru" else _english_sentences
    at = 0
    while at < len(text):
        stop = len(text)
        if stop - at > _WINDOW:
            stop = at + _WINDOW
            ends = [m.end() for m in _LIKELY_END.finditer(text, at + 1, stop)]
            stop = ends[-1] if ends else stop
        for start, end in segment(text[at:stop]):
            yield at + start, at + end
        at = stop


def _russian_sentences(text: str) -> Iterator[tuple[int, int]]:
    import razdel

    for part in razdel.sentenize(text):
        if part.start < part.stop:
            yield part.start, part.stop


def _english_sentences(text: str) -> Iterator[tuple[int, int]]:
    import sentencex

    at = 0
    # The segmenter steps one byte over the white space after an initial, into a wider character.
    for piece in sentencex.segment("en", _WIDE_SPACE.sub(" ", text)):
        start = at + len(piece) - len(piece.lstrip())
        end = at + len(piece.rstrip())
        at += len(piece)
        if start < end:
            yield start, end


def _continues(text: str, before: tuple[int, int], start: int) -> bool:
    """Tell whether a segmenter cut inside a sentence: after an abbreviation or before a small
    letter.
    """
    head = text[start : start + 1]
    if head.islower() and text[start : start + 2] != "e.":
        return True
    last = text[max(before[0], before[1] - 24) : before[1]]
    found = _ABBREVIATION.search(last)
    if not found:
        return False
    word = found.group().rstrip(" .)]").lower()
    ends_often = word in {
        "etc",
        "al",
        "др",
        "пр",
        "т. д",
        "т.д",
        "т. п",
        "т.п",
        "г",
        "гг",
        "в",
        "вв",
        "с",
        "no",
    }
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


def mask_math(document: Document) -> str:
    """Return the document's text with each formula as one sign and spaces: no word comes from
    within.
    """
    parts: list[str] = []
    at = 0
    for mark in sorted(document.marks, key=lambda m: m.start):
        if mark.kind == "math" and mark.start >= at:
            parts += [document.text[at : mark.start], FORMULA * (mark.end - mark.start)]
            at = mark.end
    return "".join([*parts, document.text[at:]])


def lemma_key(name: str) -> str:
    """Return the lemmas of a name's words, joined by spaces: equal for all its forms."""
    return " ".join(lemma(m.group()) for m in WORD.finditer(unicodedata.normalize("NFKC", name)))


@lru_cache(maxsize=200_000)
def lemma(word: str) -> str:
    """Return the dictionary form of one word, lower case, ё as е; unknown words stay.

    British and American spellings are one. A noun in -ing stays: modelling makes no model.
    """
    if _ACRONYM_PLURAL.fullmatch(word):
        word = word[:-1]
    low = word.casefold().replace("ё", "е")
    if len(low) > _MAX_WORD:
        return low
    if _CYRILLIC.search(low):
        return str(_likeliest(parses(low)).normal_form).replace("ё", "е")
    if not low.isalpha() or len(low) < 4 or word.isupper():
        return low
    import simplemma

    if _ING.fullmatch(low):
        stem = simplemma.lemmatize(low, lang="en").casefold()
        is_doubled = stem.endswith("ll") and not is_listed(stem) and is_listed(stem[:-1])
        return low[:-4] + "ing" if is_doubled else low
    found = simplemma.lemmatize(low, lang="en").casefold()
    # A name that the dictionary lacks (DeltaNets) still loses its plural.
    found = found[:-1] if found == low and _PLURAL.search(low) else found
    return _american(found)


_ING = re.compile(r"[a-z]{3,}ing")
_SPELLINGS = (
    (re.compile(r"is(?=(?:e[rds]?|ation)$)"), "iz"),
    (re.compile(r"ys(?=e[rds]?$)"), "yz"),
    (re.compile(r"(?<=...)our$"), "or"),
    (re.compile(r"(?<=[tb])re$"), "er"),
)


def _american(word: str) -> str:
    """Return the American spelling of a lemma, unless the dictionary knows the British alone."""
    for pattern, letters in _SPELLINGS:
        other = pattern.sub(letters, word)
        if other != word and len(word) > 4 and (is_listed(other) or not is_listed(word)):
            return other
    return word


def _likeliest(found: tuple[Any, ...]) -> Any:
    """Return the first reading; «весов» is of «вес», not of «весы», which has no singular."""
    first = found[0]
    if "Pltm" not in first.tag:
        return first
    return next((p for p in found if p.tag.POS == "NOUN" and "Pltm" not in p.tag), first)


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


def is_rare(word: str) -> bool:
    """Tell whether a lemma is missing from the dictionary: a term of some field."""
    if is_russian(word):
        return not _morph().word_is_known(word)
    return not is_listed(word)


def is_given_name(word: str) -> bool:
    """Tell whether the dictionary knows a Russian word as a person's first name."""
    return is_russian(word) and "Name" in parses(word)[0].tag


def is_known(word: str, lang: str = "en") -> bool:
    """Tell whether a dictionary knows a word: pymorphy's if it is Cyrillic and ``lang`` is "en",
    else simplemma's of that language.
    """
    if lang == "en" and is_russian(word):
        return bool(_morph().word_is_known(word.lower()))
    import simplemma

    return bool(simplemma.is_known(word.lower(), lang=lang))
