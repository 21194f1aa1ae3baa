"""Tables among the lines of a PDF's page: their rows and columns, by where the cells stand.

Owns how cells that were set in several lines become whole. Knows nothing of other blocks.
"""

import re
from bisect import bisect_right
from dataclasses import replace
from itertools import pairwise

from kbwiki.text.pdf_page import Cell, Line

_LABEL = re.compile(r"(?:[•●▪◦‣∙*–—-]|\(?\w{1,3}[.)]|\[\d+\])")
_NEAR = 3.0
"""Font sizes that two lines of a table may lie apart."""
_BACK = 6.0
"""Font sizes that a cell may begin above the end of the one that was drawn before it."""
_CLOSE = 1.5
"""Font sizes from one line of a cell to the next, at most."""
_OVERLAP = 0.9
"""Font sizes apart that two lines of one text never lie."""
_APART = 1.25
"""How many times the lines of a cell the rows of a table lie apart, at least, to be told apart."""


def table_at(lines: list[Line], at: int) -> tuple[int, list[str]] | None:
    """Return how many lines from here on are rows of a table, and the rows; None if none are.

    Rows are lines of two cells and more that keep to the same columns. A line within one column
    is the rest of the cell above it, or a row of its own in the first; where rows lie farther apart
    than the lines of a cell, that tells them apart. A file may draw cell by cell, so that the lines
    of a row do not come one after the other.
    """
    found = _in_order(lines[at:])
    n = found[0] if found else 0
    rows = _by_height(lines, at)
    other = _in_order([row for row, _ in rows]) if len(rows[0][1]) > 1 or _is_mixed(rows) else None
    if other is None:
        return found
    used = sorted(number for _, numbers in rows[: other[0]] for number in numbers)
    is_next = used == list(range(at, at + len(used)))
    return (len(used), other[1]) if is_next and len(used) > n else found


def _by_height(lines: list[Line], at: int) -> list[tuple[Line, list[int]]]:
    """Return the lines from here on that may be of one table, from the top down, those of one
    height as one; with each come the numbers of its lines.
    """
    top = low = lines[at].base
    rows: dict[int, list[int]] = {}
    for number in range(at, len(lines)):
        line = lines[number]
        before = lines[number - 1].base if number > at else top
        if not low - _NEAR * line.size < line.base < before + _BACK * line.size:
            break
        if line.base > top + _CLOSE * line.size:
            break
        low = min(low, line.base)
        key = next((base for base in rows if abs(base - line.base) < 1), round(line.base))
        rows.setdefault(key, []).append(number)
    out = []
    for _, numbers in sorted(rows.items(), reverse=True):
        cells, fine = (
            tuple(sorted((c for n in numbers for c in each[n]), key=lambda cell: cell.left))
            for each in ({n: lines[n].cells for n in numbers}, {n: lines[n].fine for n in numbers})
        )
        out.append((replace(lines[numbers[0]], cells=cells, fine=fine), numbers))
    return out


def _is_mixed(rows: list[tuple[Line, list[int]]]) -> bool:
    order = [number for _, numbers in rows for number in numbers]
    return order != sorted(order) or any(len(numbers) > 1 for _, numbers in rows)


def _in_order(lines: list[Line]) -> tuple[int, list[str]] | None:
    """Return how many of the first lines are rows of a table, and the rows; None if none are."""
    columns: list[tuple[float, float]] = []
    used: list[tuple[Cell, ...]] = []
    n_full, n_used = 0, 0
    for number, line in enumerate(lines):
        above = lines[number - 1] if used else None
        if above and not 0 < above.base - line.base < _NEAR * max(line.size, above.size):
            break
        cells = [(cell.left, cell.right) for cell in line.cells]
        if len(cells) < 2 and not used and not _begins_row(line, lines[1:2]):
            break
        fine = [(cell.left, cell.right) for cell in line.fine]
        if used and len(fine) > len(cells) and len(_merged([*columns, *fine])) == len(columns):
            cells = fine  # cells that nearly touch, but keep to the columns of the rows above
        merged = _merged([*columns, *cells])
        if len(merged) < max(2, len(columns)) or (len(cells) == 1 and not _fits(cells[0], columns)):
            break
        columns = merged
        used.append(line.fine if cells is fine else line.cells)
        if len(cells) >= 2 and not (len(cells) == 2 and _LABEL.fullmatch(line.cells[0].text)):
            n_full += 1
            n_used = len(used)
        elif n_used == len(used) - 1 and above and _is_rest(line, above, columns):
            n_used = len(used)
    texts = [cell.text for cells in used[:n_used] for cell in cells]
    n_words = sum(bool(re.search(r"\w", text)) for text in texts)
    if n_full < (2 if len(columns) > 2 else 3) or n_words < 0.7 * len(texts):
        return None
    gaps = [above.base - line.base for above, line in pairwise(lines[:n_used])]
    return n_used, _rows(used[:n_used], columns, gaps)


def _begins_row(line: Line, below: list[Line]) -> bool:
    """Tell whether a line is of a cell that begins above the others of its row."""
    return any(
        len(other.cells) > 1 and 0 < line.base - other.base < _OVERLAP * line.size
        for other in below
    )


def _is_rest(line: Line, above: Line, columns: list[tuple[float, float]]) -> bool:
    """Tell whether a line of one cell behind a table's last row is of that row."""
    is_close = above.base - line.base < _CLOSE * line.size
    is_off = len(columns) > 1 and line.left >= columns[1][0] - 2
    return len(line.cells) == 1 and (line.text[:1].islower() or (is_close and is_off))


def _merged(spans: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """Return spans of a table's cells joined to columns where they overlap."""
    out: list[tuple[float, float]] = []
    for left, right in sorted(spans):
        if out and left <= out[-1][1]:
            out[-1] = (out[-1][0], max(out[-1][1], right))
        else:
            out.append((left, right))
    return out


def _fits(span: tuple[float, float], columns: list[tuple[float, float]]) -> bool:
    """Tell whether a cell alone on its line is of one column: within it, or begins as it does."""
    return any(
        left - 2 <= span[0] and (span[1] <= right + 2 or span[0] <= left + 2)
        for left, right in columns
    )


def _rows(
    lines: list[tuple[Cell, ...]], columns: list[tuple[float, float]], gaps: list[float]
) -> list[str]:
    """Return the rows of a table; ``gaps`` are the distances from each line to the next."""
    cut = [_in_columns(cells, columns) for cells in lines]
    out: list[list[str]] = []
    apart = _row_gap(cut, gaps)
    for row, gap in zip(cut, [0.0, *gaps], strict=True):
        n_cells = sum(map(bool, row))
        is_rest = gap < apart if apart else n_cells == 1 and (not row[0] or row[0][:1].islower())
        if is_rest and out:  # of the row above
            out[-1] = [f"{a} {b}".strip() for a, b in zip(out[-1], row, strict=True)]
        else:
            out.append(row)
    return [" | ".join(row) for row in out]


def _in_columns(cells: tuple[Cell, ...], columns: list[tuple[float, float]]) -> list[str]:
    row = [""] * len(columns)
    for cell in cells:
        at = max(0, bisect_right([left for left, _ in columns], cell.left + 0.1) - 1)
        row[at] = f"{row[at]} {cell.text}".strip()
    return row


def _row_gap(lines: list[list[str]], gaps: list[float]) -> float:
    """Return the distance from which on a line begins a row; 0 where distances do not tell.

    They do if there are two kinds, and no two lines that lie close have each a cell in every
    column: such are rows, and the wide distances part groups of them, or their head.
    """
    if not gaps:
        return 0.0
    kinds = sorted(gaps)
    wide = max(pairwise(kinds), key=lambda pair: pair[1] / pair[0], default=(1.0, 1.0))
    if wide[1] < _APART * wide[0]:
        return 0.0
    n_full = int(all(lines[0]))
    for row, gap in zip(lines[1:], gaps, strict=True):
        n_full = (n_full if gap < wide[1] else 0) + all(row)
        if n_full > 1:
            return 0.0
    return wide[1]
