"""Files of data: notebooks, and records as CSV or JSON lines.

A record becomes a heading (its title), a row of its short values, and its long ones as paragraphs.
"""

import csv
import io
import json
import sys
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from kbwiki.errors import InputError
from kbwiki.records import Document
from kbwiki.text.join import join_documents
from kbwiki.text.markdown import Builder, read_markdown
from kbwiki.text.normal import clean_line, clean_text

_TITLES = ("title", "name", "название", "заголовок", "имя")
_LONG = 160
"""Characters from which on a value is text of its own."""
MAX_OUTPUT = 4_000
"""Characters of one cell's output that are kept."""


def read_notebook(text: str) -> Document:
    """Return the Document of a Jupyter notebook (format 3 or 4): notes, code and its output."""
    try:
        book = json.loads(text)
        cells = book["cells"] if "cells" in book else book["worksheets"][0]["cells"]
        parts = [part for cell in cells for part in _cell(cell)]
        meta = book.get("metadata", {})
        names = [clean_line(str(a.get("name", ""))) for a in meta.get("authors", [])]
        title = clean_line(str(meta.get("title", "")))
    except (ValueError, KeyError, IndexError, TypeError, AttributeError, RecursionError) as error:
        raise InputError("notebook: it is broken or no notebook.", "Save it anew.") from error
    document = join_documents(parts)
    return replace(
        document,
        title=title or document.title,
        authors=tuple(name for name in names if name) or document.authors,
    )


def _cell(cell: dict[str, Any]) -> Iterable[Document]:
    source = _joined(cell.get("source", cell.get("input", "")))
    if cell["cell_type"] == "markdown":
        yield read_markdown(source)
    elif cell["cell_type"] == "heading":
        yield read_markdown(f"{'#' * int(cell.get('level', 1))} {source}")
    elif cell["cell_type"] == "code":
        yield _code(source)
        for output in cell.get("outputs", []):
            yield from _output(output)
    else:
        yield read_markdown(source)


def _output(output: dict[str, Any]) -> Iterable[Document]:
    data = output.get("data", {})
    if "text/markdown" in data:
        yield read_markdown(_joined(data["text/markdown"]))
        return
    if output.get("output_type") in {"error", "pyerr"}:
        shown = f"{output.get('ename', '')}: {output.get('evalue', '')}"
    else:
        shown = _joined(output.get("text", data.get("text/plain", "")))
    document = _code(shown[:MAX_OUTPUT])
    if len(shown) > MAX_OUTPUT:
        note = f"an output of {len(shown)} characters was cut to {MAX_OUTPUT}"
        document = replace(document, notes=(note,))
    yield document


def _joined(source: object) -> str:
    return clean_text("".join(source) if isinstance(source, list) else str(source))


def _code(source: str) -> Document:
    builder = Builder()
    builder.add(source.strip("\n").rstrip())
    builder.block("code", 0)
    return Document(builder.text().rstrip(), blocks=tuple(builder.blocks))


def read_csv(text: str) -> Document:
    """Return the Document of records with a line of names first; the delimiter is found out."""
    text = clean_text(text)
    csv.field_size_limit(min(sys.maxsize, 2**31 - 1))
    try:
        dialect: type[csv.Dialect] = csv.Sniffer().sniff(text[:20_000], ",;\t|")
    except csv.Error:
        dialect = csv.excel
    try:
        rows = [row for row in csv.reader(io.StringIO(text), dialect) if any(map(str.strip, row))]
    except csv.Error as error:
        raise InputError("csv: the records could not be told apart.", str(error)) from error
    if not rows:
        return Document("")
    names = [clean_line(name) or f"column {at}" for at, name in enumerate(rows[0], 1)]
    notes: list[str] = []
    records: list[dict[str, object]] = []
    for number, row in enumerate(rows[1:], 2):
        if len(row) > len(names):
            notes.append(f"record {number}: {len(row)} values under {len(names)} names")
        extra = [f"column {at}" for at in range(len(names) + 1, len(row) + 1)]
        records.append(dict(zip([*names, *extra], row, strict=False)))
    if not records:  # one line: it is all there is
        records = [dict.fromkeys(names, "")]
    return _records(records, notes)


def read_jsonl(text: str) -> Document:
    """Return the Document of one JSON value a line; a line that is no JSON becomes a note."""
    records: list[dict[str, object]] = []
    notes: list[str] = []
    for number, line in enumerate(clean_text(text).split("\n"), 1):
        if not line.strip():
            continue
        try:
            value = json.loads(line)
        except (ValueError, RecursionError):
            notes.append(f"line {number}: it is no JSON; it was left out")
            continue
        records.append(value if isinstance(value, dict) else {"": value})
    document = _records(records, notes)
    return replace(document, coverage=(len(records), len(records) + len(notes)))


def _records(records: list[dict[str, object]], notes: list[str]) -> Document:
    builder = Builder()
    for record in records:
        shown = {clean_line(str(name)): _shown(value) for name, value in record.items()}
        title = next((name for name in shown if name.casefold() in _TITLES and shown[name]), None)
        if title is not None and len(shown[title]) <= _LONG:
            _add(builder, "heading", shown.pop(title), level=2)
        short = [
            f"{name}: {v}" if v and name else v or name
            for name, v in shown.items()
            if len(v) <= _LONG and (v or len(records) == 1)
        ]
        _add(builder, "table", "; ".join(short))
        for name, value in shown.items():
            if len(value) > _LONG:
                # A text speaks for itself; the name of its column would be in its first sentence.
                for paragraph in _paragraphs(record, name):
                    _add(builder, "paragraph", paragraph)
    return Document(builder.text().rstrip(), blocks=tuple(builder.blocks), notes=tuple(notes))


def _paragraphs(record: dict[str, object], name: str) -> list[str]:
    value = next(v for key, v in record.items() if clean_line(str(key)) == name)
    whole = value if isinstance(value, str) else _shown(value)
    return [line for part in whole.split("\n\n") if (line := clean_line(part))]


def _add(builder: Builder, kind: Any, text: str, level: int = 0) -> None:
    start = builder.size
    builder.add(text)
    builder.block(kind, start, level)


def _shown(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, list) and all(isinstance(item, str | int | float) for item in value):
        return clean_line(", ".join(map(str, value)))
    if isinstance(value, dict | list):
        return clean_line(json.dumps(value, ensure_ascii=False))
    return clean_line(str(value))
