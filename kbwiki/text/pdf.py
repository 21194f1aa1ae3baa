"""A PDF read into a Document, page by page.

Owns which extractor reads a page, what is a running head, and what is said of what is lost.
A page that nothing reads is named in ``notes``; the others are kept.
"""

import re
import threading
from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

from kbwiki.errors import InputError
from kbwiki.records import Block, BlockKind, Document
from kbwiki.text.gate import ranges
from kbwiki.text.markdown import Builder, is_references
from kbwiki.text.pdf_beside import Beside, attached, read_beside, told_of_files
from kbwiki.text.pdf_blocks import add_pages
from kbwiki.text.pdf_meta import is_stamp, names_in, read_meta
from kbwiki.text.pdf_page import BROKEN, Cell, Line, PageText, read_page
from kbwiki.text.pdf_seen import SEEN, see_page
from kbwiki.text.pdf_spare import Spare

_PDFIUM = threading.Lock()
"""pdfium is not made for threads: a process reads one PDF at a time."""
_AT_A_TIME = 100
"""Pages after which the file is opened anew: what pdfium keeps of pages grows without end."""
_PAGE_NUMBER = re.compile(
    r"[-–—\s]*(?:(?:page|p\.|стр\.?|страница|с\.)\s*)?\d{1,4}(?:\s*(?:/|of|из)\s*\d{1,4})?[-–—\s]*",
    re.IGNORECASE,
)
_MIN_KEPT = 0.9
"""The share of a page's signs that must stand in its lines, else the second extractor is asked."""
_SIZE = 10.0
"""Points of letters where no page has any."""
_MIN_REPEATS = 3
_EDGE = 2
"""Lines at the top and bottom of a page among which running heads are looked for."""


@dataclass(slots=True)
class _Read:
    """The pages read so far."""

    pages: list[list[Line]] = field(default_factory=list)
    aside: list[str] = field(default_factory=list)
    faults: dict[str, list[int]] = field(default_factory=dict)
    seen: list[int] = field(default_factory=list)
    n_signs: int = 0
    n_kept: int = 0
    beside: list[Beside] = field(default_factory=list)
    files: list[str] = field(default_factory=list)
    """Those attached to the whole."""


def read_pdf(raw: bytes, use_ocr: bool = False) -> Document:
    """Return the Document of a PDF; raise InputError if it cannot be opened.

    With ``use_ocr`` a page without letters is read off its picture; ConfigError without tesseract.
    """
    with _PDFIUM:
        return _read(raw, use_ocr)


def _read(raw: bytes, use_ocr: bool) -> Document:
    read, spare = _Read(), Spare(raw)
    n_pages, at = 1, 0
    meta: dict[str, str] = {}
    while at < n_pages:
        pdf = _opened(raw)
        try:
            n_pages = len(pdf)
            meta = _metadata(pdf)
            read.files = attached(pdf)
            for number in range(at, min(n_pages, at + _AT_A_TIME)):
                _add(read, number, _page(pdf, number, spare, use_ocr))
                read.beside.append(read_beside(pdf, number))
        finally:
            pdf.close()
        at += _AT_A_TIME
    return _document(read, meta, use_ocr)


def _metadata(pdf: Any) -> dict[str, str]:
    out: dict[str, str] = {}
    for key in ("Title", "Author", "Subject", "Keywords", "CreationDate"):
        with suppress(UnicodeDecodeError):  # half a letter: as good as absent
            out[key] = pdf.get_metadata_value(key)
    return out


def _opened(raw: bytes) -> Any:
    import pypdfium2

    try:
        pdf = pypdfium2.PdfDocument(raw)
        if pdf.get_formtype() != pypdfium2.raw.FORMTYPE_NONE:
            pdf.init_forms()
        return pdf
    except pypdfium2.PdfiumError as error:
        is_locked = "password" in str(error).lower()
        why = "it is encrypted" if is_locked else "it is broken or no PDF"
        hint = "Open it with its password and save it without." if is_locked else "Save it anew."
        raise InputError(f"pdf: the file could not be opened: {why}.", hint) from error


def _page(pdf: Any, number: int, spare: Spare, use_ocr: bool) -> PageText:
    """Return what the first of three readers that can makes of a page (from 0)."""
    import pypdfium2

    try:
        page = pdf[number]
    except pypdfium2.PdfiumError:
        return _spare(spare, number, PageText(fault=BROKEN))
    try:
        text = read_page(page)
        if text.fault == BROKEN and spare.is_blank(number):
            return PageText()
        if text.fault or _n_kept(text) < _MIN_KEPT * text.n_signs:
            text = _spare(spare, number, text)
        if text.fault and use_ocr:
            text = see_page(page, text)
    except pypdfium2.PdfiumError:
        return _spare(spare, number, PageText(fault=BROKEN))
    finally:
        page.close()
    return text


def _spare(spare: Spare, number: int, text: PageText) -> PageText:
    lines = spare.lines(number)
    if _n_signs(lines) <= _n_kept(text):
        return text
    n_signs = max(text.n_signs, _n_signs(lines))
    return PageText(tuple(lines), n_signs=n_signs)


def _n_kept(page: PageText) -> int:
    return min(page.n_signs, _n_signs(page.lines) + _signs(page.aside))


def _n_signs(lines: Iterable[Line]) -> int:
    return _signs(line.text for line in lines)


def _signs(texts: Iterable[str]) -> int:
    return sum(len(re.sub(r"\s", "", text)) for text in texts)


def _add(read: _Read, number: int, page: PageText) -> None:
    read.n_signs += page.n_signs
    read.n_kept += _n_kept(page)
    if page.fault == SEEN:
        read.seen.append(number + 1)
    elif page.fault:
        read.faults.setdefault(page.fault, []).append(number + 1)
    lines = [line for line in page.lines if not is_stamp(line.text)]
    aside = [line for line in page.aside if not is_stamp(line)]
    if number == 0:
        read.aside = list(page.aside) + [x.text for x in page.lines if is_stamp(x.text)]
    if aside:  # what runs up a margin stands after the text of its page
        last = lines[-1].base if lines else 0.0
        size = min((line.size for line in lines), default=8.0)
        lines += [
            Line((Cell(text, 0.0, 0.0),), last - 99.0 * at, size, False)
            for at, text in enumerate(aside, 1)
        ]
    read.pages.append(lines)


def _document(read: _Read, meta: dict[str, str], use_ocr: bool) -> Document:
    first = [line.text for line in read.pages[0]] if read.pages else []
    told = read_meta(meta, first, read.aside)
    seen = {number - 1 for number in read.seen}
    usual = _usual([page for at, page in enumerate(read.pages) if at not in seen])
    for at in seen if usual else ():
        read.pages[at] = _levelled(read.pages[at], usual)
    usual = usual or _usual(read.pages) or _SIZE
    authors = _named(read.pages[0], told.authors, usual) if read.pages else ((), set())
    n_pages = len(read.pages)
    builder = Builder()
    starts = add_pages(_with_fields(read, usual), usual, authors[1], builder)
    text = builder.text().rstrip()
    blocks = _mark_references(builder.blocks, text)
    end = starts[1] if len(starts) > 1 else len(text)  # a later heading is no title
    heads = (b for b in blocks if b.kind == "heading" and b.start < end)
    heading = next((text[b.start : b.end] for b in heads), "")
    notes = [
        _told(fault, numbers, n_pages) + ("" if use_ocr or fault == BROKEN else "; run with --ocr")
        for fault, numbers in read.faults.items()
    ]
    n_comments = sum(beside.n_comments for beside in read.beside)
    if n_comments:
        notes.append(f"comments left out: {n_comments}")
    files = read.files + [name for beside in read.beside for name in beside.files]
    if files:
        notes.append(told_of_files(files))
    if read.seen:
        notes.append(_told(SEEN, read.seen, n_pages))
    return Document(
        text=text,
        title=told.title or heading,
        authors=told.authors or authors[0],
        year=told.year,
        dated=told.dated,
        blocks=tuple(blocks),
        pages=tuple(min(start, len(text)) for start in starts),
        notes=tuple(notes),
        coverage=(n_pages - sum(map(len, read.faults.values())), n_pages),
        characters=(read.n_kept, read.n_signs),
        ids=told.ids,
    )


def _with_fields(read: _Read, usual: float) -> list[list[Line]]:
    """Return the bodies of pages; the values of a form stand after the text of their page."""
    out = _bodies(read.pages)
    for lines, beside in zip(out, read.beside, strict=True):
        last = lines[-1].base if lines else 0.0
        lines += [
            Line((Cell(f"• {text}", 0.0, 0.0),), last - 99.0 * at, usual, False)
            for at, text in enumerate(beside.fields, 1)
        ]
    return out


def _usual(pages: list[list[Line]]) -> float:
    """Return the font size of most of the text."""
    sizes = Counter(line.size for page in pages for line in page for _ in line.text)
    return max(sizes, key=lambda size: (sizes[size], -size), default=0.0)


def _levelled(page: list[Line], usual: float) -> list[Line]:
    """Return a page that was seen as if most of it were set like the other pages: its sizes are
    guesses.
    """
    own = _usual([page])
    return [replace(line, size=round(line.size * usual / own, 1)) for line in page]


def _told(fault: str, numbers: list[int], n_pages: int) -> str:
    page_s = "page" if len(numbers) == 1 else "pages"
    return f"{page_s} {ranges(numbers)}: {fault}, {len(numbers)} of {n_pages}"


def _named(
    lines: list[Line], known: tuple[str, ...], usual: float
) -> tuple[tuple[str, ...], set[str]]:
    """Return the authors whom the lines under the title name, and those lines."""
    names: list[str] = []
    used: set[str] = set()
    top = max((line.size for line in lines[:12]), default=0.0)
    titles = [at for at, line in enumerate(lines[:12]) if line.size == top > usual]
    for line in lines[titles[-1] + 1 :][:4] if titles else []:
        found = [name for cell in line.cells for name in names_in(cell.text)]
        if not found or (known and not set(found) <= set(known)):
            break
        names += found
        used.add(line.text)
    return tuple(names), used


def _bodies(pages: list[list[Line]]) -> list[list[Line]]:
    """Return pages without running heads and page numbers.

    A running head stands apart from the text at an edge of its page, and its words at the same
    height on others, or the number of the page is in it, counted as on others. A larger line is a
    heading, though it may come again, unless half of the pages have it.
    """
    edges = [_edges(page) for page in pages]
    repeats = Counter(edge.key for page in edges for edge in {e.key: e for e in page}.values())
    counted = Counter(
        number - at
        for at, page in enumerate(edges)
        for number in {n for edge in page if not edge.is_large for n in edge.numbers}
    )

    def is_head(edge: _Edge, page: int) -> bool:
        least = max(_MIN_REPEATS, 0.5 * len(pages) if edge.is_large else 0)
        by_number = any(counted[n - page] >= _MIN_REPEATS for n in edge.numbers)
        return repeats[edge.key] >= least or (
            not edge.is_large and (by_number or _PAGE_NUMBER.fullmatch(edge.key[1]) is not None)
        )

    out: list[list[Line]] = []
    for number, (page, found) in enumerate(zip(pages, edges, strict=True)):
        drop = {edge.at for edge in found if is_head(edge, number)}
        out.append([line for at, line in enumerate(page) if at not in drop])
    return out


@dataclass(frozen=True, slots=True)
class _Edge:
    """A line that stands apart at the top or bottom of its page; ``key`` is its height and words.

    ``numbers`` are those with which it begins and ends.
    """

    at: int
    key: tuple[int, str]
    is_large: bool
    numbers: tuple[int, ...]


def _edges(page: list[Line]) -> list[_Edge]:
    out: list[_Edge] = []
    order = sorted(range(len(page)), key=lambda at: -page[at].base)
    usual = _usual([page])
    for side in (order, order[::-1]):
        for place, at in enumerate(side[:_EDGE]):
            line = page[at]
            rest = [page[other] for other in side[place + 1 :]]
            inner = next((other for other in rest if abs(other.base - line.base) >= 2), None)
            if inner is None or not _is_apart(line, inner):
                break
            numbers = re.findall(r"^\d{1,4}\b(?!\.\d)|(?<![\d.])\b\d{1,4}$", line.text)
            key = (round(line.base / 4), line.text)
            out.append(_Edge(at, key, line.size > 1.08 * usual, tuple(map(int, numbers))))
    return out


def _is_apart(line: Line, other: Line) -> bool:
    gap = abs(line.base - other.base)
    usual = max(other.pitch, 1.2 * other.size)
    return gap > 1.45 * usual or (line.size < 0.93 * other.size and gap > 1.2 * usual)


def _mark_references(blocks: list[Block], text: str) -> list[Block]:
    out: list[Block] = []
    inside = False
    for block in blocks:
        if block.kind == "heading":
            inside = is_references(re.sub(r"^[\dIVX.]+\s+", "", text[block.start : block.end]))
        kind: BlockKind = "references" if inside else block.kind
        out.append(Block(kind, block.start, block.end, block.level))
    return out
