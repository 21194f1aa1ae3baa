"""An answer without a model: the sentences of the passages that share most with the question."""

import math
import re
from collections import Counter
from collections.abc import Sequence

from kbwiki.records import Answer, Passage
from kbwiki.text.asking import asked_words
from kbwiki.text.normal import clean_line
from kbwiki.text.words import lang_of, sentences, stream

MAX_STATEMENTS = 3
MIN_SHARE = 0.34
"""A sentence that holds less of the question's weight than this says nothing on it."""
_REFERENCE = re.compile(
    r"\barxiv:\s?\d|\bdoi:|\bdoi\.org|\bpp?\. ?\d+ ?[-–]|\bс\. ?\d+ ?[-–] ?\d|^\[\d+\]|"
    r"(?:\bet al\.|\bи др\.) (?:\((?:19|20)\d\d\w?\)|[A-ZА-Я][^.]*[.?] ?(?:[A-Z].*)?(?:19|20)\d\d)|"
    r"[.,] (?:19|20)\d\d[a-z]?\.?$|\((?:19|20)\d\d[a-z]?\)\. [A-ZА-Я«“]",
    re.IGNORECASE,
)
"""A line of a bibliography that stands in no list of them."""


def quote_answer(question: str, passages: Sequence[Passage], engine: str) -> Answer:
    """Return at most three sentences, best first, each with the passage it stands in.

    A word weighs the more the fewer sentences hold it; of two sentences the one that opens with
    what was asked comes first, then that of the better passage.
    """
    asked = list(dict.fromkeys(word.lemma for word in asked_words(question)))
    found: list[tuple[str, int, list[str]]] = [
        (text, number, stream(text).lemmas)
        for number, passage in enumerate(passages, 1)
        for text in quotable_in(passage)
    ]
    counts = Counter(word for _, _, lemmas in found for word in set(lemmas))
    weight = {w: math.log(1 + len(found) / (1 + counts[w])) for w in asked}
    total = sum(weight.values()) or 1.0
    ranked: list[tuple[float, bool, int, str, int]] = []
    for at, (text, number, lemmas) in enumerate(found):
        share = sum(weight[w] for w in asked if w in lemmas) / total
        ranked.append((-share, not set(lemmas[:4]) & set(asked), at, text, number))
    chosen: dict[str, int] = {}
    for share, _, _, text, number in sorted(ranked):
        if -share >= MIN_SHARE and len(chosen) < MAX_STATEMENTS:
            chosen.setdefault(text, number)
    return Answer(tuple((text, (n,)) for text, n in chosen.items()), "", engine)


def quotable_in(passage: Passage) -> list[str]:
    """Return the sentences of a passage that may be quoted, each on one line, in order."""
    spans = passage.quotable
    if spans is None:
        spans = tuple(sentences(passage.text, lang_of(passage.text)))
    found = [clean_line(passage.text[start:end]) for start, end in spans]
    return [text for text in found if not _REFERENCE.search(text)]
