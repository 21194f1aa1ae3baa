"""Several Documents put one after the other into one: cells, chapters, slides."""

from collections.abc import Iterable
from dataclasses import replace

from kbwiki.records import Block, Document, Mark

_BETWEEN = "\n\n"


def join_documents(parts: Iterable[Document]) -> Document:
    """Return one Document of many, offsets moved; metadata are the first part's that has any."""
    text: list[str] = []
    blocks: list[Block] = []
    marks: list[Mark] = []
    notes: list[str] = []
    size = 0
    first = Document("")
    for part in parts:
        at = size
        blocks += [Block(b.kind, b.start + at, b.end + at, b.level) for b in part.blocks]
        marks += [Mark(m.kind, m.start + at, m.end + at, m.target) for m in part.marks]
        notes += part.notes
        if part.text:
            text.append(part.text)
            size += len(part.text) + len(_BETWEEN)
        if not (first.title or first.authors or first.year):
            first = part
    return replace(
        first,
        text=_BETWEEN.join(text),
        blocks=tuple(blocks),
        marks=tuple(marks),
        notes=tuple(notes),
    )
