"""The text layer of a PDF read into a Document, page by page.

Owns how lines become paragraphs and headings. Pages that hold no text are named in ``notes``.
"""

import ctypes
import math
import re
from collections import Counter
from dataclasses import dataclass
from datetime import date
from typing import Any

from kbwiki.errors import InputError
from kbwiki.records import Block, BlockKind, Document
from kbwiki.text.gate import MAX_UNMAPPED, ranges, refusal
from kbwiki.text.markdown import Builder, is_references
from kbwiki.text.normal import clean_line, clean_text

# pdfium writes a hyphen at a line's end as a control character.
_LIGATURES = str.maketrans(
    {"ﬁ": "fi", "ﬂ": "fl", "ﬀ": "ff", "ﬃ": "ffi", "ﬄ": "ffl", "ﬅ": "st", "\x02": "-", "\ufffe": "-"}
)
_NO_TITLE = re.compile(
    r"untitled\S*|без имени\S*|microsoft (?:word|powerpoint|excel)\b.*"
    r"|.*\.(?:docx?|tex|dvi|indd|qxd|pptx?)",
    re.IGNORECASE,
)
NO_TEXT_LAYER = "no text layer"
NO_LETTERS = "its fonts do not say what letters they draw"
_MIN_PIECES = 16
"""Pieces of text from which on a page may have two columns."""
_SENTENCE_END = re.compile(r"[.!?…:;][\"'»”)\]]*$")


@dataclass(frozen=True, slots=True)
class Line:
    """A line of a page: text, left and bottom edge, height and font size in points."""

    text: str
    left: float
    bottom: float
    height: float
    size: float
    bold: bool


def read_pdf(raw: bytes) -> Document:
    """Return the Document of a PDF with a text layer; raise InputError if it cannot be opened."""
    import pypdfium2

    try:
        pdf = pypdfium2.PdfDocument(raw)
    except pypdfium2.PdfiumError as error:
        why = "it is encrypted" if "password" in str(error).lower() else "it is broken or no PDF"
        raise InputError(
            f"pdf: the file could not be opened: {why}.", "Save a clean copy."
        ) from error
    try:
        return _read(pdf)
    finally:
        pdf.close()


def _read(pdf: Any) -> Document:
    pages: list[list[Line]] = []
    faults: dict[str, list[int]] = {}
    for number in range(len(pdf)):
        lines, fault = _page(pdf, number)
        pages.append(lines)
        if fault:
            faults.setdefault(fault, []).append(number + 1)
    meta = pdf.get_metadata_dict(skip_empty=True)
    builder = Builder()
    starts: list[int] = []
    sizes = Counter(line.size for page in pages for line in page for _ in line.text)
    usual = max(sizes, key=lambda size: (sizes[size], -size), default=0.0)
    repeated = _running_heads(pages)
    for page in pages:
        starts.append(builder.size)
        _add_page([line for line in page if line.text not in repeated], usual, builder)
    text = builder.text().rstrip()
    blocks = _mark_references(builder.blocks, text)
    first = next((text[b.start : b.end] for b in blocks if b.kind == "heading"), "")
    dated = _pdf_date(meta.get("CreationDate", ""))
    author = clean_line(meta.get("Author", ""))
    return Document(
        text=text,
        title=_title(meta.get("Title", "")) or first,
        authors=tuple(a for a in re.split(r"\s*[;,]\s*|\s+and\s+", author) if a),
        year=dated.year if dated else None,
        dated=dated,
        blocks=tuple(blocks),
        pages=tuple(starts),
        notes=tuple(_told(fault, numbers, len(pages)) for fault, numbers in faults.items()),
        coverage=(len(pages) - sum(map(len, faults.values())), len(pages)),
    )


def _told(fault: str, numbers: list[int], n_pages: int) -> str:
    page_s = "page" if len(numbers) == 1 else "pages"
    return f"{page_s} {ranges(numbers)}: {fault}, {len(numbers)} of {n_pages}"


def _page(pdf: Any, number: int) -> tuple[list[Line], str]:
    """Return the lines of one page, or why there are none that can be trusted."""
    import pypdfium2
    import pypdfium2.raw as pdfium

    try:
        page = pdf[number]
    except pypdfium2.PdfiumError:
        return [], "broken"
    try:
        textpage = page.get_textpage()
        try:
            unmapped = _share_unmapped(textpage)
            lines = _lines(textpage, page.get_width())
        finally:
            textpage.close()
        if not lines:
            drawn = page.get_objects(filter=[pdfium.FPDF_PAGEOBJ_TEXT], max_depth=3)
            return [], NO_LETTERS if any(True for _ in drawn) else NO_TEXT_LAYER
    except pypdfium2.PdfiumError:
        return [], "broken"
    finally:
        page.close()
    if unmapped > MAX_UNMAPPED:
        return [], NO_LETTERS
    reason = refusal("\n".join(line.text for line in lines))
    return ([], reason) if reason else (lines, "")


def _share_unmapped(textpage: Any) -> float:
    """Return the share of signs of which the font does not say what letters they are."""
    import pypdfium2.raw as pdfium

    n = textpage.count_chars()
    step = max(1, n // 500)
    asked = range(0, n, step)
    wrong = [at for at in asked if pdfium.FPDFText_HasUnicodeMapError(textpage, at) == 1]
    return len(wrong) / max(1, len(asked))


def _lines(textpage: Any, width: float) -> list[Line]:
    """Return the lines of one page in reading order."""
    pieces: list[tuple[str, tuple[float, float, float, float]]] = []
    for at in range(textpage.count_rects()):
        box = textpage.get_rect(at)
        text = clean_line(textpage.get_text_bounded(*box).translate(_LIGATURES))
        if text:
            pieces.append((text, box))
    out: list[Line] = []
    for text, box in _by_columns(pieces, width):
        size, bold = _font(textpage, box)
        _add_line(out, Line(text, box[0], box[1], box[3] - box[1], size, bold))
    return out


_Piece = tuple[str, tuple[float, float, float, float]]


def _by_columns(pieces: list[_Piece], width: float) -> list[_Piece]:
    """Return the pieces of a page of two columns one column after the other, others as they are.

    A file gives them in the order in which they were drawn, which may be line by line over both. A
    piece that crosses the gap between the columns ends a band of them.
    """
    gap = _gap(pieces, width)
    if gap is None:
        return pieces
    out: list[_Piece] = []
    sides: tuple[list[_Piece], list[_Piece]] = ([], [])
    for piece in pieces:
        left, _, right, _ = piece[1]
        if left < gap < right:
            out += [*sides[0], *sides[1], piece]
            sides = ([], [])
        else:
            sides[left >= gap].append(piece)
    return [*out, *sides[0], *sides[1]]


def _gap(pieces: list[_Piece], width: float) -> float | None:
    """Return where the gap between two columns runs, in points from the left; None if none does."""
    if len(pieces) < _MIN_PIECES:
        return None
    best: tuple[int, float, float] | None = None
    for step in range(35, 66):
        at = width * step / 100
        n_left = sum(right <= at for _, (_, _, right, _) in pieces)
        n_right = sum(left >= at for _, (left, _, _, _) in pieces)
        n_across = len(pieces) - n_left - n_right
        if min(n_left, n_right) >= 0.25 * len(pieces) and n_across <= 0.3 * len(pieces):
            best = min(best or (n_across, abs(step - 50), at), (n_across, abs(step - 50), at))
    return best[2] if best else None


def _add_line(out: list[Line], line: Line) -> None:
    """Append a piece of a page: to the last line where it stands on it, else as a new one."""
    last = out[-1] if out else None
    is_new = not last or line.left < last.left
    if not last or is_new or abs(last.bottom - line.bottom) >= 0.4 * max(last.height, line.height):
        out.append(line)
    elif last.text != line.text:
        height = max(last.height, line.height)
        size = max(last.size, line.size)
        text = f"{last.text} {line.text}"
        out[-1] = Line(text, last.left, last.bottom, height, size, last.bold and line.bold)


def _font(textpage: Any, box: tuple[float, float, float, float]) -> tuple[float, bool]:
    """Return the size in points and the boldness of the first letter in a box; 0 if unknown."""
    import pypdfium2.raw as pdfium

    left, bottom, _, top = box
    at = pdfium.FPDFText_GetCharIndexAtPos(textpage, left + 1, (bottom + top) / 2, 3, top - bottom)
    if at < 0:
        return 0.0, False
    matrix = pdfium.FS_MATRIX()
    scale = 1.0
    if pdfium.FPDFText_GetMatrix(textpage, at, matrix):
        scale = math.hypot(matrix.c, matrix.d)
    name = ctypes.create_string_buffer(128)
    pdfium.FPDFText_GetFontInfo(textpage, at, name, 128, None)
    bold = pdfium.FPDFText_GetFontWeight(textpage, at) >= 600 or b"bold" in name.value.lower()
    return round(pdfium.FPDFText_GetFontSize(textpage, at) * scale, 1), bold


def _running_heads(pages: list[list[Line]]) -> set[str]:
    """Return first and last lines that stand on three pages or more."""
    edges = Counter(line.text for page in pages for line in {*page[:1], *page[-1:]})
    return {text for text, n in edges.items() if n >= 3}


def _add_page(lines: list[Line], usual: float, builder: Builder) -> None:
    paragraph: list[str] = []
    for at, line in enumerate(lines):
        if at == len(lines) - 1 and re.fullmatch(r"[-–—\s\d]+", line.text):
            continue
        before = lines[at - 1] if at else None
        if _is_heading(line, usual) and not (before and paragraph and before.bold and line.bold):
            _flush(paragraph, builder)
            start = builder.size
            builder.add(line.text)
            builder.block("heading", start, 1 if line.size > usual * 1.45 else 2)
            continue
        if paragraph and before and _parts(before, line, paragraph[-1]):
            _flush(paragraph, builder)
        paragraph.append(line.text)
    _flush(paragraph, builder)


def _is_heading(line: Line, usual: float) -> bool:
    """Tell whether a line is set larger than the text, or bold, and is no sentence."""
    if (
        len(line.text) > 160
        or re.search(r"[.,;:]$", line.text)
        or not re.search(r"[^\W\d_]{2}", line.text)
    ):
        return False
    return line.size > usual * 1.08 or (
        line.bold and line.size >= usual * 0.95 and line.text[0].isupper()
    )


def _parts(before: Line, line: Line, last: str) -> bool:
    """Tell whether a new paragraph begins: a wider gap, or an indent after a finished sentence."""
    gap = before.bottom - line.bottom
    if gap > 1.75 * max(before.height, line.height, before.size, line.size):
        return True
    return bool(_SENTENCE_END.search(last)) and line.left - before.left > 6


def _flush(paragraph: list[str], builder: Builder) -> None:
    if not paragraph:
        return
    text = paragraph[0]
    for line in paragraph[1:]:
        broken = re.search(r"[^\W\d_]-$", text) and line[:1].islower()
        text = text[:-1] + line if broken else f"{text} {line}"
    paragraph.clear()
    start = builder.size
    builder.add(clean_text(text))
    builder.block("paragraph", start)


def _mark_references(blocks: list[Block], text: str) -> list[Block]:
    out: list[Block] = []
    inside = False
    for block in blocks:
        if block.kind == "heading":
            inside = is_references(text[block.start : block.end])
        kind: BlockKind = "references" if inside else block.kind
        out.append(Block(kind, block.start, block.end, block.level))
    return out


def _pdf_date(value: str) -> date | None:
    found = re.match(r"D:(\d{4})(\d{2})(\d{2})", value)
    try:
        return date(*map(int, found.groups())) if found else None
    except ValueError:
        return None


def _title(value: str) -> str:
    """Return the title of a file's metadata; empty where a program put its own words there."""
    title = clean_line(value)
    return "" if _NO_TITLE.fullmatch(title) else title
