"""Standard terms of the field in both languages: glossary.tsv, one and its translation a line.

A row says whether the two mean one thing wherever they stand (variance, «дисперсия»), or one is a
word of many things too («ядро»), so that a person should look.
"""

from functools import cache
from importlib import resources

from kbwiki.text.words import lemma_key


@cache
def glossary() -> tuple[dict[str, str], tuple[tuple[str, str], ...]]:
    """Return what terms mean, each meaning named by an English term, and the pairs that are unsure.

    Terms of both languages are given by their lemma keys.
    """
    text = (resources.files("kbwiki") / "text" / "glossary.tsv").read_text("utf-8")
    meanings: dict[str, str] = {}
    unsure: list[tuple[str, str]] = []
    for line in text.splitlines()[1:]:
        english, russian, sure = line.split("\t")
        keys = lemma_key(english), lemma_key(russian)
        if sure == "yes":
            meanings |= dict.fromkeys(keys, keys[0])
        else:
            unsure.append(keys)
    return meanings, tuple(unsure)
