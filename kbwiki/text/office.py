"""Office files: Word documents, slides, spreadsheets.

Owns which parts of them are text. Pictures, running heads and comments of reviewers are none;
``notes`` count the comments. ``characters`` are letters and figures: those kept of those written.
"""

import io
import re
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import datetime, time
from typing import Any

from kbwiki.errors import InputError
from kbwiki.records import Document
from kbwiki.text.markdown import Builder, mark_references
from kbwiki.text.normal import clean_line, clean_text
from kbwiki.text.packed import FAULTS, open_packed

_HEADING = re.compile(r"(?:heading|заголовок) (\d)", re.IGNORECASE)
_W = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
_M = "{http://schemas.openxmlformats.org/officeDocument/2006/math}"
_R = "{http://schemas.openxmlformats.org/officeDocument/2006/relationships}"
_A = "{http://schemas.openxmlformats.org/drawingml/2006/main}"
_C = "{http://schemas.openxmlformats.org/drawingml/2006/chart}"
_BOX = f"{_W}txbxContent"
_GONE = {
    f"{_W}del", f"{_W}moveFrom", "{http://schemas.openxmlformats.org/markup-compatibility/2006}Fallback",
}  # fmt: skip
"""What a tracked change deleted, and what older programs show in place of what is there too."""
_COMMENTS = {
    ".docx": (re.compile(r"word/comments\.xml"), b"<w:comment "),
    ".pptx": (re.compile(r"ppt/comments/.*\.xml"), b"<p:cm "),
    ".xlsx": (re.compile(r"xl/comments.*\.xml"), b"<comment "),
}
_UNNAMED = re.compile(r"(?:sheet|лист)\s?\d*", re.IGNORECASE)
"""What programs call a sheet that nobody named."""
_SYMBOL = str.maketrans(
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ",
    "αβχδεφγηιϕκλμνοπθρστυϖωξψζΑΒΧΔΕΦΓΗΙϑΚΛΜΝΟΠΘΡΣΤΥςΩΞΨΖ",
)
"""The letters of the font Symbol."""
_WIDE = 200
"""Cells up to which a row keeps its empty ones."""
_OFF = {"0", "false", "off", "none"}


def read_docx(raw: bytes) -> Document:
    """Return the Document of a Word file: headings, lists, tables, formulas, footnotes, links."""
    import docx

    package = _opened(raw, ".docx", docx.Document)
    body = package.element.body
    builder = Builder()
    _add_blocks(builder, body, package._body)
    notes = list(_footnotes(package))
    for note in notes:
        _add_line(builder, note)
    document = _finished(builder, package.core_properties, _comments(raw, ".docx"))
    return _measured(document, [*_words(body), *notes])


def read_pptx(raw: bytes) -> Document:
    """Return the Document of slides; each is a page, with its charts and notes at its end."""
    import pptx

    package = _opened(raw, ".pptx", pptx.Presentation)
    builder = Builder()
    starts: list[int] = []
    written: list[str] = []
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
        extra = list(_drawn(slide))
        if slide.has_notes_slide and slide.notes_slide.notes_text_frame is not None:
            extra += slide.notes_slide.notes_text_frame.text.splitlines()
        for line in extra:
            _add_line(builder, line)
        written += [node.text or "" for node in _found(slide.element, {f"{_A}t"})] + extra
    document = _finished(builder, package.core_properties, _comments(raw, ".pptx"))
    return _measured(replace(document, pages=tuple(starts)), written)


def read_xlsx(raw: bytes) -> Document:
    """Return the Document of a spreadsheet: a heading a sheet, a table row a row, shown values.

    A formula of which no value was stored is shown as it is written, and ``notes`` say so.
    """
    builder = Builder()
    n_formulas = 0
    broken: list[str] = []
    values, formulas = _book(raw, are_values=True), _book(raw, are_values=False)
    try:
        for at, sheet in enumerate(values.worksheets):
            try:
                rows = list(_rows(sheet))
            except (*FAULTS, SyntaxError):  # the latter is what a parser of XML raises
                broken.append(sheet.title)
                continue
            if any(None in row for row in rows):
                written = _rows(formulas.worksheets[at])
                pairs = [_filled(*pair) for pair in zip(rows, written, strict=True)]
                rows = [row for row, _ in pairs]
                n_formulas += sum(n for _, n in pairs)
            shown = [row for row in map(_shown, rows) if any(row)]
            title = "" if _UNNAMED.fullmatch(sheet.title) else sheet.title
            _add_line(builder, title if shown else "", level=2)
            _add_rows(builder, iter(shown))
        document = _finished(builder, values.properties, _comments(raw, ".xlsx"))
    finally:
        values.close()
        formulas.close()
    if broken:
        n_sheets = len(values.worksheets)
        notes = [f"sheet {title}: it is broken; it was left out" for title in broken]
        document = replace(
            document,
            notes=(*document.notes, *notes),
            coverage=(n_sheets - len(broken), n_sheets),
        )
    if n_formulas:
        note = f"formulas without a stored value, shown as they are written: {n_formulas}"
        document = replace(document, notes=(*document.notes, note))
    return document


def _book(raw: bytes, are_values: bool) -> Any:
    import openpyxl

    return _opened(
        raw,
        ".xlsx",
        lambda file: openpyxl.load_workbook(file, read_only=True, data_only=are_values),
    )


def _rows(sheet: Any) -> Iterator[list[object]]:
    """Yield the values of rows up to the last cell of each; cells that are not there are "".

    The size that a sheet gives may be that of the whole grid, for one cell in its last corner.
    """
    sheet.reset_dimensions()
    for row in sheet.iter_rows():
        if row:
            yield [cell.value if hasattr(cell, "row") else "" for cell in row]


def _filled(values: list[object], written: list[object]) -> tuple[list[object], int]:
    """Return a row with formulas where they have no value, and how many those are."""
    row = [
        formula if value is None and str(formula or "").startswith("=") else value
        for value, formula in zip(values, written, strict=True)
    ]
    return row, sum(new is not old for new, old in zip(row, values, strict=True))


def _opened(raw: bytes, what: str, opener: Callable[[Any], Any]) -> Any:
    """Return what a library makes of a file; whatever it stumbles over is an InputError."""
    with open_packed(raw, what) as archive:
        parts = [name for name in archive.namelist() if name.endswith((".xml", ".rels"))]
        if any(_declares(archive, name) for name in parts):
            raise InputError(f"{what}: it declares entities, which no {what} does.", "A trap?")
    try:
        return opener(io.BytesIO(raw))
    # Each of these libraries raises what its XML happens to lead it to.
    except Exception as error:
        raise InputError(f"{what}: it is broken or no {what}.", "Save a clean copy.") from error


def _declares(archive: zipfile.ZipFile, name: str) -> bool:
    """Tell whether a part has a document type: what its entities stand for would be lost."""
    try:
        with archive.open(name) as part:
            return b"<!DOCTYPE" in part.read(1000)
    except FAULTS:
        return False  # whoever opens the file meets it too


def _comments(raw: bytes, what: str) -> tuple[str, ...]:
    """Return the note that says how many comments a file has; none where it has none."""
    pattern, tag = _COMMENTS[what]
    with open_packed(raw, what) as archive:
        names = [name for name in archive.namelist() if pattern.fullmatch(name)]
        n = sum(archive.read(name).count(tag) for name in names)
    return (f"comments left out: {n}",) if n else ()


def _measured(document: Document, written: list[str]) -> Document:
    """Return a document that tells how much of what was written in its file it holds."""
    n_signs = sum(sum(map(str.isalnum, text)) for text in written)
    n_kept = sum(map(str.isalnum, document.text))
    return replace(document, characters=(min(n_kept, n_signs), n_signs))


def _finished(builder: Builder, properties: Any, notes: tuple[str, ...]) -> Document:
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
        notes=notes,
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


def _shown(row: list[object]) -> list[str]:
    """Return a row's values; of a very wide one those alone that are there."""
    values = [_value(value) for value in row]
    return values if len(values) <= _WIDE else [value for value in values if value]


def _value(value: object) -> str:
    if isinstance(value, datetime) and value.time() == time():
        value = value.date()
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


def _drawn(slide: Any) -> Iterator[str]:
    """Yield the words of each chart and diagram of a slide."""
    from lxml import etree

    for relation in slide.part.rels.values():
        kind = relation.reltype.rsplit("/", 1)[-1]
        if kind in {"chart", "diagramData"} and not relation.is_external:
            parser = etree.XMLParser(resolve_entities=False, recover=True)
            root = etree.fromstring(relation.target_part.blob, parser)
            nodes = [*root.iter(f"{_A}t"), *root.iterfind(f".//{_C}strCache//{_C}v")]
            yield "; ".join(dict.fromkeys(filter(None, (clean_line(n.text or "") for n in nodes))))


def _add_blocks(builder: Builder, element: Any, parent: Any) -> None:
    """Append the paragraphs and tables in an element, those in content controls too."""
    from docx.text.paragraph import Paragraph

    for child in element:
        if child.tag == f"{_W}p":
            _add_paragraph(builder, Paragraph(child, parent))
            for box in _found(child, {_BOX}):
                _add_blocks(builder, box, parent)
        elif child.tag == f"{_W}tbl":
            rows = _found(child, {f"{_W}tr"})
            _add_rows(builder, ([_cell(c) for c in _found(row, {f"{_W}tc"})] for row in rows))
        elif child.tag not in _GONE:
            _add_blocks(builder, child, parent)


def _found(element: Any, tags: set[str]) -> Iterator[Any]:
    """Yield the elements of a kind that lie in no other of it, in order."""
    for child in element:
        if child.tag in tags:
            yield child
        elif child.tag not in _GONE:
            yield from _found(child, tags)


def _words(element: Any) -> Iterator[str]:
    for node in _found(element, {f"{_W}t", f"{_M}t"}):
        yield node.text or ""


def _cell(element: Any) -> str:
    """Return the words of a table's cell, those of tables within it too."""
    parts = _found(element, {f"{_W}p"})
    return clean_line(" ".join("".join(_words(paragraph)) for paragraph in parts))


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
        elif child.tag not in {*_GONE, _BOX, f"{_W}pPr"}:
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
        elif node.tag == f"{_W}sym" and node.get(f"{_W}font") == "Symbol":
            sign = chr(int(node.get(f"{_W}char", "20"), 16) & 0xFF)
            out.append(sign.translate(_SYMBOL))
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
