"""A Document cut into Chunks: on headings, paragraphs and sentences, about 200 words each.

A chunk never ends inside a code block, a formula or a table of ordinary size, never spans two
sections, never mixes body and references, and holds no sentence that begins on another page.
"""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from itertools import groupby

from kbwiki.records import Block, Chunk, Document
from kbwiki.text.words import WORD, lang_of, sentences

TARGET_WORDS = 200
MAX_VERBATIM = 8_000
"""Characters of a code or formula block that are kept whole; of one inside a line, a quarter."""
_CHARS_A_WORD = 12
"""A text with fewer spaces than this (data, Chinese) is measured by its characters."""
_VERBATIM = {"code", "math", "table"}
_IDEOGRAPH = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")

Span = tuple[int, int]


class _Cutter:
    """A document while it is cut: what is done, what waits to be one chunk, the headings above."""

    def __init__(self, document: Document) -> None:
        self.document = document
        self.text = document.text
        self.chunks: list[Chunk] = []
        self.path: list[tuple[int, str]] = []
        self.pending: list[Span] = []
        self.size = 0
        self.references = False
        math = [m for m in document.marks if m.kind in {"math", "code"}]
        self.guarded = sorted(
            (m.start, m.end) for m in math if m.end - m.start <= MAX_VERBATIM // 4
        )
        self.guard_starts = [start for start, _ in self.guarded]

    def heading(self, block: Block) -> None:
        """Begin a section."""
        self.emit()
        name = self.text[block.start : block.end].strip()
        self.path = [(level, above) for level, above in self.path if level < block.level]
        self.path.append((block.level, name))

    def add(self, start: int, end: int, references: bool) -> None:
        """Take a piece into the open chunk, or into a new one where it does not fit."""
        size = _size(self.text, start, end)
        if self.pending and (
            self.size + size > TARGET_WORDS
            or end - self.pending[0][0] > 2 * TARGET_WORDS * _CHARS_A_WORD
            or references != self.references
            or page_of(self.document.pages, self.pending[0][0])
            != page_of(self.document.pages, start)
        ):
            self.emit()
        self.pending.append((start, end))
        self.size += size
        self.references = references

    def emit(self) -> None:
        """Close the open chunk."""
        if not self.pending:
            return
        start, end = self.pending[0][0], self.pending[-1][1]
        end = start + len(self.text[start:end].rstrip())
        self.pending, self.size = [], 0
        if start < end:
            self.chunks.append(
                Chunk(
                    ordinal=len(self.chunks),
                    start=start,
                    end=end,
                    page=page_of(self.document.pages, start),
                    headings=tuple(name for _, name in self.path),
                    lang=lang_of(self.text[start:end]),
                )
            )

    def free(self, at: int) -> bool:
        """Tell whether an offset lies outside of every formula."""
        index = bisect_left(self.guard_starts, at) - 1
        return index < 0 or at >= self.guarded[index][1]


def chunk_document(document: Document) -> list[Chunk]:
    """Return the chunks of a document in order; together they cover every block but the headings.

    A paragraph over the target is cut between sentences, a sentence over it (data, no prose)
    between words, a word over it (no language with spaces) anywhere.
    """
    cutter = _Cutter(document)
    for block in _whole_tables(document):
        if block.kind == "heading":
            cutter.heading(block)
            continue
        for start, end in _pieces(cutter, block):
            cutter.add(start, end, block.kind == "references")
    cutter.emit()
    if not cutter.chunks:
        cutter.path = []
        for start, end in _cut(cutter, 0, len(document.text)):
            cutter.add(start, end, False)
        cutter.emit()
    return cutter.chunks


def _whole_tables(document: Document) -> Iterator[Block]:
    """Yield the blocks, the rows of a table of at most two targets as one."""
    for is_table, run in groupby(document.blocks, key=lambda block: block.kind == "table"):
        blocks = list(run)
        start, end = blocks[0].start, blocks[-1].end
        same_page = page_of(document.pages, start) == page_of(document.pages, end - 1)
        if is_table and same_page and _size(document.text, start, end) <= 2 * TARGET_WORDS:
            yield Block("table", start, end)
        else:
            yield from blocks


def _pieces(cutter: _Cutter, block: Block) -> list[Span]:
    text = cutter.text
    if block.kind in _VERBATIM:
        if block.end - block.start <= MAX_VERBATIM:
            return [(block.start, block.end)]
        return _lines(cutter, block.start, block.end)
    pages = cutter.document.pages
    is_on_one = page_of(pages, block.start) == page_of(pages, block.end - 1)
    if is_on_one and _size(text, block.start, block.end) <= TARGET_WORDS:
        return [(block.start, block.end)]
    body = text[block.start : block.end]
    whole: list[Span] = []
    for start, end in sentences(body, lang_of(body)):
        at, stop = block.start + start, block.start + end
        if whole and not cutter.free(at):
            whole[-1] = (whole[-1][0], stop)
        else:
            whole.append((at, stop))
    return [piece for start, end in whole for piece in _cut(cutter, start, end)]


def _lines(cutter: _Cutter, start: int, end: int) -> list[Span]:
    """Cut a long verbatim block between its lines, and a long line anywhere."""
    out: list[Span] = []
    at = start
    while at < end:
        stop = min(end, at + MAX_VERBATIM // 4)
        if stop < end:
            newline = cutter.text.rfind("\n", at + 1, stop)
            stop = newline if newline > at else stop
        out.append((at, stop))
        at = stop + (cutter.text[stop : stop + 1] == "\n")
    return out


def _cut(cutter: _Cutter, start: int, end: int) -> list[Span]:
    """Return a span in pieces of at most the target, cut at spaces where there are any."""
    text = cutter.text
    if _size(text, start, end) <= TARGET_WORDS:
        return [(start, end)]
    out: list[Span] = []
    size, at = 0, start
    for word in re.finditer(r"\S{1,200}\s*", text[start:end]):
        begin, stop = start + word.start(), start + word.end()
        size += _size(text, begin, stop)
        is_free = cutter.free(begin) or begin - at > MAX_VERBATIM
        if size > TARGET_WORDS and begin > at and is_free:
            out.append((at, begin))
            at, size = begin, _size(text, begin, stop)
    return [*out, (at, end)]


def _size(text: str, start: int, end: int) -> int:
    """Return how many words a span holds, or would hold if its letters were parted into words."""
    n_words = sum(1 for _ in WORD.finditer(text, start, end))
    ideographs = (
        sum(1 for _ in _IDEOGRAPH.finditer(text, start, end)) // 2 if not text.isascii() else 0
    )
    return max(n_words, ideographs, (end - start) // _CHARS_A_WORD)


def page_of(pages: tuple[int, ...], offset: int) -> int | None:
    """Return the page, from 1, on which an offset lies; None where the format has no pages."""
    return bisect_right(pages, offset) if pages else None
