"""What a question is about: its words but for those that ask or that any question may hold."""

from dataclasses import dataclass

from kbwiki.text.lexicon import ASKING, FRAMING, FUNCTION
from kbwiki.text.words import WORD, is_russian, lemma, parses


@dataclass(frozen=True, slots=True)
class Asked:
    """A word of a question, its lemma, and where it begins."""

    text: str
    lemma: str
    start: int


def content_words(question: str) -> list[Asked]:
    """Return the words of a question that something can be looked for by, in order."""
    words = [
        Asked(m.group(), lemma(m.group()), m.start())
        for m in WORD.finditer(question)
        if len(m.group()) > 1 or m.group().isupper()
    ]
    # AND, IT and WHO may be names, but not in a question that shouts.
    shouts = question.isupper()
    return [w for w in words if (_is_name(w.text) and not shouts) or not is_function(w.lemma)]


def has_content(question: str) -> bool:
    """Tell whether a question holds a word that something can be looked for by."""
    # A dictionary takes a fifth of a second to load, and seldom has to be asked.
    return any(_is_surely_content(m.group()) for m in WORD.finditer(question)) or bool(
        content_words(question)
    )


def plain_words(question: str) -> list[Asked]:
    """Return the words of a question but for those that are known, as they are written, to say
    nothing of what it is about. No dictionary is asked, so more stay than in ``asked_words``.
    """
    return [
        Asked(m.group(), low, m.start())
        for m in WORD.finditer(question)
        if (low := m.group().casefold()) not in ASKING | FUNCTION | FRAMING
    ]


def asked_words(question: str) -> list[Asked]:
    """Return the words that say what a question is about: none such as "difference" or "please".

    Where there are no others, those are what it is about.
    """
    words = content_words(question)
    return [w for w in words if w.lemma not in FRAMING] or words


def is_function(word: str) -> bool:
    """Tell whether a lemma carries no meaning of its own: a pronoun, a preposition, a particle."""
    if word in ASKING or word in FUNCTION:
        return True
    if not is_russian(word):
        return False
    tag = parses(word)[0].tag
    return tag.POS in {"PREP", "CONJ", "PRCL", "INTJ", "NPRO"} or "Apro" in tag


_ENGLISH_STARTS = {word[:2] for word in ASKING | FUNCTION if word.isascii()}


def _is_surely_content(word: str) -> bool:
    """Tell of an English word whether it begins as no form of a word without meaning does."""
    return (
        len(word) > 3
        and word.isascii()
        and word.isalpha()
        and word[:2].casefold() not in _ENGLISH_STARTS
    )


def _is_name(word: str) -> bool:
    return word.isupper() and len(word) > 1 and not is_russian(word)
