"""Files read into Documents: one function a format, picked by the file's suffix.

Owns encodings and formats. Knows nothing about paths on disk, the store or concepts; it is given
bytes. A file that cannot be read honestly raises InputError; what was left out is in ``notes``.
"""

import re
from collections.abc import Callable
from dataclasses import replace

from kbwiki.errors import InputError, QuarantineError
from kbwiki.records import Document
from kbwiki.text.encodings import decode, marked
from kbwiki.text.frontmatter import as_date
from kbwiki.text.markdown import read_markdown
from kbwiki.text.normal import clean_line, clean_text
from kbwiki.text.walls import NO_TEXT, wall

_META_CHARSET = re.compile(rb"<meta[^>]+charset\s*=\s*[\"']?\s*([\w-]+)", re.IGNORECASE)
_HTML = re.compile(r"<(?:html|body)\b", re.IGNORECASE)
_BULLET = re.compile(r"(?:^|\n)[ \t]*(?:[-*•–]|\d{1,3}[.)])[ \t]+")
_RULE = re.compile(r"^[ \t]*[=\-_*~]{3,}[ \t]*$", re.MULTILINE)


def read_document(
    name: str,
    raw: bytes,
    force: bool = False,
    suffix: str = "",
    charset: str = "",
    use_ocr: bool = False,
) -> Document:
    """Return the Document of a file's bytes; ``suffix``, else that of ``name``, picks the reader.

    ``charset`` is what a server said of a text; it counts if the bytes decode so. With ``use_ocr``
    pages of a PDF that hold no letters are read off their picture.
    Raises InputError where the format is unknown or the bytes cannot be read, QuarantineError,
    unless ``force``, where they are most likely no document but what stood in its place.
    """
    reader = READERS.get(suffix or suffix_of(name))
    if reader is None:
        raise InputError(
            f"{name}: no reader for this kind of file.", f"Known: {', '.join(READERS)}."
        )
    if not raw.strip():
        raise InputError(f"{name}: the file is empty.", "Nothing was stored.")
    document = _read_pdf(raw, use_ocr) if reader is _read_pdf else reader(_as_said(raw, charset))
    if not document.text.strip():
        hint = "; ".join(document.notes) or "Look whether the file holds words at all."
        raise InputError(f"{name}: no text came out of it.", hint)
    if document.doubt and not force:
        raise QuarantineError(
            f"{name}: {document.doubt}.",
            "Save the article itself, or take it with `kbwiki ingest --force`.",
        )
    return document


def suffix_of(name: str) -> str:
    """Return the lower-case suffix of a file name with its dot, or an empty string."""
    base = name.rsplit("/", 1)[-1]
    return "." + base.rsplit(".", 1)[1].lower() if "." in base[1:] else ""


def _as_said(raw: bytes, charset: str) -> bytes:
    """Return the bytes of a text in UTF-8 with its mark, if they decode as somebody said."""
    if not charset or marked(raw):
        return raw
    try:
        return b"\xef\xbb\xbf" + raw.decode(charset).encode()
    except (UnicodeError, LookupError):
        return raw


def reader_kind(name: str) -> str:
    """Return the first suffix of the reader that a file name picks, or an empty string."""
    reader = READERS.get(suffix_of(name))
    return next((suffix for suffix, other in READERS.items() if other is reader), "")


def _read_md(raw: bytes) -> Document:
    return read_markdown(decode(raw))


def _read_txt(raw: bytes) -> Document:
    """Read plain text: a short line that stands alone is a heading, the first one the title."""
    out: list[str] = []
    for paragraph in re.split(r"\n\s*\n", clean_text(decode(raw))):
        items = [clean_line(item) for item in _BULLET.split(_RULE.sub("", paragraph))]
        begins = _BULLET.match(paragraph) is not None
        for at, item in enumerate(items):
            if not item:
                continue
            is_item = at > 0 or begins
            is_heading = not is_item and len(items) == 1 and _is_heading(item)
            lead = "- " if is_item else ("## " if out else "# ") if is_heading else ""
            out.append(lead + _escaped(item))
    return read_markdown("\n\n".join(out))


def _is_heading(line: str) -> bool:
    return len(line) <= 90 and line[0].isalnum() and not re.search(r"[.!?:;,…]$", line)


def _escaped(line: str) -> str:
    line = re.sub(r"([\\`*_\[\]<>#$|~&])", r"\\\1", line)
    return re.sub(
        r"^([-+=]|\d+[.)])(\s|$|=)", lambda m: _escaped_start(m.group(1)) + m.group(2), line
    )


def _escaped_start(mark: str) -> str:
    return mark[:-1] + "\\" + mark[-1]


def _read_html(raw: bytes) -> Document:
    """Read a web page: its main text, without menus, as Markdown."""
    import trafilatura

    found = _META_CHARSET.search(raw[:4096])
    html = decode(raw, found.group(1).decode("ascii") if found else "")
    if not _HTML.search(html):  # trafilatura reads whole pages only
        html = f"<html><body>{html}</body></html>"
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
    if not body:
        whole = clean_line(trafilatura.html2txt(html))
        doubt = wall(title, whole, html) or NO_TEXT
        return replace(read_markdown(_escaped(whole)), title=title, doubt=doubt)
    document = read_markdown(body)
    dated = as_date(str(meta.get("date") or ""))
    author = str(meta.get("author") or "")
    return replace(
        document,
        title=document.title or title,
        authors=tuple(clean_line(a) for a in re.split(r"\s*;\s*", author) if a.strip()),
        dated=dated,
        year=dated.year if dated else None,
        doubt=wall(title, document.text, html),
    )


def _read_pdf(raw: bytes, use_ocr: bool = False) -> Document:
    from kbwiki.text.pdf import read_pdf

    return read_pdf(raw, use_ocr)


def _read_docx(raw: bytes) -> Document:
    from kbwiki.text.office import read_docx

    return read_docx(raw)


def _read_pptx(raw: bytes) -> Document:
    from kbwiki.text.office import read_pptx

    return read_pptx(raw)


def _read_xlsx(raw: bytes) -> Document:
    from kbwiki.text.office import read_xlsx

    return read_xlsx(raw)


def _read_epub(raw: bytes) -> Document:
    from kbwiki.text.epub import read_epub

    return read_epub(raw, _read_chapter)


def _read_chapter(raw: bytes) -> Document:
    """Read a page of a book: all of its text where little of it looks like an article."""
    import trafilatura

    document = _read_html(raw)
    whole = clean_line(trafilatura.html2txt(decode(raw)))
    if len(document.text) < 0.5 * len(whole):
        return read_markdown(_escaped(whole))
    return replace(document, doubt="")


def _read_rst(raw: bytes) -> Document:
    from kbwiki.text.restructured import read_rst

    return read_rst(decode(raw))


def _read_latex(raw: bytes) -> Document:
    from kbwiki.text.latex import read_latex

    return read_latex(decode(raw))


def _read_notebook(raw: bytes) -> Document:
    from kbwiki.text.data import read_notebook

    return read_notebook(decode(raw))


def _read_csv(raw: bytes) -> Document:
    from kbwiki.text.data import read_csv

    return read_csv(decode(raw))


def _read_jsonl(raw: bytes) -> Document:
    from kbwiki.text.data import read_jsonl

    return read_jsonl(decode(raw))


def _read_bibtex(raw: bytes) -> Document:
    from kbwiki.text.bibtex import read_bibtex

    return read_bibtex(decode(raw))


READERS: dict[str, Callable[[bytes], Document]] = {
    ".md": _read_md,
    ".markdown": _read_md,
    ".txt": _read_txt,
    ".text": _read_txt,
    ".html": _read_html,
    ".htm": _read_html,
    ".xhtml": _read_html,
    ".pdf": _read_pdf,
    ".docx": _read_docx,
    ".pptx": _read_pptx,
    ".xlsx": _read_xlsx,
    ".epub": _read_epub,
    ".ipynb": _read_notebook,
    ".rst": _read_rst,
    ".tex": _read_latex,
    ".csv": _read_csv,
    ".tsv": _read_csv,
    ".jsonl": _read_jsonl,
    ".ndjson": _read_jsonl,
    ".bib": _read_bibtex,
}
