"""Markdown read into a Document: plain text, blocks and marks.

Owns how Markdown's structure becomes offsets. Syntax is markdown-it-py's; the one rule of our own
is Obsidian's ``[[wikilink]]``.
"""

import json
import re
import tomllib
from functools import cache
from html import unescape
from typing import Any

from markdown_it import MarkdownIt
from markdown_it.rules_inline import StateInline
from markdown_it.token import Token
from mdit_py_plugins.dollarmath import dollarmath_plugin
from mdit_py_plugins.footnote import footnote_plugin
from mdit_py_plugins.front_matter import front_matter_plugin

from kbwiki.records import Block, BlockKind, Document, Mark, MarkKind
from kbwiki.text.frontmatter import FrontMatter, read_front_matter
from kbwiki.text.normal import clean_line, clean_text

_REFERENCES = re.compile(
    r"(references?|bibliography|works cited|further reading|see also|sources|"
    r"литература|список литературы|источники|библиография|ссылки|см\. также|смотрите также)\W*",
    re.IGNORECASE,
)
_WIKILINK = re.compile(r"!?\[\[([^\[\]|\n]+)(?:\|([^\[\]\n]*))?\]\]")
_MEDIA = re.compile(r"\.(?:png|jpe?g|gif|svg|webp|pdf|mp[34]|canvas)$", re.IGNORECASE)
_UNSEEN = re.compile(
    r"<!--.*?(?:-->|\Z)|<(script|style)\b.*?(?:</\1\s*>|\Z)", re.DOTALL | re.IGNORECASE
)
_TAGS = re.compile(r"<[^>]*>")
_CALLOUT = re.compile(r"\[![\w-]+\][+-]?\s*")
_NO_HEADING = 7
_TASK = re.compile(r"\[[ xX]\]\s+")


def _wikilink_rule(state: StateInline, silent: bool) -> bool:
    found = _WIKILINK.match(state.src, state.pos)
    if not found:
        return False
    if not silent:
        token = state.push("wikilink", "", 0)
        target = found.group(1).strip().rstrip("\\")
        shown = found.group(2) or re.split(r"[#^]", target)[0] or target.lstrip("#^")
        is_media = found.group().startswith("!") and _MEDIA.search(target)
        token.content = "" if is_media else shown.strip()
        token.meta = {"target": target}
    state.pos = found.end()
    return True


_TOML = re.compile(r"\A\+\+\+[ \t]*\n(.*?)^\+\+\+[ \t]*$", re.DOTALL | re.MULTILINE)
_NOTE = re.compile(r"^\[\^([^\]\s]+)\]:[ \t]*", re.MULTILINE)


@cache
def _parser() -> MarkdownIt:
    parser = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"])
    parser.use(front_matter_plugin).use(dollarmath_plugin, allow_digits=False).use(footnote_plugin)
    parser.inline.ruler.before("link", "wikilink", _wikilink_rule)
    return parser


class Builder:
    """Collects text, blocks and marks; blocks are parted by a blank line."""

    def __init__(self) -> None:
        self.parts: list[str] = []
        self.size = 0
        self.blocks: list[Block] = []
        self.marks: list[Mark] = []

    def add(self, text: str) -> None:
        """Append text to the open block."""
        self.parts.append(text)
        self.size += len(text)

    def mark(self, kind: MarkKind, start: int, target: str = "") -> None:
        """Mark the text from ``start`` to here."""
        if self.size > start:
            self.marks.append(Mark(kind, start, self.size, target))

    def block(self, kind: BlockKind, start: int, level: int = 0) -> None:
        """Close a block that began at ``start``, if it holds anything."""
        if self.size > start:
            self.blocks.append(Block(kind, start, self.size, level))
            self.add("\n\n")

    def text(self) -> str:
        """Return all text so far."""
        return "".join(self.parts)


def read_markdown(text: str) -> Document:
    """Return the Document of a Markdown text; faulty front matter becomes a note."""
    tokens = _parsed(_TOML.sub(_as_yaml, clean_text(text), count=1))
    meta = FrontMatter()
    if tokens and tokens[0].type == "front_matter":
        meta = read_front_matter(tokens[0].content)
    builder = Builder()
    _walk(tokens, builder)
    blocks = mark_references(builder)
    plain = builder.text().rstrip()
    heading = next(
        (plain[b.start : b.end] for b in blocks if b.kind == "heading" and b.level == 1), ""
    )
    return Document(
        text=plain,
        title=meta.title or clean_line(heading),
        authors=meta.authors,
        year=meta.year,
        dated=meta.dated,
        aliases=meta.aliases,
        blocks=tuple(blocks),
        marks=tuple(builder.marks),
        notes=meta.notes,
    )


def _as_yaml(found: re.Match[str]) -> str:
    """Return front matter in TOML as JSON (YAML of one line); what is no TOML stays text."""
    try:
        meta = tomllib.loads(found.group(1))
        # Dates and times, which JSON has not, become ISO text.
        return f"---\n{json.dumps(meta, ensure_ascii=False, default=str)}\n---\n"
    except (ValueError, RecursionError):
        return found.group()


def _parsed(text: str) -> list[Token]:
    """Return the tokens of a text; a footnote to which nothing refers is a paragraph."""
    env: dict[str, Any] = {}
    tokens = _parser().parse(text, env)
    notes = env.get("footnotes", {}).get("refs", {})
    lost = {label.removeprefix(":") for label, number in notes.items() if number < 0}
    if not lost:
        return tokens
    return _parser().parse(_NOTE.sub(lambda m: "" if m.group(1) in lost else m.group(), text))


_CONTAINERS: dict[str, BlockKind] = {
    "list_item_open": "item",
    "blockquote_open": "quote",
    "heading_open": "heading",
}
_CLOSERS = {name.replace("open", "close") for name in _CONTAINERS}


def _walk(tokens: list[Token], builder: Builder) -> None:
    """Append every block token in order; list items and quotes hand their kind to paragraphs."""
    inside: list[tuple[BlockKind, int]] = [("paragraph", 0)]
    row: int | None = None
    for token in tokens:
        if token.type in _CONTAINERS:
            level = int(token.tag[1]) if token.type == "heading_open" else 0
            inside.append((_CONTAINERS[token.type], level))
        elif token.type in _CLOSERS:
            inside.pop()
        elif token.type == "tr_open":
            row = builder.size
        elif token.type in {"th_open", "td_open"} and row is not None and builder.size > row:
            builder.add(" | ")
        elif token.type == "tr_close" and row is not None:
            builder.block("table", row)
            row = None
        elif token.type == "inline" and row is not None:
            _inline(token.children or [], builder)
        else:
            _block(token, inside[-1], builder)


def _block(token: Token, inside: tuple[BlockKind, int], builder: Builder) -> None:
    """Append a token that makes blocks of its own; others are left out."""
    match token.type:
        case "inline":
            for children in _parts(token.children or [], inside[0]):
                start = builder.size
                _inline(children, builder)
                builder.block(inside[0], start, inside[1])
        case "fence" | "code_block":
            _verbatim(builder, "code", token.content.strip("\n"))
        case "math_block" | "math_block_label":
            _verbatim(builder, "math", f"$${token.content.strip()}$$")
        case "html_block":
            html = _without_tags(_UNSEEN.sub(" ", token.content))
            _verbatim(builder, "paragraph", clean_line(unescape(html)))
        case _:
            pass


def _without_tags(html: str) -> str:
    """Return the words of HTML; past its last ``>`` no tag can end, so none is looked for."""
    end = html.rfind(">") + 1
    return _TAGS.sub(" ", html[:end]) + html[end:]


def _parts(children: list[Token], kind: BlockKind) -> list[list[Token]]:
    """Return inline tokens without a task's box; a callout's title and body as two parts."""
    first = children[0] if children and children[0].type == "text" else None
    if first and kind == "item":
        first.content = (
            _TASK.sub("", first.content, count=1) if _TASK.match(first.content) else first.content
        )
    if first and kind == "quote" and (found := _CALLOUT.match(first.content)):
        first.content = first.content[found.end() :]
        breaks = [i for i, token in enumerate(children) if token.type == "softbreak"]
        if breaks:
            return [children[: breaks[0]], children[breaks[0] + 1 :]]
    return [children]


def _verbatim(builder: Builder, kind: BlockKind, content: str) -> None:
    start = builder.size
    builder.add(content)
    builder.block(kind, start)


_OPENERS = {"strong_open", "em_open", "link_open"}
_ENDS: dict[str, MarkKind] = {"strong_close": "bold", "em_close": "bold", "link_close": "link"}
_VERBATIM: dict[str, MarkKind] = {
    "code_inline": "code",
    "math_inline": "math",
    "math_inline_double": "math",
    "math_single": "math",
    "wikilink": "wikilink",
}


def _inline(children: list[Token], builder: Builder) -> None:
    opened: list[tuple[int, str]] = []
    for token in children:
        start = builder.size
        is_break = token.type == "html_inline" and token.content.lower().startswith("<br")
        if token.type in {"text", "text_special"}:
            builder.add(token.content)
        elif token.type in {"softbreak", "hardbreak"} or is_break:
            builder.add(" ")
        elif token.type in _OPENERS:
            opened.append((start, str(token.attrs.get("href", ""))))
        elif token.type in _ENDS and opened:
            at, target = opened.pop()
            builder.mark(_ENDS[token.type], at, target)
        elif token.type in _VERBATIM:
            kind = _VERBATIM[token.type]
            builder.add(f"${token.content}$" if kind == "math" else token.content)
            builder.mark(kind, start, token.meta.get("target", ""))


def is_references(heading: str) -> bool:
    """Tell whether a heading opens a list of references or links."""
    return bool(_REFERENCES.fullmatch(clean_line(heading)))


def mark_references(builder: Builder) -> list[Block]:
    """Return the blocks; those under a heading such as References become ``references``."""
    text = builder.text()
    out: list[Block] = []
    under = 0
    for block in builder.blocks:
        name = text[block.start : min(block.end, block.start + 40)]
        if not under and block.kind == "paragraph" and is_references(name):
            under = _NO_HEADING
        if block.kind == "heading":
            if not under or block.level <= under:
                under = block.level if is_references(name) else 0
            out.append(Block("references", block.start, block.end) if under else block)
        else:
            out.append(Block("references", block.start, block.end) if under else block)
    return out
