"""A question before it is searched: cleaned, its language, the concepts that it names."""

from collections.abc import Sequence
from dataclasses import dataclass

from kbwiki.db import Database
from kbwiki.errors import InputError
from kbwiki.records import Lang
from kbwiki.text.normal import canonical_key, clean_line, shorten

MAX_QUESTION = 2000
"""Characters of a question; a longer one is cut, since a passage holds no more."""
_N_MEANT = 3
_MAX_NAME_WORDS = 8


@dataclass(frozen=True, slots=True)
class Named:
    """A concept that a question names, the source about it, and offsets into the question."""

    id: int
    slug: str
    title: str
    source_id: int | None
    start: int
    end: int


def clean_question(question: str) -> str:
    """Return a question on one line, cut to length; raise InputError if no word is in it."""
    question = shorten(clean_line(question), MAX_QUESTION)
    if not any(c.isalnum() for c in question):
        raise InputError("query: the question is empty.", 'Ask: kbwiki query "what is ...".')
    return question


def lang_of_question(question: str) -> Lang:
    """Return ``ru`` for a question of mostly Cyrillic words, else ``en``; terms may be Latin."""
    cyrillic = sum(c.isalpha() and "а" <= c.casefold() <= "ё" for c in question)
    latin = sum("a" <= c.casefold() <= "z" for c in question)
    return "ru" if cyrillic * 2 >= latin and cyrillic else "en"


def find_named(database: Database, question: str) -> list[Named]:
    """Return the concepts that a question names: longest match over titles and aliases, by lemma.

    In the order of the question, each concept once. Words that any question holds name nothing.
    """
    from kbwiki.text.lexicon import ASKING
    from kbwiki.text.words import stream

    words = stream(question)
    n = len(words.lemmas)
    spans = {
        (at, stop): " ".join(words.lemmas[at:stop])
        for at in range(n)
        for stop in range(at + 1, min(n, at + _MAX_NAME_WORDS) + 1)
        if stop > at + 1 or (words.lemmas[at] not in ASKING and len(words.lemmas[at]) > 1)
    }
    rows = database.dicts("find_named", {"keys": sorted(set(spans.values()))})
    found = {row["lemmas"]: row for row in rows}
    out: dict[int, Named] = {}
    at = 0
    while at < n:
        stops = range(min(n, at + _MAX_NAME_WORDS), at, -1)
        stop = next((s for s in stops if spans.get((at, s)) in found), None)
        if stop is None:
            at += 1
            continue
        row = found[spans[at, stop]]
        span = (words.starts[at], words.ends[stop - 1])
        out.setdefault(
            row["id"], Named(row["id"], row["slug"], row["title"], row["source_id"], *span)
        )
        at = stop
    return list(out.values())


def unnamed_words(question: str, named: Sequence[Named]) -> list[str]:
    """Return the words that say what a question is about, but those of concepts it names."""
    from kbwiki.text.asking import asked_words

    firsts = {word.lemma: word for word in reversed(asked_words(question))}
    return [
        word.text
        for word in sorted(firsts.values(), key=lambda w: w.start)
        if not _is_inside(word.start, named)
    ]


def _is_inside(at: int, named: Sequence[Named]) -> bool:
    return any(concept.start <= at < concept.end for concept in named)


def is_unknown(word: str) -> bool:
    """Tell whether no dictionary knows a word of a question: a term, a name, or misspelt."""
    from kbwiki.text.words import is_rare, is_russian, lemma

    return is_rare(word.casefold() if is_russian(word) else lemma(word))


def suggest(database: Database, question: str, named: Sequence[Named]) -> list[str]:
    """Return names of concepts that a question may have meant: those like its words that neither a
    text nor a dictionary holds.
    """
    from kbwiki.text.asking import plain_words

    # The texts are asked first: a dictionary takes a fifth of a second to load.
    plain = [w.text for w in plain_words(question) if not _is_inside(w.start, named)]
    strange = {row["word"] for row in database.dicts("list_strange_words", {"words": plain})}
    if not strange:
        return []
    words = [w for w in unnamed_words(question, named) if w in strange and is_unknown(w)]
    params = {"words": words, "question": canonical_key(question), "n": _N_MEANT}
    return [row["name"] for row in database.dicts("suggest_names", params)] if words else []


def is_language(question: str) -> bool:
    """Tell whether half of a question's words or more stand in a dictionary."""
    from kbwiki.text.words import is_rare, stream

    words = [word for word in stream(question).lemmas if word.isalpha()]
    return 2 * sum(not is_rare(word) for word in words) >= len(words) > 0


def is_about(question: str, named: list[Named]) -> bool:
    """Tell whether a question is about the concepts that it names: their words are half of it.

    Words that any question holds do not count.
    """
    from kbwiki.text.lexicon import ASKING
    from kbwiki.text.words import stream

    words = stream(question)
    inside = {
        at for at, start in enumerate(words.starts) if any(n.start <= start < n.end for n in named)
    }
    others = [
        word
        for at, word in enumerate(words.lemmas)
        if at not in inside and word not in ASKING and len(word) > 2
    ]
    return len(inside) >= len(others)
