"""A Document cut into Chunks: on headings, paragraphs and sentences, about 200 words each.

A chunk never ends inside a code block or a formula, and never spans two pages or two sections.
"""

from bisect import bisect_right

from kbwiki.records import Block, Chunk, Document
from kbwiki.text.words import WORD, lang_of, sentences

TARGET_WORDS = 200
_VERBATIM = {"code", "math", "table"}


def chunk_document(document: Document) -> list[Chunk]:
    """Return the chunks of a document in order; together they cover every block but headings' own lines.

    A heading stands with the text under it. A paragraph over the target is cut between sentences, a
    sentence of more than two targets (data, no prose) between words.
    """
    chunks: list[Chunk] = []
    path: list[tuple[int, str]] = []
    pending: list[tuple[int, int]] = []
    for block in document.blocks:
        if block.kind == "heading":
            _emit(document, pending, path, chunks)
            path = [(level, name) for level, name in path if level < block.level]
            path.append((block.level, document.text[block.start : block.end].strip()))
            continue
        for start, end in _pieces(document, block):
            if pending and (
                _page(document, pending[0][0]) != _page(document, start)
                or _n_words(document.text, pending[0][0], end) > TARGET_WORDS
            ):
                _emit(document, pending, path, chunks)
            pending.append((start, end))
    _emit(document, pending, path, chunks)
    if not chunks:
        _emit(document, [(0, len(document.text))], [], chunks)
    return chunks


def _pieces(document: Document, block: Block) -> list[tuple[int, int]]:
    text = document.text
    if block.kind in _VERBATIM or _n_words(text, block.start, block.end) <= TARGET_WORDS:
        return [(block.start, block.end)]
    body = text[block.start : block.end]
    guarded = [
        (m.start - block.start, m.end - block.start)
        for m in document.marks
        if m.kind in {"math", "code"} and block.start <= m.start and m.end <= block.end
    ]
    pieces: list[tuple[int, int]] = []
    for start, end in sentences(body, lang_of(body)):
        inside = pieces and any(a < start < b for a, b in guarded)
        joins = pieces and (inside or _n_words(body, pieces[-1][0], end) <= TARGET_WORDS)
        if joins:
            pieces[-1] = (pieces[-1][0], end)
        else:
            pieces.extend(_between_words(body, start, end, guarded))
    return [(block.start + a, block.start + b) for a, b in pieces]


def _between_words(
    body: str, start: int, end: int, guarded: list[tuple[int, int]]
) -> list[tuple[int, int]]:
    words = list(WORD.finditer(body, start, end))
    if len(words) <= 2 * TARGET_WORDS:
        return [(start, end)]
    out: list[tuple[int, int]] = []
    for at in range(TARGET_WORDS, len(words), TARGET_WORDS):
        cut = words[at].start()
        if cut - start > 0 and not any(a < cut < b for a, b in guarded):
            out.append((start, cut))
            start = cut
    return [*out, (start, end)]


def _emit(
    document: Document, pending: list[tuple[int, int]], path: list[tuple[int, str]], chunks: list[Chunk]
) -> None:
    if not pending:
        return
    start, end = pending[0][0], pending[-1][1]
    pending.clear()
    if not document.text[start:end].strip():
        return
    chunks.append(
        Chunk(
            ordinal=len(chunks),
            start=start,
            end=end,
            page=_page(document, start),
            headings=tuple(name for _, name in path),
            lang=lang_of(document.text[start:end]),
        )
    )


def page_of(pages: tuple[int, ...], offset: int) -> int | None:
    """Return the page, from 1, on which an offset lies; None where the format has no pages."""
    return bisect_right(pages, offset) if pages else None


def _page(document: Document, offset: int) -> int | None:
    return page_of(document.pages, offset)


def _n_words(text: str, start: int, end: int) -> int:
    return sum(1 for _ in WORD.finditer(text, start, end))
