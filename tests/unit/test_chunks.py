"""Chunks and spans: properties over the demo corpus and over odd texts."""

import random
import time
from itertools import pairwise
from pathlib import Path

import pytest

from kbwiki.engines.read import read_source
from kbwiki.records import Block, Document
from kbwiki.text.chunks import TARGET_WORDS, chunk_document, page_of
from kbwiki.text.readers import read_document
from kbwiki.text.words import WORD, sentences

CORPUS = Path(__file__).parents[2] / "corpus"
DEMO = sorted(p for p in CORPUS.rglob("*") if p.suffix in {".md", ".txt", ".html", ".pdf"})
_LETTERS = random.Random(7)
ODD = {
    "a word of 100,000 letters": "x" * 100_000,
    "a Russian word of 100,000 letters": "ж" * 100_000,
    "Chinese": "深度学习模型的训练需要大量数据" * 4_000,
    "base64": "".join(_LETTERS.choices("ABCDEFabcdef0123456789+/", k=60_000)),
    "a line of words": "слово и другие вещи идут " * 8_000,
    "a long table": "| a | b |\n|---|---|\n" + "| cell | $x$ |\n" * 3_000,
    "nested quotes": "\n".join(">" * i + " text" for i in range(1, 500)),
    "nested lists": "\n".join("  " * i + "- item" for i in range(500)),
    "links": " ".join(f"[link {i}](http://x.y/{i})" for i in range(5_000)),
    "formulas": "We have " + " ".join(f"$x_{{{i}}}$ is good" for i in range(4_000)),
    "open brackets": "[" * 5_000 + "(" * 5_000,
    "open dollars": "$a " * 10_000,
    "open backticks": "".join("`" * (i % 50 + 1) + "a" for i in range(2_000)),
    "hyphens": "a-" * 30_000,
    "headings alone": "# h\n" * 2_000,
    "code": "```\n" + "x = 1\n" * 5_000 + "```",
    "empty formulas": "$$\n" * 2_001,
    "one noun phrase": "memory model " * 5_000,
    "one genitive": "памяти модели " * 5_000,
}


def documents() -> list[Document]:
    return [read_document(path.name, path.read_bytes()) for path in DEMO]


def check_spans(document: Document) -> None:
    """Assert that all that is said of a document lies in it and in order."""
    size = len(document.text)
    for block in document.blocks:
        assert 0 <= block.start < block.end <= size
    assert all(a.end <= b.start for a, b in pairwise(document.blocks))
    for mark in document.marks:
        assert 0 <= mark.start < mark.end <= size
    assert list(document.pages) == sorted(document.pages)


def check_chunks(document: Document) -> None:
    chunks = chunk_document(document)
    text = document.text
    assert [c.ordinal for c in chunks] == list(range(len(chunks)))
    assert all(a.end <= b.start for a, b in pairwise(chunks))
    for chunk in chunks:
        assert text[chunk.start : chunk.end] == text[chunk.start : chunk.end].strip()
        assert chunk.page == page_of(document.pages, chunk.start)
        inside = text[chunk.start : chunk.end]
        for start, _ in sentences(inside, chunk.lang):  # the last one may end on the next page
            assert chunk.page == page_of(document.pages, chunk.start + start)
        assert chunk.end - chunk.start <= 10_000
    covered = bytearray(len(text))
    for chunk in chunks:
        covered[chunk.start : chunk.end] = b"\1" * (chunk.end - chunk.start)
    for block in document.blocks:
        missing = covered[block.start : block.end].count(0)
        if block.kind != "heading":
            gaps = [i for i in range(block.start, block.end) if not covered[i]] if missing else []
            assert all(text[i].isspace() for i in gaps)


@pytest.mark.parametrize("path", DEMO, ids=lambda p: p.name)
def test_demo_chunks_cover_every_block_once_and_cut_nothing_whole(path: Path) -> None:
    document = read_document(path.name, path.read_bytes())
    check_spans(document)
    check_chunks(document)
    chunks = chunk_document(document)
    inner = [b for b in document.blocks if b.kind in {"code", "math", "table"}]
    formulas = [m for m in document.marks if m.kind in {"math", "code"}]
    for chunk in chunks:
        for part in (*inner, *formulas):
            assert not part.start < chunk.end < part.end
        n_words = len(WORD.findall(document.text[chunk.start : chunk.end]))
        assert n_words <= 2 * TARGET_WORDS


@pytest.mark.parametrize("path", DEMO, ids=lambda p: p.name)
def test_what_is_read_from_the_demo_lies_in_it(path: Path) -> None:
    document = read_document(path.name, path.read_bytes())
    found = read_source(document)
    blocks = [b for b in document.blocks if b.kind in {"paragraph", "item", "quote"}]
    for claim in found.claims:
        assert document.text[claim.start : claim.end] == claim.text
        assert any(b.start <= claim.start and claim.end <= b.end for b in blocks)
        assert claim.text[-1] in ".!?…\"»”')]"
        assert not claim.text[0].islower()
        assert claim.page == page_of(document.pages, claim.start)
    assert all(a.end <= b.start for a, b in pairwise(found.claims))
    for candidate in found.candidates:
        assert candidate.key
        assert "$" not in candidate.name


@pytest.mark.parametrize("name", ODD)
def test_odd_text_is_read_quickly_into_short_chunks(name: str) -> None:
    began = time.process_time()
    document = read_document("a.md", ODD[name].encode())
    check_spans(document)
    check_chunks(document)
    read_source(document)
    assert time.process_time() - began < 12


def test_references_share_no_chunk_with_the_body() -> None:
    document = read_document("a.md", "Текст.\n\n**Литература**\n\n1. Иванов".encode())
    texts = [document.text[c.start : c.end] for c in chunk_document(document)]
    assert texts == ["Текст.", "Литература\n\nИванов"]


def test_a_chunk_stands_on_one_page() -> None:
    text = "First page.\n\nSecond page."
    blocks = (Block("paragraph", 0, 11), Block("paragraph", 13, 25))
    chunks = chunk_document(Document(text, blocks=blocks, pages=(0, 13)))
    assert [c.page for c in chunks] == [1, 2]


def test_a_formula_in_a_long_paragraph_stays_whole() -> None:
    formula = "$" + "a + b + c. " * 20 + "d$"
    text = ("Some plain words stand here. " * 20 + f"The sum {formula} is large. ") * 10
    document = read_document("a.md", text.encode())
    chunks = chunk_document(document)
    assert len(chunks) > 5
    assert all(document.text[c.start : c.end].count("$") % 2 == 0 for c in chunks)


def test_a_small_table_stays_whole() -> None:
    words = "Plain words are here. " * 45
    rows = "| a | b |\n|---|---|\n" + "| one | two |\n" * 20
    document = read_document("a.md", f"{words}\n\n{rows}".encode())
    chunks = chunk_document(document)
    assert [document.text[c.start : c.end].count("one") for c in chunks] == [0, 20]


def test_headings_above_a_chunk_are_its_path() -> None:
    document = read_document("a.md", "# A\n\n## Б\n\nx\n\n## C\n\ny\n\n# D\n\nz".encode())
    assert [c.headings for c in chunk_document(document)] == [("A", "Б"), ("A", "C"), ("D",)]


@pytest.mark.parametrize(
    ("text", "claims"),
    [
        ("DeepMind introduced RETRO. It is big.", ["DeepMind introduced RETRO."]),
        ("Состояние равно $S_t = S. v$. Память растёт с числом слоёв.", 1),
        ("Вес равен $w = 1$. Модель Performer линейна по длине текста.", 1),
        ("# Заголовок\n\nОткуда берутся волны в толще Земли?", 0),
        ("The output of the layer has the form:\n\n$$x$$", 0),
    ],
    ids=[
        "short fact",
        "formula with a full stop",
        "sentence after a formula",
        "question",
        "lead-in",
    ],
)
def test_claims_are_whole_statements(text: str, claims: object) -> None:
    found = [c.text for c in read_source(read_document("a.md", text.encode())).claims]
    assert found == claims if isinstance(claims, list) else len(found) == claims
