"""PDF files: paragraphs, headings, pages, and files that are not whole."""

from datetime import date
from pathlib import Path

import pypdfium2
import pytest

from kbwiki.errors import InputError
from kbwiki.text.gate import ranges, refusal
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
    assert document.notes == ("page 2: no text layer, 1 of 2",)


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


@pytest.mark.parametrize(
    ("name", "note", "coverage", "there"),
    [
        ("scans_within", "pages 3-4: no text layer, 2 of 5", (3, 5), ["1. Мод", "2. A", "5. Мод"]),
        ("broken_page", "pages 2-4: no text layer, 3 of 5", (2, 5), ["1. Мод", "5. Мод"]),
    ],
)
def test_a_bad_page_drops_itself_alone(
    name: str, note: str, coverage: tuple[int, int], there: list[str]
) -> None:
    document = read_document("a.pdf", (DATA / f"{name}.pdf").read_bytes())
    assert document.notes == (note,)
    assert document.coverage == coverage
    assert len(document.pages) == 5
    assert all(words in document.text for words in there)


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
    assert document.text.count("Обновление его весов") == 120  # first lines repeat: running heads
    assert document.notes[0].startswith("pages 3-4, 8-9, 13-14")
