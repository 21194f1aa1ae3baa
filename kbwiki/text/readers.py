"""Files read into Documents: one function a format, picked by the file's suffix.

Owns encodings and formats. Knows nothing about paths on disk, the store or concepts; it is given
bytes. A file that cannot be read honestly raises InputError; what was left out is in ``notes``.
"""

import io
import re
import zipfile
from collections.abc import Callable
from dataclasses import replace

from kbwiki.errors import InputError, KbwikiError, QuarantineError
from kbwiki.records import Document
from kbwiki.text.encodings import as_declared, decode, marked
from kbwiki.text.markdown import read_markdown
from kbwiki.text.normal import clean_line, clean_text

_OFFICE = {"word/": ".docx", "ppt/": ".pptx", "xl/": ".xlsx"}
_HTML = re.compile(
    rb"\s*(?:<!--.*?-->\s*|<\?xml[^>]*>\s*)*"
    rb"<(?:!doctype\s+html|html|head|body|title|meta)\b",
    re.IGNORECASE | re.DOTALL,
)
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
    suffix = suffix or suffix_of(name)
    reader = READERS.get(suffix)
    if reader is None:
        raise InputError(
            f"{name}: no reader for this kind of file.", f"Known: {', '.join(READERS)}."
        )
    if not raw.strip():
        raise InputError(f"{name}: the file is empty.", "Nothing was stored.")
    kind = kind_of(raw) or _text_kind(raw)
    if (
        kind
        and reader_kind(f"_{kind}") != reader_kind(f"_{suffix}")
        and not _may_hold(suffix, kind)
    ):
        raise InputError(
            f"{name}: it is {kind} inside, whatever its name says.",
            f"Name it with {kind} at its end.",
        )
    try:
        said = raw if reader is _read_pdf else _as_said(raw, charset)
        document = _read_pdf(raw, use_ocr) if reader is _read_pdf else reader(said)
    except KbwikiError:
        raise
    except RecursionError as error:
        raise InputError(f"{name}: it is nested too deep.", "Save a simpler copy.") from error
    except Exception as error:
        # A parser may stumble over any file in any way; that costs this file, not the run.
        what = clean_line(f"{type(error).__name__}: {error}")[:200]
        raise InputError(
            f"{name}: its reader failed: {what}.",
            "Save it anew. If it is whole, that is a fault of kbwiki.",
        ) from error
    if not document.text.strip():
        hint = "; ".join(document.notes) or "Look whether the file holds words at all."
        raise InputError(f"{name}: no text came out of it.", hint)
    if document.doubt and not force:
        other = "Save the article itself" if reader is _read_html else "Save it as UTF-8"
        hint = f"{other}, or take it with `kbwiki ingest --force`."
        raise QuarantineError(f"{name}: {document.doubt}.", hint)
    return document


def suffix_of(name: str) -> str:
    """Return the lower-case suffix of a file name with its dot, or an empty string."""
    base = name.rsplit("/", 1)[-1]
    return "." + base.rsplit(".", 1)[1].lower() if "." in base[1:] else ""


def kind_of(raw: bytes) -> str:
    """Return the suffix that the first bytes of a file give away, or an empty string."""
    if raw[:5] == b"%PDF-":
        return ".pdf"
    if raw[:4] == b"PK\x03\x04":
        try:
            with zipfile.ZipFile(io.BytesIO(raw)) as archive:
                names = archive.namelist()
        except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError):
            return ""
        if "META-INF/container.xml" in names:
            return ".epub"
        for start, suffix in _OFFICE.items():
            if "[Content_Types].xml" in names and any(name.startswith(start) for name in names):
                return suffix
    return ""


def looks_like_html(raw: bytes) -> bool:
    """Tell whether bytes begin as a web page does."""
    return _HTML.match(raw[:4096]) is not None


def _text_kind(raw: bytes) -> str:
    return ".html" if looks_like_html(raw) else ".rtf" if raw[:5] == b"{\\rtf" else ""


def _may_hold(suffix: str, kind: str) -> bool:
    """Tell whether a file of one kind may well begin as one of another: Markdown with HTML."""
    return kind == ".html" and READERS[suffix] is _read_md


def _as_said(raw: bytes, charset: str) -> bytes:
    """Return the bytes of a text in UTF-8 with its mark, if they decode as somebody said."""
    if not charset or marked(raw):
        return raw
    text = as_declared(raw, charset)
    return raw if text is None else b"\xef\xbb\xbf" + text.encode()


def reader_kind(name: str) -> str:
    """Return the first suffix of the reader that a file name picks, or an empty string."""
    reader = READERS.get(suffix_of(name))
    return next((suffix for suffix, other in READERS.items() if other is reader), "")


def _of_text(read: Callable[[str], Document]) -> Callable[[bytes], Document]:
    """Make a reader of bytes of one of text; it doubts what may be in a wrong encoding."""

    def read_bytes(raw: bytes) -> Document:
        decoded = decode(raw)
        document = read(decoded.text)
        return replace(document, doubt=document.doubt or decoded.doubt)

    return read_bytes


_read_md = _of_text(read_markdown)


@_of_text
def _read_txt(text: str) -> Document:
    """Read plain text: a short line that stands alone is a heading, the first one the title."""
    out: list[str] = []
    for paragraph in re.split(r"\n\s*\n", clean_text(text)):
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
    from kbwiki.text.pages import read_html

    return read_html(raw)


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

    return read_epub(raw)


@_of_text
def _read_rst(text: str) -> Document:
    from kbwiki.text.restructured import read_rst

    return read_rst(text)


@_of_text
def _read_latex(text: str) -> Document:
    from kbwiki.text.latex import read_latex

    return read_latex(text)


@_of_text
def _read_notebook(text: str) -> Document:
    from kbwiki.text.data import read_notebook

    return read_notebook(text)


@_of_text
def _read_csv(text: str) -> Document:
    from kbwiki.text.data import read_csv

    return read_csv(text)


@_of_text
def _read_jsonl(text: str) -> Document:
    from kbwiki.text.data import read_jsonl

    return read_jsonl(text)


@_of_text
def _read_bibtex(text: str) -> Document:
    from kbwiki.text.bibtex import read_bibtex

    return read_bibtex(text)


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
