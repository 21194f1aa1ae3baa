"""`lint` finds each kind of fault, and nothing in a healthy store."""

from pathlib import Path

import psycopg
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


def test_a_concept_that_meets_most_others_is_a_note(store: Store, tmp_path: Path) -> None:
    words = [
        "amber", "basalt", "cobalt", "copper", "garnet", "granite", "marble", "nickel", "onyx",
        "opal", "pearl", "quartz", "ruby", "sandstone", "sapphire", "silver", "slate", "topaz",
        "zinc", "agate", "bronze", "chalk", "coral", "flint", "jade", "jasper", "lead", "lapis",
        "mica", "obsidian", "pewter", "platinum", "titanium", "tungsten",
    ]  # fmt: skip
    text = " ".join(
        f"The memory lattice uses a **{word} gate**. A {word} gate is small." for word in words
    )
    (tmp_path / "a.md").write_text(f"# Memory lattice\n\nThe **memory lattice** is one. {text}\n")
    store.build(tmp_path / "a.md")
    hubs = [f.where for f in lint(store.database, {}) if f.rule == "hub"]
    assert hubs == ["concepts/memory-lattice.md"]


@pytest.mark.parametrize(
    ("change", "error"),
    [
        (
            "insert into kb.edge (head_id, tail_id, evidence_sha, n_sources, n_evidence) "
            "select tail_id, head_id, '', 1, 1 from kb.edge limit 1",
            psycopg.errors.UniqueViolation,
        ),
        ("update kb.edge set head_id = -1", psycopg.errors.ForeignKeyViolation),
    ],
    ids=["duplicate", "dangling"],
)
def test_the_store_refuses_edges_that_are_double_or_lead_nowhere(
    built: Store, change: str, error: type[Exception]
) -> None:
    with pytest.raises(error):
        built.database.connection.execute(change.encode())
