"""One name of two things: two pages where a person says so, and a question where it may be so."""

from pathlib import Path

import pytest
from conftest import Store

from kbwiki.cli import main
from kbwiki.curate import merge, remove_sources, split, unmerge, unsplit
from kbwiki.errors import InputError, NotFoundError

NOTES = {
    "модель.md": "# Titans\n\n**Titans** is a neural memory model. Titans uses the **delta rule** "
    "on line. The delta rule corrects an error.\n",
    "память.md": "# Нейронная память\n\n**Нейронная память** меняет веса. Модель Titans использует "
    "нейронную память. Нейронная память хранит прошлое.\n",
    "club.md": "# Titans\n\n**Titans** is a football club from Nashville. Titans plays in the "
    "**Nissan Stadium**. The Nissan Stadium is large.\n",
    "ключ-1.md": "# Ключ\n\n**Ключ** — это источник подземной воды. Ключ питает **лесной ручей**. "
    "Лесной ручей течёт в реку.\n",
    "ключ-2.md": "# Ключ\n\n**Ключ** — это вектор, с которым сравнивают запрос. Ключ хранит **слой "
    "внимания**. Слой внимания читает прошлое.\n",
}
MODEL, CLUB = "concepts/titans.md", "concepts/titans-(football-club).md"
CLUB_TITLE = "Titans (football club)"
AFTER = ("write", "classify-edges", "export")


@pytest.fixture
def built(store: Store, tmp_path: Path) -> Store:
    """A store in which two names mean two things each."""
    for name, text in NOTES.items():
        (tmp_path / name).write_text(text, "utf-8")
    _build(store)
    return store


def _build(store: Store) -> None:
    store.build(store.root)


def _body(store: Store, page: str) -> str:
    return store.files()[page].decode().split("<!--")[0]


def _doubted(store: Store) -> set[str]:
    return {row["title"] for row in store.database.dicts("list_homonyms")}


def test_a_name_whose_sources_have_nothing_in_common_is_doubted_until_it_is_settled(
    built: Store, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _doubted(built) == {"Titans", "Ключ"}
    split(built.services(), "Titans", ["club.md"], CLUB_TITLE)
    split(built.services(), "Ключ", ["ключ-1.md"], "Ключ")
    assert _doubted(built) == set()
    unsplit(built.services(), "Ключ", ["ключ-1.md"])
    monkeypatch.setenv("KBWIKI_DATABASE_URL", built.database.url)
    monkeypatch.chdir(built.root)
    assert main(["merge", "list"]) == 0
    out = capsys.readouterr().out
    assert f"{CLUB_TITLE} in club.md" in out
    assert "may be two" in out
    assert "kbwiki split A FILE --as TITLE" in out
    assert main(["lint", "--json"]) in {0, 1}
    assert '"rule": "homonym", "where": "Ключ"' in capsys.readouterr().out
    assert main(["split", "Ключ", "ключ-1.md", "--as", "Ключ (родник)", "--dry-run"]) == 0
    assert "added concept: Ключ (родник)" in capsys.readouterr().out
    assert _doubted(built) == {"Ключ"}
    assert main(["split", "Ключ", "ключ-1.md"]) == 2


def test_each_thing_has_a_page_of_its_own_sources_and_undo_is_exact(built: Store) -> None:
    before = built.files()
    split(built.services(), "Titans", ["club.md"], CLUB_TITLE)
    built.build(names=AFTER)
    assert "Nashville" in _body(built, CLUB)
    assert "neural memory model" not in _body(built, CLUB)
    assert "Nashville" not in _body(built, MODEL)
    assert "Модель Titans использует" in _body(built, MODEL)
    assert (
        "[[concepts/titans-(football-club)|" in built.files()["concepts/nissan-stadium.md"].decode()
    )
    two = built.files()
    # It holds when the file moves, and then changes.
    (built.root / "club.md").rename(built.root / "клуб.md")
    _build(built)
    text = NOTES["club.md"] + "Titans was founded in 1960.\n"
    (built.root / "клуб.md").write_text(text, "utf-8")
    _build(built)
    assert "1960" in _body(built, CLUB)
    (built.root / "клуб.md").unlink()
    (built.root / "club.md").write_text(NOTES["club.md"], "utf-8")
    remove_sources(built.services(), ["клуб.md"])
    _build(built)
    split(built.services(), "Titans", ["club.md"], CLUB_TITLE)
    built.build(names=AFTER)
    assert built.files() == two
    unsplit(built.services(), CLUB_TITLE, ["club.md"])
    built.build(names=AFTER)
    assert built.files() == before


def test_the_one_outlives_the_other(built: Store) -> None:
    split(built.services(), "Titans", ["club.md"], CLUB_TITLE)
    built.build(names=AFTER)
    two = built.files()
    remove_sources(built.services(), ["модель.md", "память.md"])
    built.build(names=AFTER)
    assert "Nashville" in _body(built, CLUB)
    _build(built)
    assert built.files() == two
    remove_sources(built.services(), ["club.md"])
    built.build(names=AFTER)
    assert CLUB not in built.files()
    _build(built)
    assert built.files() == two


def test_two_that_were_split_can_be_merged_and_unmerged(built: Store) -> None:
    # Rules would ask whether this title is the name without its kind.
    split(built.services(), "Titans", ["club.md"], "Titans (mechanism)")
    built.build(names=AFTER)
    assert "Nashville" in _body(built, "concepts/titans-(mechanism).md")
    assert built.database.dicts("list_likenesses") == []
    split(built.services(), "Titans (mechanism)", ["club.md"], CLUB_TITLE)
    built.build(names=AFTER)
    two = built.files()
    assert "concepts/titans-(mechanism).md" not in two
    merge(built.services(), "Titans", CLUB_TITLE)
    built.build(names=AFTER)
    assert {"Nashville", "neural"} <= set(_body(built, MODEL).replace(".", " ").split())
    unmerge(built.services(), "Titans")
    built.build(names=AFTER)
    assert built.files() == two


def test_what_cannot_be_split_is_said(built: Store) -> None:
    services = built.services()
    with pytest.raises(InputError, match=r"память\.md does not name Nissan Stadium"):
        split(services, "Nissan Stadium", ["память.md"], "Арена")
    with pytest.raises(InputError, match="is no title"):
        split(services, "Titans", ["club.md"], "—")
    with pytest.raises(NotFoundError, match="no such file"):
        split(services, "Titans", ["club.md", "нет.md"], CLUB_TITLE)
    with pytest.raises(InputError, match="nothing was said of Titans"):
        unsplit(services, "Titans", ["club.md"])
