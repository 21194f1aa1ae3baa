"""Names in brackets: acronyms with their expansion, and translations.

Acronyms follow Schwartz and Hearst, "A Simple Algorithm for Identifying Abbreviation Definitions in
Biomedical Text" (2003). A translation is a name in the other script right after a phrase.
"""

import re
from collections.abc import Iterator

from kbwiki.records import Alias
from kbwiki.text.acronyms import spells
from kbwiki.text.lexicon import GENERIC_HEADS
from kbwiki.text.normal import clean_line
from kbwiki.text.terms import Term, head_of, singular
from kbwiki.text.words import WORD, is_russian, lang_of, lemma_key

_BRACKET = re.compile(r"\s\(([^()]{2,90})\)")
_PREFIX = re.compile(
    r"^(?:англ|рус|лат|сокр|от англ|от)\.?\s+|^(?:also|or|short for|abbreviated|known as|called|"
    r"also called|или|также|далее|сокращённо|сокращенно|in Russian|in English)[\s:]+",
    re.IGNORECASE,
)
_DEFINES = re.compile(r"\s+(?:[—–-]\s|(?:is|are|means|называ\w+|явля\w+)\b)")
_PREPOSITION = re.compile(r"\s(?:в|во|на|с|со|по|без|для|из|как|и|of|in|as|with|for|and)\s")
_ACRONYM = re.compile(r"(?=(?:.*[A-ZА-ЯЁ]){2})[A-Za-zА-Яа-яЁё0-9][\w\-–/]{1,11}")


def bracket_aliases(
    text: str, start: int, end: int, found: list[Term]
) -> Iterator[tuple[str, Alias]]:
    """Yield (name, alias) for each bracket in ``text[start:end]`` that renames what stands before
    it.
    """
    for match in _BRACKET.finditer(text, start, end):
        before = text[start : match.start()]
        phrase = _phrase_before(found, match.start())
        name = ""
        for piece in re.split(r"\s*[,;]\s*", match.group(1)):
            part = clean_line(_PREFIX.sub("", piece)).strip(" \"'«»“”")
            if not part or part[:1].isdigit():
                continue
            if _ACRONYM.fullmatch(part):
                long = expansion(part, name or before)
                if long:
                    if phrase and lemma_key(long) == phrase.key:
                        long = phrase.name
                    yield long, Alias(singular(part), "acronym", lang_of(part))
                    continue
            if not name and (spelt := _spelt_out(text, match, found, part)):
                yield spelt
                continue
            if phrase and not name and (shorter := _abbreviated(phrase.name, part)):
                long, short = shorter
                yield long, Alias(short, "acronym", lang_of(short))
                continue
            is_subject = bool(
                phrase and phrase.start == start and _DEFINES.match(text, match.end(), end)
            )
            whole = (
                _translated(text, found, phrase, part, is_subject) if phrase and not name else None
            )
            if not whole:
                phrase = None
            else:
                name = part
                yield whole, Alias(part, "translation", lang_of(part))


def _spelt_out(
    text: str, match: re.Match[str], found: list[Term], part: str
) -> tuple[str, Alias] | None:
    """Return (name, alias) where a bracket spells out the acronym that stands before it."""
    last = (text[: match.start()].split() or [""])[-1]
    at = text.find(part, match.start(1), match.end(1))
    begin = max((t for t in found if t.start == at), key=lambda t: t.end, default=None)
    ends = any(t.end == at + len(part) for t in found)
    if begin is None or not ends or not _ACRONYM.fullmatch(last) or not spells(last, part):
        return None
    return begin.name + text[begin.end : at + len(part)], Alias(
        singular(last), "acronym", lang_of(last)
    )


def _phrase_before(found: list[Term], at: int) -> Term | None:
    """Return the longest phrase that ends at an offset; the tail alone where its head is plain."""
    ending = [t for t in found if t.end == at]
    if (
        len(ending) > 1
        and head_of(ending[0].key) in GENERIC_HEADS
        and len(ending[-1].key.split()) > 1
    ):
        return ending[-1]
    return ending[0] if ending else None


def expansion(acronym: str, before: str) -> str:
    """Return the words at the end of ``before`` that an acronym abbreviates, or an empty string.

    Walks both from the right; each letter of the acronym must occur in order, its first at the
    start of a word. At most ``min(n + 5, 2 n)`` words for ``n`` letters, and at least two.
    """
    letters = [c.casefold() for c in re.sub(r"s$", "", acronym) if c.isalnum()]
    words = list(WORD.finditer(before))[-min(len(letters) + 5, 2 * len(letters)) :]
    if len(words) < 2 or before[words[-1].end() :].strip(" \"'»”"):
        return ""
    low = before.casefold()
    at = words[-1].end() - 1
    for index in range(len(letters) - 1, -1, -1):
        while at >= words[0].start() and not (
            low[at] == letters[index] and (index > 0 or at == 0 or not low[at - 1].isalnum())
        ):
            at -= 1
        if at < words[0].start():
            return ""
        at -= 1
    long = before[at + 1 :].strip(" \"'«»“”")
    n_words = len(WORD.findall(long))
    if n_words < 2 or re.search(r"[.;:()!?]", long):
        return ""
    return long


def _abbreviated(name: str, part: str) -> tuple[str, str] | None:
    """Return (long, short) where one of two names abbreviates the other word by word."""
    for long, short in ((name, part), (part, name)):
        if len(WORD.findall(short)) > 1 and abbreviates(short, long):
            return singular(long), singular(short)
    return None


def abbreviates(short: str, long: str) -> bool:
    """Tell whether each word of ``short`` is a word of ``long`` or the initials of its next words.

    So "KV cache" abbreviates "key-value cache", and "linear RNN" "linear recurrent neural network".
    """
    words = [m.group() for m in WORD.finditer(long)]
    at, shortened = 0, False
    for match in WORD.finditer(short):
        word = re.sub(r"(?<=[A-ZА-Я])s$", "", match.group())
        if at < len(words) and lemma_key(word) == lemma_key(words[at]):
            at += 1
        elif (
            word.isupper()
            and 1 < len(word) <= len(words) - at
            and all(w[0].casefold() == c.casefold() for c, w in zip(word, words[at:], strict=False))
        ):
            at += len(word)
            shortened = True
        else:
            return False
    return shortened and at == len(words)


def _tail(found: list[Term], phrase: Term) -> Term | None:
    """Return a phrase's tail: «накопление признаков (features)» translates only that."""
    return next(
        (t for t in found if t.nested and t.end == phrase.end > t.start > phrase.start), None
    )


def _translated(
    text: str, found: list[Term], phrase: Term, part: str, is_subject: bool
) -> str | None:
    """Return the name that ``part``, in the other script, translates: the phrase or one around it.

    «обучение в контексте (in-context learning)»: a translation that is longer than the phrase takes
    the phrase before the preposition too; one that stays longer by two words translates more than
    we see. Of a subject that is being defined one word in the singular translates the whole:
    «обратное распространение ошибки (backpropagation) — это».
    """
    words = WORD.findall(part)
    if (
        is_russian(part) == is_russian(phrase.name)
        or not 1 <= len(words) <= 6
        or not lemma_key(part)
    ):
        return None
    if is_subject and len(words) == 1 and part == singular(part):
        return phrase.name
    n_whole = len(phrase.key.split())
    tail = _tail(found, phrase)
    if tail and len(words) == len(tail.key.split()):
        if len(words) > 1 or part != singular(part):
            return tail.name
        if n_whole > len(words) + 1:
            return None
    if len(words) > n_whole:
        for term in found:
            if term.end < phrase.start and _PREPOSITION.fullmatch(text, term.end, phrase.start):
                return f"{term.name}{text[term.end : phrase.end]}"
    return phrase.name if len(words) - n_whole < 2 else None
