"""The property of DESIGN section 2: any number of workers, any order, at once or bit by bit."""

import itertools
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import Store

NOTES = {
    "titans.md": """---
date: 2025-02-03
---
# Titans

**Titans** is a family of models that adds a neural long-term memory (NLM) to attention.
Titans uses an [[Associative scan|associative scan]] for its momentum.
Titans does not use a recurrent decoder.
""",
    "scan.md": """# Associative scan

An **associative scan** is a parallel algorithm for prefix sums. Linear RNNs use the associative
scan for parallel training. The associative scan is used in Titans.
""",
    "память.md": """---
date: 2025-03-01
---
# Нейронная долговременная память

**Нейронная долговременная память** (neural long-term memory, NLM) — это модуль модели Titans.
Нейронная долговременная память использует ассоциативное сканирование (associative scan).
Ассоциативное сканирование применяется в линейных RNN.
""",
}


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    """A folder of three notes, one of them Russian."""
    folder = tmp_path / "notes"
    folder.mkdir()
    for name, text in NOTES.items():
        (folder / name).write_text(text, "utf-8")
    return folder


@pytest.fixture
def expected(make_store: Callable[[], Store], notes: Path) -> dict[str, bytes]:
    """The wiki of one undisturbed build."""
    store = make_store()
    store.build(notes)
    files = store.files()
    assert len([name for name in files if name.startswith("concepts/")]) >= 3
    return files


def test_one_and_eight_workers_write_the_same_bytes(
    make_store: Callable[[], Store], notes: Path, expected: dict[str, bytes]
) -> None:
    for jobs in (1, 8):
        store = make_store()
        store.build(notes, jobs=jobs)
        assert store.files() == expected


@pytest.mark.parametrize("order", list(itertools.permutations(NOTES)))
def test_notes_added_one_by_one_in_any_order_end_in_the_same_bytes(
    make_store: Callable[[], Store],
    notes: Path,
    expected: dict[str, bytes],
    order: tuple[str, ...],
) -> None:
    store = make_store()
    for name in order:
        store.build(notes / name)
    assert store.files() == expected


def test_a_change_that_is_taken_back_leaves_no_trace(
    make_store: Callable[[], Store], notes: Path, expected: dict[str, bytes]
) -> None:
    store = make_store()
    store.build(notes)
    note = notes / "scan.md"
    before = note.read_text("utf-8")
    note.write_text(before + "\nThe **Blelloch scan** is a kind of associative scan.\n", "utf-8")
    store.build(notes)
    assert store.files() != expected
    note.write_text(before, "utf-8")
    store.build(notes)
    assert store.files() == expected


def test_a_second_build_does_nothing(store: Store, notes: Path) -> None:
    store.build(notes)
    before = {p: p.stat().st_mtime_ns for p in store.wiki.rglob("*")}
    reports = store.build(notes)
    assert {name: report.outcome.n_done for name, report in reports.items()} == dict.fromkeys(
        reports, 0
    )
    assert {p: p.stat().st_mtime_ns for p in store.wiki.rglob("*")} == before


def test_a_wiki_that_is_there_already_is_adopted(
    make_store: Callable[[], Store], notes: Path
) -> None:
    first, second = make_store(), make_store()
    first.build(notes)
    shutil.copytree(first.wiki, second.wiki)
    report = second.build(notes)["export"]
    assert (report.outcome.n_done, report.n_failed) == (0, 0)
    assert second.files() == first.files()


def test_reading_anew_with_the_same_words_loses_nothing(
    store: Store, notes: Path, expected: dict[str, bytes]
) -> None:
    """As when another engine had begun to read, and the first goes on."""
    store.build(notes)
    before = _counts(store)
    store.database.connection.execute("update kb.extraction set fingerprint = 'another engine'")
    store.build(notes)
    assert _counts(store) == before
    assert store.files() == expected


def test_a_source_that_goes_and_comes_back_is_cited_as_before(
    store: Store, notes: Path, expected: dict[str, bytes]
) -> None:
    store.build(notes)
    before = _counts(store)
    store.database.run("delete_uris", {"uris": ["notes/scan.md"]})
    store.database.run("delete_sources_without_uri")
    store.build(notes)
    assert _counts(store) == before
    assert store.files() == expected


def _counts(store: Store) -> dict[str, int]:
    tables = ("chunk", "posting", "claim", "mention", "edge", "edge_evidence", "citation")
    return {
        table: store.database.connection.execute(f"select count(*) from kb.{table}".encode())
        .fetchall()[0][0]
        for table in tables
    }  # fmt: skip
