"""The exported folder: the log, the manifest, what is removed and what never is."""

import errno
import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import Store

from kbwiki.errors import ConfigError
from kbwiki.stages import wiki_files
from kbwiki.stages.export import MANIFEST

NOTE = "# {}\n\n**{}** — это способ хранить память о прошлом. В тексте есть {} ещё раз.\n"


def _note(store: Store, name: str, title: str) -> Path:
    folder = store.root / "notes"
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(NOTE.format(title, title, title), "utf-8")
    return folder


def test_the_log_tells_each_build_that_changed_something(store: Store) -> None:
    notes = _note(store, "a.md", "Линейное внимание")
    store.build(notes)
    first = (store.wiki / "log.md").read_text("utf-8")
    assert first.startswith("# Log\n\n## 2026-01-01\n")
    assert "`concepts/линейное-внимание`" in first
    store.build(notes)
    assert (store.wiki / "log.md").read_text("utf-8") == first
    _note(store, "b.md", "Сеть Хопфилда")
    store.build(notes)
    second = (store.wiki / "log.md").read_text("utf-8")
    assert second.count("## 2026-01-01") == 2
    assert second.endswith(first.removeprefix("# Log\n"))
    assert second.index("сеть-хопфилда") < second.index("линейное-внимание")


def test_words_that_a_person_put_into_the_log_stay(store: Store) -> None:
    notes = _note(store, "a.md", "Линейное внимание")
    store.build(notes)
    log = store.wiki / "log.md"
    log.write_text("Мои слова сверху\n\n" + log.read_text("utf-8") + "\nи снизу\n", "utf-8")
    _note(store, "b.md", "Сеть Хопфилда")
    store.build(notes)
    text = log.read_text("utf-8")
    assert text.startswith("Мои слова сверху\n\n# Log\n")
    assert text.endswith("\nи снизу\n")


def test_a_page_whose_concept_is_gone_is_removed_and_others_stay(store: Store) -> None:
    notes = _note(store, "a.md", "Линейное внимание")
    store.build(notes)
    mine = store.wiki / "concepts" / "моё.md"
    mine.write_text("моё\n", "utf-8")
    _note(store, "a.md", "Сеть Хопфилда")
    report = store.build(notes)["export"]
    assert report.failures == ()
    assert not (store.wiki / "concepts" / "линейное-внимание.md").exists()
    assert (store.wiki / "concepts" / "сеть-хопфилда.md").exists()
    assert mine.read_text("utf-8") == "моё\n"


def test_a_file_that_vanished_is_written_again(store: Store) -> None:
    notes = _note(store, "a.md", "Линейное внимание")
    store.build(notes)
    page = store.wiki / "concepts" / "линейное-внимание.md"
    before = page.read_bytes()
    page.unlink()
    store.build(notes)
    assert page.read_bytes() == before


def test_a_broken_manifest_is_a_clear_error_and_nothing_is_written(store: Store) -> None:
    notes = _note(store, "a.md", "Линейное внимание")
    store.wiki.mkdir()
    (store.wiki / MANIFEST).write_text("[]")
    with pytest.raises(ConfigError, match="it is no manifest of kbwiki"):
        store.build(notes)
    for make in (lambda path: path.symlink_to("nowhere"), os.mkfifo, os.mkdir):
        (store.wiki / MANIFEST).rename(store.root / "before")
        make(store.wiki / MANIFEST)
        with pytest.raises(ConfigError, match="it is no file that can be read"):
            store.build(names=("export",))
    assert [p.name for p in store.wiki.iterdir()] == [MANIFEST]


def test_what_is_no_file_is_left_and_named_and_the_rest_is_written(store: Store) -> None:
    notes = _note(store, "a.md", "Линейное внимание")
    store.build(notes)
    odd = [store.wiki / name for name in ("mine.md", PAGE, "log.md")]
    for path in odd:
        path.unlink(missing_ok=True)
        path.symlink_to("nowhere.md")
    pipes = [store.wiki / name for name in ("pipe.md", "index.md")]
    for path in pipes:
        path.unlink(missing_ok=True)
        os.mkfifo(path)
    _note(store, "b.md", "Сеть Хопфилда")
    failures = store.build(notes)["export"].failures
    assert sorted(name for name, _ in failures) == [PAGE, "index.md", "log.md"]
    assert all(path.is_symlink() for path in odd)
    assert all(path.is_fifo() for path in pipes)
    assert (store.wiki / "concepts" / "сеть-хопфилда.md").exists()
    for path in (*odd, *pipes):
        path.unlink()
    assert store.build(notes)["export"].failures == ()
    assert (store.wiki / PAGE).exists()


def test_a_manifest_cannot_make_it_remove_files_elsewhere(store: Store) -> None:
    notes = _note(store, "a.md", "Линейное внимание")
    store.build(notes)
    outside = store.root / "outside.md"
    outside.write_text("x")
    manifest = store.wiki / MANIFEST
    content = json.loads(manifest.read_text("utf-8"))
    content["files"]["../outside.md"] = (
        "2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881"
    )
    manifest.write_text(json.dumps(content), "utf-8")
    store.build(notes)
    assert outside.exists()


def test_reserved_characters_in_titles_make_files_that_links_reach(store: Store) -> None:
    folder = store.root / "notes"
    folder.mkdir()
    for at, title in enumerate(["C#", "TCP/IP", "What is Q?", "A|B", "CON", ".hidden", "🙂"]):
        text = f"# {title}\n\nThe page about **linear attention** number {at} is a test of names.\n"
        (folder / f"{at}.md").write_text(text, "utf-8")
    store.build(folder)
    names = {name for name in store.files() if name.startswith("sources/")}
    assert len(names) == 7
    index = store.files()["index.md"].decode()
    for name in names:
        assert f"[[{name.removesuffix('.md')}|" in index
        assert not set('<>:"\\|?*#^[]') & set(name)
        assert not Path(name).name.startswith(".")


def test_what_a_build_has_not_written_yet_is_named_in_plain_words(store: Store) -> None:
    notes = _note(store, "a.md", "Линейное внимание")
    text = "# Сеть Хопфилда\n\n**Сеть Хопфилда** — это модель, что использует линейное внимание.\n"
    (notes / "b.md").write_text(text, "utf-8")
    store.build(notes)
    whole = store.files()
    path = store.wiki / "concepts" / "сеть-хопфилда.md"
    assert "[[concepts/линейное-внимание" in path.read_text("utf-8")
    store.database.run_text(
        "delete from kb.article where source_id is not null or title = 'Линейное внимание'"
    )
    store.build(names=("export",))
    page = path.read_text("utf-8")
    assert "[^1]: " in page
    assert "[[" not in page
    store.build()
    assert store.files() == whole


@pytest.fixture
def save_meanwhile(monkeypatch: pytest.MonkeyPatch) -> Callable[[Path, str], None]:
    """Let an editor save a file at the last moment before the export renames anything onto it."""

    def prepare(path: Path, text: str) -> None:
        rename = wiki_files._renameat2
        move = Path.rename
        is_saved: list[bool] = []

        def save(target: Path) -> None:
            if target == path and not is_saved:
                is_saved.append(True)
                other = path.with_name("other")  # as editors do
                other.write_text(text, "utf-8")
                move(other, path)

        def late(source: Path, target: Path, flag: int) -> int:
            save(target)
            return rename(source, target, flag)

        def late_move(source: Path, target: Path) -> Path:
            save(source)
            return move(source, target)

        monkeypatch.setattr(wiki_files, "_renameat2", late)
        monkeypatch.setattr(Path, "rename", late_move)

    return prepare


PAGE = "concepts/линейное-внимание.md"
MINE = "Мои слова о линейном внимании."


def test_an_edit_saved_while_the_page_is_written_stays(
    store: Store, save_meanwhile: Callable[[Path, str], None]
) -> None:
    notes = _note(store, "a.md", "Линейное внимание")
    store.build(notes)
    path = store.wiki / PAGE
    body, seam, rest = path.read_text("utf-8").partition("<!-- kbwiki: generated from")
    edited = f"{body}{MINE}\n\n{seam}{rest}"
    with (notes / "a.md").open("a", encoding="utf-8") as note:
        note.write("Линейное внимание растёт вместе с длиной текста, который читает модель.\n")
    save_meanwhile(path, edited)
    [(name, why)] = store.build(notes)["export"].failures
    assert (name, "a person changed this file" in why) == (PAGE, True)
    assert path.read_text("utf-8") == edited
    assert "растёт" in (store.wiki / PAGE.replace(".md", ".conflict.md")).read_text("utf-8")
    assert store.build(notes)["export"].failures == ()
    text = path.read_text("utf-8")
    assert f"{MINE}[^human]" in text
    assert "растёт" in text
    assert not list(store.wiki.rglob("*.conflict.md"))


@pytest.mark.parametrize("name", [PAGE, "log.md", "index.md"])
def test_a_file_that_appears_while_a_page_is_written_stays(
    store: Store, save_meanwhile: Callable[[Path, str], None], name: str
) -> None:
    notes = _note(store, "a.md", "Линейное внимание")
    save_meanwhile(store.wiki / name, f"{MINE}\n")
    failures = store.build(notes)["export"].failures
    text = (store.wiki / name).read_text("utf-8")
    assert text.endswith(f"{MINE}\n")
    assert [each for each, _ in failures] == ([] if name == "log.md" else [name])
    assert text.startswith("# Log" if name == "log.md" else MINE)


def test_an_edit_saved_while_the_page_is_removed_stays(
    store: Store, save_meanwhile: Callable[[Path, str], None]
) -> None:
    notes = _note(store, "a.md", "Линейное внимание")
    store.build(notes)
    _note(store, "a.md", "Сеть Хопфилда")
    save_meanwhile(store.wiki / PAGE, MINE)
    [(name, why)] = store.build(notes)["export"].failures
    assert (name, "it was kept" in why) == (PAGE, True)
    assert (store.wiki / PAGE).read_text("utf-8") == MINE
    assert not list(store.wiki.rglob(".*.kbwiki-*"))


def test_a_system_that_cannot_exchange_files_replaces_them(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wiki_files, "_renameat2", lambda *_: errno.ENOSYS)
    notes = _note(store, "a.md", "Линейное внимание")
    store.build(notes)
    _note(store, "a.md", "Сеть Хопфилда")
    assert store.build(notes)["export"].failures == ()
    assert [p.name for p in (store.wiki / "concepts").iterdir()] == ["сеть-хопфилда.md"]
