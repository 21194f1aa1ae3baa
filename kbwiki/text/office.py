"""Office files: Word documents, slides, spreadsheets.

Owns which parts of them are text. A picture is none, and ``notes`` count what was left out.
"""

import io
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from kbwiki.errors import InputError
from kbwiki.records import Document
from kbwiki.text.markdown import Builder, mark_references
from kbwiki.text.normal import clean_line, clean_text
from kbwiki.text.packed import open_packed

_HEADING = re.compile(r"(?:heading|заголовок) (\d)", re.IGNORECASE)
_W = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
_M = "{http://schemas.openxmlformats.org/officeDocument/2006/math}"
_R = "{http://schemas.openxmlformats.org/officeDocument/2006/relationships}"
_OFF = {"0", "false", "off", "none"}


def read_docx(raw: bytes) -> Document:
    """Return the Document of a Word file: headings, lists, tables, formulas, footnotes, links."""
    import docx

    package = _opened(raw, ".docx", docx.Document)
    builder = Builder()
    for block in package.iter_inner_content():
        if hasattr(block, "rows"):
            _add_rows(builder, _cells(block.rows))
        else:
            _add_paragraph(builder, block)
    for note in _footnotes(package):
        start = builder.size
        builder.add(note)
        builder.block("paragraph", start)
    return _finished(builder, package.core_properties)


def read_pptx(raw: bytes) -> Document:
    """Return the Document of slides; each is a page, with its notes at its end."""
    import pptx

    package = _opened(raw, ".pptx", pptx.Presentation)
    builder = Builder()
    starts: list[int] = []
    for slide in package.slides:
        starts.append(builder.size)
        title = slide.shapes.title
        _add_line(builder, title.text_frame.text if title is not None else "", level=2)
        for shape in _shapes(slide.shapes):
            if title is not None and shape.shape_id == title.shape_id:
                continue
            if shape.has_text_frame:
                for paragraph in shape.text_frame.paragraphs:
                    _add_line(builder, paragraph.text)
            elif getattr(shape, "has_table", False):
                _add_rows(builder, _cells(shape.table.rows))
        if slide.has_notes_slide and slide.notes_slide.notes_text_frame is not None:
            for line in slide.notes_slide.notes_text_frame.text.splitlines():
                _add_line(builder, line)
    return replace(_finished(builder, package.core_properties), pages=tuple(starts))


def read_xlsx(raw: bytes) -> Document:
    """Return the Document of a spreadsheet: a heading a sheet, a table row a row, shown values."""
    import openpyxl

    book = _opened(
        raw, ".xlsx", lambda file: openpyxl.load_workbook(file, read_only=True, data_only=True)
    )
    builder = Builder()
    try:
        for sheet in book.worksheets:
            _add_line(builder, sheet.title, level=2)
            _add_rows(
                builder, ([_value(v) for v in row] for row in sheet.iter_rows(values_only=True))
            )
        return _finished(builder, book.properties)
    finally:
        book.close()


def _opened(raw: bytes, what: str, opener: Callable[[Any], Any]) -> Any:
    """Return what a library makes of a file; whatever it stumbles over is an InputError."""
    open_packed(raw, what).close()
    try:
        return opener(io.BytesIO(raw))
    # Each of these libraries raises what its XML happens to lead it to.
    except Exception as error:
        raise InputError(f"{what}: it is broken or no {what}.", "Save a clean copy.") from error


def _finished(builder: Builder, properties: Any) -> Document:
    blocks = mark_references(builder)
    text = builder.text().rstrip()
    heading = next((text[b.start : b.end] for b in blocks if b.kind == "heading"), "")
    author = getattr(properties, "author", None) or getattr(properties, "creator", None) or ""
    made = properties.modified or properties.created
    return Document(
        text=text,
        title=clean_line(properties.title or "") or heading,
        authors=tuple(a for a in map(clean_line, re.split(r"[;,]", author)) if a),
        year=made.year if made else None,
        dated=made.date() if made else None,
        blocks=tuple(blocks),
        marks=tuple(builder.marks),
    )


def _add_line(builder: Builder, text: str, level: int = 0) -> None:
    start = builder.size
    builder.add(clean_line(text))
    builder.block("heading" if level else "paragraph", start, level)


def _add_rows(builder: Builder, rows: Iterator[list[str]]) -> None:
    for row in rows:
        if any(row):
            start = builder.size
            builder.add(" | ".join(row).rstrip(" |"))
            builder.block("table", start)


def _cells(rows: Any) -> Iterator[list[str]]:
    for row in rows:
        yield [clean_line(cell.text) for cell in row.cells]


def _value(value: object) -> str:
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return "" if value is None else clean_line(str(value))


def _shapes(shapes: Any) -> Iterator[Any]:
    """Yield shapes from top to bottom, those of groups too."""
    for shape in sorted(shapes, key=lambda s: (s.top or 0, s.left or 0)):
        if hasattr(shape, "shapes"):
            yield from _shapes(shape.shapes)
        else:
            yield shape


def _add_paragraph(builder: Builder, paragraph: Any) -> None:
    style = paragraph.style.name if paragraph.style is not None else ""
    heading = _HEADING.match(style or "")
    start = builder.size
    _add_runs(builder, paragraph._p, paragraph.part, is_marked=not heading)
    if heading or style == "Title":
        builder.block("heading", start, min(6, int(heading.group(1))) if heading else 1)
    else:
        is_item = style.startswith("List") or paragraph._p.find(f".//{_W}numPr") is not None
        builder.block("item" if is_item else "paragraph", start)


def _add_runs(builder: Builder, element: Any, part: Any, is_marked: bool) -> None:
    """Append the text of a paragraph's children; deleted words of tracked changes are left out."""
    for child in element:
        start = builder.size
        if child.tag in {f"{_M}oMath", f"{_M}oMathPara"}:
            formula = "".join(node.text or "" for node in child.iter(f"{_M}t"))
            builder.add(f"${clean_line(formula)}$" if formula.strip() else "")
            builder.mark("math", start)
        elif child.tag == f"{_W}r":
            builder.add(_run_text(child))
            if is_marked and _is_bold(child):
                builder.mark("bold", start)
        elif child.tag == f"{_W}hyperlink":
            _add_runs(builder, child, part, is_marked)
            relation = part.rels.get(child.get(f"{_R}id", ""))
            if relation is not None and relation.is_external:
                builder.mark("link", start, relation.target_ref)
        elif child.tag not in {f"{_W}del", f"{_W}moveFrom", f"{_W}pPr"}:
            _add_runs(builder, child, part, is_marked)


def _run_text(run: Any) -> str:
    out: list[str] = []
    for node in run:
        if node.tag == f"{_W}t":
            out.append(clean_text(node.text or "").replace("\n", " "))
        elif node.tag in {f"{_W}tab", f"{_W}br", f"{_W}cr"}:
            out.append(" ")
        elif node.tag == f"{_W}noBreakHyphen":
            out.append("-")
    return "".join(out)


def _is_bold(run: Any) -> bool:
    bold = run.find(f"{_W}rPr/{_W}b")
    return bold is not None and bold.get(f"{_W}val", "1") not in _OFF


def _footnotes(package: Any) -> Iterator[str]:
    from lxml import etree

    for relation in package.part.rels.values():
        if relation.reltype.rsplit("/", 1)[-1] in {"footnotes", "endnotes"}:
            root = etree.fromstring(
                relation.target_part.blob, etree.XMLParser(resolve_entities=False)
            )
            for note in root:
                text = clean_line("".join(node.text or "" for node in note.iter(f"{_W}t")))
                if text:
                    yield text
