"""An answer without a model: the sentences of the passages that share most with the question."""

import math
from collections import Counter
from collections.abc import Sequence

from kbwiki.records import Answer, Passage
from kbwiki.text.lexicon import ASKING
from kbwiki.text.normal import clean_line
from kbwiki.text.words import lang_of, sentences, stream

MAX_STATEMENTS = 3
MIN_SHARE = 0.34
"""A sentence that holds less of the question's weight than this says nothing on it."""
_MISSING = {
    "en": "no passage speaks of {}.",
    "ru": "ни один отрывок не говорит о словах: {}.",
}


def quote_answer(question: str, passages: Sequence[Passage], engine: str) -> Answer:
    """Return at most three sentences, best first, each with the passage it stands in.

    A word weighs the more the fewer sentences hold it; of two sentences the one that opens with
    what was asked comes first, then that of the better passage. Words in no passage are named.
    """
    words_of_question = (w for w in stream(question).lemmas if len(w) > 1 and w not in ASKING)
    asked = list(dict.fromkeys(words_of_question))
    found: list[tuple[str, int, set[str]]] = []
    for number, passage in enumerate(passages, 1):
        lang = lang_of(passage.text)
        for start, end in sentences(passage.text, lang):
            text = clean_line(passage.text[start:end])
            found.append((text, number, set(stream(text).lemmas)))
    counts = Counter(word for _, _, words in found for word in words)
    weight = {w: math.log(1 + len(found) / (1 + counts[w])) for w in asked}
    total = sum(weight.values()) or 1.0
    ranked: list[tuple[float, bool, int, str, int]] = []
    for at, (text, number, words) in enumerate(found):
        share = sum(weight[w] for w in asked if w in words) / total
        opens = bool(set(stream(text).lemmas[:4]) & set(asked))
        ranked.append((-share, not opens, at, text, number))
    chosen: dict[str, int] = {}
    for share, _, _, text, number in sorted(ranked):
        if -share >= MIN_SHARE and len(chosen) < MAX_STATEMENTS:
            chosen.setdefault(text, number)
    missing = [w for w in asked if not counts[w] and weight[w]]
    note = _MISSING[lang_of(question)].format(", ".join(missing)) if missing else ""
    return Answer(tuple((text, (n,)) for text, n in chosen.items()), note, engine)
