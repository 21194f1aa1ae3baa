"""Office files, books, notebooks, records and markup, made here by real libraries."""

import io
import json
import zipfile
from collections.abc import Callable
from datetime import date, datetime
from typing import Any

import docx
import openpyxl
import pptx
import pytest
from docx.oxml import parse_xml

from kbwiki.errors import InputError
from kbwiki.records import Document
from kbwiki.text.readers import read_document

MATH = "http://schemas.openxmlformats.org/officeDocument/2006/math"
EN = ("Linear attention", "Linear attention is attention without a softmax.")
RU = ("Линейное внимание", "Линейное внимание — это внимание без экспоненты.")
BOTH = pytest.mark.parametrize("words", [EN, RU], ids=["en", "ru"])


def _blocks(document: Document) -> list[tuple[str, str]]:
    return [(b.kind, document.text[b.start : b.end]) for b in document.blocks]


def _marks(document: Document) -> set[tuple[str, str, str]]:
    return {(m.kind, document.text[m.start : m.end], m.target) for m in document.marks}


def _saved(package: Any) -> bytes:
    file = io.BytesIO()
    package.save(file)
    return file.getvalue()


@BOTH
def test_a_word_file_keeps_its_structure(words: tuple[str, str]) -> None:
    title, sentence = words
    package = docx.Document()
    package.core_properties.author = "Анна Ли; Boris Ivanov"
    package.core_properties.title = ""
    package.core_properties.modified = datetime(2024, 5, 6)
    package.add_heading(title, level=1)
    paragraph = package.add_paragraph()
    paragraph.add_run(title).bold = True
    paragraph.add_run(sentence.removeprefix(title) + " ")
    paragraph._p.append(
        parse_xml(f'<m:oMath xmlns:m="{MATH}"><m:r><m:t>a=b+c</m:t></m:r></m:oMath>')
    )
    package.add_paragraph("раз", style="List Bullet")
    table = package.add_table(rows=1, cols=2)
    table.cell(0, 0).text, table.cell(0, 1).text = "Titans", "170 млн"
    package.add_heading("Литература", level=2)
    package.add_paragraph("Katharopoulos A. Transformers are RNNs. 2020.")
    document = read_document("a.docx", _saved(package))
    assert _blocks(document) == [
        ("heading", title),
        ("paragraph", f"{sentence} $a=b+c$"),
        ("item", "раз"),
        ("table", "Titans | 170 млн"),
        ("references", "Литература"),
        ("references", "Katharopoulos A. Transformers are RNNs. 2020."),
    ]
    assert {("bold", title, ""), ("math", "$a=b+c$", "")} <= _marks(document)
    assert (document.title, document.authors) == (title, ("Анна Ли", "Boris Ivanov"))
    assert document.dated == date(2024, 5, 6)


def test_words_that_a_tracked_change_deleted_are_gone_and_inserted_ones_stay() -> None:
    package = docx.Document()
    paragraph = package.add_paragraph("Память ")
    name = paragraph._p.nsmap["w"]
    for tag, text, word in (("ins", "t", "новая"), ("del", "delText", "старая")):
        run = f"<w:r><w:{text}>{word}</w:{text}></w:r>"
        paragraph._p.append(parse_xml(f'<w:{tag} xmlns:w="{name}" w:id="1">{run}</w:{tag}>'))
    assert read_document("a.docx", _saved(package)).text == "Память новая"


@BOTH
def test_each_slide_is_a_page_with_its_notes(words: tuple[str, str]) -> None:
    package = pptx.Presentation()
    for number in (1, 2):
        slide = package.slides.add_slide(package.slide_layouts[1])
        slide.shapes.title.text = f"{words[0]} {number}"
        slide.placeholders[1].text_frame.text = words[1]
    slide.notes_slide.notes_text_frame.text = "Сказать про память."
    table = slide.shapes.add_table(1, 2, 0, 9_000_000, 99, 99).table
    table.cell(0, 0).text, table.cell(0, 1).text = "a", "б"
    document = read_document("a.pptx", _saved(package))
    assert _blocks(document) == [
        ("heading", f"{words[0]} 1"),
        ("paragraph", words[1]),
        ("heading", f"{words[0]} 2"),
        ("paragraph", words[1]),
        ("table", "a | б"),
        ("paragraph", "Сказать про память."),
    ]
    assert document.text[document.pages[1] :].startswith(f"{words[0]} 2")


def test_a_spreadsheet_gives_a_heading_a_sheet_and_a_row_a_row() -> None:
    book = openpyxl.Workbook()
    book.active.title = "Модели"
    book.active.append(["модель", "params", None])
    book.active.append(["Titans", 170.0, date(2025, 1, 2)])
    book.create_sheet("Empty")
    assert _blocks(read_document("a.xlsx", _saved(book))) == [
        ("heading", "Модели"),
        ("table", "модель | params"),
        ("table", "Titans | 170 | 2025-01-02"),
    ]


def _book(pages: dict[str, str], extra: dict[str, str] | None = None) -> bytes:
    items = "".join(f'<item id="{name}" href="{name}.xhtml"/>' for name in pages)
    spine = "".join(f'<itemref idref="{name}"/>' for name in pages)
    package = (
        '<package xmlns="http://www.idpf.org/2007/opf" '
        'xmlns:dc="http://purl.org/dc/elements/1.1/"><metadata><dc:title>Книга о памяти</dc:title>'
        "<dc:creator>Анна Ли</dc:creator><dc:date>2023-04-05</dc:date></metadata>"
        f"<manifest>{items}</manifest><spine>{spine}</spine></package>"
    )
    container = (
        '<container xmlns="urn:oasis:names:tc:opendocument:xmlns:container"><rootfiles>'
        '<rootfile full-path="OEBPS/a.opf"/></rootfiles></container>'
    )
    parts = {"META-INF/container.xml": container, "OEBPS/a.opf": package, **(extra or {})}
    for name, body in pages.items():
        parts[f"OEBPS/{name}.xhtml"] = (
            f'<html xmlns="http://www.w3.org/1999/xhtml"><head><title>x</title></head>'
            f"<body>{body}</body></html>"
        )
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in parts.items():
            archive.writestr(name, text)
    return file.getvalue()


def test_a_book_is_read_in_the_order_of_its_spine() -> None:
    pages = {
        "z": f"<h1>{EN[0]}</h1><p>{EN[1]} It keeps a state of fixed size for each head.</p>",
        "a": f"<h1>{RU[0]}</h1><p>{RU[1]} Оно хранит состояние одного размера.</p>",
        "empty": "<img src='x.png'/>",
    }
    document = read_document("a.epub", _book(pages))
    assert (document.title, document.authors, document.year) == (
        "Книга о памяти", ("Анна Ли",), 2023,
    )  # fmt: skip
    assert 0 <= document.text.index(EN[1]) < document.text.index(RU[1])
    assert document.notes == ("chapter empty.xhtml: no text, pictures alone",)


def test_a_locked_book_says_so() -> None:
    lock = (
        '<encryption xmlns="urn:oasis:names:tc:opendocument:xmlns:container" '
        'xmlns:e="http://www.w3.org/2001/04/xmlenc#"><e:EncryptedData><e:EncryptionMethod '
        'Algorithm="http://www.w3.org/2001/04/xmlenc#aes128-cbc"/></e:EncryptedData></encryption>'
    )
    with pytest.raises(InputError, match="encrypted"):
        read_document("a.epub", _book({"a": RU[1]}, {"META-INF/encryption.xml": lock}))


@BOTH
def test_a_notebook_keeps_notes_code_and_output_apart(words: tuple[str, str]) -> None:
    output = {"output_type": "stream", "name": "stdout", "text": ["loss 0.5\n", "готово\n"]}
    cells: list[dict[str, object]] = [
        {"cell_type": "markdown", "source": [f"# {words[0]}\n", "\n", f"**{words[0]}**: $a+b$"]},
        {"cell_type": "code", "source": "x = 1  # шаг\nprint(x)", "outputs": [output]},
        {"cell_type": "code", "source": "1/0",
         "outputs": [{"output_type": "error", "ename": "ZeroDivisionError", "evalue": "by zero"}]},
    ]  # fmt: skip
    book = {"cells": cells, "metadata": {"authors": [{"name": "Анна Ли"}]}, "nbformat": 4}
    document = read_document("a.ipynb", json.dumps(book, ensure_ascii=False).encode())
    assert _blocks(document) == [
        ("heading", words[0]),
        ("paragraph", f"{words[0]}: $a+b$"),
        ("code", "x = 1  # шаг\nprint(x)"),
        ("code", "loss 0.5\nготово"),
        ("code", "1/0"),
        ("code", "ZeroDivisionError: by zero"),
    ]
    assert {("bold", words[0], ""), ("math", "$a+b$", "")} <= _marks(document)
    assert (document.title, document.authors) == (words[0], ("Анна Ли",))


def test_a_long_output_is_cut_and_that_is_said() -> None:
    output = {"output_type": "execute_result", "data": {"text/plain": "7" * 9000}}
    book = {"cells": [{"cell_type": "code", "source": "x", "outputs": [output]}]}
    document = read_document("a.ipynb", json.dumps(book).encode())
    assert len(document.text) < 4100
    assert document.notes == ("an output of 9000 characters was cut to 4000",)


@pytest.mark.parametrize("encoding", ["utf-8", "cp1251"])
@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
def test_records_of_csv_are_read(encoding: str, delimiter: str) -> None:
    long = "Модуль памяти учится во время вывода и хранит то, что удивило модель. " * 3
    rows = [
        ["название", "год", "аннотация"],
        ["Титаны", "2025", f'"{long}"'],
        ["Мирас", "2024", ""],
    ]
    text = "\r\n".join(delimiter.join(row) for row in rows)
    assert _blocks(read_document("a.csv", text.encode(encoding))) == [
        ("heading", "Титаны"),
        ("table", "год: 2025"),
        ("paragraph", long.strip()),
        ("heading", "Мирас"),
        ("table", "год: 2024"),
    ]


def test_a_csv_record_with_too_many_values_loses_none() -> None:
    document = read_document("a.csv", b"name,year\nTitans,2025,more\n")
    assert "column 3: more" in document.text
    assert document.notes == ("record 2: 3 values under 2 names",)


def test_records_of_json_lines_are_read_and_a_bad_line_is_named() -> None:
    lines = [
        json.dumps({"title": "Titans", "year": 2025, "tags": ["memory", "память"], "x": None}),
        "{broken",
        json.dumps({"name": "Мирас", "meta": {"a": [1]}}, ensure_ascii=False),
    ]
    document = read_document("a.jsonl", "\n".join(lines).encode())
    assert _blocks(document) == [
        ("heading", "Titans"),
        ("table", "year: 2025; tags: memory, память"),
        ("heading", "Мирас"),
        ("table", 'meta: {"a": [1]}'),
    ]
    assert document.notes == ("line 2: no JSON, left out",)


RST = """
{0}
{1}

:Author: Анна Ли
:Date: 2024-05-06

**{0}**: formula :math:`a+b`, code ``x = 1`` and `a link <https://a.example>`_.

.. note:: Важная мысль.

.. sphinx-thing:: arg
   :option: 1

   Kept content of :ref:`a place <label>`.

Part
----

- раз
- два

.. code-block:: python

   y = 2

.. math:: c = d

===== =====
a     б
===== =====

.. comment that nobody sees
"""


@BOTH
def test_restructured_text_is_read(words: tuple[str, str]) -> None:
    document = read_document("a.rst", RST.format(words[0], "=" * len(words[0])).encode())
    assert _blocks(document) == [
        ("heading", words[0]),
        ("paragraph", f"{words[0]}: formula $a+b$, code x = 1 and a link."),
        ("paragraph", "Важная мысль."),
        ("paragraph", "Kept content of a place."),
        ("heading", "Part"),
        ("item", "раз"),
        ("item", "два"),
        ("code", "y = 2"),
        ("math", "$$c = d$$"),
        ("table", "a | б"),
    ]
    assert {
        ("bold", words[0], ""), ("math", "$a+b$", ""), ("code", "x = 1", ""),
        ("link", "a link", "https://a.example"),
    } <= _marks(document)  # fmt: skip
    assert (document.authors, document.dated) == (("Анна Ли",), date(2024, 5, 6))


def test_restructured_text_opens_no_other_file() -> None:
    source = (
        b"Title\n=====\n\nText of it.\n\n.. include:: /etc/passwd\n\n.. raw:: html\n\n   <b>x</b>\n"
    )
    assert "root:" not in read_document("a.rst", source).text


LATEX = r"""\documentclass{{article}}
\usepackage{{amsmath}}
\title{{{0}}}
\author{{Анна Ли \and Boris Ivanov}}
\date{{2024-05-06}}
\begin{{document}}
\maketitle
\begin{{abstract}}
{1} % a comment
\end{{abstract}}
\section{{Part one}}\label{{sec:one}}
A \textbf{{bold}} word, $a+b$ and more~\cite{{key}}. See Fig.~\ref{{f}}.

Second "--- paragraph.
\begin{{equation}}
x = \frac{{1}}{{2}}
\end{{equation}}
\begin{{itemize}}
\item раз
\item два
\end{{itemize}}
\begin{{table}}\caption{{Размеры}}
\begin{{tabular}}{{ll}}
\hline
Titans & 170 \\
\end{{tabular}}
\end{{table}}
\begin{{verbatim}}
y = 2
\end{{verbatim}}
\begin{{thebibliography}}{{9}}
\bibitem{{key}} Vaswani A. Attention. 2017.
\end{{thebibliography}}
\end{{document}}
"""


@BOTH
def test_latex_is_read(words: tuple[str, str]) -> None:
    document = read_document("a.tex", LATEX.format(*words).encode())
    blocks = _blocks(document)
    assert blocks[:4] == [
        ("heading", "Abstract"),
        ("paragraph", words[1]),
        ("heading", "Part one"),
        ("paragraph", "A bold word, $a+b$ and more. See Fig.."),
    ]
    assert blocks[5:] == [
        ("math", r"$$x = \frac{1}{2}$$"),
        ("item", "раз"),
        ("item", "два"),
        ("paragraph", "Размеры"),
        ("table", "Titans | 170"),
        ("code", "y = 2"),
        ("references", "References"),
        ("references", "Vaswani A. Attention. 2017."),
    ]
    assert blocks[4][1].endswith("paragraph.")
    assert {("bold", "bold", ""), ("math", "$a+b$", "")} <= _marks(document)
    assert document.title == words[0]
    assert document.authors == ("Анна Ли", "Boris Ivanov")
    assert document.dated == date(2024, 5, 6)


BIB = r"""@article{a, title={{\"U}ber Titans}, author={Ли, Анна and Boris Ivanov}, year=2025,
  abstract={A memory is learnt at test time.}}
@book{b, title={Линейное внимание}, date={2020-05}, publisher={Наука}}
@broken{
"""


def test_entries_of_a_bibliography_are_references_and_metadata(capfd: Any) -> None:
    document = read_document("a.bib", BIB.encode())
    assert _blocks(document) == [
        ("references", "Анна Ли, Boris Ivanov. Über Titans. 2025"),
        ("paragraph", "A memory is learnt at test time."),
        ("references", "Линейное внимание. Наука. 2020"),
    ]
    assert [(r.key, r.authors, r.year) for r in document.references] == [
        ("über titans", ("Анна Ли", "Boris Ivanov"), 2025),
        ("линейное внимание", (), 2020),
    ]
    assert document.notes == ("line 4: the entry could not be parsed; it was left out",)
    assert capfd.readouterr() == ("", "")


def _bomb(name: str) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(name, b"\0" * 20_000_000)
    return file.getvalue()


@pytest.mark.parametrize("name", ["a.docx", "a.pptx", "a.xlsx", "a.epub"])
@pytest.mark.parametrize(
    ("make", "why"),
    [
        pytest.param(lambda: b"hello", "broken", id="something else"),
        pytest.param(lambda: _bomb("word/document.xml"), "unpacks", id="a zip bomb"),
        pytest.param(lambda: b"\xd0\xcf\x11\xe0" + b"x" * 99, "encrypted", id="a locked file"),
    ],
)
def test_a_packed_file_that_cannot_be_read_says_why(
    name: str, make: Callable[[], bytes], why: str
) -> None:
    with pytest.raises(InputError, match=why) as caught:
        read_document(name, make())
    assert caught.value.hint


@pytest.mark.parametrize(
    "raw", [b"{", b"[]", b'{"cells": [{}]}', b'{"cells": 7}'], ids=["cut", "a list", "no kind", "7"]
)
def test_a_broken_notebook_is_refused(raw: bytes) -> None:
    with pytest.raises(InputError, match="notebook"):
        read_document("a.ipynb", raw)
