"""`kbwiki eval same`: what the labelled pairs say of the bands, and what it does with bad files."""

import json
from pathlib import Path

import pytest
from conftest import ROOT, Store

from kbwiki.cli import main
from kbwiki.evaluate.same import read_rows
from kbwiki.text.words import lang_of

PAIRS = ROOT / "tests" / "data" / "same.tsv"


def test_the_pairs_are_many_of_both_languages_and_of_both_labels() -> None:
    rows = read_rows(PAIRS)
    assert len(rows) >= 150
    assert len({frozenset((r.first, r.second)) for r in rows}) == len(rows)
    langs = [frozenset((lang_of(r.first), lang_of(r.second))) for r in rows]
    for lang in (frozenset({"en"}), frozenset({"ru"}), frozenset({"en", "ru"})):
        for label in (True, False):
            n = sum(its == lang and r.same is label for its, r in zip(langs, rows, strict=True))
            assert n >= 15, (lang, label)
    for split in ("tune", "unseen"):
        assert sum(r.split == split for r in rows) >= 75


def _tables(text: str) -> dict[str, dict[str, object]]:
    lines = [json.loads(line) for line in text.splitlines()]
    return {line["split"]: line for line in lines if "bands" in line}


def test_names_are_told_apart(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["eval", "same", str(PAIRS), "--json"]) == 0
    tables = _tables(capsys.readouterr().out)
    for split in ("tune", "unseen"):
        table = tables[split]
        assert table["false_merges"] == 0.0
        bands = table["bands"]
        assert isinstance(bands, dict)
        assert bands["alias"]["recall"] > 0.4
        assert bands["meaning"]["recall"] > 0.65
    everything = tables["all"]
    assert isinstance(everything["duplicates"], float)
    assert everything["duplicates"] < 0.02


@pytest.mark.parametrize(
    ("file", "queued", "duplicates"), [("same_new.tsv", 0.2, 0.05), ("same_blind.tsv", 0.5, 0.03)]
)
def test_no_two_things_become_one_among_names_that_the_rules_were_not_set_with(
    capsys: pytest.CaptureFixture[str], file: str, queued: float, duplicates: float
) -> None:
    assert main(["eval", "same", str(PAIRS.with_name(file)), "--json"]) == 0
    everything = _tables(capsys.readouterr().out)["all"]
    assert everything["false_merges"] == 0.0
    assert everything["false_merges_alone"] == 0.0
    assert isinstance(everything["queued"], float)
    assert everything["queued"] < queued
    assert isinstance(everything["duplicates"], float)
    assert everything["duplicates"] < duplicates


def test_a_file_of_ones_own_and_the_store_is_left_as_it_was(
    store: Store, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a.md").write_text("# Титаны\n\n**Титаны** — это модели с памятью.\n", "utf-8")
    store.build(tmp_path / "a.md")
    before = store.database.dicts("list_titles")
    pairs = tmp_path / "mine.tsv"
    pairs.write_text(
        "first\tsecond\tsame\tfirst_text\tsecond_text\n"
        "ВВП\tваловой внутренний продукт\tyes\t\tВаловой внутренний продукт (ВВП) — это стоимость "
        "всех товаров. Валовой внутренний продукт растёт.\n"
        "GDP\tGNP\tno\t\t\n",
        "utf-8",
    )
    assert main(["eval", "same", str(pairs), "--json", "--db", store.database.url]) == 0
    table = _tables(capsys.readouterr().out)["all"]
    assert (table["duplicates"], table["queued"], table["false_merges"]) == (0.0, 0.0, 0.0)
    assert store.database.dicts("list_titles") == before
    assert main(["eval", "same", str(pairs)]) == 0
    assert "precision" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "the first line names no columns"),
        (b"first\tsecond\tsame\n", "it holds no pairs"),
        ("first\tsecond\tsame\nA\tБ\tнет\n".encode(), "bad.tsv:2: no pair"),
        (b"first\tsecond\tsame\nA\t?\tno\n", "bad.tsv:2: no pair"),
        (b"first\tsecond\tsame\nA\n", "bad.tsv:2: no pair"),
        (b"\xff\xfe\xff", "it is not utf-8"),
    ],
)
def test_a_bad_file_is_a_clear_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: bytes, message: str
) -> None:
    bad = tmp_path / "bad.tsv"
    bad.write_bytes(content)
    assert main(["eval", "same", str(bad)]) == 1
    assert message in capsys.readouterr().err


def test_a_file_that_is_not_there(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["eval", "same", "nowhere.tsv"]) == 1
    assert "nowhere.tsv" in capsys.readouterr().err
