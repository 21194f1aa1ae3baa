"""Whether a short name is spelt by the beginnings of the words of a long one."""

import re

from kbwiki.text.normal import canonical_key

SMALL = frozenset(
    (
        *("a", "an", "and", "as", "by", "for", "from", "in", "of", "on", "or", "the", "to", "with"),
        *("в", "во", "для", "и", "из", "к", "как", "на", "о", "об", "от", "по", "с", "со"),
    )
)
"""Words of which an acronym need not hold anything."""


def spells(short: str, long: str) -> bool:
    """Tell whether each word of ``long`` gives its beginning to ``short``, and nothing is left.

    RNN, recurrent neural network; ALiBi, attention with linear biases; NoPE, no positional
    encoding. A part behind a hyphen is a word. The long name has two words or more, none of which
    is the short one; it does not begin with a small word.
    """
    letters = "".join(c for c in canonical_key(short) if c.isalnum())
    words = [word for word in re.split(r"[\s\-–—/]+", canonical_key(long)) if word]
    is_name = len(words) > 1 and words[0] not in SMALL and canonical_key(short) not in words
    return is_name and _fit(letters, words)


def _fit(letters: str, words: list[str]) -> bool:
    if not words:
        return not letters
    first, rest = words[0], words[1:]
    if first in SMALL and _fit(letters, rest):
        return True
    for n in range(1, min(len(first), len(letters)) + 1):
        if letters[n - 1] != first[n - 1]:
            return False
        if _fit(letters[n:], rest):
            return True
    return False
