"""Files of data: notebooks, and records as CSV or JSON lines.

A record becomes a heading (its title), a row of its short values, and its long ones as paragraphs.
"""

import csv
import io
import json
import re
import sys
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from kbwiki.errors import InputError
from kbwiki.records import Document
from kbwiki.text.gate import ranges
from kbwiki.text.join import join_documents
from kbwiki.text.markdown import Builder, read_markdown
from kbwiki.text.normal import clean_line, clean_text, counted, shorten

_TITLES = ("title", "name", "название", "заголовок", "имя")
_SEPARATOR = re.compile(r"sep=([^\n])\n")
"""The first line by which Excel is told what parts the values."""
_LONG = 160
"""Characters from which on a value is text of its own."""
_UNREAD = {"text/html": "HTML", "application/json": "JSON"}
"""Outputs of a notebook that say little to people."""
_BACKSLASHES = re.compile(r'(?<!\\)\\++(?!")')
"""Backslashes before no quotation mark."""
MAX_OUTPUT = 4_000
"""Characters of one cell's output that are kept."""


def read_notebook(text: str) -> Document:
    """Return the Document of a Jupyter notebook (format 3 or 4): notes, code and its output."""
    try:
        book = json.loads(text)
        sheets = [book] if "cells" in book else book["worksheets"]
        cells = [cell for sheet in sheets for cell in sheet["cells"]]
        meta = book.get("metadata", {})
        names = [clean_line(str(a.get("name", ""))) for a in meta.get("authors", [])]
        title = clean_line(str(meta.get("title", "")))
    except (ValueError, KeyError, IndexError, TypeError, AttributeError, RecursionError) as error:
        raise InputError("notebook: it is broken or no notebook.", "Save it anew.") from error
    parts: list[Document] = []
    notes: list[str] = []
    for number, cell in enumerate(cells, 1):
        try:
            parts += _cell(cell)
        except (ValueError, KeyError, TypeError, AttributeError):
            notes.append(f"cell {number}: it is broken; it was left out")
    if cells and len(notes) == len(cells):
        raise InputError("notebook: it is broken or no notebook.", "Save it anew.")
    document = join_documents(parts)
    return replace(
        document,
        notes=(*notes, *document.notes),
        coverage=(len(cells) - len(notes), len(cells)) if cells else (1, 1),
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
    for kind in ("text/markdown", "text/latex"):
        if kind in data and (kind == "text/markdown" or "text/plain" not in data):
            yield read_markdown(_joined(data[kind]))
            return
    if data and "text/plain" not in data and (lost := sorted(k for k in data if k in _UNREAD)):
        yield Document("", notes=(f"an output that is {_UNREAD[lost[0]]} alone was left out",))
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
    told = _SEPARATOR.match(text)
    text = text[told.end() :] if told else text
    try:
        dialect: type[csv.Dialect] = csv.Sniffer().sniff(text[:20_000], ",;\t|")
    except csv.Error:
        dialect = csv.excel
    delimiter = told[1] if told else dialect.delimiter
    notes: list[str] = []
    try:
        rows = _rows(text, dialect, delimiter)
    except csv.Error as error:
        notes.append(f"quotation marks were taken as letters: {error}")
        rows = list(csv.reader(text.split("\n"), delimiter=delimiter, quoting=csv.QUOTE_NONE))
    rows = [row for row in rows if any(map(str.strip, row))]
    if not rows:
        return Document("")
    head = _head(rows)
    records: list[dict[str, object]] = [
        {"": delimiter.join(filter(None, row))} for row in rows[:head]
    ]
    names = _apart([clean_line(name) or f"column {at}" for at, name in enumerate(rows[head], 1)])
    for number, row in enumerate(rows[head + 1 :], head + 2):
        if len(row) > len(names):
            notes.append(
                f"record {number}: {counted(len(row), 'value')} under {counted(len(names), 'name')}"
            )
        extra = [f"column {at}" for at in range(len(names) + 1, len(row) + 1)]
        records.append(dict(zip([*names, *extra], row, strict=False)))
    if not records:  # one line: it is all there is
        records = [dict.fromkeys(names, "")]
    return _records(records, notes)


def _rows(text: str, dialect: type[csv.Dialect], delimiter: str) -> list[list[str]]:
    """Return the rows of a CSV; ``\\"`` is a quotation mark only where the text demands it.

    Raises:
        csv.Error: its quotation marks do not match in either way.
    """

    def parsed(text: str, escape: str | None) -> list[list[str]]:
        # Whether a mark is doubled is never left to the dialect: it knows the beginning alone.
        how: dict[str, Any] = {"delimiter": delimiter, "escapechar": escape, "doublequote": True}
        return list(csv.reader(io.StringIO(text), dialect, strict=True, **how))

    try:
        return parsed(text, None)
    except csv.Error:
        if '\\"' not in text:
            raise
    if any(len(run) % 2 for run in _BACKSLASHES.findall(text)):
        # Who writes \alpha escapes no backslash, and the parser would take this one away.
        text = _BACKSLASHES.sub(lambda run: run.group() * 2, text)
    return parsed(text, "\\")


def _head(rows: list[list[str]]) -> int:
    """Return which row names the columns: the first that fills more than its first cell.

    Lines above a table fill the first alone; the column of an index has no name.
    """
    head = next((at for at, row in enumerate(rows) if any(map(str.strip, row[1:]))), 0)
    return head if head < len(rows) - 1 else 0


def _apart(names: list[str]) -> list[str]:
    """Return names of columns that differ: two of one name would hide each other."""
    seen: Counter[str] = Counter()
    out: list[str] = []
    for name in names:
        seen[name] += 1
        out.append(f"{name} ({seen[name]})" if seen[name] > 1 else name)
    return out


def read_jsonl(text: str) -> Document:
    """Return the Document of one JSON value a line; lines that are no JSON become a note."""
    records: list[dict[str, object]] = []
    bad: list[int] = []
    text = clean_text(text)
    whole = _values(text) if text.lstrip().startswith("[") else None
    # An array over many lines is no JSON line by line, but JSON.
    values = whole[0] if whole and len(whole) == 1 and isinstance(whole[0], list) else None
    for number, line in enumerate(() if values else text.split("\n"), 1):
        found = _values(line)
        if found is None:
            bad.append(number)
        else:
            records += [value if isinstance(value, dict) else {"": value} for value in found]
    records += [value if isinstance(value, dict) else {"": value} for value in values or ()]
    line_s = "line" if len(bad) == 1 else "lines"
    notes = [f"{line_s} {shorten(ranges(bad), _LONG)}: no JSON, left out"] if bad else []
    document = _records(records, notes)
    return replace(document, coverage=(len(records), len(records) + len(bad)))


def _values(text: str) -> list[Any] | None:
    """Return the JSON values that a text holds one after the other; None where it holds more.

    Of several each is an object or an array: ``2024-01-01`` is no row of numbers.
    """
    decoder = json.JSONDecoder()
    out: list[Any] = []
    text, at = text.strip(), 0
    while at < len(text):
        try:
            value, at = decoder.raw_decode(text, at)
        except (ValueError, RecursionError):
            return None
        out.append(value)
        while at < len(text) and text[at].isspace():
            at += 1
    return out if len(out) < 2 or all(isinstance(v, dict | list) for v in out) else None


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
