"""A page of a PDF read off its picture: rendered, seen, laid out in points."""

from collections import Counter
from dataclasses import replace
from itertools import groupby, pairwise
from typing import Any

from kbwiki.errors import InputError
from kbwiki.text import ocr
from kbwiki.text.gate import refusal
from kbwiki.text.pdf_page import CELL_GAP, Cell, Line, PageText, placed

SEEN = "read by OCR"
_TALL = 1.4
"""Heights of the usual line from which on one is set larger: its letters alone differ by less."""


def see_page(page: Any, text: PageText) -> PageText:
    """Return what is read off the picture of a page of pypdfium2 that came to ``text`` otherwise.

    Its ``fault`` is then ``SEEN``, or says what was in the way of OCR as well.
    """
    width, height = page.get_size()
    scale = ocr.DPI / 72
    scale *= min(1.0, (ocr.MAX_PIXELS / max(1.0, width * height * scale * scale)) ** 0.5)
    bitmap = page.render(scale=scale, grayscale=True)
    try:
        stride, buffer = bitmap.stride, memoryview(bitmap.buffer)
        size = bitmap.width, bitmap.height
        rows = [bytes(buffer[at * stride : at * stride + size[0]]) for at in range(size[1])]
    finally:
        bitmap.close()
    try:
        found = list(ocr.see(*size, b"".join(rows), round(72 * scale)))
    except InputError as error:
        return replace(text, fault=f"{text.fault}, and {error.message}")
    lines = _lines(found, scale, height)
    words = "\n".join(line.text for line in lines)
    reason = refusal(words) if lines else "no word is seen in it"
    if reason:
        return replace(text, fault=f"{text.fault}, and by OCR {reason}")
    n_signs = sum(len("".join(line.text.split())) for line in lines)
    return PageText(tuple(lines), SEEN, n_signs=n_signs)


def _lines(found: list[ocr.SeenLine], scale: float, height: float) -> list[Line]:
    """Return seen lines in points, block after block."""
    heights = sorted(line.bottom - line.top for line in found)
    usual = heights[len(heights) // 2] if heights else 0
    out: list[Line] = []
    for _, block in groupby(found, key=lambda line: line.block):
        out += placed([_line(line, usual, scale, height) for line in block])
    steps = Counter(
        round(a.base - b.base)
        for a, b in pairwise(out)
        if 0 < a.base - b.base < 2.5 * usual / scale
    )
    pitch = float(max(steps, key=lambda step: (steps[step], -step), default=0))
    return [replace(line, pitch=pitch) for line in out]


def _line(seen: ocr.SeenLine, usual: int, scale: float, height: float) -> Line:
    tall = seen.bottom - seen.top
    size = round((tall if tall > _TALL * usual else usual) / scale, 1)
    cells: list[Cell] = []
    for text, left, right in seen.words:
        at, end = left / scale, right / scale
        if cells and at - cells[-1].right < CELL_GAP * size:
            cells[-1] = Cell(f"{cells[-1].text} {text}", cells[-1].left, end)
        else:
            cells.append(Cell(text, at, end))
    return Line(tuple(cells), height - seen.bottom / scale, size, False)
