"""Files that are renamed, copied, removed: no work done twice, nothing lost unasked."""

from pathlib import Path

import pytest
from conftest import NO_EMBED, Quiet, Store

from kbwiki.pipeline import Report, run_stages, stage_named

NOTE = "# {0}\n\n**{0}** — это способ хранить прошлое. В тексте {0} встречается ещё раз.\n"


@pytest.fixture
def notes(store: Store) -> Path:
    """A folder of two notes, built."""
    folder = store.root / "notes"
    folder.mkdir()
    (folder / "a.md").write_text(NOTE.format("Линейное внимание"), "utf-8")
    (folder / "b.md").write_text(NOTE.format("Сеть Хопфилда"), "utf-8")
    store.build(folder)
    return folder


def _prune(store: Store, folder: Path) -> dict[str, Report]:
    services = store.services(folder)
    services.prune = True
    reports = run_stages([stage_named(name) for name in NO_EMBED], services, Quiet())
    return {report.stage: report for report in reports}


def _uris(store: Store) -> list[str]:
    return [row["uri"] for row in store.database.dicts("list_source_uris")]


def test_a_renamed_file_is_one_source_under_its_new_name(store: Store, notes: Path) -> None:
    (notes / "a.md").rename(notes / "новое имя.md")
    reports = store.build(notes)
    assert "1 moved" in reports["ingest"].outcome.note
    assert reports["extract"].outcome.n_done == 0
    assert _uris(store) == ["notes/b.md", "notes/новое имя.md"]
    page = store.files()["sources/линейное-внимание.md"].decode()
    assert 'uri: "notes/новое имя.md"' in page


def test_a_copy_is_no_second_source(store: Store, notes: Path) -> None:
    before = store.database.value("count_sources")
    (notes / "копия.md").write_bytes((notes / "a.md").read_bytes())
    reports = store.build(notes)
    assert store.database.value("count_sources") == before
    assert reports["extract"].outcome.n_done == 0
    assert "notes/копия.md" in store.files()["sources/линейное-внимание.md"].decode()


def test_a_vanished_file_is_reported_and_kept_until_it_is_pruned(store: Store, notes: Path) -> None:
    (notes / "a.md").unlink()
    note = store.build(notes)["ingest"].outcome.note
    assert "1 vanished (notes/a.md): --prune removes them" in note
    assert "concepts/линейное-внимание.md" in store.files()
    assert "1 pruned" in _prune(store, notes)["ingest"].outcome.note
    assert "concepts/линейное-внимание.md" not in store.files()
    assert "concepts/сеть-хопфилда.md" in store.files()
    assert _uris(store) == ["notes/b.md"]


def test_pruning_one_folder_leaves_what_came_from_another(store: Store, notes: Path) -> None:
    other = store.root / "other.md"
    other.write_text(NOTE.format("Быстрая память"), "utf-8")
    store.build(other)
    other.unlink()
    _prune(store, notes)
    assert "other.md" in _uris(store)


def test_a_file_that_was_emptied_is_not_taken_for_gone(store: Store, notes: Path) -> None:
    (notes / "a.md").write_text("", "utf-8")
    report = store.build(notes)["ingest"]
    assert [item for item, _ in report.failures] == ["notes/a.md"]
    assert "vanished" not in report.outcome.note
    assert "concepts/линейное-внимание.md" in store.files()
