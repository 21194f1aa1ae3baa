"""Files that are renamed, copied, removed: no work done twice, nothing lost unasked."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from conftest import NO_EMBED, ROOT, Quiet, Store

from kbwiki.pipeline import Report, run_stages, stage_named
from kbwiki.stages import ingest, reading
from kbwiki.stages.files import Found, find_files, path_of, uri_of

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
    assert reports["ingest"].outcome.note == "0 new, 0 changed, 1 as before, 1 moved"
    assert reports["extract"].outcome.n_done == 0
    assert _uris(store) == ["notes/b.md", "notes/новое имя.md"]
    page = store.files()["sources/линейное-внимание.md"].decode()
    assert 'uri: "notes/новое имя.md"' in page


def test_a_file_that_takes_too_long_is_named_and_all_else_is_taken_in(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = store.root / "notes"
    folder.mkdir()
    (folder / "b.md").write_text(NOTE.format("Сеть Хопфилда"), "utf-8")
    shutil.copy(ROOT / "tests" / "data" / "pdf" / "columns_ru.pdf", folder / "a.pdf")
    for name in ("LEAST_S", "PER_MB_S"):
        monkeypatch.setattr(reading, name, 0.001)
    [(item, why)] = store.build(folder, names=("ingest",))["ingest"].failures
    assert (item, "reading it took over 0.001" in why) == ("notes/a.pdf", True)
    assert _uris(store) == ["notes/b.md"]
    services = store.services(folder)
    services.force = True
    [report] = run_stages([stage_named("ingest")], services, Quiet())
    assert report.failures == ()
    assert _uris(store) == ["notes/a.pdf", "notes/b.md"]


def test_files_of_kinds_that_nothing_reads_are_counted(store: Store, notes: Path) -> None:
    for name in ("a.djvu", "b.DOC", "статья.doc", "Makefile", ".hidden.doc"):
        (notes / name).write_bytes(b"x")
    report = store.build(notes)["ingest"]
    assert report.failures == ()
    assert "4 of kinds that are not read (2 .doc, 1 .djvu, 1 Makefile)" in report.outcome.note
    assert report.intake is not None
    assert report.intake.unread == {".djvu": 1, ".doc": 2, "Makefile": 1}


@pytest.mark.parametrize(("n_bad", "is_told"), [(2, False), (3, True)])
def test_what_came_through_is_told_under_98_percent(
    store: Store, notes: Path, n_bad: int, is_told: bool
) -> None:
    lines = ['{"слово": "память"}'] * (100 - n_bad) + ["no"] * n_bad
    (notes / "records.jsonl").write_text("\n".join(lines), "utf-8")
    intake = store.build(notes)["ingest"].intake
    assert intake is not None
    told = [(part.uri, part.n_read, part.n_parts) for part in intake.partial]
    assert told == ([("notes/records.jsonl", 100 - n_bad, 100)] if is_told else [])


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


def test_a_folder_that_is_away_loses_nothing(store: Store, notes: Path) -> None:
    notes.rename(store.root / "elsewhere")
    note = _prune(store, notes)["ingest"].outcome.note
    assert "2 not found (notes/a.md, notes/b.md): kept" in note
    notes.mkdir()
    assert "pruned" not in _prune(store, notes)["ingest"].outcome.note
    assert _uris(store) == ["notes/a.md", "notes/b.md"]


@pytest.mark.parametrize("kind", ["empty folder", "broken link"])
def test_a_disk_below_that_is_not_mounted_loses_nothing(
    store: Store, notes: Path, kind: str
) -> None:
    disk = store.root / "disk"
    disk.mkdir()
    (disk / "c.md").write_text(NOTE.format("Быстрая память"), "utf-8")
    (notes / "disk").symlink_to(disk)
    store.build(notes)
    (disk / "c.md").unlink()
    if kind == "broken link":
        disk.rmdir()
    assert "pruned" not in _prune(store, notes)["ingest"].outcome.note
    assert "notes/disk/c.md" in _uris(store)


def test_names_that_are_not_utf_8_are_files_like_others(store: Store, notes: Path) -> None:
    (notes / os.fsdecode(b"a\xff.md")).write_text(NOTE.format("Быстрая память"), "utf-8")
    (notes / "a\\xff.md").write_text(NOTE.format("Медленная память"), "utf-8")
    store.build(notes)
    assert {"notes/a\\xff.md", "notes/a\\\\xff.md"} < set(_uris(store))
    note = _prune(store, notes)["ingest"].outcome.note
    assert note == "0 new, 0 changed, 4 as before"


@pytest.mark.parametrize(
    "name", ["a.md", "a\\b.md", "\\x41.md", os.fsdecode(b"\xff\\\xfe.md"), "ж"]
)
def test_a_uri_names_one_path(tmp_path: Path, name: str) -> None:
    uri = uri_of(tmp_path / name, tmp_path)
    assert path_of(uri, tmp_path) == tmp_path / name
    uri.encode()


def test_a_file_that_is_ignored_now_is_gone(store: Store, notes: Path) -> None:
    (notes / ".kbwikiignore").write_text("a.md\n")
    assert "1 vanished (notes/a.md)" in store.build(notes)["ingest"].outcome.note
    _prune(store, notes)
    assert _uris(store) == ["notes/b.md"]


def test_the_tree_is_walked_once(
    store: Store, notes: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(30):
        (notes / f"n{number}.md").write_text(f"Заметка {number}.", "utf-8")
    calls: list[object] = []

    def counted(*args: Any) -> Found:
        calls.append(args)
        return find_files(*args)

    monkeypatch.setattr(ingest, "find_files", counted)
    monkeypatch.setattr(ingest, "BATCH", 4)
    store.build(notes, names=("ingest",))
    assert len(calls) == 1
    assert len(_uris(store)) == 32


def test_known_bytes_keep_their_chunks_and_mentions(store: Store, notes: Path) -> None:
    """Two processes, or two names in one batch: the later one finds the bytes there."""
    count = "select count(*) as n from kb.mention"
    before = store.database.connection.execute(count).fetchone()
    copy = notes / "copy.md"
    copy.write_bytes((notes / "a.md").read_bytes())
    services = store.services(notes)
    [item] = ingest.pending(services, [])
    ingest._run(services).shas.clear()
    read = ingest.work(services, item)
    assert read.document is not None
    ingest.save(services, item, read)
    assert store.database.connection.execute(count).fetchone() == before
    assert "notes/copy.md" in _uris(store)


def test_a_note_without_a_heading_bears_the_name_of_its_file(store: Store, tmp_path: Path) -> None:
    folder = tmp_path / "plain"
    folder.mkdir()
    (folder / "first_name.md").write_text("Заметка о **памяти** в моделях и о ключах.\n", "utf-8")
    store.build(folder)
    (folder / "first_name.md").rename(folder / "second-name.md")
    store.build(folder)
    assert [name for name in store.files() if name.startswith("sources/")] == [
        "sources/second-name.md"
    ]


STEPS = [
    pytest.param(["s.txt"], ["s.md"], id="renamed to Markdown"),
    pytest.param(["s.md"], ["s.txt"], id="renamed to text"),
    pytest.param(["s.txt"], ["a.md", "s.txt"], id="a name before it"),
    pytest.param(["a.md", "s.txt"], ["s.txt"], id="the first name goes"),
    pytest.param(["a.txt"], ["a.txt", "s.md"], id="a name behind it"),
]


@pytest.mark.parametrize(("before", "after"), STEPS)
def test_bytes_are_read_as_their_first_name_says(
    make_store: Callable[[], Store], tmp_path: Path, before: list[str], after: list[str]
) -> None:
    folder = tmp_path / "kinds"
    folder.mkdir()

    def lay(names: list[str]) -> None:
        for path in folder.iterdir():
            path.unlink()
        for name in names:
            text = "# Память\n\n**Быстрая память** это слой. В нём `ключ` и *замок*.\n"
            (folder / name).write_text(text, "utf-8")

    lay(before)
    grown = make_store()
    grown.build(folder, names=("ingest",))
    lay(after)
    grown.build(folder, names=("ingest",))
    lay(before)
    grown.build(folder)
    lay(after)
    grown.build(folder)
    fresh = make_store()
    fresh.build(folder)
    assert grown.files() == fresh.files()
    assert _mentions(grown) == _mentions(fresh)
    assert grown.build(folder)["extract"].outcome.n_done == 0


def _mentions(store: Store) -> int:
    return int(store.database.dicts("count_concepts")[0]["n_mentions"])


def test_going_back_and_forth_between_reads_loses_no_mention(store: Store, tmp_path: Path) -> None:
    folder = tmp_path / "kinds"
    folder.mkdir()
    text = "# Память\n\n**Быстрая память** — это слой. Быстрая память хранит ключи.\n"
    (folder / "s.md").write_text(text, "utf-8")
    store.build(folder)
    before = _mentions(store)
    for old, new in (("s.md", "s.txt"), ("s.txt", "s.md")):
        (folder / old).rename(folder / new)
        store.build(folder, names=("ingest",))
    store.build(folder)
    assert _mentions(store) == before > 0


def test_patterns_are_matched_from_the_folder_that_holds_them(store: Store, notes: Path) -> None:
    (store.root / ".kbwikiignore").write_text("/notes/private/\n/a.md\n/draft.md\n")
    for name in ("private/key.md", "sub/secret.md", "sub/keep.md", "draft.md"):
        (notes / name).parent.mkdir(exist_ok=True)
        (notes / name).write_text(NOTE.format(name), "utf-8")
    (notes / ".kbwikiignore").write_text("sub/*\n")
    (notes / "sub" / ".kbwikiignore").write_text("!keep.md\n")
    store.build(notes)
    expected = ["notes/a.md", "notes/b.md", "notes/draft.md", "notes/sub/keep.md"]
    assert _uris(store) == expected
    store.build(notes / "sub")
    assert _uris(store) == expected


@pytest.mark.parametrize("raw", [b"\xff\xfe\n", None], ids=["no UTF-8", "unreadable"])
def test_patterns_that_cannot_be_read_stop_the_reading(
    store: Store, notes: Path, raw: bytes | None
) -> None:
    (notes / "secret.md").write_text(NOTE.format("Тайна"), "utf-8")
    if raw is None:
        (notes / ".kbwikiignore").mkdir()
    else:
        (notes / ".kbwikiignore").write_bytes(raw)
    [(_, reason)] = store.build(notes)["ingest"].failures
    assert reason.startswith("notes/.kbwikiignore: ")
    assert "notes/secret.md" not in _uris(store)


def test_a_wiki_is_never_its_own_source(store: Store, notes: Path) -> None:
    old = notes / "old wiki"
    shutil.copytree(store.wiki, old)
    (notes / "link").symlink_to(store.wiki)
    (notes / "inner").symlink_to(store.wiki / "concepts")
    page = next((store.wiki / "concepts").glob("*.md"))
    (notes / "page.md").symlink_to(page)
    report = store.build(notes)["ingest"]
    assert report.failures == ()
    assert _uris(store) == ["notes/a.md", "notes/b.md"]
    for path in (store.wiki, store.wiki / "concepts", page, old / "concepts", notes / "link"):
        [(_, reason)] = store.build(path)["ingest"].failures
        assert "it is part of an exported wiki" in reason


def test_overlapping_paths_are_no_fault(store: Store, notes: Path) -> None:
    (notes / "sub").mkdir()
    (notes / "sub" / "c.md").write_text(NOTE.format("Быстрая память"), "utf-8")
    (notes / "a.md").unlink()
    (notes / "b.md").unlink()
    for paths in (
        (notes, notes),
        (notes / "sub", notes),
        (notes, notes / "sub", notes / "sub/c.md"),
    ):
        assert store.build(*paths)["ingest"].failures == ()


def test_a_problem_is_not_counted_as_before(store: Store, notes: Path) -> None:
    (notes / "empty.md").write_text("")
    report = store.build(notes, store.root / "missing")["ingest"]
    assert report.n_failed == 2
    assert report.outcome.note == "0 new, 0 changed, 2 as before"


@pytest.mark.parametrize("title", ["Линейное внимание", "Linear attention"])
def test_a_bibliography_tells_who_wrote_the_paper_it_names(store: Store, title: str) -> None:
    folder = store.root / "notes"
    folder.mkdir()
    (folder / "a.md").write_text(NOTE.format(title), "utf-8")
    entry = "@article{a, title={%s}, author={Ли, Анна}, year={2020}}\n"
    (folder / "refs.bib").write_text(entry % title.upper(), "utf-8")
    store.build(folder)
    [page] = [
        p for n, p in store.files().items() if n.startswith("sources/") and "a.md" in p.decode()
    ]
    assert "Анна Ли" in page.decode()
    assert "year: 2020" in page.decode()
