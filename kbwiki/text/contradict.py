"""Statements of two sources of which one says what the other denies, or ranks two things otherwise.

Reads only what is plain: sentences that begin with the concept and are the same word for word but
for one denial right behind it ("X does not use Y", "X uses Y"), and bare comparisons that are the
same but for their ends ("X is faster than Y", "Y is faster than X"). It misses more than it finds.
"""

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence

from kbwiki.records import Statement
from kbwiki.text.lexicon import HEDGES
from kbwiki.text.normal import canonical_key
from kbwiki.text.words import WORD, is_russian, parses, stream

_DENIALS = frozenset(("not", "не"))
_ARTICLES = frozenset(("a", "an", "the"))
_DO = frozenset(("do", "does", "did"))
_BEFORE_DENIAL = _DO | frozenset(
    ("is", "are", "was", "were", "be", "have", "has", "had", "can", "это", "являться", "быть")
)
_ONLY = frozenset(
    ("only", "just", "merely", "simply", "necessarily", "always", "yet", "только", "просто", "лишь",
     "обязательно", "всегда", "столько")
)  # fmt: skip
"""After these a denial says that something holds in part, or besides."""
_THAN = frozenset(("than", "чем"))
_RANKS = frozenset(
    ("outperform", "exceed", "surpass", "precede", "превосходить", "обгонять", "опережать")
)
_COMPARED = re.compile(r"(?:more|less|better|worse|[a-z]{2,}er)\b(?: [a-z-]+)? than\b")
_CONTRACTED = re.compile(r"(?<=[a-z])n['’]t\b|(?<=\bcan)not\b")
_HEDGES = HEDGES - _DENIALS - _THAN - {"can", "мочь"}

_Told = tuple[tuple[str, ...], str]
"""What is told of, and which of two sides is taken."""


def contradictions(title: str, statements: Sequence[Statement]) -> Iterator[list[Statement]]:
    """Yield statements on a concept, one of each source, of which at least two contradict."""
    key = canonical_key(title)
    told: dict[tuple[str, ...], list[tuple[str, Statement]]] = defaultdict(list)
    for statement in statements:
        if "?" in statement.text or not statement.mentions:
            continue
        for what, side in (*_denial(key, statement), *_order(key, statement)):
            if all(s.source_key != statement.source_key for _, s in told[what]):
                told[what].append((side, statement))
    for _, found in sorted(told.items()):
        if len({side for side, _ in found}) > 1:
            yield [statement for _, statement in found]


def _denial(key: str, statement: Statement) -> Iterator[_Told]:
    """Yield what a sentence says of the concept that it begins with, and whether it denies it."""
    start, end, subject = min(statement.mentions)
    if canonical_key(subject) != key or not _is_bare(statement.text[:start]):
        return
    lemmas = stream(_CONTRACTED.sub(" not", statement.text[end:])).lemmas
    denials = [at for at, word in enumerate(lemmas) if word in _DENIALS]
    if len(denials) > 1 or _HEDGES & set(lemmas):
        return
    if denials:
        [at] = denials
        if not set(lemmas[:at]) <= _BEFORE_DENIAL or _ONLY & set(lemmas[at + 1 : at + 2]):
            return
    words = [w for w in lemmas if w not in _DENIALS | _ARTICLES | _DO]
    if words:
        yield ("is", *words), "no" if denials else "yes"


def _order(key: str, statement: Statement) -> Iterator[_Told]:
    """Yield how a sentence that does nothing else ranks two concepts, and which it puts first."""
    (start, end, first), (then, stop, second) = min(statement.mentions), max(statement.mentions)
    if len(statement.mentions) > len({first, second}):
        return
    text = statement.text
    ends = [canonical_key(first), canonical_key(second)]
    if key not in ends or ends[0] == ends[1]:
        return
    if not _is_bare(text[:start]) or WORD.search(text[stop:]):
        return
    middle = text[end:then].casefold()
    words = [w for w in stream(middle).lemmas if w not in _ARTICLES]
    is_compared = bool(_COMPARED.search(middle)) or any(
        is_russian(w) and parses(w)[0].tag.POS == "COMP" for w in WORD.findall(middle)
    )
    if (is_compared or (len(words) == 1 and words[0] in _RANKS)) and not _DENIALS & set(words):
        words = [w for w in words if w not in _THAN]
        yield ("order", *sorted(ends), *words), ends[0]


def _is_bare(before: str) -> bool:
    """Tell whether a sentence begins with the name behind these words."""
    return not set(WORD.findall(before.casefold())) - _ARTICLES
