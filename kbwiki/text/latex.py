"""LaTeX sources read into a Document, by pylatexenc's parser.

Owns which commands are structure. Formulas stay as they are written; files that a source inputs
are sources of their own.
"""

import logging
import re
from collections import Counter
from datetime import date
from typing import Any

from kbwiki.errors import InputError
from kbwiki.records import BlockKind, Document
from kbwiki.text.frontmatter import as_date
from kbwiki.text.markdown import Builder, mark_references
from kbwiki.text.normal import clean_line, clean_text

_LEVELS = {
    "part": 1, "chapter": 1, "section": 2, "subsection": 3, "subsubsection": 4, "paragraph": 5,
    "subparagraph": 6,
}  # fmt: skip
_BOLD = {"textbf", "emph", "textit", "textsl", "term"}
_HIDDEN = {
    "label", "ref", "eqref", "pageref", "autoref", "cref", "Cref", "cite", "citep", "citet",
    "citeauthor", "citeyear", "parencite", "textcite", "autocite", "nocite", "includegraphics",
    "bibliography", "bibliographystyle", "documentclass", "usepackage", "newcommand",
    "renewcommand", "providecommand", "DeclareMathOperator", "newtheorem", "def", "vspace",
    "hspace", "setlength", "maketitle", "tableofcontents", "thanks", "pagestyle", "thispagestyle",
    "begin", "end", "graphicspath", "hypersetup", "geometry", "affiliation", "email", "inst",
    "subfile", "subfileinclude",
}  # fmt: skip
_UNSEEN = {"comment", "tikzpicture", "pgfpicture", "picture", "filecontents"}
"""Environments without words: remarks, drawings, other files."""
_MATH = {
    "equation", "align", "gather", "multline", "eqnarray", "displaymath", "flalign", "alignat",
    "math", "dmath",
}  # fmt: skip
_CODE = {"verbatim", "lstlisting", "minted", "Verbatim", "algorithm", "algorithmic", "alltt"}
_ROWS = {"tabular", "tabularx", "longtable", "tabulary", "array"}
_ARGUMENTS = {
    "href": "{{", "footnotetext": "[{", "thanks": "{", "multicolumn": "{{{", "multirow": "{{{",
    "inst": "{", "subfile": "{", "subfileinclude": "{",
}  # fmt: skip
"""Commands that the parser does not know, and what stands behind them."""
_WORDS = ("mbox", "textmd", "textsf", "texttt", "textup", "keywords")
"""Commands whose words the parser would leave out."""
_TAKES_GROUPS = _ROWS | {"thebibliography", "multicols", "minipage"}
_MAX_HEADING = 300
_PARAGRAPH = re.compile(r"\n[ \t]*\n\s*")
_LABEL = re.compile(r"\\label\{[^}]*\}\s*")
_FRAME = re.compile(r"^\\begin\{[^}]*\}(?:\[[^\]]*\]|\{[^}]*\})*|\\end\{[^}]*\}$")
_BARE_INPUT = re.compile(r"\\input[ \t]+([^\s{}\\%]+)")
_INPUT = re.compile(r"\\(?:input|include|subfile|subfileinclude)\s*\{([^}]+)\}")
_TOKEN = re.compile(
    r"%[^\n]*|\\newif\s*+\\[A-Za-z]+|\\let\s*+\\[A-Za-z@]+\s*+(?:=\s*+)?\\[A-Za-z]+"
    r"|\\begin\s*+\{(?P<raw>(?:verbatim|Verbatim|lstlisting|minted|comment|filecontents)\*?)\}"
    r"|\\(?:verb|lstinline)(?![A-Za-z])\*?(?P<mark>[^\s*])"
    r"|\\(?P<name>[A-Za-z]+)(?:\s*+(?P<brace>[{}]))?|\\.",
    re.DOTALL,
)
"""What may open, part or end a condition, and all in which those words would be none."""
_NEWIF = re.compile(r"\\newif\s*+\\(if[A-Za-z]+)")
_CONDITIONS = {
    "if", "ifcase", "ifcat", "ifcsname", "ifdefined", "ifdim", "ifeof", "iffalse", "ifhbox",
    "ifhmode", "ifinner", "ifmmode", "ifnum", "ifodd", "iftrue", "ifvbox", "ifvmode", "ifvoid",
    "ifx",
}  # fmt: skip
_NO_CONDITION = re.compile(r"iff$|ifdef(?!ined$)|ifundef")
"""Commands named like conditions that no ``\\fi`` ends: an arrow, those of etoolbox."""
_BRACE = re.compile(r"\\.|%[^\n]*|([{}])", re.DOTALL)


def read_latex(text: str) -> Document:
    """Return the Document of a LaTeX source: headings, text, lists, formulas, captions."""
    from pylatexenc.latexwalker import LatexWalker, LatexWalkerError

    logging.getLogger("pylatexenc").setLevel(logging.CRITICAL)  # a command that is cut is no news
    source = _without_never(_BARE_INPUT.sub(r"\\input{\1}", clean_text(text)))
    inputs = _INPUT.findall(re.sub(r"(?<!\\)%.*", "", source))
    try:
        walker = LatexWalker(source, tolerant_parsing=True, latex_context=_known_commands())
        nodes, _, _ = walker.get_latex_nodes()
    except (LatexWalkerError, RecursionError) as error:
        raise InputError("latex: the source could not be parsed.", str(error)[:200]) from error
    reader = _Reader()
    body = next((n for n in nodes if getattr(n, "environmentname", "") == "document"), None)
    if body is not None:
        reader.preamble(nodes)
    reader.walk(nodes if body is None else body.nodelist)
    reader.close()
    blocks = mark_references(reader.builder)
    plain = reader.builder.text().rstrip()
    heading = next((plain[b.start : b.end] for b in blocks if b.kind == "heading"), "")
    notes = []
    if inputs:
        notes.append(f"it inputs {', '.join(inputs)}; not opened here, each is a file of its own")
    braces = Counter(_BRACE.findall(source))
    if braces["{"] != braces["}"]:
        notes.append("its braces do not match: a command may stand as text, or text as its own")
    return Document(
        text=plain,
        title=reader.title or heading,
        authors=reader.authors,
        year=reader.dated.year if reader.dated else None,
        dated=reader.dated,
        blocks=tuple(blocks),
        marks=tuple(reader.builder.marks),
        notes=tuple(notes),
    )


def _without_never(source: str) -> str:
    """Return a source without what ``\\iffalse`` hides; its ``\\else`` is kept, as is one unended.

    One pass, in linear time, with TeX's own rule: conditions nest, remarks hold none.
    """
    declared = {*_CONDITIONS, *_NEWIF.findall(source)}
    opened: list[tuple[int, int]] = []  # where each begins (-1: no \iffalse), where its \else ends
    cuts: list[tuple[int, int]] = []
    hidden = at = 0
    while found := _TOKEN.search(source, at):
        at = found.end()
        name = found["name"] or ""
        if found["raw"] or found["mark"]:
            at = at if hidden else _past_verbatim(source, found)
        elif _is_condition(name, found["brace"], declared):
            opened.append((found.start() if name == "iffalse" else -1, 0))
            hidden += name == "iffalse"
        elif name == "else" and opened and opened[-1][0] >= 0 and not opened[-1][1]:
            opened[-1] = (opened[-1][0], found.end("name"))
            hidden -= 1
        elif name == "fi" and opened:
            start, branch = opened.pop()
            if start >= 0:
                end = found.end("name")
                cuts += [(start, branch), (found.start(), end)] if branch else [(start, end)]
                hidden -= not branch
    kept: list[str] = []
    done = 0
    for start, end in sorted(cuts):
        kept.append(source[done:start])
        done = max(done, end)
    return "".join([*kept, source[done:]])


def _is_condition(name: str, brace: str | None, declared: set[str]) -> bool:
    """Tell whether a ``\\fi`` ends a command; one that ends a group only stands in a definition."""
    if brace == "}" or not name.startswith("if"):
        return False
    return name in declared or (brace is None and not _NO_CONDITION.match(name))


def _past_verbatim(source: str, opening: re.Match[str]) -> int:
    """Return where verbatim text ends: at the end of the source if it is never closed."""
    if opening["raw"]:
        end = source.find(f"\\end{{{opening['raw']}}}", opening.end())
        return end if end >= 0 else len(source)
    line = source.find("\n", opening.end())
    mark = "}" if opening["mark"] == "{" else opening["mark"]
    end = source.find(mark, opening.end(), line if line >= 0 else len(source))
    return end + 1 if end >= 0 else opening.end()


def _known_commands() -> Any:
    from pylatexenc.latexwalker import get_default_latex_context_db
    from pylatexenc.macrospec import std_macro

    context = get_default_latex_context_db()
    macros = [std_macro(name, arguments) for name, arguments in _ARGUMENTS.items()]
    context.add_context_category("more", macros=macros, prepend=True)
    return context


class _Reader:
    def __init__(self) -> None:
        from pylatexenc.latex2text import (
            LatexNodes2Text,
            MacroTextSpec,
            get_default_latex_context_db,
        )

        context = get_default_latex_context_db()
        people = [MacroTextSpec(name, "; ") for name in ("and", "And", "AND")]
        whole = [
            MacroTextSpec(name, "" if name in _HIDDEN else f"%({len(arguments)})s")
            for name, arguments in _ARGUMENTS.items()
        ]
        whole += [MacroTextSpec(name, "%s") for name in _WORDS]
        context.add_context_category("people", [*people, *whole], prepend=True)
        self.to_text = LatexNodes2Text(latex_context=context, math_mode="verbatim")
        self.known = _known_commands()
        self.builder = Builder()
        self.kind: BlockKind = "paragraph"
        self.start = 0
        self.title = ""
        self.authors: tuple[str, ...] = ()
        self.dated: date | None = None

    def preamble(self, nodes: list[Any]) -> None:
        """Take title, authors and date from before the body."""
        for at, node in enumerate(nodes):
            name = getattr(node, "macroname", "")
            if name in {"title", "author", "date"}:
                self.meta(name, self.argument(node, nodes[at + 1 :]))

    def meta(self, name: str, value: str) -> None:
        """Keep a field of the title page."""
        if name == "title":
            self.title = clean_line(value)
        elif name == "author":
            people = re.split(r"[;,\n]|\s+(?:and|и)\s+", value)
            self.authors = tuple(a for a in map(clean_line, people) if a)
        else:
            self.dated = as_date(value)

    def argument(self, node: Any, after: list[Any]) -> str:
        """Return the plain text of a command's last argument, or of the group behind it."""
        found = [a for a in (node.nodeargd.argnlist if node.nodeargd else []) if a is not None]
        group = found[-1] if found else next((n for n in after if hasattr(n, "delimiters")), None)
        return self.plain(group)

    def plain(self, node: Any) -> str:
        """Return the text of a node, line ends kept."""
        if node is None:
            return ""
        try:
            return str(self.to_text.nodelist_to_text([node])).strip()
        except (KeyError, IndexError, TypeError):  # a command whose arguments are not there
            return str(node.latex_verbatim()).strip()

    def cell(self, source: str) -> str:
        """Return the text of a cell of a table."""
        try:
            return str(self.to_text.latex_to_text(source, latex_context=self.known))
        except (KeyError, IndexError, TypeError):
            return source

    def close(self) -> None:
        """End the block that is open."""
        self.trim()
        self.builder.block(self.kind, self.start)
        self.start = self.builder.size

    def block(self, kind: BlockKind, text: str, level: int = 0) -> None:
        """Append a whole block."""
        self.close()
        self.builder.add(text)
        self.builder.block(kind, self.start, level)
        self.start = self.builder.size

    def walk(self, nodes: list[Any]) -> None:
        """Append nodes in order."""
        skip = False
        for at, node in enumerate(nodes):
            if skip:
                skip = False
                continue
            name = type(node).__name__
            if name == "LatexCharsNode":
                self.chars(node.chars)
            elif name == "LatexMathNode":
                self.math(node)
            elif name == "LatexGroupNode":
                self.walk(node.nodelist)
            elif name == "LatexEnvironmentNode":
                self.environment(node)
            elif name == "LatexMacroNode":
                skip = self.macro(node, nodes[at + 1 :])
            elif name == "LatexSpecialsNode":
                self.specials(node)

    def specials(self, node: Any) -> None:
        """Append ``~``, dashes and quotes; a blank line ends the block."""
        if "\n" in node.specials_chars:
            self.close()
        else:
            self.add(self.plain(node) or " ")

    def add(self, text: str) -> None:
        """Append running text; a block does not begin with a space."""
        if self.builder.size == self.start:
            text = text.lstrip()
        elif text[:1] in {".", ",", ";", ":", ")"}:  # a hidden command stood before it
            self.trim()
        self.builder.add(text)

    def trim(self) -> None:
        """Take spaces back that end the open block."""
        parts = self.builder.parts
        while parts and self.builder.size > self.start and parts[-1] != parts[-1].rstrip():
            last = parts.pop()
            parts += filter(None, [last.rstrip()])
            self.builder.size += len(last.rstrip()) - len(last)

    def chars(self, text: str) -> None:
        """Append running text; a blank line ends the block."""
        for number, part in enumerate(_PARAGRAPH.split(text)):
            if number:
                self.close()
            self.add(re.sub(r"\s+", " ", part))

    def math(self, node: Any) -> None:
        """Append a formula as it is written."""
        source = "".join(n.latex_verbatim() for n in node.nodelist).strip()
        if node.displaytype == "display":
            self.block("math", f"$${source}$$")
        else:
            start = self.builder.size
            self.add(f"${source}$")
            self.builder.mark("math", start)

    def environment(self, node: Any) -> None:
        """Append an environment: formulas and code whole, lists and others by their content."""
        name = node.environmentname.rstrip("*")
        nodes = list(node.nodelist)
        while name in _TAKES_GROUPS and nodes and hasattr(nodes[0], "delimiters"):
            nodes = nodes[1:]
        inner = "".join(n.latex_verbatim() for n in nodes).strip()
        if name in _UNSEEN:
            self.close()
        elif name in _MATH:
            self.block("math", f"$${_LABEL.sub('', inner).strip()}$$")
        elif name in _CODE:
            # What is verbatim has no nodes inside.
            self.block("code", _FRAME.sub("", node.latex_verbatim()).strip("\n"))
        elif name in _ROWS:
            for row in re.split(r"\\\\(?:\[[^\]]*\])?", inner):
                cells = re.sub(r"\\(?:hline|toprule|midrule|bottomrule)\b", "", row).split("&")
                shown = [clean_line(self.cell(cell)) for cell in cells]
                if any(shown):
                    self.block("table", " | ".join(shown))
        elif name == "thebibliography":
            self.block("heading", "References", 2)
            self.inside("item", nodes)
        elif name == "abstract":
            self.block("heading", "Abstract", 2)
            self.inside("paragraph", nodes)
        else:
            self.inside("quote" if name in {"quote", "quotation"} else "paragraph", nodes)

    def inside(self, kind: BlockKind, nodes: list[Any]) -> None:
        """Append nodes as blocks of a kind."""
        self.close()
        before, self.kind = self.kind, kind
        self.walk(nodes)
        self.close()
        self.kind = before

    def macro(self, node: Any, after: list[Any]) -> bool:
        """Append a command; tell whether the group behind it was taken as its argument."""
        name = node.macroname.rstrip("*")
        has_own = any(node.nodeargd.argnlist) if node.nodeargd else False
        is_behind = not has_own and bool(after) and hasattr(after[0], "delimiters")
        if name in _LEVELS:
            words = clean_line(self.argument(node, after))
            is_heading = len(words) <= _MAX_HEADING  # else its brace was never closed
            self.block("heading" if is_heading else "paragraph", words, _LEVELS[name])
        elif name in {"title", "author", "date"}:
            self.meta(name, self.argument(node, after))
        elif name == "caption":
            self.block("paragraph", clean_line(self.argument(node, after)))
        elif name in {"item", "bibitem", "par"}:
            self.close()
            self.kind = self.kind if name == "par" else "item"
            if name == "item" and has_own:
                self.add(f"{self.argument(node, after).strip('[]')} ")
            return is_behind and name == "bibitem"
        elif not (name in _HIDDEN or name.startswith("cite")):
            return self.running(name, node, after) and is_behind
        return is_behind

    def running(self, name: str, node: Any, after: list[Any]) -> bool:
        """Append a command inside a line; tell whether it takes its argument along."""
        start = self.builder.size
        if name in _BOLD:
            self.add(clean_line(self.argument(node, after)))
            self.builder.mark("bold", start)
        elif name == "verb" and node.nodeargd is not None:
            self.add(node.nodeargd.verbatim_text)
            self.builder.mark("code", start)
            return False
        elif name.startswith("footnote"):
            self.add(f" ({clean_line(self.argument(node, after))})")
        elif name in {"\\", "newline"}:
            self.add(" ")
        else:
            self.add(re.sub(r"\s+", " ", self.plain(node)) + node.macro_post_space[:1])
            return False
        return True
