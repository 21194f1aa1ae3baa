"""PDF files: paragraphs, headings, pages, and files that are not whole."""

import re
from collections.abc import Callable
from dataclasses import replace
from datetime import date
from io import BytesIO
from pathlib import Path

import pypdfium2
import pytest
from pypdf import PdfWriter, Transformation
from pypdf.annotations import Link, Text
from pypdf.generic import (
    ArrayObject,
    ByteStringObject,
    DecodedStreamObject,
    DictionaryObject,
    FloatObject,
    NameObject,
    NullObject,
    PdfObject,
    TextStringObject,
)

from kbwiki.errors import InputError
from kbwiki.records import Document
from kbwiki.text.gate import ranges, refusal
from kbwiki.text.pdf import _bodies
from kbwiki.text.pdf_page import Cell, Line
from kbwiki.text.pdf_tables import table_at
from kbwiki.text.readers import read_document

DATA = Path(__file__).parents[1] / "data" / "pdf"
CORPUS = Path(__file__).parents[2] / "corpus"


def test_lines_become_headings_and_paragraphs() -> None:
    document = read_document("a.pdf", (DATA / "three_pages.pdf").read_bytes())
    assert [(b.kind, document.text[b.start : b.end]) for b in document.blocks] == [
        ("heading", "Seismic waves"),
        (
            "paragraph",
            "A seismic wave is a mechanical wave that travels through the Earth after an "
            "earthquake. "
            "The first arrivals are body waves, and the surface waves follow.",
        ),
        ("heading", "Body waves"),
        ("paragraph", "Body waves pass through the interior of the planet."),
        ("heading", "Волны"),
        (
            "paragraph",
            "Сейсмическая волна — это упругое колебание, которое распространяется в толще Земли. "
            "Продольные волны приходят первыми.",
        ),
        ("references", "References"),
        ("references", "Richter C. Elementary Seismology. 1958."),
    ]


def test_metadata_and_pages_are_kept() -> None:
    document = read_document("a.pdf", (DATA / "three_pages.pdf").read_bytes())
    assert (document.title, document.authors) == ("Seismic waves", ("Anna Lee", "Boris Ivanov"))
    assert document.dated == date(2024, 5, 6)
    assert [document.text[start:].split("\n")[0] for start in document.pages] == [
        "Seismic waves",
        "Волны",
        "References",
    ]


def test_a_page_without_text_is_named_and_the_rest_is_read() -> None:
    document = read_document("a.pdf", (DATA / "page_without_text.pdf").read_bytes())
    assert document.text == "The first page holds words."
    assert document.notes == ("page 2: no text layer, 1 of 2; run with --ocr",)


@pytest.mark.parametrize(
    ("name", "why"),
    [
        pytest.param("encrypted.pdf", "encrypted", id="a locked file"),
        pytest.param("no_text.pdf", "no text", id="a scan"),
    ],
)
def test_an_unreadable_file_says_why(name: str, why: str) -> None:
    with pytest.raises(InputError, match=why):
        read_document(name, (DATA / name).read_bytes())


def test_a_cut_file_is_refused() -> None:
    with pytest.raises(InputError, match="broken"):
        read_document("a.pdf", (DATA / "three_pages.pdf").read_bytes()[:2000])


def test_the_demo_paper_is_clean() -> None:
    path = CORPUS / "en" / "chunkwise-parallel-training.pdf"
    document = read_document(path.name, path.read_bytes())
    headings = [document.text[b.start : b.end] for b in document.blocks if b.kind == "heading"]
    assert headings == [
        "Chunkwise parallel training",
        "The idea",
        "Chunks and scans",
        "Deep memories",
        "Evaluation",
    ]
    assert document.blocks[-1].kind == "references"


def test_the_demo_s_russian_paper_is_read_column_by_column_with_its_words_whole() -> None:
    path = CORPUS / "ru" / "дельта-правило.pdf"
    document = read_document(path.name, path.read_bytes())
    typeset = (DATA / "дельта-правило.txt").read_text("utf-8")
    prose = [part for part in typeset.split("\n\n") if part[0] not in "#=|^-"]
    read = " ".join(document.text.split())
    sentences = [sentence for part in prose for sentence in part.split(". ")]
    assert len(sentences) > 25
    assert [sentence for sentence in sentences if sentence not in read] == []
    assert (document.title, document.authors) == (
        "Дельта-правило",
        ("Ирина Ветрова", "Марк Соболев"),
    )
    assert (document.coverage, document.blocks[-1].kind) == ((1, 1), "references")


@pytest.mark.parametrize("order", ["", "_by_rows"])
@pytest.mark.parametrize(
    ("lang", "headings"),
    [
        ("en", ["Memory at test time", "1 Memory", "2 Forgetting"]),
        ("ru", ["Память во время вывода", "1 Память", "2 Забывание"]),
    ],
)
def test_two_columns_are_read_one_after_the_other(
    lang: str, headings: list[str], order: str
) -> None:
    """The file may draw one column and then the other, or line by line over both."""
    document = read_document("a.pdf", (DATA / f"columns_{lang}{order}.pdf").read_bytes())
    found = [document.text[b.start : b.end] for b in document.blocks if b.kind == "heading"]
    assert found == headings
    places = [document.text.index(f"({number})") for number in range(1, 7)]
    assert places == sorted(places)
    assert places[2] < document.text.index(headings[2]) < places[3]
    assert document.coverage == (1, 1)


def test_ligatures_are_folded_and_words_broken_at_a_line_s_end_are_whole() -> None:
    text = read_document("a.pdf", (DATA / "ligatures.pdf").read_bytes()).text
    assert text == (
        "The efficient filter of the office flows, and the first information is kept. "
        "Сохраняется информация о памяти в весах модели."
    )


def test_letters_of_a_line_are_in_no_line_beside_it() -> None:
    """Lines stand so close that letters with tails reach into the lines above and below."""
    text = read_document("a.pdf", (DATA / "close_lines.pdf").read_bytes()).text
    words = re.sub(r"\s+", " ", text)
    for sentence in (
        "Он хранит то, что его удивило, и отпускает то, что давно не понадобилось.",
        "It keeps what surprised it and lets go of what it has not needed for long.",
    ):
        assert words.count(sentence) == 6


@pytest.mark.parametrize("lang", ["en", "ru"])
@pytest.mark.parametrize("is_upright", [True, False], ids=["upright", "on its side"])
@pytest.mark.parametrize("turn", [90, 180, 270])
def test_a_turned_page_is_read_like_another(lang: str, is_upright: bool, turn: int) -> None:
    """A page may be turned as a whole, or its text too, so that it stands upright again."""

    def rotate(writer: PdfWriter) -> None:
        page = writer.pages[0]
        width, height = float(page.mediabox.width), float(page.mediabox.height)
        if is_upright:
            shift = {90: (height, 0.0), 180: (width, height), 270: (0.0, width)}[turn]
            page.add_transformation(Transformation().rotate(turn).translate(*shift))
            if turn != 180:
                page.mediabox.upper_right = page.cropbox.upper_right = (height, width)
        page.rotate(turn)

    document = read_document("a.pdf", _changed(f"columns_{lang}.pdf", rotate))
    assert document.text == read_document("a.pdf", (DATA / f"columns_{lang}.pdf").read_bytes()).text


@pytest.mark.parametrize(
    ("name", "notes", "there"),
    [
        ("scans_within", ["pages 3-4: no text layer, 2 of 5; run with --ocr"], [1, 2, 5]),
        (
            "broken_page",
            ["page 2: broken, 1 of 5", "pages 3-4: no text layer, 2 of 5; run with --ocr"],
            [1, 5],
        ),
    ],
)
def test_a_bad_page_drops_itself_alone(name: str, notes: list[str], there: list[int]) -> None:
    document = read_document("a.pdf", (DATA / f"{name}.pdf").read_bytes())
    assert list(document.notes) == notes
    assert document.coverage == (len(there), 5)
    assert len(document.pages) == 5
    assert [n for n in range(1, 6) if f"{n}. " in document.text] == there


def _changed(name: str, change: Callable[[PdfWriter], None]) -> bytes:
    """Return a file of the data folder with something changed in it."""
    writer, out = PdfWriter(clone_from=DATA / name), BytesIO()
    change(writer)
    writer.write(out)
    return out.getvalue()


def test_a_blank_page_is_no_loss() -> None:
    def insert(writer: PdfWriter) -> None:
        writer.insert_blank_page(index=1)

    document = read_document("a.pdf", _changed("columns_ru.pdf", insert))
    assert (document.notes, document.coverage) == ((), (2, 2))
    assert document.pages == (0, len(document.text))


def test_remarks_of_readers_are_counted_not_read() -> None:
    def remark(writer: PdfWriter) -> None:
        box = (50, 50, 90, 90)
        writer.add_annotation(0, Text(rect=box, text="Верно ли это?"))
        writer.add_annotation(0, Link(rect=box, url="https://a.example"))

    document = read_document("a.pdf", _changed("columns_ru.pdf", remark))
    assert document.notes == ("comments left out: 1",)
    assert "Верно" not in document.text


def test_a_page_that_says_how_to_draw_and_draws_nothing_is_blank() -> None:
    def insert(writer: PdfWriter) -> None:
        content = DecodedStreamObject()
        content.set_data(b"2 J 0.57 w BT /F1 9.00 Tf ET")
        writer.insert_blank_page(index=1)
        writer.pages[1][NameObject("/Contents")] = writer._add_object(content)

    assert read_document("a.pdf", _changed("columns_ru.pdf", insert)).notes == ()


def test_a_heading_of_a_later_page_is_no_title() -> None:
    def untitle(writer: PdfWriter) -> None:
        assert writer._info is not None
        del writer._info[NameObject("/Title")]

    def begin_blank(writer: PdfWriter) -> None:
        untitle(writer)
        writer.insert_blank_page(index=0)

    title = "Память во время вывода"
    assert read_document("a.pdf", _changed("columns_ru.pdf", untitle)).title == title
    assert read_document("a.pdf", _changed("columns_ru.pdf", begin_blank)).title == ""


def test_a_title_that_is_no_text_does_not_drop_the_paper() -> None:
    def spoil(writer: PdfWriter) -> None:
        info = writer._info
        assert info is not None
        info[NameObject("/Title")] = ByteStringObject(b"\xfe\xff\xd8\x00")

    document = read_document("a.pdf", _changed("columns_en.pdf", spoil))
    assert (document.title, document.coverage) == ("Memory at test time", (1, 1))


def _row(text: str, base: float) -> Line:
    return Line((Cell(text, 90, 90 + 5 * len(text)),), base, 10, False, pitch=12)


@pytest.mark.parametrize(
    ("heads", "are_heads"),
    [
        pytest.param(["Deep memory"] * 3, True, id="the same on three pages"),
        pytest.param(["Chapter 1 | 7", "Chapter 2 | 8", "End | 9"], True, id="with page numbers"),
        pytest.param(["7 Память", "8 Забывание", "9 Сканирование"], True, id="number first"),
        pytest.param(["Deep memory", "Deep memory", "Wide memory"], False, id="on two"),
        pytest.param(["Of 1960", "Of 1949", "Of 2024"], False, id="numbers of no pages"),
    ],
)
def test_a_running_head_is_told_by_its_repeats_or_by_the_number_of_its_page(
    heads: list[str], are_heads: bool
) -> None:
    body = [_row("Words of the page.", 700), _row("More of them.", 688), _row("The last.", 676)]
    pages = _bodies([[_row(head, 740), *body] for head in heads])
    assert [len(page) for page in pages] == [3 if are_heads else 4] * 3
    large = [[replace(_row(head, 740), size=14), *body] for head in heads]
    rest = [[_row("Other words here.", 700), *body[1:]]] * 4
    assert _bodies([*large, *rest])[:3] == large
    close = [[_row(head, 712), *body] for head in heads]
    assert _bodies(close) == close  # the first line of the text is no head


def test_signs_of_no_table_are_no_rows() -> None:
    def line(number: int, *words: tuple[str, float]) -> Line:
        return Line(
            tuple(Cell(text, at, at + 20) for text, at in words), 700 - 12 * number, 10, False
        )

    dots = [line(n, (".", 0), (",", 90), (".", 180)) for n in range(4)]
    assert table_at(dots, 0) is None
    items = [line(n, ("•", 0), ("a point of a list", 40)) for n in range(4)]
    assert table_at(items, 0) is None
    rows = [line(n, ("a", 0), (f"{n}", 180)) for n in range(4)]
    assert table_at(rows, 0) == (4, [f"a | {n}" for n in range(4)])
    assert table_at([rows[0], line(30, ("far", 0), ("below", 90))], 0) is None


def _each_font(writer: PdfWriter, key: str) -> None:
    for page in writer.pages:
        for font in page["/Resources"]["/Font"].values():
            font.get_object().pop(key, None)


@pytest.mark.parametrize("lang", ["en", "ru"])
@pytest.mark.parametrize(
    "key",
    [
        pytest.param("/DescendantFonts", id="the first extractor makes nothing of it"),
        pytest.param("/Subtype", id="the first extractor makes a third of it"),
    ],
)
def test_a_page_that_one_extractor_cannot_read_is_read_by_another(lang: str, key: str) -> None:
    whole = read_document("a.pdf", (DATA / f"columns_{lang}.pdf").read_bytes())
    raw = _changed(f"columns_{lang}.pdf", lambda writer: _each_font(writer, key))
    document = read_document("a.pdf", raw)
    assert (document.notes, document.coverage) == ((), (1, 1))
    assert "".join(document.text.split()).replace("-", "") == "".join(whole.text.split()).replace(
        "-", ""
    )


LAYOUT = {
    "en": [
        ("Memory that learns while it reads", 1),
        ("1 Introduction", 2),
        ("2 Method", 2),
        ("2.1 The update", 3),
        ("3 Results", 2),
    ],
    "ru": [
        ("Память, которая учится во время чтения", 1),
        ("1 Введение", 2),
        ("2 Метод", 2),
        ("2.1 Обновление", 3),
        ("3 Результаты", 2),
    ],
}


@pytest.fixture(params=["en", "ru"])
def layout(request: pytest.FixtureRequest) -> tuple[str, Document]:
    """A paper in one language with all that stands around the text of a real one."""
    raw = (DATA / f"layout_{request.param}.pdf").read_bytes()
    return request.param, read_document("a.pdf", raw)


def _of_kind(document: Document, kind: str) -> list[str]:
    return [document.text[b.start : b.end] for b in document.blocks if b.kind == kind]


def test_headings_are_told_by_size_or_by_number(layout: tuple[str, Document]) -> None:
    lang, document = layout
    found = [(document.text[b.start : b.end], b.level) for b in document.blocks if b.level]
    assert found == LAYOUT[lang]


def test_running_heads_and_page_numbers_are_left_out_and_repeated_text_is_not(
    layout: tuple[str, Document],
) -> None:
    _, document = layout
    again = {"en": "The same words open the text", "ru": "Одни и те же слова открывают текст"}
    assert document.text.count(again[layout[0]]) == 8
    assert not re.search(r"Lee et al|Ли и др|— \d —", document.text)
    assert not re.search(r"arXiv:", document.text)


def test_tables_keep_their_rows_and_columns(layout: tuple[str, Document]) -> None:
    lang, document = layout
    model, mamba, titans, long, point = {
        "en": ("Model", "Mamba", "Titans", "Titans with a long memory", "."),
        "ru": ("Модель", "Мамба", "Титаны", "Титаны с долгой памятью", ","),
    }[lang]
    assert [row.split(" | ") for row in _of_kind(document, "table")] == [
        [model, "MQAR", "BABILong", "LAMBADA"],
        [mamba, *(n.replace(".", point) for n in ("81.2", "40.1", "55.0"))],
        [titans, f"97{point}5", "", f"58{point}3"],
        [long, *(n.replace(".", point) for n in ("98.0", "72.4", "59.9"))],
    ]


def test_captions_and_footnotes_are_paragraphs_and_interrupt_none(
    layout: tuple[str, Document],
) -> None:
    lang, document = layout
    paragraphs = _of_kind(document, "paragraph")
    for words in {
        "en": [
            "Table 1. Accuracy of the models, in percent.",
            "Figure 2: The loss falls with the length of the text.",
            "A footnote says where the data are kept.",
            "A sentence that begins at the foot of one page and has not come to its end when the "
            "page is turned is one sentence still.",
        ],
        "ru": [
            "Таблица 1. Точность моделей в процентах.",
            "Рис. 2. Потери падают с длиной текста.",
            "В сноске сказано, где хранятся данные.",
            "Предложение, которое начинается внизу страницы и не успевает закончиться, пока её не "
            "перевернули, остаётся одним предложением.",
        ],
    }[lang]:
        assert words in paragraphs
    second = document.text[document.pages[1] :]
    assert second.startswith({"en": "page is turned", "ru": "перевернули"}[lang])


def test_a_formula_is_a_block_of_its_own_with_its_indices(layout: tuple[str, Document]) -> None:
    [formula] = _of_kind(layout[1], "math")
    assert "".join(formula.split()) == "S_t=α_tS_{t−1}+(v_t−S_{t−1}k_t)k_t^⊤(1)"


def test_formulas_within_a_sentence_are_no_broken_words(layout: tuple[str, Document]) -> None:
    lang, document = layout
    sentence = {
        "en": "The state M_t keeps what k_{t−1} has written, and α_t is its gate.",
        "ru": "Состояние M_t хранит то, что записал k_{t−1}, а α_t — это его вентиль.",
    }[lang]
    assert sentence in document.text


def test_a_paper_s_name_authors_year_and_ids_come_from_its_first_page(
    layout: tuple[str, Document],
) -> None:
    lang, document = layout
    assert document.title == LAYOUT[lang][0][0]
    assert (
        document.authors
        == {
            "en": ("Anna Lee", "Boris Ivanov", "Clara van Dyke"),
            "ru": ("Анна Ли", "Борис Иванов", "Клара Фёдорова"),
        }[lang]
    )
    assert document.year == 2024  # of arXiv's stamp; the file was made in 2025
    assert document.ids == ("doi:10.1234/mem.2024.17", "arxiv:2501.00663")


def test_cyrillic_whose_fonts_name_no_letters_is_refused() -> None:
    with pytest.raises(InputError, match="no text") as caught:
        read_document("a.pdf", (DATA / "no_unicode_ru.pdf").read_bytes())
    assert "its fonts do not say what letters they draw" in caught.value.hint


RUSSIAN = (
    "Модуль памяти учится, пока модель читает, и хранит то, что её удивило. Обновление весов "
    "занимает один шаг, поэтому длинный текст стоит не больше, чем короткий, за каждый токен."
)
GERMAN = (
    "Das Gedächtnis lernt während des Lesens und behält nur das, was überrascht. Die Gewichte "
    "werden in einem einzigen Schritt geändert, damit lange Texte nicht teurer sind als kurze."
)
TABLE = " ".join(f"{n}.{n} ± 0,{n}" for n in range(99))


@pytest.mark.parametrize(
    ("text", "is_junk"),
    [
        pytest.param(RUSSIAN, False, id="Russian"),
        pytest.param(GERMAN, False, id="another language"),
        pytest.param(TABLE, False, id="figures"),
        pytest.param("BERT GPT-4 LoRA Titans MIRAS", False, id="names"),
        pytest.param(RUSSIAN.encode("cp1251").decode("latin-1"), True, id="cp1251 read as Latin"),
        pytest.param("Память и внимание".encode("cp1251").decode("latin-1"), True, id="short"),
        pytest.param("Élève à l'école, été", False, id="short French"),
        pytest.param("(cid:12)(cid:7) " * 50, True, id="numbers of glyphs"),
        pytest.param("".join(chr(0xE000 + ord(c) % 99) for c in RUSSIAN), True, id="private use"),
        pytest.param("".join(chr(ord(c) + 5) for c in RUSSIAN), True, id="shifted letters"),
        pytest.param('- -- #! " . - ' * 30, True, id="signs alone"),
    ],
)
def test_junk_is_told_from_text(text: str, is_junk: bool) -> None:
    assert bool(refusal(text)) == is_junk


@pytest.mark.parametrize(
    ("numbers", "said"), [([1], "1"), ([3, 4, 5, 7], "3-5, 7"), ([1, 3], "1, 3"), ([], "")]
)
def test_numbers_of_pages_are_said_in_ranges(numbers: list[int], said: str) -> None:
    assert ranges(numbers) == said


def test_a_paper_of_300_pages_is_read_whole(tmp_path: Path) -> None:
    path = tmp_path / "long.pdf"
    source = pypdfium2.PdfDocument(DATA / "scans_within.pdf")
    target = pypdfium2.PdfDocument.new()
    for _ in range(60):
        target.import_pages(source)
    target.save(path)
    target.close()
    source.close()
    document = read_document("a.pdf", path.read_bytes())
    assert len(document.pages) == 300
    assert document.coverage == (180, 300)
    assert document.text.count("Обновление его весов") == 120
    assert document.text.count("1. Модуль памяти") == 60  # the first line of a page is its text
    assert document.notes[0].startswith("pages 3-4, 8-9, 13-14")


def _with_form(raw: bytes, fields: list[dict[str, PdfObject]]) -> bytes:
    """Return a PDF with fields of a form on its first page."""
    writer = PdfWriter(clone_from=BytesIO(raw))
    place = ArrayObject(FloatObject(x) for x in (50, 50, 150, 65))
    usual = {"/Type": NameObject("/Annot"), "/Subtype": NameObject("/Widget"), "/Rect": place}
    widgets = ArrayObject(
        writer._add_object(
            DictionaryObject({NameObject(name): value for name, value in {**usual, **row}.items()})
        )
        for row in fields
    )
    writer.pages[0][NameObject("/Annots")] = widgets
    form = DictionaryObject({NameObject("/Fields"): widgets})
    writer.root_object[NameObject("/AcroForm")] = form
    out = BytesIO()
    writer.write(out)
    return out.getvalue()


def _options(*labels: str) -> ArrayObject:
    return ArrayObject(
        ArrayObject([TextStringObject(label[0]), TextStringObject(label)]) for label in labels
    )


def test_what_a_form_was_filled_in_with_is_read_after_the_text_of_its_page() -> None:
    text, button, choice = (NameObject(kind) for kind in ("/Tx", "/Btn", "/Ch"))
    word, on, off = TextStringObject, NameObject("/Yes"), NameObject("/Off")
    looks = DictionaryObject({NameObject("/N"): DictionaryObject({on: NullObject()})})
    raw = _with_form(
        (DATA / "page_without_text.pdf").read_bytes(),
        [
            {"/FT": text, "/T": word("top[0].f1[0]"), "/TU": word("Имя: "), "/V": word("Анна Ли")},
            {"/FT": text, "/T": word("first_name"), "/V": word("Anna\nLee")},
            {"/FT": text, "/T": word("f1_02[0]"), "/V": word("12")},
            {"/FT": text, "/T": word("empty")},
            {"/FT": button, "/T": word("agree"), "/V": on, "/AS": on, "/AP": looks},
            {"/FT": button, "/T": word("refuse"), "/V": off, "/AS": off, "/AP": looks},
            {"/FT": choice, "/T": word("Город"), "/V": word("М"),
             "/Opt": _options("Москва", "Пермь")},
        ],
    )  # fmt: skip
    document = read_document("a.pdf", raw)
    assert document.text.split("\n\n") == [
        "The first page holds words.",
        "• Имя: Анна Ли",
        "• first name: Anna Lee",
        "• 12",
        "• agree: Yes",
        "• Город: Москва",
    ]


def test_a_form_on_blank_paper_is_read() -> None:
    writer = PdfWriter()
    writer.add_blank_page(300, 300)
    out = BytesIO()
    writer.write(out)
    field = {"/FT": NameObject("/Tx"), "/T": TextStringObject("Name"),
             "/V": TextStringObject("Anna")}  # fmt: skip
    document = read_document("a.pdf", _with_form(out.getvalue(), [field]))
    assert (document.text, document.title, document.notes) == ("• Name: Anna", "", ())


def test_attached_files_are_named() -> None:
    writer = PdfWriter(clone_from=DATA / "page_without_text.pdf")
    for name in ("данные.csv", "notes.txt"):
        writer.add_attachment(name, b"a,b")
    out = BytesIO()
    writer.write(out)
    notes = read_document("a.pdf", out.getvalue()).notes
    assert "attached files left out: 2 (notes.txt, данные.csv)" in notes


WRAPPED = [
    [["Модель"], ["Что хранит"], ["Цена токена"]],
    [["Трансформер"], ["Все ключи и", "Значения текста"], ["Растёт вместе с", "Длиной текста"]],
    [["Линейное", "Внимание"], ["Матрицу"], ["Постоянная"]],
    [["Titans"], ["Weights of", "A deep net"], ["Constant, but", "Larger"]],
]


@pytest.mark.parametrize("by_cell", [False, True])
@pytest.mark.parametrize("is_centred", [False, True])
def test_cells_of_several_lines_keep_to_their_rows(is_centred: bool, by_cell: bool) -> None:
    """However cells are set in their row, and whether a file draws lines or cells."""
    drawn: list[tuple[float, Cell]] = []
    top = 700.0
    for row in WRAPPED:
        height = max(map(len, row))
        for left, cell in zip((70, 200, 330), row, strict=True):
            off = (height - len(cell)) / 2 if is_centred else 0.0
            drawn += [
                (top - 12 * (off + at), Cell(words, left, left + 6.0 * len(words)))
                for at, words in enumerate(cell)
            ]
        top -= 12 * height + 6
    if not by_cell:
        drawn.sort(key=lambda each: (-each[0], each[1].left))
    drawn.append((top, Cell("Таблица говорит, что хранит каждая модель памяти из трёх.", 70, 500)))
    lines: list[Line] = []
    for base, cell in drawn:
        last = lines[-1] if lines else None
        if last and last.base == base and cell.left > last.right:
            lines[-1] = replace(last, cells=(*last.cells, cell))
        else:
            lines.append(Line((cell,), base, 10.0, False))
    table = [" | ".join(" ".join(cell) for cell in row) for row in WRAPPED]
    assert table_at(lines, 0) == (len(lines) - 1, table)


def test_rows_in_groups_and_a_head_that_stands_off_stay_rows() -> None:
    bases = (700, 680, 668, 656, 636, 624)
    texts = [("Model", "Score"), *((f"model {n}", f"{n}.5") for n in range(5))]
    lines = [
        Line((Cell(one, 70, 120), Cell(two, 200, 230)), base, 10.0, False)
        for base, (one, two) in zip(bases, texts, strict=True)
    ]
    assert table_at(lines, 0) == (6, [" | ".join(row) for row in texts])
