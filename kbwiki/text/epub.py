"""EPUB books read into a Document: the chapters in the order of the book's spine."""

import posixpath
import zipfile
from dataclasses import replace
from typing import Any
from urllib.parse import unquote

from kbwiki.errors import InputError
from kbwiki.records import Document
from kbwiki.text.frontmatter import as_date
from kbwiki.text.join import join_documents
from kbwiki.text.normal import clean_line
from kbwiki.text.packed import FAULTS, open_packed
from kbwiki.text.pages import PICTURES, read_chapter

_CONTAINER = "META-INF/container.xml"
_FONTS = {"http://www.idpf.org/2008/embedding", "http://ns.adobe.com/pdf/enc#RC"}


def read_epub(raw: bytes) -> Document:
    """Return the Document of a book.

    A chapter from which no text came is named in ``notes``. Raises InputError where the book is
    locked or its parts cannot be found.
    """
    with open_packed(raw, ".epub") as archive:
        if _is_locked(archive):
            raise InputError("epub: the book is encrypted.", "Save a copy without protection.")
        package_name = _package_name(archive)
        package = _tree(archive, package_name)
        manifest = {
            item.get("id"): item.get("href", "")
            for item in package.iterfind(".//{*}manifest/{*}item")
        }
        chapters: list[Document] = []
        notes: list[str] = []
        for ref in package.iterfind(".//{*}spine/{*}itemref"):
            href = unquote(manifest.get(ref.get("idref"), "")) or str(ref.get("idref"))
            name = posixpath.normpath(posixpath.join(posixpath.dirname(package_name), href))
            try:
                chapter = read_chapter(_part(archive, name))
            except InputError as error:
                chapter = Document("", notes=(error.message,))
            is_cover = not chapters and chapter.notes == PICTURES
            if chapter.text:
                chapters.append(chapter)
            elif chapter.notes and not is_cover:  # without a note it is a blank page
                notes.append(f"chapter {clean_line(href)}: no text, {'; '.join(chapter.notes)}")
    document = join_documents(chapters)
    return replace(
        document,
        title=_field(package, "title") or document.title,
        authors=tuple(
            name
            for node in package.iterfind(".//{*}creator")
            if (name := clean_line(node.text or ""))
        ),
        dated=(dated := as_date(_field(package, "date"))),
        year=dated.year if dated else _year(_field(package, "date")),
        notes=(*notes, *document.notes),
        coverage=(len(chapters), len(chapters) + len(notes)),
    )


def _year(value: str) -> int | None:
    return int(value[:4]) if value[:4].isdecimal() else None


def _package_name(archive: zipfile.ZipFile) -> str:
    found = _tree(archive, _CONTAINER).find(".//{*}rootfile")
    if found is None or not found.get("full-path"):
        raise InputError("epub: it names no package.", "Save a clean copy.")
    return str(found.get("full-path"))


def _is_locked(archive: zipfile.ZipFile) -> bool:
    """Tell whether more than fonts is encrypted."""
    name = "META-INF/encryption.xml"
    if name not in archive.namelist():
        return False
    methods = {
        node.get("Algorithm")
        for node in _tree(archive, name).iterfind(".//{*}EncryptedData/{*}EncryptionMethod")
    }
    return not methods <= _FONTS


def _part(archive: zipfile.ZipFile, name: str) -> bytes:
    try:
        return archive.read(name)
    except FAULTS as error:
        raise InputError(f"epub: {name} is missing or broken.", "Save a clean copy.") from error


def _tree(archive: zipfile.ZipFile, name: str) -> Any:
    from lxml import etree

    try:
        return etree.fromstring(
            _part(archive, name), etree.XMLParser(resolve_entities=False, no_network=True)
        )
    except etree.XMLSyntaxError as error:
        raise InputError(f"epub: {name} is no XML.", "Save a clean copy.") from error


def _field(package: Any, name: str) -> str:
    found = package.find(f".//{{*}}metadata/{{*}}{name}")
    return "" if found is None else clean_line(found.text or "")
