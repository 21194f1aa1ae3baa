"""Links in article bodies: ``[[c:KEY|words]]`` to a concept, ``[[s:KEY|words]]`` to a source.

A body names its targets by key, so that a new slug changes no article; `export` puts the files in.
"""

import re
from collections.abc import Callable, Iterator
from typing import Literal

from kbwiki.text.normal import escape_markdown, split_formulas

Target = Literal["c", "s"]

_LINK = re.compile(r"\[\[([cs]):([^|\]]*)\|([^\]|]*)\]\]")
_UNSAFE = re.compile(r"[\[\]|*_`<>$~^\\]|%%")
_MARKS = re.compile(r"\[\^(?:\d+|human)\]|\*\*")
_UNESCAPED = re.compile(r"\\([\\`*_\[\]<>|~^$&#=.)+%-])")
_CODES = {"%": "%25", "|": "%7C", "[": "%5B", "]": "%5D"}


def link(target: Target, key: str, words: str) -> str:
    """Return the markup of a link; words that a link cannot hold are given as plain text."""
    if _UNSAFE.search(words):
        return escape_markdown(words)
    for char, code in _CODES.items():
        key = key.replace(char, code)
    return f"[[{target}:{key}|{words}]]"


def replace_links(body: str, resolve: Callable[[Target, str, str], str]) -> str:
    """Return a body with each link replaced by ``resolve(target, key, words)``."""

    def one(match: re.Match[str]) -> str:
        target: Target = "c" if match.group(1) == "c" else "s"
        return resolve(target, _decoded(match.group(2)), match.group(3))

    return _LINK.sub(one, body)


def rename_links(body: str, names: dict[str, str]) -> str:
    """Return a body with its links to sources led to other keys."""

    def one(target: Target, key: str, words: str) -> str:
        return link(target, names.get(key, key) if target == "s" else key, words)

    return replace_links(body, one)


def links_in(text: str) -> list[tuple[str, str]]:
    """Return (target, key) of each link, in order."""
    return [(m.group(1), _decoded(m.group(2))) for m in _LINK.finditer(text)]


def plain_text(body: str) -> str:
    """Return a body's words without links, footnote marks and bold."""
    words = _LINK.sub(lambda m: m.group(3), body)
    parts = split_formulas(words)
    parts[::2] = [_UNESCAPED.sub(r"\1", _MARKS.sub("", part)) for part in parts[::2]]
    return "".join(parts)


def _decoded(key: str) -> str:
    for char, code in reversed(_CODES.items()):
        key = key.replace(code, char)
    return key


_EXPORTED = re.compile(r"\[\[((?:concepts|sources)/[^\]|\[]+)\|([^\]|\[]*)\]\]")


def restore_links(body: str, keys: dict[str, str]) -> str:
    """Return an exported body with its links by key again; ``keys`` are by path without ending."""

    def one(match: re.Match[str]) -> str:
        key = keys.get(match.group(1))
        if key is None:
            return match.group()
        return link("c" if match.group(1).startswith("concepts/") else "s", key, match.group(2))

    return _EXPORTED.sub(one, body)


_PATH = re.compile(
    r"\[\[((?:concepts|sources|answers)/[^\]|#\[]+?)(?:\.md)?\s*(?:[|#][^\]\[]*)?\]\]"
)


def paths_in(body: str) -> list[str]:
    """Return where a person's links lead, without ending, in order: ours name keys."""
    return [match.group(1) for match in _PATH.finditer(body)]


_CITED = re.compile(r"(?:\[\^[^\]\s]+\])+")
_NUMBER = re.compile(r"\[\^(\d+)\]")
_FENCE = re.compile(r"\s*(?:```|~~~)")


def statements_of(body: str) -> list[tuple[str, list[int]]]:
    """Return (words, footnote numbers) of each statement of a body, in order."""
    return [(words, numbers) for words, numbers, _ in _statements(body)]


def uncited_in(body: str) -> list[tuple[str, bool]]:
    """Return (words, whether a person wrote them) of each statement that cites nothing."""
    return [(words, human) for words, numbers, human in _statements(body) if not numbers]


def _statements(body: str) -> Iterator[tuple[str, list[int], bool]]:
    is_code = False
    for line in body.splitlines():
        if _FENCE.match(line):
            is_code = not is_code
        elif not is_code and not line.startswith("#"):
            at = 0
            for match in [*_CITED.finditer(line), None]:
                end = match.start() if match else len(line)
                marks = match.group() if match else ""
                words = plain_text(line[at:end].removeprefix("- ")).strip()
                if any(c.isalnum() for c in words):
                    numbers = [int(n) for n in _NUMBER.findall(marks)]
                    yield words, numbers, "[^human]" in marks
                at = match.end() if match else end
