"""One page of a PDF as lines in reading order, or why it has none.

Owns what pdfium says of a page: pieces of text, where they stand, in what font. A line is made of
pieces on one baseline; smaller ones above or below it are ``x_i`` and ``x^2``.
"""

import ctypes
import math
import re
from collections import Counter
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

from kbwiki.text.gate import MAX_UNMAPPED, refusal
from kbwiki.text.normal import clean_line

# pdfium writes a hyphen at a line's end as a control character.
LIGATURES = str.maketrans(
    {"ﬁ": "fi", "ﬂ": "fl", "ﬀ": "ff", "ﬃ": "ffi", "ﬄ": "ffl", "ﬅ": "st", "\x02": "-", "\ufffe": "-"}
)
BROKEN = "broken"
NO_TEXT_LAYER = "no text layer"
NO_LETTERS = "its fonts do not say what letters they draw"
_MIN_PIECES = 16
"""Pieces of text from which on a page may have two columns."""
CELL_GAP = 1.2
"""Font sizes of empty space from which on two pieces of a line are cells of a table."""
_SPACE = 0.14
_SMALL = 0.86
_CLOSES = re.compile(r"[.,;:!?)\]}»”]")
_NOTE_MARK = re.compile(r"[\d*∗†‡§¶,]{1,4}")


@dataclass(frozen=True, slots=True)
class Cell:
    """A stretch of a line with its left and right edge in points."""

    text: str
    left: float
    right: float


@dataclass(frozen=True, slots=True)
class Line:
    """A line of a page: its baseline and size in points; ``cells`` are parted by wide gaps.

    ``indent`` is how far right of its column it begins in points, ``slack`` the share of the column
    that it leaves empty at its end, ``fine`` its cells if any gap at all parts them.
    """

    cells: tuple[Cell, ...]
    base: float
    size: float
    bold: bool
    indent: float = 0.0
    slack: float = 0.0
    pitch: float = 0.0
    """The usual distance of two lines of its page, in points."""
    fine: tuple[Cell, ...] = ()

    @property
    def text(self) -> str:
        """The words of the line."""
        return " ".join(cell.text for cell in self.cells)

    @property
    def left(self) -> float:
        """Where it begins."""
        return self.cells[0].left

    @property
    def right(self) -> float:
        """Where it ends."""
        return self.cells[-1].right


@dataclass(frozen=True, slots=True)
class PageText:
    """What came of a page: its lines in reading order, or ``fault``, why there are none.

    ``aside`` are lines that run up the margin; ``n_signs`` is how many signs but spaces the text
    layer holds.
    """

    lines: tuple[Line, ...] = ()
    fault: str = ""
    aside: tuple[str, ...] = ()
    n_signs: int = 0


@dataclass(frozen=True, slots=True)
class _Piece:
    text: str
    left: float
    right: float
    base: float
    size: float
    bold: bool
    angle: int = 0
    """Quarter turns, counted against the clock."""
    begins_apart: bool = False
    ends_apart: bool = False
    """Whether a space is before or after its text."""


def read_page(page: Any) -> PageText:
    """Return the text of a page of pypdfium2."""
    import pypdfium2.raw as pdfium

    textpage = page.get_textpage()
    try:
        unmapped = _share_unmapped(textpage)
        whole = textpage.get_text_range().translate(LIGATURES)
        n_signs = len(re.sub(r"\s", "", clean_line(whole)))
        pieces = _pieces(textpage)
    finally:
        textpage.close()
    width, height = page.get_size()
    if page.get_rotation() % 180:  # places are told as if the page were not turned
        width, height = height, width
    if not pieces:
        drawn = page.get_objects(filter=[pdfium.FPDF_PAGEOBJ_TEXT], max_depth=3)
        fault = NO_LETTERS if any(True for _ in drawn) else ""
        # Nothing is drawn at all: the page is blank, or its content could not be read.
        fault = fault or (NO_TEXT_LAYER if any(True for _ in page.get_objects()) else BROKEN)
        return PageText(fault=fault, n_signs=n_signs)
    turned = Counter(piece.angle for piece in pieces).most_common(1)[0][0]
    if turned:
        pieces = [_turned(piece, turned, width, height) for piece in pieces]
        width, height = (height, width) if turned % 2 else (width, height)
    upright = [piece for piece in pieces if piece.angle == 0]
    if page.get_rotation():  # pdfium gives these in an order of its own
        upright.sort(key=lambda piece: (-round(piece.base), piece.left))
    aside = tuple(piece.text for piece in pieces if piece.angle)
    lines = lines_of(upright, width)
    fault = NO_LETTERS if unmapped > MAX_UNMAPPED else refusal("\n".join(x.text for x in lines))
    if fault:
        return PageText(fault=fault, n_signs=n_signs)
    return PageText(tuple(lines), "", aside, n_signs)


def _share_unmapped(textpage: Any) -> float:
    """Return the share of signs of which the font does not say what letters they are."""
    import pypdfium2.raw as pdfium

    n = textpage.count_chars()
    step = max(1, n // 500)
    asked = range(0, n, step)
    wrong = [at for at in asked if pdfium.FPDFText_HasUnicodeMapError(textpage, at) == 1]
    return len(wrong) / max(1, len(asked))


def _pieces(textpage: Any) -> list[_Piece]:
    out: list[_Piece] = []
    spans = _spans(textpage)
    n_boxes = textpage.count_rects()
    for at in range(n_boxes):
        box = textpage.get_rect(at)
        if len(spans) == n_boxes:
            raw = textpage.get_text_range(*spans[at])
            first = spans[at][0] + len(raw) - len(raw.lstrip())
        else:
            left, bottom, right, top = box
            inset = 0.25 if right - left > 1 else 0.0  # a letter that touches is of another box
            raw = textpage.get_text_bounded(left + inset, bottom, right - inset, top)
            first = _index(textpage, box)
        raw = raw.translate(LIGATURES)
        text = clean_line(raw)
        if text:
            apart = {"begins_apart": raw[0].isspace(), "ends_apart": raw[-1].isspace()}
            out.append(replace(_piece(textpage, text, box, first), **apart))
    return out


def _spans(textpage: Any) -> list[tuple[int, int]]:
    """Return where the letters of each box, which is that of one object, begin; and how many.

    Where lines stand close, letters of others reach into a box from above and below.
    """
    import pypdfium2.raw as pdfium

    out: list[list[int]] = []
    last = 0
    for at in range(textpage.count_chars()):
        found = pdfium.FPDFText_GetTextObject(textpage, at)
        if not found or pdfium.FPDFText_IsGenerated(textpage, at) == 1:
            continue
        key = ctypes.addressof(found.contents)
        if key != last:
            out.append([at, 0])
        out[-1][1] = at - out[-1][0] + 1
        last = key
    return [(start, n) for start, n in out]


def _index(textpage: Any, box: tuple[float, float, float, float]) -> int:
    """Return which letter a box begins with; -1 where none is found."""
    import pypdfium2.raw as pdfium

    left, bottom, _, top = box
    for reach in (0.1, 1, 3, 6):  # first within the letter itself: beside it there may be an index
        at: int = pdfium.FPDFText_GetCharIndexAtPos(
            textpage, left + reach, (bottom + top) / 2, reach, reach * (top - bottom)
        )
        if at >= 0:
            return at
    return -1


def _piece(textpage: Any, text: str, box: tuple[float, float, float, float], at: int) -> _Piece:
    """Return a piece with the font of its first letter; without one its box must do."""
    import pypdfium2.raw as pdfium

    left, bottom, right, top = box
    if at < 0:
        return _Piece(text, left, right, bottom, round(top - bottom, 1), False)
    matrix = pdfium.FS_MATRIX()
    scale, angle = 1.0, 0
    if pdfium.FPDFText_GetMatrix(textpage, at, matrix):
        scale = math.hypot(matrix.c, matrix.d)
        angle = round(math.atan2(matrix.b, matrix.a) / (math.pi / 2)) % 4
    x, y = ctypes.c_double(), ctypes.c_double()
    has_base = pdfium.FPDFText_GetCharOrigin(textpage, at, x, y)
    name = ctypes.create_string_buffer(128)
    pdfium.FPDFText_GetFontInfo(textpage, at, name, 128, None)
    bold = pdfium.FPDFText_GetFontWeight(textpage, at) >= 600 or b"bold" in name.value.lower()
    size = round(pdfium.FPDFText_GetFontSize(textpage, at) * scale, 1)
    if angle:  # along the line and across it, as if it were upright
        place = {1: (bottom, top, -right), 2: (-right, -left, -bottom), 3: (-top, -bottom, left)}
        start, end, base = place[angle]
        return _Piece(text, start, end, base, size, bold, angle)
    return _Piece(text, left, right, y.value if has_base else bottom, size, bold)


def _turned(piece: _Piece, turned: int, width: float, height: float) -> _Piece:
    """Return a piece of a page that lies on its side as if the page stood upright."""
    if piece.angle != turned:
        return replace(piece, angle=1 if piece.angle == 0 else piece.angle)
    shift = {1: (0.0, width), 2: (width, height), 3: (height, 0.0)}[turned]
    return replace(
        piece,
        left=piece.left + shift[0],
        right=piece.right + shift[0],
        base=piece.base + shift[1],
        angle=0,
    )


def lines_of(pieces: list[_Piece], width: float) -> list[Line]:
    """Return pieces as lines in reading order, each told from its column."""
    gap = _gap(pieces, width)
    out: list[Line] = []
    for column in _columns(pieces, gap):
        rows: list[list[_Piece]] = []
        for piece in column:
            if rows and _is_on(rows[-1], piece):
                rows[-1].append(piece)
            else:
                rows.append([piece])
        out += placed([_line(row) for row in _joined(rows)])
    return out


def _columns(pieces: list[_Piece], gap: float | None) -> list[list[_Piece]]:
    """Return the pieces of a page column after column; without two there is one.

    A file gives them in the order in which they were drawn, which may be line by line over both. A
    piece that crosses the gap between the columns ends a band of them, and so does a row of a table
    that does.
    """
    if gap is None:
        return [pieces]
    out: list[list[_Piece]] = []
    sides: tuple[list[_Piece], list[_Piece]] = ([], [])
    across = _wide_rows(pieces, gap)
    for piece in pieces:
        if piece.left < gap < piece.right or id(piece) in across:
            if sides[0] or sides[1] or not out:
                out += [list(sides[0]), list(sides[1]), []]
                sides = ([], [])
            out[-1].append(piece)
        else:
            sides[piece.left >= gap].append(piece)
    return [column for column in [*out, *sides] if column]


def _wide_rows(pieces: list[_Piece], gap: float) -> set[int]:
    """Return the pieces of rows that lie over both columns: of tables, titles, names of authors.

    What stands alone on its side of the gap, centred on the page with what is above it, is of no
    column; nor are rows of three and more cells, three and more of them, on either side of the gap.
    """
    rows: dict[int, list[_Piece]] = {}
    for piece in pieces:
        rows.setdefault(round(piece.base), []).append(piece)
    left = min(piece.left for piece in pieces)
    right = max(piece.right for piece in pieces)
    out: set[int] = set()
    run: list[list[_Piece]] = []
    tops = sorted((p.base for p in pieces if p.left < gap - 5 and p.right < gap), reverse=True)
    for base in [*sorted(rows, reverse=True), None]:
        row = sorted(rows[base], key=lambda p: p.left) if base is not None else []
        gaps = [b.left - a.right for a, b in pairwise(row)]
        wide = (
            len(row) >= 3
            and min(gaps) > CELL_GAP * row[0].size
            and max(p.right - p.left for p in row) < 0.3 * (right - left)
            and row[0].left < gap < row[-1].right
        )
        if wide:
            run.append(row)
            continue
        if len(run) >= 3:
            out.update(id(piece) for each in run for piece in each)
        run = []
        is_centred = len(row) == 1 and abs(row[0].left + row[0].right - left - right) < 20
        if is_centred and (not tops or row[0].base > tops[0] - 1):
            out.add(id(row[0]))
    return out


def _gap(pieces: list[_Piece], width: float) -> float | None:
    """Return where the gap between two columns runs, in points from the left; None if none does."""
    if len(pieces) < _MIN_PIECES:
        return None
    best: tuple[int, float, float] | None = None
    for step in range(35, 66):
        at = width * step / 100
        n_left = sum(piece.right <= at for piece in pieces)
        n_right = sum(piece.left >= at for piece in pieces)
        n_across = len(pieces) - n_left - n_right
        if min(n_left, n_right) >= 0.25 * len(pieces) and n_across <= 0.3 * len(pieces):
            best = min(best or (n_across, abs(step - 50), at), (n_across, abs(step - 50), at))
    if best is None or not _is_prose(pieces, best[2]):
        return None
    return best[2]


def _is_prose(pieces: list[_Piece], gap: float) -> bool:
    """Tell whether a side of a gap holds lines and not only cells of a table."""
    sides = [[p for p in pieces if p.right <= gap], [p for p in pieces if p.left >= gap]]
    widths = []
    for side in sides:
        span = max(p.right for p in side) - min(p.left for p in side)
        rows: Counter[int] = Counter()
        for piece in side:
            rows[round(piece.base)] += 1
        full = Counter(round(p.base) for p in side if p.right - p.left > 0.6 * span)
        widths.append(len(full) / max(1, len(rows)))
    return max(widths) > 0.4 and sum(len(p.text) for p in pieces) / len(pieces) > 12


def _is_on(row: list[_Piece], piece: _Piece) -> bool:
    """Tell whether a piece continues a row: on its baseline, or small and near it."""
    main = max(row, key=lambda p: p.size)
    off = abs(piece.base - main.base)
    near = 0.6 * main.size if piece.size < _SMALL * main.size else 0.15 * main.size
    return off <= near and piece.left >= row[-1].left - 1


def _joined(rows: list[list[_Piece]]) -> list[list[_Piece]]:
    """Return rows with those that hold only small signs beside a larger one put in there."""
    out: list[list[_Piece]] = []
    for row in rows:
        host = out[-1] if out else None
        if (host and _is_part(row, host)) or (host and _is_part(host, row)):
            out[-1] = sorted([*host, *row], key=lambda p: p.left)
        else:
            out.append(row)
    return out


def _is_part(small: list[_Piece], host: list[_Piece]) -> bool:
    """Tell whether a row is but indices of another: small, few, within its reach."""
    size = max(p.size for p in host)
    base = max(host, key=lambda p: p.size).base
    return (
        all(p.size < _SMALL * size and abs(p.base - base) <= 0.6 * size for p in small)
        and sum(len(p.text) for p in small) <= 8
        and small[0].left >= host[0].left
    )


def _line(row: list[_Piece]) -> Line:
    """Return pieces of one baseline as a line."""
    main = max(row, key=lambda p: (p.size, len(p.text)))
    cells: list[list[Any]] = []
    last: _Piece | None = None
    for piece in row:
        if last and piece.text == last.text and abs(piece.left - last.left) < 0.3 * piece.size:
            continue  # drawn twice, as a shadow or in bold
        text = piece.text
        gap = piece.left - last.right if last else 0.0
        if last is None or gap > CELL_GAP * main.size:
            cells.append([text, piece.left, piece.right])
        else:
            is_apart = piece.begins_apart or bool(last and last.ends_apart)
            cells[-1][0] = _with(cells[-1][0], piece, main, is_apart or gap > _SPACE * main.size)
            cells[-1][2] = max(cells[-1][2], piece.right)
        last = piece
    made = tuple(Cell(text, left, right) for text, left, right in cells if text)
    fine = tuple(Cell(p.text, p.left, p.right) for p in row) if len(row) > len(made) else made
    return Line(made, main.base, main.size, all(p.bold for p in row), fine=fine)


def _with(text: str, piece: _Piece, main: _Piece, is_apart: bool) -> str:
    """Return the text of a line with a further piece: as an index if it is small and off it."""
    off = piece.base - main.base
    if piece.size < _SMALL * main.size and abs(off) > 0.08 * main.size:
        is_after_word = re.search(r"[^\W\d_]{3}\)?$|[.,;:!?»”\"]$", text)
        if off > 0 and is_after_word and _NOTE_MARK.fullmatch(piece.text):
            return text  # the mark of a footnote is no part of the word
        mark = "^" if off > 0 else "_"
        return f"{text}{mark}{piece.text if len(piece.text) == 1 else '{' + piece.text + '}'}"
    if _CLOSES.match(piece.text) and not piece.begins_apart:
        is_apart = False
    return f"{text}{' ' if is_apart else ''}{piece.text}"


def placed(lines: list[Line]) -> list[Line]:
    """Return the lines of a column with where they stand in it."""
    if not lines:
        return []
    lefts = Counter(round(line.left) for line in lines for _ in line.text)
    left = max(lefts, key=lambda at: (lefts[at], -at))
    rights = sorted(line.right for line in lines)
    right = rights[int(0.9 * (len(rights) - 1))]
    steps = Counter(
        round(a.base - b.base, 1) for a, b in pairwise(lines) if 0 < a.base - b.base < 4 * a.size
    )
    pitch = max(steps, key=lambda step: (steps[step], -step), default=0.0)
    return [
        replace(
            line,
            indent=line.left - left,
            slack=(right - line.right) / max(1.0, right - left),
            pitch=pitch,
        )
        for line in lines
    ]
