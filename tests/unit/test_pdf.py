"""PDF files: paragraphs, headings, pages, and files that are not whole."""

from datetime import date
from pathlib import Path

import pytest

from kbwiki.errors import InputError
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
    assert document.notes == ("page 2 of 2: no text layer",)


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
