"""English part-of-speech tags: HanTa's model, searched with a Viterbi of our own.

HanTa's search tries every transition of its model at every word and then finds lemmas that nobody
asked for; this one tries the tags that the word can have. The tags are the same.
"""

import math
from functools import cache, lru_cache
from typing import Any

_START = (0, 1)
_END = 2
_UNKNOWN = 3
_BEAM = 5
_MAX_WORD = 24
"""Letters of a word that are looked at, the last ones: analysing an unknown word is cubic in them.
"""

State = tuple[int, int]


@cache
def _model() -> Any:
    from HanTa.HanoverTagger import HanoverTagger

    return HanoverTagger("morphmodel_en.pgz")


def tag_english(words: list[str]) -> list[str]:
    """Return one CLAWS5 tag a word (``NN1``, ``AJ0``, ``VVZ``, ...), read in the sentence's
    context.
    """
    row: dict[State, float] = {_START: 0.0}
    trace: list[dict[State, State]] = []
    for at, word in enumerate(words):
        row, back = _step(row, word[:1] + word[1:][-_MAX_WORD:], at > 0)
        trace.append(back)
    names = _model().int2tag
    return [names[tag] for tag in _backwards(row, trace)]


def _step(
    row: dict[State, float], word: str, cased: bool
) -> tuple[dict[State, float], dict[State, State]]:
    """Return the best score of each pair of tags after one more word, and where each came from."""
    transitions = _model().LP_trans_word
    bound = sorted(row.values(), reverse=True)[_BEAM] - 1 if len(row) > _BEAM else -math.inf
    options = _options(word, cased)
    scores: dict[State, float] = {}
    back: dict[State, State] = {}
    for state, score in row.items():
        if score < bound:
            continue
        following = transitions[state]
        for tag, own in options or ((tag, 0.0) for tag in following if tag != _END):
            step = following.get(tag)
            if step is None:
                continue
            new, total = (state[1], tag), score + step + own
            if new not in scores or total > scores[new]:
                scores[new] = total
                back[new] = state
    return scores, back


def _backwards(row: dict[State, float], trace: list[dict[State, State]]) -> list[int]:
    if not trace or not row:
        return [_UNKNOWN] * len(trace)
    transitions = _model().LP_trans_word
    state = max(row, key=lambda s: row[s] + transitions[s].get(_END, -math.inf))
    tags: list[int] = []
    for back in reversed(trace):
        tags.append(state[1])
        state = back[state]
    return tags[::-1]


@lru_cache(maxsize=100_000)
def _options(word: str, cased: bool) -> tuple[tuple[int, float], ...]:
    """Return the tags that a word can have with log p(word | tag); none: any tag."""
    found = _model()._tag_word(word, cutoff=5, casesensitive=cased, conditional=True)
    return tuple((tag, p) for tag, p in found if tag != _UNKNOWN)


def is_listed(word: str) -> bool:
    """Tell whether a lower-case English word is among the common ones that the model lists."""
    return word in _model().cache
