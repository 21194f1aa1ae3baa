"""A source cut for a model: windows of whole paragraphs within a budget of tokens."""

from dataclasses import dataclass

from kbwiki.engines.tokens import count_tokens
from kbwiki.records import Document

MIN_PIECE = 80
"""Characters below which a window is not cut."""
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
    """Return a window in two pieces, cut between blocks, else sentences or words; [] if short.

    A cut that leaves next to nothing on one side, such as after a heading, is none.
    """
    first, last = window.start + MIN_PIECE, window.end - MIN_PIECE
    if first > last:
        return []
    middle = (window.start + window.end) // 2
    inside = [b.start for b in document.blocks if first <= b.start <= last]
    if inside:
        cut = min(inside, key=lambda at: abs(at - middle))
    else:
        found = (document.text.rfind(mark, first, middle) for mark in ("\n", ". ", " "))
        cut = next((at + 1 for at in found if at >= 0), middle)
    return [Window(window.start, cut), Window(cut, window.end)]
