"""Which concepts are one under two names: what their names, vectors and neighbours say.

A pure function of the whole set. It comes after spelling, forms, acronyms and translations that a
text gives (text/concepts.py), so what is left are names that no text joins. Across languages it
reads vectors, by ranks and margins, for cosines of one model all lie close together: CSLS of
Conneau et al. 2018, "Word translation without parallel data". In one language vectors cannot tell
a synonym from an opposite, so there they only help to say what a person should look at.
"""

import re
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from itertools import pairwise, product
from typing import TYPE_CHECKING, Literal

from kbwiki.text.acronyms import SMALL, spells
from kbwiki.text.glossary import glossary
from kbwiki.text.lexicon import BACKGROUND, BARE_METHODS, BARE_NAMES, CONTRASTS
from kbwiki.text.normal import canonical_key
from kbwiki.text.terms import head_of
from kbwiki.text.words import is_known, is_rare, is_russian, lang_of, lemma_key

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float32]

EmbedNames = Callable[[Sequence[str]], "Floats"]
"""Names in, vectors of length 1 out, (n, dim)."""

SURE = (0.045, 0.015)
"""CSLS and lead over the next best of two names that are each other's nearest."""
SURE_SOUND = 0.06
"""CSLS of two words that sound alike but not the same: transform, трансформер."""
SURE_BACKED = (0.03, 0.005)
"""Enough for two that sound alike, or that stand among the same others."""
DOUBT_NEAREST = -0.01
"""Of two that are among each other's two nearest; of others:"""
DOUBT_CSLS = 0.005
DOUBT_RANKS = (1, 4)
"""A pair is worth a look if the one is at most so far down in the other's list, from 0, and the
other at most so far in the first's.
"""
SOUND = 0.95
NEAR_SOUND = 0.75
NEAR_SHARE = 0.5
MIN_NEAR = 3
SAME_LANG_CSLS = 0.015
"""CSLS of two names of one language that stand among the same others; of the very nearest:"""
SHARED_CSLS = 0.03
"""that share a word,"""
NAME_CSLS = 0.05
"""that are a proper name alone and with its kind."""
NEAR_RANK = 2
"""How far down in the other's list either of two synonyms may stand, itself the first, from 0."""
MAX_WITHIN = 5000
"""Concepts of a language beyond which nobody could look at all that may be synonyms."""
MAX_MET = 1
"""Statements that may name both: two names of one thing seldom meet in a sentence."""
MIN_CUT = 6
"""Letters of a word that may be another one cut short."""
MAX_TRANSLATED = 4
"""Words of a name that is translated word for word."""
NEIGHBOURS = 8
_TOP = 24
_BLOCK = 2048

_DIGITS = re.compile(r"\d+|\b[ivx]+\b")
_LATIN_OF = dict(zip("абвгдезийклмнопрстуфхъыьэ", "abvgdeziiklmnoprstufh i e", strict=True)) | {
    "ж": "zh", "ц": "ts", "ч": "ch", "ш": "sh", "щ": "sch", "ю": "yu", "я": "ya", "ъ": "", "ь": "",
}  # fmt: skip
_SOUNDS = (
    ("ph", "f"), ("th", "t"), ("ck", "k"), ("qu", "kv"), ("x", "ks"), ("ae", "e"), ("oe", "e"),
    ("sch", "sh"), ("ch", "h"), ("kh", "h"), ("y", "i"), ("w", "v"), ("q", "k"), ("j", "i"),
)  # fmt: skip
_SOFT_C = re.compile(r"c(?=[eiy])|ts|z")
_TWICE = re.compile(r"(.)\1")


@dataclass(frozen=True, slots=True)
class Named:
    """A concept as it is compared; ``near`` counts by key the statements that name both."""

    key: str
    title: str
    kind: str
    names: tuple[str, ...]
    near: dict[str, int]


@dataclass(frozen=True, slots=True)
class Likeness:
    """Two concepts, by key, that are one, or that may be; ``score`` in [0, 1]."""

    first: str
    second: str
    band: Literal["form", "meaning", "engine"]
    is_sure: bool
    score: float
    reason: str


def find_likenesses(
    concepts: Sequence[Named], embed: EmbedNames | None, settled: frozenset[frozenset[str]]
) -> list[Likeness]:
    """Return the pairs that are or may be one, in key order, but those of ``settled``.

    Without ``embed`` only names are read. A concept is in at most one sure pair of each band.
    """
    found: dict[frozenset[str], Likeness] = {}
    by_names = (*_by_form(concepts), *_by_glossary(concepts))
    for likeness in (*by_names, *(_by_meaning(concepts, embed) if embed else ())):
        pair = frozenset((likeness.first, likeness.second))
        if pair not in settled and (pair not in found or likeness.is_sure > found[pair].is_sure):
            found[pair] = likeness
    return sorted(found.values(), key=lambda x: (x.first, x.second))


def _fit(a: Named, b: Named) -> bool:
    """Tell whether two names hold the same numbers, and neither or both are a person's."""
    if _DIGITS.findall(canonical_key(a.title)) != _DIGITS.findall(canonical_key(b.title)):
        return False
    return (a.kind == "person") == (b.kind == "person") and not _are_opposites(a.title, b.title)


def _are_opposites(first: str, second: str) -> bool:
    """Tell whether a word of the one is an opposite of a word of the other."""
    one, other = (set(lemma_key(name).split()) for name in (first, second))
    return any(
        (one & left and other & right and not one & right and not other & left)
        or (one & right and other & left and not one & left and not other & right)
        for left, right in CONTRASTS
    )


def _is_like(a: Named, b: Named, csls: float, sound: float) -> bool:
    """Tell whether two names are built alike: as many words, no other kind, one sound or none."""
    n_words = {sum(len(word) > 2 for word in lemma_key(x.title).split()) for x in (a, b)}
    kinds = {a.kind, b.kind} - {"concept", "method"}
    if len(n_words) > 1 or len(kinds) > 1:
        return False
    return n_words != {1} or not NEAR_SOUND <= sound < SOUND or csls >= SURE_SOUND


def _may_be_one(a: Named, b: Named) -> bool:
    """Tell whether nothing speaks against: they fit, and are not set side by side often."""
    return _fit(a, b) and a.near.get(b.key, 0) <= MAX_MET


def _pair(
    a: Named, b: Named, band: Literal["form", "meaning"], sure: bool, score: float, reason: str
) -> Likeness:
    first, second = sorted((a, b), key=lambda n: n.key)
    return Likeness(first.key, second.key, band, sure, round(min(1.0, max(0.0, score)), 2), reason)


def _by_form(concepts: Sequence[Named]) -> list[Likeness]:
    """Return pairs of which one is the other with its kind, or the same words in another order."""
    by_key = {lemma_key(name): c for c in concepts for name in (*c.names, c.title)}
    by_letters = {key: c for key, c in by_key.items() if " " not in key}
    by_words: dict[frozenset[str], Named] = {}
    words_in_order = sorted(k for k in by_key if " " not in k)
    out: list[Likeness] = []
    for concept in concepts:
        key = lemma_key(concept.title)
        words = frozenset(key.split()) - SMALL
        joined = by_letters.get(key.replace(" ", ""), concept)
        if joined is not concept and len(key) > MIN_CUT and _fit(concept, joined):
            out.append(_pair(concept, joined, "form", True, 0.9, "the same letters, spaces aside"))
        other = by_words.setdefault(words, concept)
        if other is not concept and len(words) > 1 and _fit(concept, other):
            out.append(_pair(concept, other, "form", False, 0.5, "the same words in another order"))
        longer = by_key.get(_cut_from(key, words_in_order), concept)
        if longer is not concept and _fit(concept, longer):
            out.append(_pair(concept, longer, "form", False, 0.6, "one is the other cut short"))
        for bare, is_name in _without_kind(key):
            owner = by_key.get(bare)
            if owner is None or owner is concept or not _fit(concept, owner):
                continue
            sure = owner.kind != "person" and (not is_name or _is_proper(owner.title))
            out.append(_pair(concept, owner, "form", sure, 0.9, "one is the other with its kind"))
    return out


def _by_glossary(concepts: Sequence[Named]) -> list[Likeness]:
    """Return pairs of which the glossary of standard terms says that they are or may be one."""
    meanings, unsure = glossary().meanings, glossary().unsure
    owners = {lemma_key(name): c for c in concepts for name in (*c.names, c.title)}
    by_meaning: dict[str, set[str]] = defaultdict(set)
    for key in owners.keys() & meanings.keys():
        by_meaning[meanings[key]].add(key)
    sure = [pair for keys in by_meaning.values() for pair in pairwise(sorted(keys))]
    out: list[Likeness] = []
    for pair in (*sure, *(pair for pair in unsure if owners.keys() >= set(pair))):
        a, b = (owners[key] for key in pair)
        is_sure = pair not in unsure and not (_is_bilingual(a) and _is_bilingual(b))
        if a is not b and _fit(a, b):
            score = 0.9 if is_sure else 0.6
            out.append(_pair(a, b, "form", is_sure, score, "so says the glossary"))
    return out + _word_for_word(owners)


def _word_for_word(owners: dict[str, Named]) -> list[Likeness]:
    """Return pairs of which the one is the other translated word for word, in whatever order."""
    words = glossary().words
    by_words = {frozenset(key.split()): c for key, c in owners.items() if is_russian(key)}
    out: list[Likeness] = []
    for key, concept in owners.items():
        english = key.split()
        if not 1 < len(english) <= MAX_TRANSLATED or not all(w in words for w in english):
            continue
        for russian in product(*(words[w] for w in english)):
            other = by_words.get(frozenset(russian))
            if other is not None and other is not concept and _fit(concept, other):
                out.append(_pair(concept, other, "form", False, 0.7, "translated word for word"))
    return out


def _differ_in_glossary(a: Named, b: Named) -> bool:
    """Tell whether two titles are standard terms of different meanings."""
    meanings = glossary().meanings
    one, other = (meanings.get(lemma_key(x.title)) for x in (a, b))
    return one is not None and other is not None and one != other


def _cut_from(word: str, words: list[str]) -> str:
    """Return the one longer word of sorted ``words`` that begins so: backprop, backpropagation."""
    at = bisect_right(words, word)
    longer = [w for w in words[at : at + 3] if w.startswith(word) and len(w) >= len(word) + 3]
    return longer[0] if len(longer) == 1 and " " not in word and len(word) >= MIN_CUT else ""


def _without_kind(key: str) -> list[tuple[str, bool]]:
    """Return (name without the word for its kind, whether only a proper name can stand so)."""
    words = key.split()
    if len(words) < 2:
        return []
    ends = ((words[-1], words[:-1]), (words[0], words[1:]))
    out: list[tuple[str, bool]] = []
    for head, rest in ends:
        is_first = rest[0] is not words[0]
        if is_russian(head) != is_first:
            continue  # the kind stands last in English and first in Russian
        if head in BARE_METHODS and (len(rest) > 1 or head in {"mechanism", "механизм"}):
            out.append((" ".join(rest), False))
        elif head in BARE_METHODS | BARE_NAMES and len(rest) == 1 and not is_russian(rest[0]):
            out.append((rest[0], True))
    return out


def _is_proper(title: str) -> bool:
    """Tell whether a title can only be a name: capitals or digits inside, or no dictionary word."""
    return bool(re.search(r".[A-Z\d]", title)) or (
        title[:1].isupper() and is_rare(re.split(r"[\s-]", lemma_key(title))[-1])
    )


def _by_meaning(concepts: Sequence[Named], embed: EmbedNames) -> list[Likeness]:
    """Return pairs of near vectors, sure or doubtful across languages, doubtful within one."""
    concepts = [replace(c, title=_in_full(c)) for c in concepts]
    english = [c for c in concepts if lang_of(c.title) == "en"]
    russian = [c for c in concepts if lang_of(c.title) == "ru"]
    plain = {lang: [w for w in BACKGROUND if lang_of(w) == lang] for lang in ("en", "ru")}
    names = [*(c.title for c in english), *plain["en"], *(c.title for c in russian), *plain["ru"]]
    vectors = embed([name if name.isupper() else name[:1].lower() + name[1:] for name in names])
    cut = len(english) + len(plain["en"])
    out = [*_within(english, vectors[:cut]), *_within(russian, vectors[cut:])]
    if english and russian:
        out += _between(english, russian, _Tables(vectors[:cut], vectors[cut:]))
    return out


def _in_full(concept: Named) -> str:
    """Return what an acronym stands for, if a name of the concept says it; else the title."""
    long = (name for name in concept.names if spells(concept.title, name))
    return min(long, key=lambda n: (len(n), n), default=concept.title)


def _within(concepts: list[Named], vectors: "Floats") -> list[Likeness]:
    """Return pairs of one language to look at: near, in other words or among the same others."""
    if len(concepts) > MAX_WITHIN:
        return []
    tables = _Tables(vectors, vectors)
    out: list[Likeness] = []
    near = ((i, j) for i in range(len(concepts)) for j in tables.best(0, i))
    for i, j in sorted({(min(pair), max(pair)) for pair in near}):
        if i == j or j >= len(concepts) or not _may_be_one(concepts[i], concepts[j]):
            continue
        a, b = concepts[i], concepts[j]
        csls, ranks, _ = tables.compare(i, j)
        shared = _share(a, b)
        # Each stands first in its own list, so the other is its nearest at rank 1.
        if _is_doubtful(a, b, csls, ranks[1], shared):
            reason = f"vectors {csls:+.3f}, ranks {ranks[0]} and {ranks[1]}"
            reason += f"; shares {shared:.2f} of its neighbours" if shared else ""
            out.append(_pair(a, b, "meaning", False, 0.5 + 5 * csls, reason))
    return out


def _is_doubtful(a: Named, b: Named, csls: float, rank: int, shared: float) -> bool:
    """Tell whether somebody should look at two names of one language; ``rank`` is the worse.

    They may be synonyms if each is of the other's nearest and they have no word in common, or one
    head; the very nearest may share any words, or be a proper name and the same with its kind.
    """
    one, other = (set(lemma_key(c.title).split()) for c in (a, b))
    is_within = one <= other or other <= one
    if any(_is_name(c.title) for c in (a, b)):
        return is_within and rank == 1 and csls >= NAME_CSLS and _is_common(one ^ other)
    if not one & other or _are_parallel(a.title, b.title):
        is_near = rank <= NEAR_RANK and csls >= 0 and (a.kind != "person" or bool(one & other))
    else:
        is_near = rank == 1 and csls >= SHARED_CSLS and not is_within
    among = shared >= NEAR_SHARE and not is_within
    return is_near or (among and csls >= SAME_LANG_CSLS and rank <= DOUBT_RANKS[1])


def _is_common(words: set[str]) -> bool:
    """Tell whether words are of the dictionary: what kind of thing a name is."""
    return all(is_known(word, "en") and not re.search(r"\d", word) for word in words)


def _are_parallel(first: str, second: str) -> bool:
    """Tell whether two names have one head and as many words: prefix sum, cumulative sum."""
    one, other = lemma_key(first), lemma_key(second)
    return head_of(one) == head_of(other) and len(one.split()) == len(other.split())


def _is_name(title: str) -> bool:
    """Tell whether a title is one word that is a proper name."""
    return " " not in title and _is_proper(title)


def _between(english: list[Named], russian: list[Named], tables: "_Tables") -> list[Likeness]:
    pairs = {(i, j) for i in range(len(english)) for j in tables.best(0, i)}
    pairs |= {(i, j) for j in range(len(russian)) for i in tables.best(1, j)}
    out: list[Likeness] = []
    for i, j in sorted(pairs):
        if i >= len(english) or j >= len(russian):
            continue
        likeness = _across(english[i], russian[j], *tables.compare(i, j))
        if likeness:
            out.append(likeness)
    return out


class _Tables:
    """Nearest neighbours between two sets of vectors, both ways, with CSLS's correction."""

    def __init__(self, first: "Floats", second: "Floats") -> None:
        import numpy as np

        self._sets = (first, second)
        self._near: list[tuple[NDArray[np.int64], Floats]] = []
        for a, b in ((first, second), (second, first)):
            self._near.append(_nearest(a, b))
        # How close each vector lies to its neighbours in general: a hub is close to all.
        self._density = [sims[:, :NEIGHBOURS].mean(1) for _, sims in self._near]
        self._lists: tuple[dict[int, list[tuple[float, int]]], ...] = ({}, {})

    def _list(self, side: int, at: int) -> list[tuple[float, int]]:
        """Return (similarity less half the other's density, index) of the nearest, best first."""
        if at not in self._lists[side]:
            index, sims = self._near[side]
            density = self._density[1 - side]
            found = [
                (float(s - density[j] / 2), int(j))
                for j, s in zip(index[at], sims[at], strict=True)
            ]
            self._lists[side][at] = sorted(found, key=lambda f: (-f[0], f[1]))
        return self._lists[side][at]

    def best(self, side: int, at: int) -> list[int]:
        """Return the indexes of the few nearest of one vector."""
        return [j for _, j in self._list(side, at)[: DOUBT_RANKS[0] + 1]]

    def compare(self, i: int, j: int) -> tuple[float, tuple[int, int], float]:
        """Return CSLS of a pair, its two ranks from 0, the better first, and the smaller lead."""
        csls = float(self._sets[0][i] @ self._sets[1][j])
        csls -= float(self._density[0][i] + self._density[1][j]) / 2
        ranks, leads = [], []
        for side, at, other in ((0, i, j), (1, j, i)):
            listed = self._list(side, at)
            rank = next((r for r, (_, k) in enumerate(listed) if k == other), _TOP)
            own = listed[rank][0] if rank < len(listed) else listed[-1][0]
            rival = next((s for s, k in listed if k != other), own - 1.0)
            ranks.append(rank)
            leads.append(own - rival)
        return csls, (min(ranks), max(ranks)), min(leads)


def _nearest(a: "Floats", b: "Floats") -> "tuple[NDArray[np.int64], Floats]":
    """Return the indexes and cosines of the nearest of ``b`` for each of ``a``, nearest first."""
    import numpy as np

    n = min(_TOP, len(b))
    indexes, sims = [], []
    for start in range(0, len(a), _BLOCK):
        cosines = a[start : start + _BLOCK] @ b.T
        top = np.sort(np.argpartition(-cosines, n - 1, axis=1)[:, :n], axis=1)
        order = np.argsort(-np.take_along_axis(cosines, top, axis=1), axis=1, kind="stable")
        top = np.take_along_axis(top, order, axis=1)
        indexes.append(top)
        sims.append(np.take_along_axis(cosines, top, axis=1))
    return np.concatenate(indexes), np.concatenate(sims)


def _across(
    a: Named, b: Named, csls: float, ranks: tuple[int, int], lead: float
) -> Likeness | None:
    """Judge an English and a Russian name."""
    if not _may_be_one(a, b) or _is_bilingual(a) or _is_bilingual(b):
        return None
    sound = sounds_alike(a.title, b.title)
    shared = _share(a, b)
    is_backed = sound >= SOUND or shared >= NEAR_SHARE
    if a.kind == "person" and sound < SOUND:
        return None
    least = SURE_BACKED if is_backed else SURE
    sure = ranks[1] == 0 and csls >= least[0] and lead >= least[1] and _is_like(a, b, csls, sound)
    sure = sure and not _differ_in_glossary(a, b)
    is_far = ranks[0] > DOUBT_RANKS[0] or ranks[1] > DOUBT_RANKS[1]
    enough = DOUBT_NEAREST if ranks[1] <= 1 else DOUBT_CSLS
    if not sure and (is_far or (csls < enough and not is_backed)):
        return None
    reason = f"vectors {csls:+.3f}, ranks {ranks[0] + 1} and {ranks[1] + 1}, lead {lead:+.3f}"
    reason += f"; sounds {sound:.2f}" if sound >= SOUND else ""
    reason += f"; shares {shared:.2f} of its neighbours" if shared else ""
    return _pair(a, b, "meaning", sure, 0.5 + 5 * csls, reason)


def _is_bilingual(concept: Named) -> bool:
    """Tell whether a concept has names of more than one word in both languages already."""
    return len({lang_of(n) for n in concept.names if not n.isupper() and len(n) > 3}) > 1


def _share(a: Named, b: Named) -> float:
    """Return the share of common neighbours of the one that has fewer; 0 where that says little."""
    mine, its = a.near.keys() - {b.key}, b.near.keys() - {a.key}
    common = len(mine & its)
    return common / min(len(mine), len(its)) if common >= MIN_NEAR else 0.0


def sounds_alike(first: str, second: str) -> float:
    """Return in [0, 1] how alike two names sound, one in Latin letters and one in Cyrillic."""
    return SequenceMatcher(None, _sound(first), _sound(second), autojunk=False).ratio()


def _sound(name: str) -> str:
    text = "".join(_LATIN_OF.get(c, c) for c in canonical_key(name) if c.isalnum())
    for letters, sound in _SOUNDS:
        text = text.replace(letters, sound)
    text = _SOFT_C.sub("s", text).replace("c", "k")
    return _TWICE.sub(r"\1", text).rstrip("e")
