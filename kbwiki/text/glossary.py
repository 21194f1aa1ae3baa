"""Standard terms of the field in both languages: glossary.tsv, one and its translation a line.

A row says whether the two mean one thing wherever they stand (variance, «дисперсия»), or one is a
word of many things too («ядро»), so that a person should look; or it is a word that makes terms.
"""

from collections import defaultdict
from dataclasses import dataclass
from functools import cache
from importlib import resources

from kbwiki.text.words import lemma_key


@dataclass(frozen=True, slots=True)
class Glossary:
    """What terms mean, by lemma keys, each meaning named by an English term; the pairs that are
    unsure; and how English words are translated.
    """

    meanings: dict[str, str]
    unsure: tuple[tuple[str, str], ...]
    words: dict[str, tuple[str, ...]]


@cache
def glossary() -> Glossary:
    """Return the glossary."""
    text = (resources.files("kbwiki") / "text" / "glossary.tsv").read_text("utf-8")
    meanings: dict[str, str] = {}
    unsure: list[tuple[str, str]] = []
    words: dict[str, set[str]] = defaultdict(set)
    for line in text.splitlines()[1:]:
        english, russian, sure = line.split("\t")
        keys = lemma_key(english), lemma_key(russian)
        if sure == "yes":
            meanings |= dict.fromkeys(keys, keys[0])
        elif sure == "no":
            unsure.append(keys)
        if not any(" " in key for key in keys):
            words[keys[0]].add(keys[1])
    return Glossary(meanings, tuple(unsure), {w: tuple(sorted(t)) for w, t in words.items()})
