"""Pages without letters, read off their pictures."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from fakes.scan import needs_tesseract, scanned

from kbwiki.errors import ConfigError, InputError
from kbwiki.text import ocr
from kbwiki.text.readers import read_document

DATA = Path(__file__).parents[1] / "data" / "pdf"
HINT = "apt install tesseract-ocr tesseract-ocr-rus"


@pytest.fixture(autouse=True)
def _looked_for_anew() -> Iterator[None]:
    ocr.languages.cache_clear()
    yield
    ocr.languages.cache_clear()


def _words(text: str) -> set[str]:
    return set(re.findall(r"[^\W\d_]{4,}", text.lower()))


@needs_tesseract
@pytest.mark.parametrize("lang", ["en", "ru"])
def test_a_scan_in_two_columns_is_read_column_by_column(lang: str) -> None:
    source = DATA / f"columns_{lang}.pdf"
    whole = read_document("a.pdf", source.read_bytes())
    document = read_document("a.pdf", scanned(source), use_ocr=True)
    assert document.notes == ("page 1: read by OCR, 1 of 1",)
    assert document.coverage == (1, 1)
    lost = _words(whole.text) - _words(document.text)
    assert len(lost) < 0.05 * len(_words(whole.text))
    places = [document.text.index(f"({number})") for number in range(1, 7)]
    assert places == sorted(places)
    assert document.title == whole.title


@needs_tesseract
def test_only_the_pages_that_need_it_are_seen() -> None:
    raw = scanned(DATA / "scans_within.pdf", keep=frozenset({0, 2, 3}))
    document = read_document("a.pdf", raw, use_ocr=True)
    assert document.coverage == (3, 5)
    assert document.notes[-1] == "pages 2, 5: read by OCR, 2 of 5"
    assert "pages 3-4: no text layer, and by OCR no word is seen in it, 2 of 5" in document.notes
    paragraphs = [document.text[b.start : b.end] for b in document.blocks]
    assert [words[3:15] for words in paragraphs] == ["Модуль памят", "A memory mod", "Модуль памят"]
    assert {block.kind for block in document.blocks} == {"paragraph"}


@needs_tesseract
def test_letters_that_the_fonts_do_not_name_are_seen() -> None:
    raw = (DATA / "no_unicode_ru.pdf").read_bytes()
    document = read_document("a.pdf", raw, use_ocr=True)
    assert "Модуль памяти учится, пока модель читает." in document.text


@pytest.mark.parametrize(
    ("seen", "meant"),
    [
        ("А memory module", "A memory module"),  # a Cyrillic А
        ("модуль c памятью", "модуль с памятью"),  # a Latin c
        ("модель Тitans в тексте", "модель Titans в тексте"),
        ("модель LSTM и Titans", "модель LSTM и Titans"),
        ("метод TTT", "метод TTT"),
        ("3 %", "3 %"),
    ],
)
def test_letters_that_look_alike_are_of_the_script_around_them(seen: str, meant: str) -> None:
    assert " ".join(ocr.in_one_script(seen.split())) == meant


def test_without_tesseract_it_is_said_what_to_install(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    raw = (DATA / "scans_within.pdf").read_bytes()
    with pytest.raises(ConfigError, match="tesseract is not installed") as caught:
        read_document("a.pdf", raw, use_ocr=True)
    assert HINT in caught.value.hint


@pytest.mark.parametrize(
    ("script", "error", "why"),
    [
        ("echo deu", ConfigError, "neither Russian nor English"),
        ('[ "$1" = --list-langs ] && echo rus || exit 3', InputError, "tesseract failed"),
    ],
)
def test_a_tesseract_that_does_not_work_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, script: str, error: type[Exception], why: str
) -> None:
    program = tmp_path / "tesseract"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")
    with pytest.raises(error, match=why):
        list(ocr.see(10, 10, bytes(100)))
