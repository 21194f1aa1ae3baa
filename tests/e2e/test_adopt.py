"""A person edits exported pages: their words are taken in, win, are marked, and are never lost."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import Store

from kbwiki.cli import main
from kbwiki.lint import lint

NOTES = {
    "a.md": "# Линейное внимание\n\n**Линейное внимание** — это внимание без softmax. Линейное "
    "внимание хранит матрицу состояния. Линейное внимание дешевле softmax.\n",
    "b.md": "# Delta rule\n\n**The delta rule** is a learning rule that corrects an error. The "
    "delta rule writes into **fast weights**. The delta rule is used with линейное внимание.\n",
}


@pytest.fixture
def built(store: Store, tmp_path: Path) -> Store:
    """A store with a Russian and an English note."""
    for name, text in NOTES.items():
        (tmp_path / name).write_text(text, "utf-8")
    _build(store)
    return store


def _build(store: Store) -> tuple[tuple[str, str], ...]:
    """Build again and return what export refused."""
    return store.build(*(store.root / name for name in NOTES))["export"].failures


def _edit(store: Store, name: str, change: Callable[[str], str]) -> str:
    path = store.wiki / name
    before = path.read_text("utf-8")
    after = change(before)
    assert after != before
    path.write_text(after, "utf-8")
    return after


SEAM = "\n<!-- kbwiki: generated from"


def _add(store: Store, name: str, words: str) -> None:
    """Write words below a page's body."""
    _edit(store, name, lambda text: text.replace(SEAM, f"\n{words}\n{SEAM}"))


def _page(store: Store, name: str) -> str:
    return (store.wiki / name).read_text("utf-8")


RU = "concepts/линейное-внимание.md"
EN = "concepts/delta-rule.md"
SOURCE = "sources/delta-rule.md"


@pytest.mark.parametrize(
    ("name", "words", "mark"),
    [
        (RU, "Мои слова о нём.", "[^human]: Написано человеком."),
        (EN, "My own words.", "[^human]: Written by a person."),
        (SOURCE, "My own words.", "[^human]: Written by a person."),
    ],
)
def test_added_words_are_kept_marked_and_counted(
    built: Store, name: str, words: str, mark: str
) -> None:
    _add(built, name, words)
    assert _build(built) == ()
    page = _page(built, name)
    assert f"{words}[^human]" in page
    assert mark in page
    assert "uncited: 1\n" in page
    assert "human_written: 1\n" in page
    assert not list(built.wiki.rglob("*.conflict.md"))
    before = built.files()
    assert _build(built) == ()
    assert built.files() == before
    notes = [f for f in lint(built.database, {}) if f.rule == "uncited"]
    assert [(f.level, f.where, f.what) for f in notes] == [("note", name, words)]


def test_a_persons_words_win_over_a_rewritten_statement_and_new_ones_come_too(
    built: Store,
) -> None:
    _edit(
        built,
        RU,
        lambda text: text.replace("хранит матрицу состояния", "хранит то, что я сказал", 1),
    )
    note = built.root / "a.md"
    note.write_text(
        NOTES["a.md"].replace("матрицу состояния", "большую матрицу")
        + "Линейное внимание растёт вместе с длиной контекста и памятью модели.\n",
        "utf-8",
    )
    assert _build(built) == ()
    page = _page(built, RU)
    assert re.search(r"хранит то, что я сказал\.(\[\^\d+\])*\[\^human\]", page)
    assert "большую матрицу" not in page.split("<!--")[0]
    assert "растёт вместе с длиной контекста" in page
    numbers = {int(n) for n in re.findall(r"\[\^(\d+)\](?!:)", page)}
    assert numbers == {int(n) for n in re.findall(r"^\[\^(\d+)\]:", page, re.MULTILINE)}


def test_what_a_person_took_out_stays_out(built: Store) -> None:
    _edit(
        built, EN, lambda text: re.sub(r"[^\n\]]*writes into[^\n]*?\[\^\d+\] ?", "", text, count=1)
    )
    assert "writes into" not in _page(built, EN).split("<!--")[0]
    (built.root / "b.md").write_text(
        NOTES["b.md"]
        + "The delta rule is as old as the first adaptive filters of the radio age.\n",
        "utf-8",
    )
    assert _build(built) == ()
    page = _page(built, EN)
    assert "writes into" not in page.split("<!--")[0]
    assert "radio age" in page


def test_headings_front_matter_and_what_stands_below_are_kept(built: Store) -> None:
    def change(text: str) -> str:
        text = text.replace("---\n\n# ", "tags:\n  - моё\n---\n\n# ", 1)
        text = re.sub(r"^kind: .*\n", "", text, flags=re.MULTILINE)
        text = text.replace("# Линейное внимание", "# Линейное внимание (мой взгляд)", 1)
        return text + "\n## Мой раздел\n\nТекст под разметкой.\n"

    _edit(built, RU, change)
    assert _build(built) == ()
    (built.root / "a.md").write_text(
        NOTES["a.md"] + "Линейное внимание растёт вместе с длиной контекста и памятью модели.\n",
        "utf-8",
    )
    assert _build(built) == ()
    page = _page(built, RU)
    assert "tags:\n  - моё\n---" in page
    assert "\nkind:" not in page
    assert "\n# Линейное внимание (мой взгляд)\n" in page
    assert page.endswith("## Мой раздел\n\nТекст под разметкой.\n")


def test_an_edit_that_is_taken_back_leaves_no_trace(built: Store) -> None:
    before = built.files()
    _add(built, EN, "A thought.")
    _build(built)
    (built.wiki / EN).write_bytes(before[EN])
    assert _build(built) == ()
    assert built.files() == before
    assert built.database.dicts("list_edits") == []


def test_a_second_edit_builds_on_the_first(built: Store) -> None:
    _add(built, EN, "First thought.")
    _build(built)
    _edit(built, EN, lambda text: text.replace("First thought.[^human]", "Better thought."))
    _build(built)
    page = _page(built, EN)
    assert "Better thought.[^human]" in page
    assert "First thought" not in page
    _edit(built, EN, lambda text: text.replace("Better thought.[^human]\n", ""))
    _build(built)
    page = _page(built, EN)
    assert "[^human]" not in page
    assert "human_written" not in page


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text.replace("<!-- kbwiki: generated to here -->", ""),
        lambda text: text.replace("generated from here -->", "generated from here -->\ny"),
        lambda text: "всё моё\n",
    ],
    ids=["a seam is lost", "between the seams", "all is new"],
)
def test_what_cannot_be_merged_is_left_and_reported(
    built: Store, change: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    mine = _edit(built, RU, change)
    for _ in range(2):  # each time, though there is nothing of ours to lay beside it
        [(name, why)] = _build(built)
        assert name == RU
        assert "it was left as it is" in why
        assert _page(built, RU) == mine
    assert not list(built.wiki.rglob("*.conflict.md"))
    (built.root / "a.md").write_text(
        NOTES["a.md"] + "Линейное внимание растёт вместе с длиной контекста и памятью модели.\n",
        "utf-8",
    )
    [(name, why)] = _build(built)
    assert name == RU
    assert "линейное-внимание.conflict.md" in why
    assert _page(built, RU) == mine
    assert "растёт" in _page(built, RU.replace(".md", ".conflict.md"))
    monkeypatch.chdir(built.root)
    assert main(["export", "--db", built.database.url]) == 1
    assert _page(built, RU) == mine


PLACES = [("a.md", "sources/линейное-внимание.md"), ("b.md", SOURCE)]


@pytest.mark.parametrize(("file", "page"), PLACES)
def test_words_follow_a_file_that_is_renamed_and_then_retitled(
    built: Store, file: str, page: str
) -> None:
    link = f"[[{page.removesuffix('.md')}|там]]"
    _add(built, page, "Моё слово.[^1]")
    for name in (RU, EN):
        _add(built, name, f"Моё слово, {link}.[^1]")
    _build(built)
    before = {name: text.decode() for name, text in built.files().items()}
    note = built.root / "заметка.md"
    (built.root / file).rename(note)
    assert built.build(built.root)["export"].failures == ()
    after = {name: text.decode() for name, text in built.files().items()}
    assert after[page] == before[page].replace(f'uri: "{file}"', 'uri: "заметка.md"')
    assert after[RU] == before[RU]
    assert after[EN] == before[EN]
    title = NOTES[file].partition("\n")[0]
    note.write_text(NOTES[file].replace(title, "# Новое имя", 1), "utf-8")
    assert built.build(built.root)["export"].failures == ()
    assert page not in built.files()
    for name in ("sources/новое-имя.md", RU if file == "a.md" else EN):
        text = _page(built, name)
        words = re.search(r"Моё слово(.*)\.\[\^(\d+)\]\[\^human\]", text)
        assert words
        assert words[1] in {"", ", [[sources/новое-имя|там]]"}
        # The quote stands elsewhere in the file now, and is cited there.
        note_of = rf"^\[\^{words[2]}\]: [“«](.*?)[”»] — .* (\d+)–(\d+)\.$"
        [(quote, start, end)] = re.findall(note_of, text, re.MULTILINE)
        [source] = built.database.dicts("show_source", {"uri": "заметка.md"})
        assert source["text"][int(start) : int(end)] == quote


def test_no_words_are_lost_where_a_file_takes_the_place_of_another(built: Store) -> None:
    for _, page in PLACES:
        _add(built, page, f"Слова на {page}.")
    _build(built)
    (built.root / "a.md").replace(built.root / "b.md")
    built.build(built.root)
    texts = "".join(text.decode() for text in built.files().values())
    for _, page in PLACES:
        assert f"Слова на {page}.[^human]" in texts


def test_words_follow_the_bytes_of_two_files_that_exchange_their_names(built: Store) -> None:
    for _, page in PLACES:
        _add(built, page, f"Слова на {page}.")
    _build(built)
    before = built.files()
    names = [built.root / file for file, _ in PLACES]
    texts = [name.read_bytes() for name in names]
    for name, text in zip(names, reversed(texts), strict=True):
        name.write_bytes(text)
    assert _build(built) == ()
    for _, page in PLACES:
        assert f"Слова на {page}.[^human]" in _page(built, page)
    for name, text in zip(names, texts, strict=True):
        name.write_bytes(text)
    assert _build(built) == ()
    assert built.files() == before


@pytest.mark.parametrize(("name", "words"), [(RU, "Мои слова."), (EN, "My own words.")])
def test_a_conflict_is_settled_by_taking_our_version_and_adding_words(
    built: Store, name: str, words: str
) -> None:
    _edit(built, name, lambda text: text.split("<!--")[0] + words)
    for file, more in (
        ("a.md", "Линейное внимание растёт вместе с длиной контекста и памятью модели.\n"),
        ("b.md", "The delta rule stores a new value for a key that it has seen before.\n"),
    ):
        (built.root / file).write_text(NOTES[file] + more, "utf-8")
    assert [refused for refused, _ in _build(built)] == [name]
    other = built.wiki / name.replace(".md", ".conflict.md")
    assert _page(built, name).endswith(words)
    (built.wiki / name).write_text(
        other.read_text("utf-8").replace(SEAM, f"\n{words}\n{SEAM}"), "utf-8"
    )
    assert _build(built) == ()
    assert f"{words}[^human]" in _page(built, name)
    assert not other.exists()
    before = built.files()
    assert _build(built) == ()
    assert built.files() == before


def test_words_on_a_page_whose_concept_is_gone_are_kept_and_come_back(built: Store) -> None:
    _add(built, EN, "Моё.")
    _build(built)
    whole = _page(built, EN)
    (built.root / "b.md").write_text("# Nothing\n\nNothing of note is here at all.\n", "utf-8")
    refused = dict(_build(built))
    assert "holds a person's words" in refused[EN]
    assert "Моё." in _page(built, EN)
    (built.root / "b.md").write_text(NOTES["b.md"], "utf-8")
    assert _build(built) == ()
    assert _page(built, EN) == whole


def test_a_merge_of_concepts_does_not_overwrite_words(built: Store) -> None:
    from kbwiki.curate import merge, unmerge

    _add(built, RU, "Моё.")
    _add(built, EN, "Mine.")
    _build(built)
    whole = built.files()
    merge(built.services(), "delta rule", "линейное внимание")
    refused = dict(_build(built))
    assert "holds a person's words" in refused[RU]
    assert "Моё." in _page(built, RU)
    unmerge(built.services(), "delta rule")
    assert _build(built) == ()
    assert built.files() == whole


@pytest.mark.parametrize(
    ("kept", "other", "name", "page"),
    [("delta rule", "линейное внимание", RU, EN), ("линейное внимание", "delta rule", EN, RU)],
)
def test_words_on_a_concept_that_is_a_name_of_another_stand_there(
    built: Store, kept: str, other: str, name: str, page: str
) -> None:
    from kbwiki.curate import merge, unmerge

    _edit(built, name, lambda text: text.replace("---\n", "---\nметка: моя\n", 1))
    _add(built, name, "Моё слово.[^1]")
    _build(built)
    whole = built.files()
    merge(built.services(), kept, other)
    assert _build(built) == ()
    assert re.search(r"Моё слово\.\[\^\d+\]\[\^human\]", _page(built, page))
    assert "redirect: true" in _page(built, name)
    unmerge(built.services(), kept)
    assert _build(built) == ()
    assert built.files() == whole
    # Who edits the page of both has both words there.
    merge(built.services(), kept, other)
    _build(built)
    _add(built, page, "Ещё слово.")
    assert _build(built) == ()
    assert _build(built) == ()
    text = _page(built, page)
    assert text.count("Моё слово.") == text.count("Ещё слово.[^human]") == 1
    assert "метка: моя" in text
    assert "redirect: true" in _page(built, name)


def test_a_page_edited_while_its_base_is_not_known_goes_to_a_conflict(built: Store) -> None:
    built.database.connection.execute("delete from kb.page_base")
    mine = _edit(built, RU, lambda text: text.replace("softmax", "софтмакс", 1))
    (built.root / "a.md").write_text(
        NOTES["a.md"] + "Линейное внимание растёт вместе с длиной контекста и памятью модели.\n",
        "utf-8",
    )
    assert [name for name, _ in _build(built)] == [RU]
    assert _page(built, RU) == mine


def test_a_page_that_a_person_deleted_is_made_again_with_their_words(built: Store) -> None:
    _add(built, EN, "Mine.")
    _build(built)
    whole = _page(built, EN)
    (built.wiki / EN).unlink()
    assert _build(built) == ()
    assert _page(built, EN) == whole


def test_words_are_shown_and_a_link_in_them_counts(
    built: Store, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    link = "See [[concepts/линейное-внимание|это]]."
    wrong = "Ср. [[concepts/нет такого|то]] и [[sources/delta-rule.md#Delta rule]]."
    _add(built, SOURCE, f"{link}\n\n{wrong}")
    _build(built)
    broken = [f for f in lint(built.database, {}) if f.rule == "broken link"]
    assert [(f.level, f.where) for f in broken] == [("note", SOURCE)]
    assert "concepts/нет такого" in broken[0].what
    assert "See [[concepts/линейное-внимание|это]].[^human]" in _page(built, SOURCE)
    monkeypatch.chdir(built.root)
    assert main(["show", "--citations", "sources/delta-rule", "--db", built.database.url]) == 0
    assert "See это." in capsys.readouterr().out


@pytest.mark.parametrize("new", ["concepts/Моё имя.md", "мои/линейное-внимание.md"])
def test_a_page_that_a_person_renamed_is_written_anew_and_the_copy_is_named(
    built: Store, new: str
) -> None:
    text = _page(built, RU)
    (built.wiki / new).parent.mkdir(exist_ok=True)
    (built.wiki / RU).rename(built.wiki / new)
    for _ in range(2):  # as long as it stands
        report = built.build(*(built.root / name for name in NOTES))["export"]
        assert report.failures == ()
        assert f"{new} is another name of {RU}: what is written there" in report.outcome.note
        assert _page(built, RU) == _page(built, new) == text
    (built.wiki / new).unlink()
    note = built.build(*(built.root / name for name in NOTES))["export"].outcome.note
    assert note == "0 added, 0 changed, 0 removed"


def test_words_on_a_page_that_a_person_renamed_are_taken_in(built: Store) -> None:
    _add(built, EN, "My own words.")
    new = built.wiki / "concepts" / "My name.md"
    (built.wiki / EN).rename(new)
    edited = new.read_text("utf-8")
    report = built.build(*(built.root / name for name in NOTES))["export"]
    assert "edits of 1 page taken in; concepts/My name.md is another name" in report.outcome.note
    assert "My own words.[^human]" in _page(built, EN)
    assert new.read_text("utf-8") == edited
    assert "My own words" not in _page(built, RU)
