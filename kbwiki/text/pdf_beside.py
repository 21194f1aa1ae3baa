"""What a page of a PDF holds besides its text: values of a form, remarks, attached files.

Owns annotations. Values are read; remarks are counted and files named, for nothing reads those.
"""

import ctypes
import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

from kbwiki.text.normal import clean_line

_NAME = re.compile(r"[^\W\d_]{2,}(?:[ -][^\W\d_]+)*")
_SHOWN = 5
"""Attached files that are named."""


@dataclass(frozen=True, slots=True)
class Beside:
    """What stands beside the text: lines ``name: value`` of a form, names of files."""

    fields: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    n_comments: int = 0


def read_beside(pdf: Any, number: int) -> Beside:
    """Return what stands beside the text of a page (from 0) of pypdfium2.

    Values are there only if the form of the document was opened before its pages.
    """
    import pypdfium2
    from pypdfium2 import raw

    try:
        page = pdf[number]
    except pypdfium2.PdfiumError:
        return Beside()
    fields: dict[str, None] = {}  # a field may have several places
    files: list[str] = []
    n_comments = 0
    for at in range(raw.FPDFPage_GetAnnotCount(page)):
        annotation = raw.FPDFPage_GetAnnot(page, at)
        kind = raw.FPDFAnnot_GetSubtype(annotation)
        n_comments += kind in {raw.FPDF_ANNOT_TEXT, raw.FPDF_ANNOT_FREETEXT}
        if kind == raw.FPDF_ANNOT_WIDGET and pdf.formenv:
            fields[_field(pdf.formenv, annotation)] = None
        elif kind == raw.FPDF_ANNOT_FILEATTACHMENT:
            files.append(_file_name(raw.FPDFAnnot_GetFileAttachment(annotation)))
        raw.FPDFPage_CloseAnnot(annotation)
    page.close()
    return Beside(tuple(filter(None, fields)), tuple(files), n_comments)


def attached(pdf: Any) -> list[str]:
    """Return the names of the files that are attached to a document as a whole."""
    from pypdfium2 import raw

    n = raw.FPDFDoc_GetAttachmentCount(pdf)
    return [_file_name(raw.FPDFDoc_GetAttachment(pdf, at)) for at in range(n)]


def told_of_files(names: list[str]) -> str:
    """Return what a note says of attached files."""
    more = ", ..." if len(names) > _SHOWN else ""
    return f"attached files left out: {len(names)} ({', '.join(names[:_SHOWN])}{more})"


def _file_name(attachment: Any) -> str:
    from pypdfium2 import raw

    name = _asked(partial(raw.FPDFAttachment_GetName, attachment)) if attachment else ""
    return name or "one without a name"


def _field(form: Any, annotation: Any) -> str:
    """Return the value of a form's field behind its name, if that is of words; nothing for none."""
    from pypdfium2 import raw

    def asked(question: Any) -> str:
        return _asked(partial(question, form, annotation))

    kind = raw.FPDFAnnot_GetFormFieldType(form, annotation)
    value = ""
    if kind in {raw.FPDF_FORMFIELD_CHECKBOX, raw.FPDF_FORMFIELD_RADIOBUTTON}:
        if raw.FPDFAnnot_IsChecked(form, annotation):
            value = asked(raw.FPDFAnnot_GetFormFieldExportValue) or "x"
    elif kind in {raw.FPDF_FORMFIELD_COMBOBOX, raw.FPDF_FORMFIELD_LISTBOX}:
        value = _chosen(form, annotation) or asked(raw.FPDFAnnot_GetFormFieldValue)
    elif kind == raw.FPDF_FORMFIELD_TEXTFIELD:
        value = asked(raw.FPDFAnnot_GetFormFieldValue)
    if not value:
        return ""
    name = asked(raw.FPDFAnnot_GetFormFieldAlternateName)
    if not name:  # what programs call it
        own = clean_line(asked(raw.FPDFAnnot_GetFormFieldName).rsplit(".", 1)[-1].replace("_", " "))
        name = own if _NAME.fullmatch(own) else ""
    return f"{name.rstrip(': ')}: {value}" if name else value


def _chosen(form: Any, annotation: Any) -> str:
    """Return the labels of the options that are chosen in a list."""
    from pypdfium2 import raw

    return ", ".join(
        _asked(partial(raw.FPDFAnnot_GetOptionLabel, form, annotation, at))
        for at in range(max(0, raw.FPDFAnnot_GetOptionCount(form, annotation)))
        if raw.FPDFAnnot_IsOptionSelected(form, annotation, at)
    )


def _asked(question: Callable[[Any, int], int]) -> str:
    """Return a text that pdfium gives as UTF-16 into a buffer whose size it is asked for first."""
    from pypdfium2 import raw

    size = question(None, 0)
    if size <= 2:
        return ""
    buffer = ctypes.create_string_buffer(size)
    question(ctypes.cast(buffer, ctypes.POINTER(raw.FPDF_WCHAR)), size)
    text = buffer.raw[: size - 2].decode("utf-16-le", "replace")
    if text.startswith("þÿ"):  # the mark of UTF-16, where a program wrote its bytes as letters
        with suppress(UnicodeError):
            text = text.encode("latin-1").decode("utf-16")
    return clean_line(text)
