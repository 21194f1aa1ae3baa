"""`lint` finds each kind of fault, and nothing in a healthy store."""

from pathlib import Path

import pytest
from conftest import Store

from kbwiki.lint import Finding, lint

NOTES = {
    "a.md": "# Линейное внимание\n\n**Линейное внимание** (linear attention) — это внимание без "
    "softmax. Линейное внимание основано на **быстрых весах**. Быстрые веса меняются на ходу.\n",
    "b.md": "# Titans\n\n**Titans** is a family of models. Titans uses linear attention.\n",
}


@pytest.fixture
def built(store: Store, tmp_path: Path) -> Store:
    """A store with two notes."""
    for name, text in NOTES.items():
        (tmp_path / name).write_text(text, "utf-8")
    store.build(*(tmp_path / name for name in NOTES))
    return store


def _faults(store: Store, **stale: int) -> list[tuple[str, str]]:
    return [(f.rule, f.where) for f in lint(store.database, stale) if f.level == "fault"]


def test_a_healthy_store_has_no_fault(built: Store) -> None:
    assert _faults(built) == []


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        ("update kb.article set body = body || '[[c:gone|gone]][^1]'", "broken link"),
        ("update kb.article set body = body || E'\\nNobody said this.'", "uncited"),
        ("delete from kb.citation where ordinal = 1", "footnote"),
        ("delete from kb.edge_evidence", "edge"),
        (
            "insert into kb.attempt (stage, item, reason) values ('ingest', 'x.md', 'empty')",
            "failed",
        ),
    ],
)
def test_each_fault_is_found(built: Store, change: str, rule: str) -> None:
    built.database.connection.execute(change.encode())
    assert rule in {found for found, _ in _faults(built)}


def test_what_is_stale_is_a_fault(built: Store) -> None:
    assert _faults(built, embed=3, write=0) == [("stale", "embed")]


def test_a_page_that_nothing_links_to_is_a_note(built: Store) -> None:
    built.database.connection.execute(b"delete from kb.edge")
    built.database.connection.execute(b"update kb.article set body = ''")
    built.database.connection.execute(b"delete from kb.citation")
    notes = [f for f in lint(built.database, {}) if f.level == "note"]
    assert Finding("note", "orphan", "concepts/titans.md", "nothing links to it") in notes


def test_two_names_of_the_same_words_are_a_note(built: Store, tmp_path: Path) -> None:
    text = (
        "# Attention, linear\n\n**Models family** is a name. A **family model** is another one.\n"
    )
    (tmp_path / "c.md").write_text(text, "utf-8")
    built.build(tmp_path / "c.md")
    doubles = [f for f in lint(built.database, {}) if f.rule == "double"]
    assert len(doubles) == 1
