"""Files that are odd but whole: nothing in them is lost, and what is left out is said."""

import io
import json
import zipfile
from typing import Any

import docx
import openpyxl
import pptx
import pytest
from docx.oxml import parse_xml
from pptx.chart.data import CategoryChartData
from pptx.enum.chart import XL_CHART_TYPE

from kbwiki.errors import InputError
from kbwiki.records import Document
from kbwiki.text import readers
from kbwiki.text.readers import read_document

W = 'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"'
MC = 'xmlns:mc="http://schemas.openxmlformats.org/markup-compatibility/2006"'
WORDS = pytest.mark.parametrize(
    "words", ["Memory forgets what it has not used.", "Память забывает то, чем не пользовалась."]
)


def _saved(package: Any) -> bytes:
    file = io.BytesIO()
    package.save(file)
    return file.getvalue()


def _blocks(document: Document) -> list[tuple[str, str]]:
    return [(b.kind, document.text[b.start : b.end]) for b in document.blocks]


def _box(words: str) -> Any:
    inner = f"<w:txbxContent><w:p><w:r><w:t>{words}</w:t></w:r></w:p></w:txbxContent>"
    return parse_xml(
        f"<w:r {W} {MC}><mc:AlternateContent><mc:Choice Requires='wps'>{inner}</mc:Choice>"
        f"<mc:Fallback>{inner}</mc:Fallback></mc:AlternateContent></w:r>"
    )


@WORDS
def test_words_in_boxes_controls_and_inner_tables_of_a_word_file_are_read(words: str) -> None:
    package = docx.Document()
    package.add_paragraph("First.")._p.append(_box(f"Box: {words}"))
    table = package.add_table(2, 2)
    table.cell(0, 1).add_table(1, 1).cell(0, 0).text = f"Inner: {words}"
    table.cell(1, 0).merge(table.cell(1, 1)).text = "Both"
    control = f"<w:p><w:r><w:t>Control: {words}</w:t></w:r></w:p>"
    package.element.body.insert(
        1, parse_xml(f"<w:sdt {W}><w:sdtContent>{control}</w:sdtContent></w:sdt>")
    )
    package.add_comment(package.paragraphs[0].runs, text="Is it so?", author="Anna")
    document = read_document("a.docx", _saved(package))
    assert _blocks(document) == [
        ("paragraph", "First."),
        ("paragraph", f"Box: {words}"),
        ("paragraph", f"Control: {words}"),
        ("table", f" | Inner: {words}"),
        ("table", "Both"),
    ]
    assert document.notes == ("comments left out: 1",)
    assert document.characters[0] == document.characters[1] > 3 * len("Memoryforgets")


def test_a_word_file_that_declares_entities_is_refused_not_read_without_them() -> None:
    package = docx.Document()
    package.add_paragraph("Words of it.")
    with zipfile.ZipFile(io.BytesIO(_saved(package))) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    document_type = b'<!DOCTYPE x [<!ENTITY a SYSTEM "file:///etc/passwd">]>'
    head, body = parts["word/document.xml"].split(b"?>", 1)
    parts["word/document.xml"] = head + b"?>" + document_type + body.replace(b"Words", b"&a;")
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name, raw in parts.items():
            archive.writestr(name, raw)
    with pytest.raises(InputError, match="entities"):
        read_document("a.docx", file.getvalue())


def test_the_words_of_a_chart_are_read() -> None:
    package = pptx.Presentation()
    slide = package.slides.add_slide(package.slide_layouts[6])
    data = CategoryChartData()
    data.categories = ["Альфа", "Beta"]
    data.add_series("Ряд", (1, 2))
    slide.shapes.add_chart(XL_CHART_TYPE.COLUMN_CLUSTERED, 0, 0, 999_999, 999_999, data)
    assert read_document("a.pptx", _saved(package)).text == "Ряд; Альфа; Beta"


def test_a_formula_without_a_stored_value_is_shown_as_it_is_written() -> None:
    book = openpyxl.Workbook()
    book.active.append(["Сумма", "=1+2", None, 4])
    document = read_document("a.xlsx", _saved(book))
    assert _blocks(document) == [("table", "Сумма | =1+2 |  | 4")]
    assert document.notes == ("formulas without a stored value, shown as they are written: 1",)


def test_a_cell_in_the_last_corner_of_the_grid_costs_no_grid() -> None:
    book = openpyxl.Workbook()
    book.active["A1"], book.active["XFD1048576"] = "near", "далеко"
    document = read_document("a.xlsx", _saved(book))
    assert _blocks(document) == [("table", "near"), ("table", "далеко")]


def test_a_broken_sheet_costs_no_other() -> None:
    book = openpyxl.Workbook()
    book.active.append(["Память"])
    book.create_sheet("Вторая").append(["lost"])
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(_saved(book))) as old, zipfile.ZipFile(out, "w") as new:
        for name in old.namelist():
            cut = -40 if name.endswith("sheet2.xml") else None
            new.writestr(name, old.read(name)[:cut])
    document = read_document("a.xlsx", out.getvalue())
    assert (document.text, document.coverage) == ("Память", (1, 2))
    assert document.notes == ("sheet Вторая: it is broken; it was left out",)


def test_a_spreadsheet_without_a_value_holds_no_text() -> None:
    with pytest.raises(InputError, match="no text"):
        read_document("a.xlsx", _saved(openpyxl.Workbook()))


@pytest.mark.parametrize(
    ("source", "text"),
    [
        (r"\href{http://a.example}{слова ссылки} end", "слова ссылки end"),
        (r"a \texttt{код} and \mbox{box} and \verb|raw|", "a код and box and raw"),
        (r"\section{On \href{u}{память}} x", "On память\n\nx"),
        (r"a\begin{comment}no\end{comment} b", "a\n\nb"),
        (r"\begin{tabular}{ll}a & b \\ \multicolumn{2}{c}{оба}\end{tabular}", "a | b\n\nоба"),
        (r"words \sqrt[ и слова", r"words \sqrt[ и слова"),
        (r"\iffalse never \fi слова", "слова"),
        (r"\begin{tikzpicture}\draw (0,0);\end{tikzpicture} words", "words"),
    ],
)
def test_commands_of_latex_lose_no_words_and_stop_nothing(source: str, text: str) -> None:
    assert read_document("a.tex", source.encode()).text == text


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("%\\iffalse\nСлова.\n%\\fi\nend", "Слова. end"),
        ("% \\iffalse\nWords. \\ifpdf y\\fi слова", "Words. y слова"),
        (r"50\% \iffalse нет \% % \fi" "\nno \\fi слова", "50% слова"),
        (r"a \iffalse нет \else да \iffalse no \fi\fi end", "a да end"),
        (r"a \iffalse x \ifpdf y \else z \fi hidden \else да \ifpdf y \fi\fi b", "a да y b"),
        (r"\iffalse x \ifthenelse{a}{b}{c} \ifdef\x{}{} $a \iff b$ \newif\ifz \fi слова", "слова"),
        (r"\newif\ifa \iffalse \ifa{x}\else y\fi hidden\fi слова", "слова"),
        (r"\let\ifnew\iffalse words \ifnew \fi слова", "words слова"),
        (r"\def\hide{\iffalse} слова \def\seek{\fi} end", "слова end"),
        (r"see \verb|\iffalse| and \verb|\fi| слова", r"see \iffalse and \fi слова"),
        ("\\begin{verbatim}\n\\iffalse\n\\end{verbatim}да\\fi", "\\iffalse да"),
        (r"\\iffalse слова \fi end", "iffalse слова end"),
        (r"words \iffalse слова", "words слова"),
        (r"\iffalse " * 11_000 + "слова", "слова"),
    ],
)
def test_what_iffalse_hides_and_nothing_else_is_left_out(source: str, text: str) -> None:
    assert " ".join(read_document("a.tex", source.encode()).text.split()) == text


def test_marks_of_thanks_and_institutes_are_no_part_of_names() -> None:
    source = r"\title{Память\thanks{грант}}\author{Анна Ли\inst{1} \and B. Go\thanks{x}} words"
    document = read_document("a.tex", source.encode())
    assert (document.title, document.authors) == ("Память", ("Анна Ли", "B. Go"))


@pytest.mark.parametrize(
    ("name", "source", "named"),
    [
        (
            "a.tex",
            r"\input{../other} \include{missing} \subfile{part} \input bare words",
            "../other, missing, part, bare",
        ),
        ("a.rst", "Слова.\n\n.. include:: ../other\n", "../other"),
        ("a.rst", "Words.\n\n.. csv-table:: T\n   :file: /etc/passwd\n", "/etc/passwd"),
    ],
)
def test_files_that_a_text_wants_in_it_are_named(name: str, source: str, named: str) -> None:
    [note] = read_document(name, source.encode()).notes
    assert named in note
    assert "not opened" in note


def test_whatever_a_parser_stumbles_over_is_that_file_s_fault(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def stumble(raw: bytes) -> Document:
        return [][len(raw)]

    monkeypatch.setitem(readers.READERS, ".odd", stumble)
    with pytest.raises(InputError, match=r"a\.odd: its reader failed: IndexError"):
        read_document("a.odd", b"words")
    deep = "".join("  " * n + "* a\n\n" for n in range(400))
    with pytest.raises(InputError, match="nested too deep"):
        read_document("a.rst", deep.encode())


@pytest.mark.parametrize("name", ["a.txt", "a.md", "a.docx", "a.html"])
def test_a_wrong_name_is_said(name: str) -> None:
    book = openpyxl.Workbook()
    with pytest.raises(InputError, match=r"it is \.xlsx inside"):
        read_document(name, _saved(book))
    with pytest.raises(InputError, match=r"it is \.pdf inside"):
        read_document(name, b"%PDF-1.7\n")


@pytest.mark.parametrize("name", ["статья.pdf", "a.docx", "a.txt", "a.csv"])
def test_a_web_page_under_another_name_is_no_text(name: str) -> None:
    page = "<!DOCTYPE html><html><body><p>Войдите, чтобы читать дальше.</p></body></html>"
    with pytest.raises(InputError, match=r"it is \.html inside"):
        read_document(name, page.encode())
    with pytest.raises(InputError, match=r"it is \.rtf inside"):
        read_document(name, b"{\\rtf1 words}")
    assert read_document("a.md", page.encode()).text == "Войдите, чтобы читать дальше."


def test_greek_letters_of_the_font_symbol_are_read() -> None:
    package = docx.Document()
    run = package.add_paragraph("Угол ").add_run()
    run._r.append(parse_xml(f"<w:sym {W} w:font='Symbol' w:char='F061'/>"))
    assert read_document("a.docx", _saved(package)).text == "Угол α"


@pytest.mark.parametrize(
    ("source", "text", "note"),
    [
        ("a,a\n1,2\n", "a: 1; a (2): 2", ""),
        ("sep=;\nимя;b\n1;2\n", "1\n\nb: 2", ""),
        ("# выгрузка\nимя,b\n1,2\n", "# выгрузка\n\n1\n\nb: 2", ""),
        ('имя,b\nx,"a \\"c\\", d"\n', 'x\n\nb: a "c", d', ""),
        ('имя,b\nG\\"odel,$\\alpha$ слова\n', 'G\\"odel\n\nb: $\\alpha$ слова', ""),
        ('b,c\n"C:\\dir\\","слова, b"\n', "b: C:\\dir\\; c: слова, b", ""),
        ('b,c\n"a \\"и\\", d",$\\alpha$\n', 'b: a "и", d; c: $\\alpha$', ""),
        ('b,c\n"a \\"и\\", d",C:\\\\dir\n', 'b: a "и", d; c: C:\\dir', ""),
        (",value\nальфа,1\nbeta,2\n", "column 1: альфа; value: 1\n\ncolumn 1: beta; value: 2", ""),
        ("выгрузка, \nимя,b\n1,2\n", "выгрузка\n\n1\n\nb: 2", ""),
        ('b,c\n"open,x\n1,2\n', 'b: "open; c: x\n\nb: 1; c: 2', "quotation marks"),
    ],
)
def test_odd_records_of_csv_lose_nothing(source: str, text: str, note: str) -> None:
    document = read_document("a.csv", source.encode())
    assert document.text == text
    assert note in "".join(document.notes)


@WORDS
def test_a_mark_first_doubled_far_down_is_one(words: str) -> None:
    source = "a,b\n" + 'x,"a, b"\n' * 2_500 + f'y,"a ""{words}"", d"\n'
    assert read_document("a.csv", source.encode()).text.endswith(f'b: a "{words}", d')


@pytest.mark.parametrize(
    ("name", "source", "text"),
    [
        ("a.jsonl", '[\n {"a": "Память"},\n {"a": "b"}\n]', "a: Память\n\na: b"),
        ("a.jsonl", '{"a": "Память"}{"a": "b"}\n', "a: Память\n\na: b"),
        ("a.bib", '@misc{a, title="Память " # "модели"}', "Память модели"),
        ("a.rst", "Слова.\n\n.. toctree::\n   :maxdepth: 2\n\n   intro\n   api\n", "Слова."),
        ("a.md", "Слова.\n\n[^1]: Сноска без знака.\n", "Слова.\n\nСноска без знака."),
        ("a.md", "```\n[^1]: code\n```\n", "[^1]: code"),
        ("a.txt", "\x1b[31mCлова\x1b[0m here.", "Cлова here."),
    ],
)
def test_odd_texts_lose_nothing_and_bring_no_junk(name: str, source: str, text: str) -> None:
    document = read_document(name, source.encode())
    assert (document.text, document.notes) == (text, ())


def test_front_matter_in_toml_is_metadata() -> None:
    source = '+++\ntitle = "Память"\nauthors = ["А. Ли"]\ndate = 2024-05-06\n+++\nСлова.\n'
    document = read_document("a.md", source.encode())
    assert (document.text, document.title, document.authors) == ("Слова.", "Память", ("А. Ли",))
    assert document.year == 2024
    for title in ("Память", "Memory"):
        source = f'+++\nat = 10:30:00\ntitle = "{title}"\nx = """a\n---\nb"""\n+++\nСлова.\n'
        document = read_document("a.md", source.encode())
        assert (document.text, document.title, document.notes) == ("Слова.", title, ())
    deep = f"+++\na = {'[' * 3_000}{']' * 3_000}\n+++\nСлова.\n"
    assert read_document("a.md", deep.encode()).text.endswith("Слова.")
    assert read_document("a.md", b"+++\nno toml\n+++\n").text == "+++ no toml +++"


def test_a_brace_that_is_never_closed_makes_no_endless_heading() -> None:
    source = (
        r"\documentclass{article}\begin{document}\section{Память {" + "слова и ещё слова. " * 30
    )
    document = read_document("a.tex", source.encode())
    assert document.title == ""
    assert "braces do not match" in document.notes[0]


def test_outputs_of_a_notebook_that_are_formulas_are_read_and_others_named() -> None:
    outputs = [
        {"output_type": "execute_result", "data": {"text/latex": ["$x^2$"]}},
        {"output_type": "display_data", "data": {"application/json": {"a": 1}}},
    ]
    cell = {"cell_type": "code", "source": "f()", "outputs": outputs}
    document = read_document("a.ipynb", json.dumps({"nbformat": 4, "cells": [cell]}).encode())
    assert document.text == "f()\n\n$x^2$"
    assert document.notes == ("an output that is JSON alone was left out",)


def test_many_bad_lines_are_one_note() -> None:
    lines = ['{"title": "Память"}', *["нет"] * 3, '{"title": "b"}', "no"]
    document = read_document("a.jsonl", "\n".join(lines).encode())
    assert document.notes == ("lines 2-4, 6: no JSON, left out",)
    assert document.coverage == (2, 6)


@WORDS
def test_a_day_is_no_row_of_numbers(words: str) -> None:
    document = read_document("a.jsonl", f'2024-01-01\n{{"a": "{words}"}} ["b"]\n'.encode())
    assert document.text == f"a: {words}\n\nb"
    assert document.notes == ("line 1: no JSON, left out",)


def test_a_notebook_s_bad_cell_and_second_sheet() -> None:
    def sheet(words: str) -> dict[str, Any]:
        return {"cells": [{"cell_type": "markdown", "source": words}]}

    old = {"nbformat": 3, "worksheets": [sheet("Первый"), sheet("Second")]}
    assert read_document("a.ipynb", json.dumps(old).encode()).text == "Первый\n\nSecond"
    cells = [5, *sheet("Память")["cells"]]
    document = read_document("a.ipynb", json.dumps({"cells": cells}).encode())
    assert (document.text, document.coverage) == ("Память", (1, 2))
    assert document.notes == ("cell 1: it is broken; it was left out",)


def test_a_second_entry_of_one_key_and_a_person_s_note_are_kept() -> None:
    source = (
        "@book{a, title={Память}, author={Ли, Анна}, note={Прочесть.}}\n"
        "@book{a, title={Memory}, author={Go, B. and Li, C.}}\n"
    )
    document = read_document("a.bib", source.encode())
    assert document.text == "Анна Ли. Память\n\nПрочесть.\n\nB. Go, C. Li. Memory"
    assert (document.notes, document.coverage) == ((), (2, 2))


def _page(body: str) -> bytes:
    return f"<html><head><title>T</title></head><body>{body}</body></html>".encode()


@WORDS
def test_an_article_s_formulas_and_asides_are_read(words: str) -> None:
    parts = [f"<p>{n}. {words}</p>" for n in range(4)]
    formula = "<math alttext='x^2'><mi>x</mi></math>"
    extra = f"<details><summary>More</summary>{words * 3}</details><aside>{words * 2}</aside>"
    page = f"<nav>Menu</nav><article>{''.join(parts)}<p>So {formula} is.</p>{extra}</article>"
    document = read_document("a.html", _page(page))
    assert "So $x^2$ is." in document.text
    assert document.text.count(words) == 9
    assert "Menu" not in document.text
    assert document.characters[0] == document.characters[1] > 1


@WORDS
def test_a_chapter_keeps_its_heading_and_tables(words: str) -> None:
    body = f"<h1>Глава</h1><p>{words}</p><table><tr><td>a</td><td>б</td></tr></table>"
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr(
            "META-INF/container.xml", '<container><rootfile full-path="p.opf"/></container>'
        )
        archive.writestr(
            "p.opf",
            '<package><manifest><item id="c" href="cover.html"/><item id="a" href="a.html"/>'
            '</manifest><spine><itemref idref="c"/><itemref idref="a"/></spine></package>',
        )
        archive.writestr("cover.html", "<html><body><img src='a.png'/></body></html>")
        archive.writestr("a.html", f"<html><body>{body}</body></html>")
    document = read_document("a.epub", file.getvalue())
    assert _blocks(document) == [
        ("heading", "Глава"), ("paragraph", words), ("table", "a | б"),
    ]  # fmt: skip
    assert (document.notes, document.coverage) == ((), (1, 1))


@pytest.mark.parametrize("name", ["a.docx", "a.pptx"])
def test_a_package_with_bytes_cut_out_is_broken(name: str) -> None:
    raw = _saved(docx.Document() if name == "a.docx" else pptx.Presentation())
    with pytest.raises(InputError, match=r"it is broken or no \."):
        read_document(name, raw[:100] + raw[130:])
