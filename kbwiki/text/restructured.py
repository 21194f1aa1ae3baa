"""reStructuredText read into a Document, by docutils; nothing that a text includes is opened."""

import re
from datetime import date
from typing import Any

from kbwiki.records import BlockKind, Document, MarkKind
from kbwiki.text.frontmatter import as_date
from kbwiki.text.markdown import Builder, mark_references
from kbwiki.text.normal import clean_line, clean_text

_SETTINGS = {
    "file_insertion_enabled": False,
    "raw_enabled": False,
    "report_level": 5,
    "halt_level": 5,
    "warning_stream": False,
    "_disable_config": True,
    "syntax_highlight": "none",
    "doctitle_xform": False,
    "input_encoding": "unicode",
}
_ROLE = re.compile(r":[\w:.+-]+:`([^`<]+?)(?:\s*<[^`]*>)?`")
_INCLUDED = re.compile(
    r"^[ \t]*\.\.[ \t]+(?:literal)?include::[ \t]*(\S.*)$|^[ \t]+:(?:file|url):[ \t]*(\S.*)$",
    re.MULTILINE,
)
"""Files that a text wants to have in its place."""
_CONTENTS = re.compile(r"\s*\.\. toctree::")
"""Holds names of files and no words."""
_UNSEEN = {
    "comment", "target", "substitution_definition", "raw", "image", "pending", "docinfo",
    "system_message", "meta", "label", "field_name",
}  # fmt: skip
_MARKS: dict[str, MarkKind] = {
    "strong": "bold", "emphasis": "bold", "literal": "code", "math": "math", "reference": "link",
}  # fmt: skip
_INNER: dict[str, BlockKind] = {"list_item": "item", "block_quote": "quote"}
_TEXTS = {"paragraph", "term", "line", "caption", "attribution", "rubric", "subtitle"}


def read_rst(text: str) -> Document:
    """Return the Document of a reStructuredText; an unknown directive keeps its content."""
    import docutils.core

    text = clean_text(text)
    tree = docutils.core.publish_doctree(text, settings_overrides=_SETTINGS)
    named = [clean_line(one or other) for one, other in _INCLUDED.findall(text)]
    reader = _Reader()
    reader.walk(tree, "paragraph", 1)
    blocks = mark_references(reader.builder)
    plain = reader.builder.text().rstrip()
    heading = next((plain[b.start : b.end] for b in blocks if b.kind == "heading"), "")
    return Document(
        text=plain,
        title=clean_line(heading),
        authors=tuple(reader.authors),
        year=reader.dated.year if reader.dated else None,
        dated=reader.dated,
        blocks=tuple(blocks),
        marks=tuple(reader.builder.marks),
        notes=(f"it includes {', '.join(named)}; not opened here",) if named else (),
    )


class _Reader:
    def __init__(self) -> None:
        self.builder = Builder()
        self.authors: list[str] = []
        self.dated: date | None = None

    def walk(self, node: Any, kind: BlockKind, level: int) -> None:
        """Append what a node of the tree holds; ``kind`` is what its paragraphs are."""
        for child in node.children:
            name = child.tagname
            if name == "section":
                self.walk(child, "paragraph", level + 1)
            elif name == "title":
                self.text(child, "heading", min(6, max(1, level - 1)))
            elif name in {"literal_block", "doctest_block", "math_block"}:
                self.verbatim(child)
            elif name == "row":
                self.row(child)
            elif name == "field":
                self.field(child, kind, level)
            elif name == "system_message":
                self.message(child, kind, level)
            elif name in _TEXTS:
                self.text(child, kind)
            elif name not in _UNSEEN:
                self.walk(child, _INNER.get(name, kind), level)

    def verbatim(self, node: Any) -> None:
        """Append code as it is, or a formula between its signs."""
        start = self.builder.size
        is_math = node.tagname == "math_block"
        text = node.astext().strip("\n")
        self.builder.add(f"$${text.strip()}$$" if is_math else text)
        self.builder.block("math" if is_math else "code", start)

    def row(self, node: Any) -> None:
        """Append a table's row."""
        start = self.builder.size
        self.builder.add(" | ".join(clean_line(cell.astext()) for cell in node.children))
        self.builder.block("table", start)

    def field(self, node: Any, kind: BlockKind, level: int) -> None:
        """Take a field: the author's and date's are metadata, others text."""
        name, body = (child.astext() for child in node.children)
        match name.casefold():
            case "author" | "authors" | "автор" | "авторы":
                self.authors += [a for a in map(clean_line, re.split(r"[;,\n]", body)) if a]
            case "date" | "дата":
                self.dated = as_date(body)
            case _:
                self.walk(node.children[1], kind, level)

    def message(self, node: Any, kind: BlockKind, level: int) -> None:
        """Append the content of a directive that docutils does not know, parsed as it would be."""
        for block in node.children:
            if block.tagname == "literal_block":
                lines = block.astext().split("\n")
                if _CONTENTS.match(lines[0]):
                    continue
                body = [line for line in lines[1:] if not re.match(r"\s*:[\w-]+:", line)]
                inner = clean_text("\n".join(line.strip() for line in body))
                for part in re.split(r"\n\s*\n", inner):
                    start = self.builder.size
                    self.builder.add(clean_line(_ROLE.sub(r"\1", part)))
                    self.builder.block(kind, start)

    def text(self, node: Any, kind: BlockKind, level: int = 0) -> None:
        """Append a node of running text as one block."""
        start = self.builder.size
        self.inline(node)
        self.builder.block(kind, start, level)

    def inline(self, node: Any) -> None:
        """Append running text with its marks."""
        for child in node.children:
            start = self.builder.size
            name = child.tagname
            if name == "#text":
                self.builder.add(child.astext().replace("\n", " "))
            elif name == "problematic":
                self.builder.add(clean_line(_ROLE.sub(r"\1", child.astext())))
            elif name == "math":
                self.builder.add(f"${child.astext()}$")
            elif name not in {*_UNSEEN, "footnote_reference", "citation_reference"}:
                self.inline(child)
            if name in _MARKS:
                self.builder.mark(_MARKS[name], start, str(child.get("refuri", "")))
