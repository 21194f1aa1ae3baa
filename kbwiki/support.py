"""Whether a store speaks of a question: what words and vectors say for the best of what was found.

Something is nearest to any question, so a cosine says nothing by itself. It is measured against the
other cosines of its pool, and against those of everyday sentences (kb.background).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from kbwiki.question import Named, is_language, lang_of_question

_MIN_FIT = 0.48
"""Share of a question that the words of one text cover, plus how far its vector is on the way from
everyday sentences to the question. On their own stores 4 of 1,434 questions (the demo, MuSiQue,
HotpotQA, XQuAD, LiHua-World) do not reach it; of 540 that are foreign to the demo 3 reach it there.
"""
_MIN_FOREIGN_FIT = 0.17
"""The same where the store holds nothing in the question's language: 569 of 595."""
_MIN_NEAR = 0.05
"""The same in a small store, which is about little: below, a text is no closer to a question than
everyday sentences are. All 595 of XQuAD in the other language reach it.
"""
_MIN_FAR = 0.25
_MIN_APART = 0.16
_N_RIVALS = 30
"""For texts in another language than the question's, with which it can share no word, where the
store holds its own language too: how near the best of them is, and how much nearer than the median
of the best 30. Of 75 questions of XQuAD whose text a store holds in English alone, beside Russian
texts on other matters, 53 are answered, 11 without; of 540 that are foreign to the demo 3 more.
"""
_MIN_SUPPORT = 4.5
_SURE_WORDS = 0.25
_MIN_FOREIGN = 2.7
"""What stands in for both where the store has no vectors of everyday sentences yet: ten times the
share of words, plus how many deviations the best vector stands out, plus one for a named concept
with a source of its own; words alone; deviations alone where no word can be shared.
"""
_MIN_WORDS = 0.1
"""Of a question's weight, where words alone can tell: 68 of 68 questions of the demo reach it on
its own store, of 160 of MuSiQue and XQuAD 8.
"""
_MIN_CROWD = 100
"""Entries below which a store is small: nothing stands out by its deviations."""


@dataclass(frozen=True, slots=True)
class Support:
    """Whether something speaks for what was found, and whether in a store of any size."""

    is_supported: bool
    stands_out: bool


def judge_support(
    question: str,
    rows: Sequence[dict[str, Any]],
    named: Sequence[Named],
    sizes: Mapping[str, int],
    by_words: bool,
) -> Support:
    """Judge the rows of search_entries; ``by_words``: by them alone, for lack of vectors.

    ``sizes`` are the numbers of entries of the store by their language.
    """
    lang = lang_of_question(question)
    n_same_lang = sizes.get(lang, 0)
    # Whether a question is language at all is asked last: dictionaries take half a second to load.
    # No word can be shared with a store in another language alone.
    is_foreign = not n_same_lang and is_language(question)
    # A store too small for anything to stand out of it.
    is_near = 0 < n_same_lang < _MIN_CROWD and bool(rows) and is_language(question)
    if any(row["nearness"] is not None for row in rows):
        fit = max(row["words"] + _nearness(row) for row in rows)
        stands_out = fit >= (_MIN_FOREIGN_FIT if is_foreign else _MIN_FIT) or (
            _stands_out_abroad(rows, lang) and is_language(question)
        )
        is_near = is_near and fit >= _MIN_NEAR
    else:
        stands_out = _stands_apart(rows, named, is_foreign)
    if by_words:
        return Support(_most(rows, "words") >= _MIN_WORDS, stands_out)
    return Support(stands_out or is_near, stands_out)


def is_sure(rows: Sequence[dict[str, Any]]) -> bool:
    """Tell whether words alone speak for some of these rows."""
    return _most(rows, "words") >= _SURE_WORDS


def _stands_apart(rows: Sequence[dict[str, Any]], named: Sequence[Named], is_foreign: bool) -> bool:
    is_named = any(concept.source_id for concept in named)
    deviations = _most(rows, "deviations")
    support = 10 * _most(rows, "words") + deviations + is_named
    return is_sure(rows) or support >= _MIN_SUPPORT or (is_foreign and deviations >= _MIN_FOREIGN)


def _stands_out_abroad(rows: Sequence[dict[str, Any]], lang: str) -> bool:
    found = (_nearness(row) for row in rows if row["pool"] != lang)
    near = sorted(found, reverse=True)[:_N_RIVALS]
    return bool(near) and near[0] >= _MIN_FAR and near[0] - median(near) >= _MIN_APART


def _nearness(row: dict[str, Any]) -> float:
    # A name of which nothing else is known is close to any short question.
    return 0.0 if row["is_name"] else row["nearness"] or 0.0


def _most(rows: Sequence[dict[str, Any]], name: str) -> float:
    return max((row[name] for row in rows), default=0.0)
