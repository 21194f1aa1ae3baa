"""Files of each format: encodings, titles, clear refusals."""

from datetime import date
from pathlib import Path

import pytest

from kbwiki.errors import InputError
from kbwiki.text.readers import read_document, reader_kind

CORPUS = Path(__file__).parents[2] / "corpus"
RUSSIAN = "Это обычный русский текст о памяти моделей, в котором достаточно слов для распознавания."


@pytest.mark.parametrize(
    "encoding", ["utf-8", "utf-8-sig", "cp1251", "koi8-r", "utf-16", "utf-16-le", "utf-16-be"]
)
def test_russian_text_is_read_in_any_encoding(encoding: str) -> None:
    assert read_document("a.txt", RUSSIAN.encode(encoding)).text == RUSSIAN


def test_western_text_is_read() -> None:
    text = "Café, naïve and résumé are English words with accents."
    assert read_document("a.txt", text.encode("cp1252")).text == text


@pytest.mark.parametrize(
    ("text", "title", "blocks"),
    [
        pytest.param(
            "Title\n\nBody text.", "Title", ["heading", "paragraph"], id="short first line"
        ),
        pytest.param("Body text.\n\nMore of it.", "", ["paragraph", "paragraph"], id="no title"),
        pytest.param("Список\n\n- раз\n- два", "Список", ["heading", "item", "item"], id="bullets"),
        pytest.param(
            "Title\n=====\n\nText.", "Title", ["heading", "paragraph"], id="rule below a title"
        ),
        pytest.param(
            "It has *stars*, $5, <b> and 1. no list.", "", ["paragraph"], id="signs are no markup"
        ),
    ],
)
def test_plain_text_gets_structure(text: str, title: str, blocks: list[str]) -> None:
    document = read_document("a.txt", text.encode())
    assert document.title == title
    assert [b.kind for b in document.blocks] == blocks


def test_signs_of_plain_text_stay() -> None:
    text = "It has *stars*, _lines_, $5, <b>, `code`, ~~x~~ and [a](b)."
    assert read_document("a.txt", text.encode()).text == text


@pytest.mark.parametrize(
    ("name", "raw"),
    [
        pytest.param("a.mp3", b"x", id="unknown format"),
        pytest.param("noext", b"x", id="no suffix"),
        pytest.param("a.md", b" \n", id="blank file"),
        pytest.param("a.md", b"---\ntitle: x\n---\n", id="front matter alone"),
        pytest.param("a.html", b"<html><body></body></html>", id="page without text"),
        pytest.param("a.html", b"<!-- -->", id="page without elements"),
        pytest.param("a.pdf", b"hello", id="no pdf"),
    ],
)
def test_what_cannot_be_read_says_why_and_what_to_do(name: str, raw: bytes) -> None:
    with pytest.raises(InputError) as caught:
        read_document(name, raw)
    assert ": " in caught.value.message
    assert caught.value.message.endswith(".")
    assert caught.value.hint


PAGE = """<html lang="ru"><head><meta charset="windows-1251"><title>Волны — сайт</title>
<meta name="author" content="Анна Ли"><meta name="date" content="2024-05-06"></head><body>
<nav><a href="/">Главная</a> <a href="/x">Меню сайта</a></nav>
<article><h1>Волны</h1><p>Сейсмическая волна — это упругое колебание, которое идёт в толще Земли.
<b>Продольная волна</b> приходит первой, и её замечает <a
href="https://a.example/s">сейсмограф</a>.</p>
<h2>Список</h2><ul><li>Первая строка списка о волнах.</li><li>Вторая строка списка о
волнах.</li></ul>
<pre><code>x = 1
y = 2</code></pre><p>Ещё один абзац, чтобы страница была похожа на статью о волнах.</p></article>
<footer>Все права защищены</footer></body></html>"""


def test_a_web_page_gives_its_article_alone() -> None:
    document = read_document("a.html", PAGE.encode("cp1251"))
    assert document.title == "Волны"
    assert document.authors == ("Анна Ли",)
    assert document.dated == date(2024, 5, 6)
    assert "Меню" not in document.text
    assert "права" not in document.text
    kinds = {b.kind for b in document.blocks}
    assert {"heading", "paragraph", "item", "code"} <= kinds
    marked = {(m.kind, document.text[m.start : m.end]) for m in document.marks}
    assert {("bold", "Продольная волна"), ("link", "сейсмограф")} <= marked


def test_the_demo_page_is_clean() -> None:
    path = CORPUS / "en" / "retrieval-augmented-generation.html"
    document = read_document(path.name, path.read_bytes())
    assert document.title == "Retrieval-augmented generation"
    assert document.blocks[-1].kind == "references"
    assert "<" not in document.text


@pytest.mark.parametrize("charset", ["undefined", "idna", "hex", "no-such-thing"])
def test_a_charset_that_cannot_decode_is_passed_over(charset: str) -> None:
    page = PAGE.replace("windows-1251", charset)
    assert read_document("a.html", page.encode()).title == "Волны"


@pytest.mark.parametrize(
    ("name", "kind"), [("a.markdown", ".md"), ("A.HTM", ".html"), ("x/b.pdf", ".pdf"), ("c", "")]
)
def test_names_that_one_reader_reads_are_of_one_kind(name: str, kind: str) -> None:
    assert reader_kind(name) == kind
