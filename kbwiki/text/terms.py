"""Noun phrases, brackets and definitions of English and Russian sentences: what might be a
concept.

Owns the grammar of names. English is read through tags, Russian through the agreement of case,
number and gender; a Latin word in a Russian sentence is a name.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from kbwiki.records import Lang
from kbwiki.text.lexicon import (
    DETERMINERS_RU,
    FALSE_NOUNS,
    GENERIC_HEADS,
    GERUNDS,
    KIND_HEADS,
    STOP_MODIFIERS,
    TEST_HEADS,
)
from kbwiki.text.tagger import tag_english
from kbwiki.text.words import Token, is_russian, lemma, lemma_key, parses, tokens

MAX_WORDS = 5
_CLASSES = {
    "NN0": "N", "NN1": "N", "NN2": "N", "NP0": "N", "AJ0": "A", "VVG": "G", "VVN": "E", "VVD": "E",
}  # fmt: skip
_MAX_LETTERS = 60
"""A longer token is data, no word."""
_INNER_CAPS = re.compile(r"[A-Z].*[A-Z0-9]|[a-z][A-Z]|\d.*[A-Za-z]")
_ENGLISH = re.compile(r"P+oP+|[ANPEG]*[NP]M?|[ANPE]+G")
# A surname that the dictionary lacks («правило Хебба»): its ending looks like a genitive.
_SURNAME = re.compile(r"[А-ЯЁ][а-яё]{2,}(?:а|я|ого|его|ой|ей|ы|и)")
# Endings that only nouns have, for words that the tagger does not know.
_NOUN_ENDING = re.compile(r"\w{3}(?:ity|ness|ism|tion|sion|ology)$")
_DETERMINERS = {
    "a",
    "an",
    "the",
    "its",
    "their",
    "his",
    "her",
    "this",
    "that",
    "these",
    "each",
    "every",
}


@dataclass(frozen=True, slots=True)
class Term:
    """A noun phrase: its span, its name in dictionary form, and whether it is a proper name."""

    start: int
    end: int
    name: str
    key: str
    proper: bool
    tail: int = 0
    """Words of a Russian genitive tail, 0 where there is none."""
    nested: bool = False
    """Whether it is the tail of the phrase before it."""


def terms(text: str, offset: int, lang: Lang) -> list[Term]:
    """Return the noun phrases of one sentence in order; spans are shifted by ``offset``."""
    found = _russian(text) if lang == "ru" else _english(text)
    return [
        Term(t.start + offset, t.end + offset, t.name, t.key, t.proper, t.tail, t.nested)
        for t in found
        if t.key and re.search(r"[^\W\d_]{2}|[A-ZА-Я]\d", t.name)
    ]


def _english(text: str) -> Iterator[Term]:
    toks = tokens(text)
    tags = tag_english([t.text for t in toks])
    classes = "".join(
        _class(tok, tag, toks[i + 1].text if i + 1 < len(toks) else "", i == 0)
        for i, (tok, tag) in enumerate(zip(toks, tags, strict=True))
    )
    classes = _joined(toks, classes)
    for match in re.finditer(r"[ANPEGMo]+", classes):
        yield from _english_phrases(text, toks, classes, match.start(), match.end())


def _joined(toks: list[Token], classes: str) -> str:
    """Mark "of" between two names (the Bank of England is one) and a verb between them."""
    classes = re.sub(
        r"(?<=P)\.(?=P)", lambda m: "o" if toks[m.start()].text == "of" else ".", classes
    )
    return re.sub(r"(?<=[NP])E(?=P)", ".", classes)


def _class(token: Token, tag: str, following: str, first: bool) -> str:
    """Return a letter: A adjective, N noun, P name, G gerund, E participle, M number, or a dot."""
    word = token.text
    low = word.lower()
    if not token.is_word or low in _DETERMINERS or len(word) > _MAX_LETTERS:
        return "."
    if word.isdigit() or _INNER_CAPS.search(word):
        return "M" if word.isdigit() else "P"
    opens_name = following[:1].isupper() and tag[:2] in {"NN", "NP", "AJ", "UN", "VV"}
    is_capital = word[0].isupper() and (not first or opens_name or tag == "NP0")
    if low in GERUNDS or (word.islower() and _is_verb_like(low, tag, following)):
        return "."
    if "-" in word and word[1:].islower() and not tag.startswith("NN"):
        return "A"
    if not is_capital and _NOUN_ENDING.search(low):
        return "N"
    return "P" if is_capital else _CLASSES.get(tag, ".")


def _is_verb_like(low: str, tag: str, following: str) -> bool:
    """Tell whether a plural noun of the tagger's is a verb: "the model outperforms the other"."""
    base = lemma(low)
    return (tag == "NN2" and following.lower() in _DETERMINERS) or (
        low != base and base in FALSE_NOUNS
    )


def _english_phrases(
    text: str, toks: list[Token], classes: str, start: int, end: int
) -> Iterator[Term]:
    """Yield the phrases in an unbroken run of words, each as long as it can be, left to right."""
    while start < end:
        named = classes[start : start + 2] == "PP" and start > 0
        if classes[start] == "M" or (lemma(toks[start].text) in STOP_MODIFIERS and not named):
            start += 1
            continue
        match = _ENGLISH.match(classes, start, end)
        if not match:
            start += 1
            continue
        term = _english_term(text, toks[start : match.end()], match.group())
        if term:
            yield term
        start = match.end()


def _english_term(text: str, words: list[Token], classes: str) -> Term | None:
    if len(words) > MAX_WORDS or classes == "G" or (len(words) == 1 and classes in "AE"):
        return None
    surface = text[words[0].start : words[-1].end]
    proper = all(c in "PMo" for c in classes)
    return Term(words[0].start, words[-1].end, surface, lemma_key(surface), proper)


def singular(name: str) -> str:
    """Return an English name with its last word in the singular where that only drops an ``s``.

    A capitalised last word is a name (Titans) unless it is an acronym (RNNs).
    """
    head, _, last = name.rpartition(" ")
    is_name = last[:1].isupper() and last[1:].islower()
    if last.endswith("s") and len(last) > 3 and not is_name and lemma(last) == last[:-1].casefold():
        last = last[:-1]
    return f"{head} {last}".strip()


def best_name(names: Mapping[tuple[str, Lang], int]) -> tuple[str, Lang]:
    """Return the commonest of a name's forms, in its commonest spelling.

    A plural yields to its singular if that was seen.
    """
    seen = {(name.casefold(), lang) for name, lang in names}
    counts: Counter[tuple[str, Lang]] = Counter()
    for (name, lang), n in names.items():
        one = (singular(name).casefold(), lang)
        counts[one if one in seen else (name.casefold(), lang)] += n
    best = min(counts, key=lambda form: (-counts[form], form))
    spelt = {form: n for form, n in names.items() if (form[0].casefold(), form[1]) == best}
    return min(spelt, key=lambda form: (-spelt[form], form))


def _russian(text: str) -> Iterator[Term]:
    toks = tokens(text)
    at, outer_end = 0, 0
    while at < len(toks):
        term, following = _russian_phrase(text, toks, at)
        if term:
            yield replace(term, nested=term.end <= outer_end)
            outer_end = max(outer_end, term.end)
        at = following


def _russian_phrase(text: str, toks: list[Token], at: int) -> tuple[Term | None, int]:
    """Return the phrase that begins at token ``at``, if any, and where to go on."""
    if not toks[at].is_word or len(toks[at].text) > _MAX_LETTERS:
        return None, at + 1
    if not is_russian(toks[at].text):
        return _latin_phrase(text, toks, at)
    start = at
    adjectives: list[int] = []
    while at < len(toks) and _is_adjective(toks[at].text):
        adjectives.append(at)
        at += 1
    if adjectives and at < len(toks) and _is_latin_name(toks[at].text):
        return _adjective_latin(text, toks, adjectives, at)
    if at >= len(toks) or not _is_noun(toks[at].text):
        return None, max(at, start + 1)
    agreeing = _agreeing(toks, adjectives, at)
    if adjectives and not agreeing and _is_noun(toks[at - 1].text) and _genitive(toks[at].text):
        at -= 1  # «кривая забывания»: what could be an adjective is the head
        agreeing = _agreeing(toks, adjectives[:-1], at)
    adjectives = agreeing
    while adjectives and lemma(toks[adjectives[0]].text) in STOP_MODIFIERS:
        adjectives.pop(0)
    end = _genitive_tail(toks, at + 1)
    if end - (adjectives[0] if adjectives else at) > MAX_WORDS:
        end = at + 1
    first = adjectives[0] if adjectives else at
    name = _nominative(text, toks, adjectives, at, end)
    proper = toks[at].text[0].isupper() and at > 0
    tail = end - at - 1
    return Term(toks[first].start, toks[end - 1].end, name, lemma_key(name), proper, tail), at + 1


def _latin_phrase(text: str, toks: list[Token], at: int) -> tuple[Term | None, int]:
    end = at
    while end < len(toks) and toks[end].is_word and not is_russian(toks[end].text):
        end += 1
    words = [t for t in toks[at:end] if len(t.text) <= _MAX_LETTERS]
    if len(words) < end - at:
        return None, end
    while words and words[0].text.isdigit():
        words = words[1:]
    if not words or len(words) > MAX_WORDS + 1:
        return None, end
    surface = text[words[0].start : words[-1].end]
    if len(surface) < 2:
        return None, end
    is_name = surface != surface.lower()
    return Term(words[0].start, words[-1].end, surface, lemma_key(surface), is_name), end


@lru_cache(maxsize=50_000)
def _is_adjective(word: str) -> bool:
    return is_russian(word) and any(p.tag.POS in {"ADJF", "PRTF"} for p in parses(word)[:4])


@lru_cache(maxsize=50_000)
def _nouns(word: str) -> list[Any]:
    return [p for p in parses(word.rsplit("-", 1)[-1]) if p.tag.POS == "NOUN" and p.score > 0.05]


@lru_cache(maxsize=50_000)
def _is_noun(word: str) -> bool:
    found = parses(word.rsplit("-", 1)[-1])
    nouns = _nouns(word)
    return (
        is_russian(word)
        and bool(nouns)
        and len(word) > 2
        and (found[0].tag.POS == "NOUN" or sum(p.score for p in nouns) > 0.4)
    )


def _agreeing(toks: list[Token], adjectives: list[int], noun: int) -> list[int]:
    """Return the unbroken run of adjectives before the noun that agree with it."""
    cases = {(p.tag.case, p.tag.number) for p in _nouns(toks[noun].text)}
    kept: list[int] = []
    for at in reversed(adjectives):
        mine = {
            (p.tag.case, p.tag.number)
            for p in parses(toks[at].text)
            if p.tag.POS in {"ADJF", "PRTF"}
        }
        if not mine & cases:
            break
        kept.insert(0, at)
    return kept


def _is_latin_name(word: str) -> bool:
    return word[0].isupper() and not is_russian(word)


def _adjective_latin(
    text: str, toks: list[Token], adjectives: list[int], at: int
) -> tuple[Term | None, int]:
    """Read «линейные RNN»: adjectives before a Latin name, which shows no gender of its own."""
    while adjectives and lemma(toks[adjectives[0]].text) in STOP_MODIFIERS:
        adjectives.pop(0)
    if not adjectives or len(adjectives) + 1 > MAX_WORDS:
        return None, at
    parts: list[str] = []
    for i in adjectives:
        reading = next(p for p in parses(toks[i].text) if p.tag.POS in {"ADJF", "PRTF"})
        form = reading.inflect({"nomn"}) or reading
        parts.append(_like(toks[i].text, form.word))
    name = " ".join([*parts, singular(toks[at].text)])
    return Term(toks[adjectives[0]].start, toks[at].end, name, lemma_key(name), False), at


def _genitive_tail(toks: list[Token], at: int) -> int:
    """Return the end of ``(adjective* noun){1,2}`` in the genitive after a head noun, else ``at``.

    A dash between two surnames («итерация Ньютона — Шульца») belongs to the tail.
    """
    if at < len(toks) and lemma(toks[at].text) in DETERMINERS_RU:
        return at
    end = _genitive_noun(toks, at)
    if end == at:
        return at
    if end + 1 < len(toks) and toks[end].text in "—–-" and toks[end - 1].text[0].isupper():
        second = toks[end + 1].text
        if second[0].isupper() and is_russian(second) and _genitive(second):
            return end + 2
    return _genitive_noun(toks, end)


def _genitive_noun(toks: list[Token], at: int) -> int:
    end = at
    while end < len(toks) and _is_adjective(toks[end].text) and _genitive(toks[end].text):
        end += 1
    if end == len(toks) or not toks[end].is_word:
        return at
    word = toks[end].text
    return end + 1 if (_is_noun(word) and _genitive(word)) or _SURNAME.fullmatch(word) else at


@lru_cache(maxsize=50_000)
def _genitive(word: str) -> bool:
    return any(p.tag.case in {"gent", "gen2"} for p in parses(word.rsplit("-", 1)[-1]))


def _nominative(text: str, toks: list[Token], adjectives: list[int], noun: int, end: int) -> str:
    word = toks[noun].text
    prefix, _, last = word.rpartition("-")
    readings = _nouns(word)
    reading = next((p for p in readings if "Pltm" not in p.tag), readings[0])
    plural_only = "Pltm" in reading.tag
    grammemes = {"nomn"} if plural_only else {"nomn", "sing"}
    head = reading.inflect(grammemes) or reading
    name = _like(last, head.word)
    parts = [f"{prefix}-{name}" if prefix else name]
    want = {"nomn", "plur"} if plural_only else {"nomn", "sing", head.tag.gender or "masc"}
    for at in reversed(adjectives):
        adjective = next(p for p in parses(toks[at].text) if p.tag.POS in {"ADJF", "PRTF"})
        form = adjective.inflect(want)
        parts.insert(0, _like(toks[at].text, form.word if form else toks[at].text))
    if end > noun + 1:
        parts.append(text[toks[noun + 1].start : toks[end - 1].end])
    return " ".join(parts)


def _like(model: str, word: str) -> str:
    """Return the word with the capitals of the form that stood in the text."""
    if model.isupper() and len(model) > 1:
        return word.upper()
    return word[:1].upper() + word[1:] if model[:1].isupper() else word


def head_of(key: str) -> str:
    """Return the lemma of a name's head: the last word in English, the first noun in Russian."""
    words = key.split()
    if not is_russian(key):
        return words[-1]
    return next((w for w in words if is_russian(w) and not _is_adjective(w)), words[0])


def is_generic(key: str) -> bool:
    """Tell whether a lemma key names nothing in particular: a plain head, barely modified."""
    head = head_of(key)
    rest = [w for w in key.split() if w != head]
    return head in GENERIC_HEADS and all(w in STOP_MODIFIERS or w in GENERIC_HEADS for w in rest)


def bare_names(key: str) -> list[str]:
    """Return the name without its kind: "m3" of "m3 optimizer", where that can only be a name."""
    words = key.split()
    if len(words) != 2:
        return []
    return [
        name
        for name, head in (words, words[::-1])
        if head in KIND_HEADS and any(c.isdigit() for c in name) and any(c.isalpha() for c in name)
    ]


def untested_names(key: str) -> list[str]:
    """Return the name of a task or test without that word: "babi" of "babi benchmark"."""
    words = key.split()
    ends = [
        words[:-1] if words[-1] in TEST_HEADS else [],
        words[1:] if words[0] in TEST_HEADS else [],
    ]
    return [" ".join(rest) for rest in ends if len(rest) > 1]
