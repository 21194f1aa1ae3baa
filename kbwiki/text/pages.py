"""Web pages and chapters of books read into Documents.

Owns what of a page is text. An article is told from menus by trafilatura; where that leaves much of
an element out that says itself that it is the article, the element is read whole.
"""

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from kbwiki.errors import InputError
from kbwiki.records import BlockKind, Document, MarkKind
from kbwiki.text.encodings import decode
from kbwiki.text.frontmatter import as_date
from kbwiki.text.markdown import Builder, mark_references, read_markdown
from kbwiki.text.normal import clean_line, clean_text
from kbwiki.text.walls import NO_TEXT, wall

_CHARSET = re.compile(
    rb"(?:<meta[^>]+charset\s*=\s*[\"']?|\A\s*<\?xml[^>]+encoding\s*=\s*[\"'])\s*([\w-]+)",
    re.IGNORECASE,
)
_HTML = re.compile(r"<(?:html|body)\b", re.IGNORECASE)
_FORMULA = re.compile(r"<math\b|math/tex", re.IGNORECASE)
PICTURES = ("pictures alone",)
"""The notes of a page that holds no words but pictures."""
_MIN_KEPT = 0.9
"""The share of an article's letters that must come through, else it is read whole."""
_UNSEEN = {
    "head", "script", "style", "noscript", "template", "nav", "form", "button", "select", "iframe",
    "svg", "object", "textarea",
}  # fmt: skip
_TEXTS = {
    "p", "div", "section", "article", "main", "body", "header", "footer", "aside", "figure",
    "figcaption", "details", "summary", "dl", "dt", "dd", "address", "caption", "ul", "ol", "table",
    "tbody", "thead", "center",
}  # fmt: skip
_KINDS: dict[str, BlockKind] = {"li": "item", "blockquote": "quote"}
_MARKS: dict[str, MarkKind] = {
    "strong": "bold", "b": "bold", "em": "bold", "i": "bold", "code": "code", "a": "link",
}  # fmt: skip


def read_html(raw: bytes) -> Document:
    """Return the Document of a web page: its main text, without menus."""
    import trafilatura

    found = _CHARSET.search(raw[:4096])
    decoded = decode(raw, found.group(1).decode("ascii") if found else "")
    html = decoded.text
    if not _HTML.search(html):  # trafilatura reads whole pages only
        html = f"<html><body>{html}</body></html>"
    tree = _tree(html)
    if tree is not None and _FORMULA.search(html):
        html = _with_formulas(tree)
    try:
        page = trafilatura.bare_extraction(
            html,
            favor_recall=True,
            include_formatting=True,
            include_links=True,
            include_comments=False,
            with_metadata=True,
        )
        body = trafilatura.extract(
            html,
            output_format="markdown",
            favor_recall=True,
            include_formatting=True,
            include_links=True,
            include_comments=False,
        )
    except (ValueError, AssertionError) as error:
        raise InputError("html: the page could not be parsed.", str(error)) from error
    meta = page.as_dict() if page is not None and hasattr(page, "as_dict") else {}
    title = clean_line(str(meta.get("title") or ""))
    document = read_markdown(body or "")
    if tree is not None:
        document = _completed(document, tree)
    if not document.text:
        document = Document("") if tree is None else _read(tree)
        doubt = (wall(title, document.text, html) or NO_TEXT) if document.text else ""
        return replace(document, title=title, doubt=doubt)
    dated = as_date(str(meta.get("date") or ""))
    author = str(meta.get("author") or "")
    return replace(
        document,
        title=document.title or title,
        authors=tuple(clean_line(a) for a in re.split(r"\s*;\s*", author) if a.strip()),
        dated=dated,
        year=dated.year if dated else None,
        doubt=wall(title, document.text, html) or decoded.doubt,
    )


def read_chapter(raw: bytes) -> Document:
    """Return the Document of a page of a book, whole; a note where it holds pictures alone."""
    tree = _tree(decode(raw).text)
    if tree is None:
        return Document("")
    _with_formulas(tree)
    document = _read(tree)
    has_pictures = any(True for _ in tree.iter("img", "image", "svg"))
    return document if document.text or not has_pictures else replace(document, notes=PICTURES)


def _tree(html: str) -> Any:
    from lxml import etree
    from lxml import html as parser

    try:
        # Bytes, for a declaration of XML within a text is an error.
        return parser.document_fromstring(
            clean_text(html).encode(), parser=parser.HTMLParser(encoding="utf-8")
        )
    except (etree.ParserError, etree.XMLSyntaxError):
        return None


def _with_formulas(tree: Any) -> str:
    """Put formulas into the text: as TeX where a page gives it; return the page."""
    from lxml import etree

    for node in [*tree.iter("math"), *tree.iterfind(".//script[@type]")]:
        is_script = node.tag == "script"
        kind = node.get("type", "") if is_script else ""
        if is_script and not kind.startswith("math/tex"):
            continue
        given = node.find('.//annotation[@encoding="application/x-tex"]')
        tex = node.text if is_script else node.get("alttext") or getattr(given, "text", "")
        formula = clean_line(tex or " ".join(node.itertext()))
        sign = "$$" if "display" in kind or node.get("display") == "block" else "$"
        node.tail = f"{sign}{formula}{sign}{node.tail or ''}" if formula else node.tail
        node.drop_tree()
    return str(etree.tostring(tree, encoding="unicode", method="html"))


def _completed(document: Document, tree: Any) -> Document:
    """Return what was read of a page, or its article whole where that left much of it out."""
    articles = _outermost(tree, "article") or _outermost(tree, "main")
    if not articles:
        return document
    whole = max((_read(article) for article in articles), key=lambda each: len(each.text))
    n_all, n_kept = _n_letters(whole.text), _n_letters(document.text)
    if n_kept < _MIN_KEPT * n_all:
        return replace(whole, title=document.title or whole.title, characters=(n_all, n_all))
    return replace(document, characters=(min(n_kept, n_all), n_all))


def _outermost(tree: Any, name: str) -> list[Any]:
    return [node for node in tree.iter(name) if next(node.iterancestors(name), None) is None]


def _n_letters(text: str) -> int:
    return sum(map(str.isalnum, text))


def _read(element: Any) -> Document:
    """Return all that an element holds but menus and forms."""
    reader = _Reader()
    reader.walk(element)
    reader.close()
    blocks = mark_references(reader.builder)
    text = reader.builder.text().rstrip()
    heading = next((text[b.start : b.end] for b in blocks if b.kind == "heading"), "")
    return Document(text, heading, blocks=tuple(blocks), marks=tuple(reader.builder.marks))


class _Reader:
    def __init__(self) -> None:
        self.builder = Builder()
        self.start = 0
        self.kind: BlockKind = "paragraph"
        self.level = 0

    def close(self) -> None:
        """End the block that is open."""
        parts = self.builder.parts
        if self.builder.size > self.start and parts[-1].endswith(" "):
            parts[-1] = parts[-1][:-1]
            self.builder.size -= 1
        self.builder.block(self.kind, self.start, self.level)
        self.start = self.builder.size

    def add(self, text: str | None) -> None:
        """Append running text, spaces folded."""
        words = re.sub(r"\s+", " ", text or "")
        is_fresh = self.builder.size == self.start
        if is_fresh or self.builder.parts[-1].endswith(" "):
            words = words.lstrip(" ")
        if words:
            self.builder.add(words)

    def walk(self, node: Any) -> None:
        """Append what an element holds."""
        name = node.tag if isinstance(node.tag, str) else ""
        if name in _UNSEEN or not name:
            return
        if re.fullmatch("h[1-6]", name):
            self.block(node, "heading", int(name[1]))
        elif name == "pre":
            self.whole("code", "".join(node.itertext()).strip("\n"))
        elif name == "tr":
            cells = [clean_line(" ".join(_seen(cell))) for cell in node if cell.tag in {"td", "th"}]
            self.whole("table", " | ".join(cells) if any(cells) else "")
        elif name in _TEXTS or name in _KINDS:
            self.block(node, _KINDS.get(name, "paragraph" if self.level else self.kind))
        elif name in {"br", "hr"}:
            self.add(" ")
        else:
            start = self.builder.size
            self.inside(node)
            if name in _MARKS:
                self.builder.mark(_MARKS[name], start, str(node.get("href", "")))

    def inside(self, node: Any) -> None:
        """Append an element's text and children."""
        self.add(node.text)
        for child in node:
            self.walk(child)
            self.add(child.tail)

    def block(self, node: Any, kind: BlockKind, level: int = 0) -> None:
        """Append an element as blocks of a kind."""
        self.close()
        before = self.kind, self.level
        self.kind, self.level = kind, level
        self.inside(node)
        self.close()
        self.kind, self.level = before

    def whole(self, kind: BlockKind, text: str) -> None:
        """Append a block as it is."""
        self.close()
        self.builder.add(text)
        self.builder.block(kind, self.start)
        self.start = self.builder.size


def _seen(node: Any) -> Iterator[str]:
    if node.tag not in _UNSEEN:
        yield node.text or ""
        for child in node:
            if isinstance(child.tag, str):
                yield from _seen(child)
            yield child.tail or ""
