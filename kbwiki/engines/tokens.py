"""How many tokens a text has, for budgets and estimates.

Counts with the multilingual SentencePiece vocabulary that comes with the default embedder; where it
is missing, by letters. Gemini's and OpenAI's own counts lie close by; the ledger has the true ones.
"""

import math
from functools import cache
from typing import Any

from kbwiki.e5weights import Tokenizer, Weights, find_weights
from kbwiki.errors import KbwikiError

_LETTERS_PER_TOKEN = 3.6


@cache
def _tokenizer() -> Any:
    try:
        return Tokenizer(Weights(find_weights()))
    except KbwikiError:
        return None


def count_tokens(text: str) -> int:
    """Return about how many tokens a model would count in a text."""
    tokenizer = _tokenizer()
    if tokenizer is None:
        return math.ceil(len(text) / _LETTERS_PER_TOKEN)
    return len(tokenizer.encode(text))
