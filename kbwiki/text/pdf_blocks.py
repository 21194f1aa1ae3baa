"""The lines of a PDF's pages as headings, paragraphs, items, tables, captions and formulas.

Owns how lines become blocks, over columns and pages. Knows nothing of how they were read.
"""

import re
from dataclasses import dataclass, field

from kbwiki.records import BlockKind
from kbwiki.text.markdown import Builder
from kbwiki.text.normal import clean_text
from kbwiki.text.pdf_page import Line
from kbwiki.text.pdf_tables import table_at

SENTENCE_END = re.compile(r"[.!?…:;][\"'»”)\]]*$")
_CAPTION = re.compile(
    r"(?:fig(?:ure|\.)?|table|algorithm|listing|рис(?:унок|\.)?|табл(?:ица|\.)?|алгоритм|листинг"
    r"|схема|график)\s*[A-ZА-Я]?\d+(?:\.\d+)*\s*[.:|—–-]\s",
    re.IGNORECASE,
)
_NUMBERED = re.compile(
    r"((?:\d{1,2}|[A-ZА-Я])(?:\.\d{1,2}){0,3}|[IVX]{1,5})[.)]?\s+(?=[A-ZА-ЯЁ«“\"])(.+)"
)
_ITEM = re.compile(r"(?:[•●▪◦‣∙–—*-]|\(?\d{1,2}[.)]|\(?[a-zа-я][)])\s+(?=\S)")
_OPERATOR = re.compile(r"[=≠≈≤≥<>∈∉⊂→←↦∑∏∫√∂∇±×·⊗∝∞∀∃≡≜]")
_EQUATION = re.compile(r"\s*\(\s*[A-Z]?\d{1,3}(?:\.\d{1,3})*[a-z]?\s*\)$")
_WORD = re.compile(r"[^\W\d_]{3,}")
_MAX_HEADING = 160
_SHORT = 0.25
"""The share of its column that the last line of a paragraph usually leaves empty."""


@dataclass(slots=True)
class _Part:
    """A block as it grows: ``starts`` are (page, where its text of that page begins)."""

    kind: BlockKind
    text: str
    page: int
    level: int = 0
    is_float: bool = False
    """Whether running text goes on after it as if it were not there: a caption, table, footnote."""
    starts: list[tuple[int, int]] = field(default_factory=list)


def add_pages(
    pages: list[list[Line]], usual: float, plain: set[str], builder: Builder
) -> list[int]:
    """Append the lines of pages, and return the offset at which each page begins.

    ``usual`` is the font size of most of the text; lines in ``plain`` are no headings.
    """
    parts: list[_Part] = []
    for number, lines in enumerate(pages):
        _Page(number, lines, usual, plain, parts).read()
    starts: dict[int, int] = {}
    for part in _rejoined(parts):
        for page, offset in part.starts or [(part.page, 0)]:
            starts.setdefault(page, builder.size + offset)
        start = builder.size
        for row in part.text.split("\n"):
            at = builder.size
            builder.add(clean_text(row).strip())
            if part.kind == "table":
                builder.block("table", at)
        if part.kind != "table":
            builder.block(part.kind, start, part.level)
    return _filled(starts, len(pages), builder.size)


def _filled(starts: dict[int, int], n: int, end: int) -> list[int]:
    """Return an offset for each page: one that holds nothing begins where the next one does."""
    out = [end] * n
    for page in range(n - 1, -1, -1):
        after = out[page + 1] if page + 1 < n else end
        out[page] = min(starts.get(page, after), after)
    return out


def _rejoined(parts: list[_Part]) -> list[_Part]:
    """Return parts with each paragraph whole that a column, page, figure or footnote cut in two."""
    out: list[_Part] = []
    open_at: int | None = None
    for part in parts:
        if part.kind == "paragraph" and not part.is_float:
            host = out[open_at] if open_at is not None else None
            if host and _goes_on(host.text, part.text):
                text = _glued(host.text, part.text)
                host.starts = host.starts or [(host.page, 0)]
                if part.page != host.starts[-1][0]:
                    host.starts.append((part.page, len(text) - len(part.text)))
                host.text = text
                continue
            open_at = len(out)
        elif not part.is_float:
            open_at = None
        out.append(part)
    return out


def _goes_on(text: str, more: str) -> bool:
    """Tell whether a paragraph is not at its end and this is how it goes on."""
    return not SENTENCE_END.search(text) and (more[:1].islower() or text.endswith(("-", ",")))


def _glued(text: str, more: str) -> str:
    """Return a text with the line that follows; a word that was broken at its end is whole."""
    broken = re.search(r"[^\W\d_]-$", text) and more[:1].islower()
    return text[:-1] + more if broken else f"{text} {more}"


class _Page:
    """The lines of one page on their way to parts."""

    def __init__(
        self, number: int, lines: list[Line], usual: float, plain: set[str], parts: list[_Part]
    ) -> None:
        self.number = number
        self.lines = lines
        self.usual = usual
        self.plain = plain
        self.parts = parts
        self.paragraph: list[str] = []
        self.is_item = False
        self.is_float = False

    def read(self) -> None:
        """Append every line."""
        at = 0
        while at < len(self.lines):
            line = self.lines[at]
            before = self.lines[at - 1] if at else None
            rows = table_at(self.lines, at)
            if rows:
                self._flush()
                self._add("table", "\n".join(rows[1]), is_float=True)
                at += rows[0]
                continue
            if self._is_heading(at):
                self._heading(line, before)
            elif is_formula(line):
                self._formula(line, before)
            else:
                self._words(line, before)
            at += 1
        self._flush()

    def _add(self, kind: BlockKind, text: str, level: int = 0, is_float: bool = False) -> None:
        self.parts.append(_Part(kind, text, self.number, level, is_float))

    def _last(self) -> _Part | None:
        last = self.parts[-1] if self.parts and not self.paragraph else None
        return last if last and last.page == self.number else None

    def _heading(self, line: Line, before: Line | None) -> None:
        last = self._last()
        numbered = _NUMBERED.match(line.text)
        level = 1 if line.size > self.usual * 1.45 else 2
        if numbered:
            level = 2 + numbered[1].count(".")
        if (
            last
            and last.kind == "heading"
            and before
            and not numbered
            and (before.size, before.bold) == (line.size, line.bold)
            and 0 < before.base - line.base < 1.7 * line.size
        ):
            last.text = _glued(last.text, line.text)
            return
        self._flush()
        self._add("heading", line.text, level)

    def _formula(self, line: Line, before: Line | None) -> None:
        last = self._last()
        if (
            last
            and last.kind == "math"
            and before
            and 0 < before.base - line.base < 2.5 * line.size
        ):
            last.text = f"{last.text} {line.text}"
            return
        self._flush()
        self._add("math", line.text, is_float=True)

    def _words(self, line: Line, before: Line | None) -> None:
        if self.paragraph and before and self._parts(before, line):
            self._flush()
        if not self.paragraph:
            self.is_item = bool(_ITEM.match(line.text)) and line.text[0] not in "—–-0123456789"
            small = line.size < 0.92 * self.usual
            self.is_float = bool(_CAPTION.match(line.text)) or small
        self.paragraph.append(line.text)

    def _parts(self, before: Line, line: Line) -> bool:
        """Tell whether a new paragraph begins with a line."""
        last = self.paragraph[-1]
        ended = bool(SENTENCE_END.search(last))
        gap = before.base - line.base
        if _CAPTION.match(line.text) or abs(before.size - line.size) > 0.08 * self.usual + 0.3:
            return True
        if gap < 0 or gap > 20 * line.size:  # in the next column
            return ended and (before.slack > _SHORT or line.indent > 4)
        pitch = min(line.pitch or line.size * 1.2, 2.2 * line.size)
        if gap > max(1.35 * pitch, 1.3 * line.size) and not last.endswith("-"):
            return True
        if before.slack > 0.45 and not line.text[:1].islower():
            return True
        if ended and (_ITEM.match(line.text) or before.slack > _SHORT):
            return True
        return ended and line.indent - before.indent > 4

    def _flush(self) -> None:
        if not self.paragraph:
            return
        text = self.paragraph[0]
        for line in self.paragraph[1:]:
            text = _glued(text, line)
        self.paragraph.clear()
        self._add("item" if self.is_item else "paragraph", text, is_float=self.is_float)

    def _is_heading(self, at: int) -> bool:
        """Tell whether a line is set larger than the text, or bold, or numbered and alone."""
        line = self.lines[at]
        text = line.text
        if (
            len(text) > _MAX_HEADING
            or text in self.plain
            or re.search(r"[.,;:]$", text)
            or not re.search(r"[^\W\d_]{2}", text)
            or _CAPTION.match(text)
        ):
            return False
        before = self.lines[at - 1] if at else None
        if self.paragraph and before and before.bold and line.bold:
            return False
        if line.size > self.usual * 1.08:
            return True
        if line.size < self.usual * 0.95:
            return False
        return (line.bold and text[0].isupper()) or self._is_numbered(at)

    def _is_numbered(self, at: int) -> bool:
        """Tell whether a line of the text's own size is a heading by its number and its place.

        So is one that stands off from what is above and below, or is in capitals.
        """
        line = self.lines[at]
        found = _NUMBERED.match(line.text)
        if not found or len(line.text) > 90 or len(line.cells) > 2:
            return False
        if found[2].isupper() and len(_WORD.findall(found[2])) > 0:
            return True
        if found[1].isalpha() and not found[1].isdigit():
            return False
        pitch = line.pitch or line.size * 1.2
        above = self.lines[at - 1] if at else None
        below = self.lines[at + 1] if at + 1 < len(self.lines) else None
        is_off = above is None or not 0 < above.base - line.base < 1.3 * pitch
        under = below is not None and (
            not 0 < line.base - below.base < 1.3 * pitch or below.indent > line.indent + 4
        )
        return is_off and under and line.slack > _SHORT


def is_formula(line: Line) -> bool:
    """Tell whether a line is a formula that stands on its own: off the margin, few words."""
    text = _EQUATION.sub("", line.text)
    if not _OPERATOR.search(text) or len(text) < 3:
        return False
    words = sum(len(word) for word in _WORD.findall(text))
    signs = len(re.sub(r"\s", "", text))
    numbered = text != line.text
    return words < (0.5 if numbered else 0.34) * signs and (line.indent > 8 or numbered)
