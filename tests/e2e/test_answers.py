"""Answers that are filed: pages with citations, found by search, made anew when sources change."""

from collections.abc import Callable
from pathlib import Path

import pytest

from kbwiki.cli import main

Run = Callable[..., tuple[int, str, str]]

SCAN = """# Associative scan

An **associative scan** is a parallel algorithm that returns every prefix of a sequence. Linear
RNNs use the associative scan for training. Guy Blelloch described the associative scan in 1990.
"""
HEBB = """# Правило Хебба

**Правило Хебба** — это правило обучения, которое усиливает связь одновременно активных нейронов.
Правило Хебба предложил Дональд Хебб в 1949 году.
"""


@pytest.fixture
def run(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Run:
    """Run a command in a folder with two notes that are built, without vectors."""
    notes = tmp_path / "notes"
    notes.mkdir()
    (notes / "scan.md").write_text(SCAN, "utf-8")
    (notes / "хебб.md").write_text(HEBB, "utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("KBWIKI_DATABASE_URL", url)

    def command(*args: str) -> tuple[int, str, str]:
        code = main(list(args))
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    assert command("build", "notes")[0] == 0
    return command


@pytest.mark.parametrize(
    ("question", "slug", "concept", "words"),
    [
        (
            "what is an associative scan", "what-is-an-associative-scan", "associative-scan",
            "parallel algorithm that returns every prefix",
        ),
        (
            "что такое правило Хебба", "что-такое-правило-хебба", "правило-хебба",
            "усиливает связь одновременно активных нейронов",
        ),
    ],
)  # fmt: skip
def test_an_answer_is_filed_as_a_page_with_citations_and_links(
    run: Run, tmp_path: Path, question: str, slug: str, concept: str, words: str
) -> None:
    code, out, err = run("query", question, "--save")
    assert (code, err) == (0, "")
    assert out.rstrip().endswith(f"filed as answers/{slug}")
    assert "no model wrote this" in out
    page = (tmp_path / "wiki" / "answers" / f"{slug}.md").read_text("utf-8")
    assert words in page
    assert "[^1]: " in page
    assert f"[[concepts/{concept}|" in page
    about = (tmp_path / "wiki" / "concepts" / f"{concept}.md").read_text("utf-8")
    assert f"[[answers/{slug}|" in about
    assert "fault" not in run("lint")[1].replace("0 faults", "")


def test_a_filed_answer_is_found_by_later_searches(run: Run) -> None:
    run("query", "what is an associative scan", "--save")
    code, out, _ = run("query", "associative scan", "--type", "answer", "--hits-only")
    assert code == 0
    assert "answers/what-is-an-associative-scan" in out


def test_filing_the_same_question_again_makes_no_second_page(run: Run, tmp_path: Path) -> None:
    run("query", "what is an associative scan", "--save")
    run("query", "What is an associative  scan", "--save")
    assert len(list((tmp_path / "wiki" / "answers").iterdir())) == 1


def test_an_answer_is_made_anew_when_its_source_changes(run: Run, tmp_path: Path) -> None:
    run("query", "what is an associative scan", "--save")
    changed = SCAN.replace("every prefix of a sequence", "all running totals of a list")
    (tmp_path / "notes" / "scan.md").write_text(changed, "utf-8")
    code, out, _ = run("build", "notes")
    assert code == 0
    assert "answer               1 done" in out
    page = (tmp_path / "wiki" / "answers" / "what-is-an-associative-scan.md").read_text("utf-8")
    assert "all running totals of a list" in page
    assert "every prefix" not in page
    assert "answer               0 done" in run("build", "notes")[1]


def test_an_answer_goes_with_the_last_source_that_supports_it(run: Run, tmp_path: Path) -> None:
    run("query", "что такое правило Хебба", "--save")
    assert run("rm", "notes/хебб.md")[0] == 0
    (tmp_path / "notes" / "хебб.md").unlink()
    assert run("build", "notes")[0] == 0
    assert not list((tmp_path / "wiki" / "answers").glob("*.md"))


def test_what_nothing_answers_is_not_filed(run: Run, tmp_path: Path) -> None:
    code, out, _ = run("query", "zzyzx", "--save")
    assert (code, out) == (4, "Nothing was found.\n")
    assert not (tmp_path / "wiki" / "answers").exists()


def test_a_store_without_vectors_searches_by_words_and_says_so(run: Run, url: str) -> None:
    from kbwiki import db

    database = db.connect(url)
    database.run("delete_vectors")
    database.run("delete_setting", {"name": "embedder"})
    code, out, err = run("query", "associative scan", "--hits-only")
    assert code == 0
    assert "sources/associative-scan" in out
    assert "the store has no vectors yet; run `kbwiki embed`" in err
    code, _, err = run("query", "associative scan", "--mode", "vector")
    assert code == 1
    assert "the store has no vectors yet" in err
    database.run("save_setting", {"name": "embedder", "value": "another-model"})
    database.close()
    code, out, err = run("query", "правило Хебба", "--hits-only")
    assert code == 0
    assert "правило-хебба" in out
    assert "run `kbwiki embed --replace`" in err


def test_a_store_with_one_chunk_is_searched(run: Run, tmp_path: Path) -> None:
    assert run("rm", "notes/хебб.md")[0] == 0
    for mode in ("text", "vector", "graph", "hybrid"):
        code, out, _ = run("query", "associative scan", "--mode", mode, "--hits-only")
        assert code == 0, mode
        assert "associative-scan" in out


def test_an_empty_store_finds_nothing(run: Run) -> None:
    assert run("rm", "notes/хебб.md", "notes/scan.md")[0] == 0
    code, out, _ = run("query", "associative scan", "--hits-only")
    assert (code, out) == (4, "Nothing was found.\n")
