"""BibTeX read into a Document: each entry a reference, and what it says of the paper it names."""

import logging
import re
from typing import Any

from kbwiki.records import Document, Reference
from kbwiki.text.markdown import Builder
from kbwiki.text.normal import canonical_key, clean_line, clean_text

_YEAR = re.compile(r"(?<!\d)(?:1[5-9]|20)\d\d(?!\d)")
_JOINED = re.compile(r'"\s*#\s*"')
"""Between the parts of which a value is made."""


def read_bibtex(text: str) -> Document:
    """Return the Document of a bibliography; an entry that cannot be parsed becomes a note."""
    entries, failed = _parsed(clean_text(text))
    builder = Builder()
    references: list[Reference] = []
    for entry in entries:
        fields = {name.casefold(): field.value for name, field in entry.fields_dict.items()}
        _add(builder, fields, references)
    notes = [
        f"line {(block.start_line or 0) + 1}: the entry could not be parsed; it was left out"
        for block in failed
    ]
    return Document(
        builder.text().rstrip(),
        blocks=tuple(builder.blocks),
        notes=tuple(notes),
        references=tuple(references),
        coverage=(len(entries), len(entries) + len(notes)),
    )


def _parsed(text: str) -> tuple[list[Any], list[Any]]:
    """Return the entries of a text, and what could not be parsed of it."""
    from bibtexparser.entrypoint import parse_string
    from bibtexparser.middlewares import (
        LatexDecodingMiddleware,
        SeparateCoAuthors,
        SplitNameParts,
    )
    from bibtexparser.model import DuplicateBlockKeyBlock

    logging.getLogger("bibtexparser").setLevel(logging.CRITICAL)  # what it says is in the notes
    entries: list[Any] = []
    failed: list[Any] = []
    while text:
        library = parse_string(
            text,
            append_middleware=[LatexDecodingMiddleware(), SeparateCoAuthors(), SplitNameParts()],
        )
        # The second entry of a key is a fault to the library; by itself it is none.
        doubles = [b for b in library.failed_blocks if isinstance(b, DuplicateBlockKeyBlock)]
        entries += library.entries
        failed += [block for block in library.failed_blocks if block not in doubles]
        text = "\n".join(block.raw or "" for block in doubles)
    return entries, failed


def _add(builder: Builder, fields: dict[str, Any], references: list[Reference]) -> None:
    title = _line(fields.get("title"))
    people = fields.get("author") or fields.get("editor") or []
    authors = tuple(name for person in people if (name := _name(person)))
    found = _YEAR.search(_line(fields.get("year") or fields.get("date")))
    year = int(found.group()) if found else None
    where = _line(fields.get("journal") or fields.get("booktitle") or fields.get("publisher"))
    told = [", ".join(authors), title, where, str(year or ""), _line(fields.get("doi"))]
    start = builder.size
    builder.add(". ".join(part.rstrip(".") for part in told if part))
    builder.block("references", start)
    for name in ("abstract", "note", "annote", "annotation"):
        start = builder.size
        builder.add(_line(fields.get(name)))
        builder.block("paragraph", start)
    if title and (authors or year):
        references.append(Reference(canonical_key(title), authors, year))


def _line(value: object) -> str:
    if isinstance(value, str) and value.startswith('"'):
        value = _JOINED.sub("", value).strip('" ')
    return clean_line(str(value).replace("{", "").replace("}", "")) if value else ""


def _name(person: object) -> str:
    """Return a name, first names first."""
    if isinstance(person, str):
        return _line(person)
    parts = [getattr(person, part, []) for part in ("first", "von", "last", "jr")]
    return _line(" ".join(word for part in parts for word in part))
