"""Answers that are filed: pages with citations, found by search, made anew when sources change."""

import json
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from kbwiki import db
from kbwiki.answers import question_key
from kbwiki.cli import main
from kbwiki.search import KINDS

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
    assert ("составлено без модели" if "Хебба" in question else "no model wrote this") in out
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
    assert "0 faults" in run("lint")[1]
    assert "answer               0 done" in run("build", "notes")[1]


@pytest.mark.parametrize(
    ("question", "slug", "file", "words", "said"),
    [
        (
            "What is an associative scan?", "what-is-an-associative-scan", "scan.md",
            "parallel algorithm", "Nothing in the wiki answers this now.",
        ),
        (
            "Что такое правило Хебба?", "что-такое-правило-хебба", "хебб.md",
            "усиливает связь", "Сейчас в вики на это ответа нет.",
        ),
    ],
)  # fmt: skip
def test_a_question_outlives_the_source_that_answered_it(
    run: Run, tmp_path: Path, question: str, slug: str, file: str, words: str, said: str
) -> None:
    run("query", question, "--save")
    page = tmp_path / "wiki" / "answers" / f"{slug}.md"
    assert words in page.read_text("utf-8")
    note = tmp_path / "notes" / file
    text = note.read_text("utf-8")
    assert f"removed answer: {question}" in run("rm", f"notes/{file}", "--dry-run")[1]
    assert words in page.read_text("utf-8")

    assert run("rm", f"notes/{file}")[0] == 0
    note.unlink()
    left = page.read_text("utf-8")
    assert words not in left
    assert said in left
    assert "engine:" not in left
    assert not [p for p in (tmp_path / "wiki").rglob("*.md") if words in p.read_text("utf-8")]
    assert f"note unanswered: answers/{slug}.md: nothing in the wiki answers" in run("lint")[1]
    assert f"unanswered {question} (answers/{slug})" in run("status")[2]
    assert "answers/" not in run("query", question, "--hits-only")[1]
    assert run("build", "notes")[0] == 0
    assert said in page.read_text("utf-8")
    assert "answer               0 done" in run("build", "notes")[1]

    note.write_text(text, "utf-8")
    assert run("build", "notes")[0] == 0
    assert words in page.read_text("utf-8")
    assert "unanswered" not in run("status")[2] + run("lint")[1]
    assert "fault" not in run("lint")[1].replace("0 faults", "")

    assert run("rm", f"answers/{slug}")[0] == 0
    assert not page.exists()


def test_no_word_of_a_removed_source_waits_for_the_next_stage(run: Run, url: str) -> None:
    run("query", "Что такое правило Хебба?", "--save")
    with closing(db.connect(url)) as database:
        database.run("delete_uris", {"uris": ["notes/хебб.md"]})
        database.run("delete_sources_without_uri")
        [row] = database.dicts("list_answer_pages")
        assert (row["statements"], row["missing"]) == ([], "")
        assert [filed["question"] for filed in database.dicts("list_unanswered")]
    assert "answer" in run("status")[1]


def test_what_a_question_was_limited_to_holds_when_it_is_asked_again(
    run: Run, tmp_path: Path
) -> None:
    args = ("--source", "scan.md", "--type", "source", "-k", "2")
    run("query", "associative scan", *args, "--save")
    page = tmp_path / "wiki" / "answers" / "associative-scan.md"
    other = "# More\n\nAn associative scan adds numbers in a tree of additions.\n"
    (tmp_path / "notes" / "more.md").write_text(other, "utf-8")
    (tmp_path / "notes" / "scan.md").write_text(SCAN.replace("every", "each"), "utf-8")
    assert run("build", "notes")[0] == 0
    assert "returns each prefix" in page.read_text("utf-8")
    assert "sources/more" not in page.read_text("utf-8")
    run("rm", "notes/scan.md")
    assert "Nothing in the wiki answers this now." in page.read_text("utf-8")


@pytest.mark.parametrize(
    ("first", "others", "slug"),
    [
        (
            "What is an associative scan",
            [" what  is an ASSOCIATIVE scan ?!", "“What is an associative scan…”"],
            "what-is-an-associative-scan",
        ),
        (
            "Что такое правило Хебба",
            ["что такое «правило хебба»?", "Что такое: правило — Хебба."],
            "что-такое-правило-хебба",
        ),
    ],
)
def test_one_question_in_several_spellings_is_filed_once(
    run: Run, tmp_path: Path, first: str, others: list[str], slug: str
) -> None:
    for question in (first, *others):
        assert run("query", question, "--save")[1].rstrip().endswith(f"filed as answers/{slug}")
    assert [p.stem for p in (tmp_path / "wiki" / "answers").iterdir()] == [slug]


def test_names_that_differ_in_a_sign_are_two_questions() -> None:
    keys = {question_key(f"what is {name}?") for name in ("C", "C++", "C#", "R&D", "GPT-3.5")}
    assert len(keys) == 5


@pytest.mark.parametrize(
    ("question", "words"),
    [
        ("What is an associative scan?", "parallel algorithm that returns every prefix"),
        ("Что такое правило Хебба?", "усиливает связь одновременно активных нейронов"),
    ],
)
def test_hits_that_are_pages_bring_the_sentences_that_they_cite(
    run: Run, question: str, words: str
) -> None:
    run("query", question, "--save")
    for args in (["-k", "1"], *(["--type", kind, "-k", "1"] for kind in KINDS)):
        code, out, err = run("query", question, *args, "--save")
        assert (code, err) == (0, ""), args
        assert words in out.split("1. ")[0], args
        assert "filed as answers/" in out, args


def test_what_nothing_answers_is_not_filed(run: Run, tmp_path: Path) -> None:
    code, out, _ = run("query", "zzyzx", "--save")
    assert (code, out) == (4, "Nothing was found.\n")
    assert not (tmp_path / "wiki" / "answers").exists()


def test_a_store_without_vectors_searches_by_words_and_says_so(run: Run, url: str) -> None:
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


def test_a_small_store_quotes_across_languages_what_speaks_of_the_question_alone(run: Run) -> None:
    def quoted(question: str) -> str:
        lines = [json.loads(line) for line in run("query", question, "--json")[1].splitlines()]
        answers = [line["answer"] for line in lines if "answer" in line]
        return " ".join(statement["text"] for answer in answers for statement in answer)

    assert "parallel algorithm" in quoted("как работает ассоциативное сканирование?")
    assert "нейронов" in quoted("what is Hebb's rule?")
    assert quoted("how to choose winter tyres") == ""
    assert run("query", "рецепт блинов на молоке")[:2] == (4, "Ничего не нашлось.\n")


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
