"""Where known names occur in a text: longest match over lemmas, left to right."""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

_GAP = re.compile(r"[\s\-‐-―−/'’«»\"“”]{1,3}|")


@dataclass(frozen=True, slots=True)
class Name:
    """A name to look for. ``cased``: a match must begin with a capital; ``exact``: be spelt like
    this.
    """

    key: str
    owner: str
    cased: bool = False
    exact: str = ""


@dataclass(frozen=True, slots=True)
class Match:
    """A found name: whose it is, and its span."""

    owner: str
    start: int
    end: int


@dataclass(slots=True)
class _Node:
    """A place in the trie: the words that may follow, and the names that end here."""

    words: "dict[str, _Node]" = field(default_factory=dict)
    names: list[Name] = field(default_factory=list)


class Matcher:
    """A trie of lemma keys; built once for all names, asked for each text."""

    def __init__(self, names: Iterable[Name]) -> None:
        self._root = _Node()
        for name in names:
            node = self._root
            for word in name.key.split():
                node = node.words.setdefault(word, _Node())
            node.names.append(name)

    def find(self, text: str, lemmas: list[str], starts: list[int], ends: list[int]) -> list[Match]:
        """Return the matches in order, none overlapping; lemmas, starts and ends are parallel."""
        out: list[Match] = []
        at = 0
        while at < len(lemmas):
            found, stop = self._longest(text, lemmas, starts, ends, at)
            if found:
                out.append(Match(found.owner, starts[at], ends[stop - 1]))
                at = stop
            else:
                at += 1
        return out

    def _longest(
        self, text: str, lemmas: list[str], starts: list[int], ends: list[int], at: int
    ) -> tuple[Name | None, int]:
        node = self._root
        best: Name | None = None
        stop = at
        i = at
        while i < len(lemmas) and lemmas[i] in node.words:
            if i > at and not _GAP.fullmatch(text, ends[i - 1], starts[i]):
                break
            node = node.words[lemmas[i]]
            i += 1
            for name in node.names:
                if _fits(name, text[starts[at] : ends[i - 1]]):
                    best, stop = name, i
                    break
        return best, stop


def _fits(name: Name, surface: str) -> bool:
    if name.exact:
        return surface.rstrip("s") == name.exact.rstrip("s")
    return not name.cased or surface[:1].isupper() or surface[:1].isdigit()
