"""Names as people give them, from file to exported page."""

import unicodedata
from pathlib import Path

import pytest
from conftest import Store

from kbwiki.cli import main
from kbwiki.text.normal import canonical_key

BODY = (
    "\n\nThe page about **linear attention** is number {} of a test. Linear attention is short.\n"
)


def _write(folder: Path, notes: dict[str, str]) -> Path:
    for at, (name, text) in enumerate(notes.items()):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + BODY.format(at), "utf-8")
    return folder


def _sources(store: Store) -> dict[str, str]:
    return {
        name: content.decode()
        for name, content in store.files().items()
        if name.startswith("sources/")
    }


def test_notes_with_cyrillic_names_and_one_named_by_an_emoji(store: Store) -> None:
    notes = {"заметка первая.md": "", "Ещё одна.md": "", "🙂.md": ""}
    store.build(_write(store.root / "notes", notes))
    assert set(_sources(store)) == {
        "sources/заметка-первая.md", "sources/ещё-одна.md", "sources/🙂.md",
    }  # fmt: skip


def test_a_title_of_140_letters_exported_three_times(store: Store) -> None:
    title = ("О запоминании длинных последовательностей рекуррентными сетями " * 3)[:140]
    folder = _write(store.root / "notes", {"a.md": f"# {title}"})
    wikis = []
    for n in range(3):
        store.wiki = store.root / f"wiki{n}"
        store.build(folder)
        wikis.append(store.files())
    assert wikis[0] == wikis[1] == wikis[2]
    [name] = _sources(store)
    assert len(Path(name).name.encode()) <= 200
    assert f'title: "{title.strip()}"' in _sources(store)[name]


def test_notes_of_one_name_in_two_folders(store: Store) -> None:
    store.build(_write(store.root / "notes", {"a/notes.md": "", "b/notes.md": ""}))
    pages = _sources(store)
    assert len(pages) == 2
    uris = {line for text in pages.values() for line in text.splitlines() if "uri: " in line}
    assert uris == {'uri: "notes/a/notes.md"', 'uri: "notes/b/notes.md"'}


def test_spellings_of_one_concept_are_one_page(store: Store) -> None:
    forms = ["Linear RNN", "linear-rnn", "Linear_RNN"]
    notes = {
        f"{at}.md": f"# Note {at}\n\n**{form}** is a network without gates. A {form} is fast."
        for at, form in enumerate(forms)
    }
    store.build(_write(store.root / "notes", notes))
    keys = [row["key"] for row in store.database.dicts("list_titles")]
    assert [key for key in keys if "rnn" in key] == ["linear rnn"]


def test_composed_and_decomposed_letters_are_one_name(store: Store) -> None:
    title = "Йодирование ёлки"
    notes = {
        f"{form}.md": f"# Note {form}\n\n**{unicodedata.normalize(form, title)}** — это опыт. "
        f"{unicodedata.normalize(form, title)} длится час."
        for form in ("NFC", "NFD")
    }
    store.build(_write(store.root / "notes", notes))
    keys = [row["key"] for row in store.database.dicts("list_titles")]
    assert keys.count(canonical_key(title)) == 1
    assert sum("елки" in key for key in keys) == 1


@pytest.mark.parametrize(
    "title", ["C#", "TCP/IP", "What is Q?", "A|B", "CON", ".hidden", "nul.txt"]
)
def test_reserved_names_are_mapped_and_come_back(store: Store, title: str) -> None:
    store.build(_write(store.root / "notes", {"a.md": f"# {title}"}))
    [name] = _sources(store)
    stem = Path(name).stem
    assert not set('<>:"/\\|?*#^[]') & set(stem)
    assert not stem.startswith(".")
    assert stem.lower().split(".")[0] not in {"con", "nul", "prn", "aux"}
    assert unicodedata.normalize("NFKC", stem).startswith(
        title.lower().replace(" ", "-").replace("con", "con-")[:3]
    )
    assert f'title: "{title}"' in _sources(store)[name]


def test_names_that_differ_in_case_alone_are_two_files_everywhere(store: Store) -> None:
    store.build(_write(store.root / "notes", {"a.md": "# Note", "b.md": "# NOTE"}))
    names = {name.casefold() for name in _sources(store)}
    assert len(names) == 2


def test_other_names_in_front_matter_are_names_of_the_notes_concept(store: Store) -> None:
    text = (
        "---\naliases: [TTT, обучение во время вывода]\n---\n# Test-time training\n\n"
        "**Test-time training** is training that goes on in use. Test-time training costs time."
    )
    other = (
        "# Заметка\n\nОбучение во время вывода меняет веса. Потом обучение во время вывода длится."
    )
    store.build(_write(store.root / "notes", {"a.md": text, "b.md": other}))
    page = store.files()["concepts/test-time-training.md"].decode()
    assert '"TTT"' in page
    assert '"обучение во время вывода"' in page
    assert "меняет веса" in page
    assert main(["show", "TTT", "--db", store.database.url]) == 0
