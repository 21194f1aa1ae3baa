"""The exported folder: the log, the manifest, what is removed and what never is."""

import json
from pathlib import Path

import pytest
from conftest import Store

from kbwiki.errors import ConfigError
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
    assert [p.name for p in store.wiki.iterdir()] == [MANIFEST]


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
