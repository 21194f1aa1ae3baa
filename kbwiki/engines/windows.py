"""A source cut for a model: windows of whole paragraphs within a budget of tokens."""

from dataclasses import dataclass

from kbwiki.engines.tokens import count_tokens
from kbwiki.records import Document

_READ = {"paragraph", "item", "quote", "heading", "table", "math"}


@dataclass(frozen=True, slots=True)
class Window:
    """A span of a source that a model reads at once."""

    start: int
    end: int


def cut_windows(document: Document, budget: int) -> list[Window]:
    """Return windows of whole blocks of at most ``budget`` tokens, each repeating the last block.

    A block over the budget is a window of its own. Code and references are left out at the edges.
    """
    spans = [(b.start, b.end) for b in document.blocks if b.kind in _READ]
    if not spans:
        return [Window(0, len(document.text))] if document.text.strip() else []
    sizes = [count_tokens(document.text[start:end]) for start, end in spans]
    windows: list[Window] = []
    first, total = 0, 0
    for at, size in enumerate(sizes):
        if total and total + size > budget:
            windows.append(Window(spans[first][0], spans[at - 1][1]))
            overlap = at - 1 > first and sizes[at - 1] + size <= budget
            first = at - 1 if overlap else at
            total = sizes[at - 1] if overlap else 0
        total += size
    windows.append(Window(spans[first][0], spans[-1][1]))
    return windows


def halves(document: Document, window: Window) -> list[Window]:
    """Return a window in two pieces, cut between blocks, else sentences or words; [] if short."""
    inside = [b.start for b in document.blocks if window.start < b.start < window.end]
    middle = (window.start + window.end) // 2
    text = document.text
    if inside:
        cut = min(inside, key=lambda at: abs(at - middle))
    else:
        found = (text.rfind(mark, window.start, middle) for mark in ("\n", ". ", " "))
        cut = next((at + 1 for at in found if at > window.start), middle)
    if cut <= window.start + 80 or window.end - cut < 80:
        return []
    return [Window(window.start, cut), Window(cut, window.end)]
