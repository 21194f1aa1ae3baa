"""Merging, splitting and removing: exact inverses, and nothing lost that others support."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import Store

from kbwiki.curate import merge, remove_sources, unmerge
from kbwiki.errors import InputError, NotFoundError

NOTES = {
    "a.md": "# Линейное внимание\n\n**Линейное внимание** (linear attention) — это внимание без "
    "softmax. Линейное внимание основано на **быстрых весах**. Быстрые веса меняются на ходу.\n",
    "b.md": "# Kernel attention\n\n**Kernel attention** is attention with a feature map. Kernel "
    "attention uses the **outer product**. Linear attention is related to the outer product.\n",
    "c.md": "# Titans\n\n**Titans** is a family of models. Titans uses linear attention in one "
    "variant. The **surprise metric** is a part of Titans.\n",
}
AFTER = ("write", "classify-edges", "export")


@pytest.fixture
def built(store: Store, tmp_path: Path) -> Store:
    """A store with three notes."""
    for name, text in NOTES.items():
        (tmp_path / name).write_text(text, "utf-8")
    store.build(*(tmp_path / name for name in NOTES))
    return store


def _state(store: Store) -> dict[str, object]:
    counts = {
        table: store.database.connection.execute(
            f"select count(*) from kb.{table}".encode()
        ).fetchone()
        for table in (
            "source",
            "chunk",
            "concept",
            "alias",
            "mention",
            "edge",
            "article",
            "citation",
        )
    }
    rows = [
        store.database.connection.execute(query).fetchall()
        for query in (
            b"select c.key, a.key, a.name, a.lang, a.kind from kb.alias a"
            b" join kb.concept c on c.id = a.concept_id order by 1, 2",
            b"select h.key, t.key, e.type, e.status, e.n_evidence from kb.edge e"
            b" join kb.concept h on h.id = e.head_id join kb.concept t on t.id = e.tail_id"
            b" order by 1, 2",
            b"select c.key, s.sha256, m.start_at, m.end_at, m.linked, m.defines from kb.mention m"
            b" join kb.concept c on c.id = m.concept_id join kb.source s on s.id = m.source_id"
            b" order by 1, 2, 3",
        )
    ]
    return {"counts": counts, "rows": rows, "files": store.files()}


def _titles(store: Store) -> set[str]:
    return {row["title"] for row in store.database.dicts("list_titles")}


def test_unmerge_is_the_exact_inverse_of_merge(built: Store) -> None:
    before = _state(built)
    effect = merge(built.services(), "linear attention", "Kernel attention")
    assert ("concept", "Kernel attention") in effect.removed
    built.build(names=AFTER)
    assert "Kernel attention" not in _titles(built)
    page = built.files()["concepts/kernel-attention.md"].decode()
    assert "redirect: true" in page
    assert "→ [[concepts/" in page
    found = built.database.dicts("find_page", {"slug": "", "keys": ["kernel attention"]})
    assert len(found) == 1
    effect = unmerge(built.services(), "linear attention")
    assert ("concept", "Kernel attention") in effect.added
    built.build(names=AFTER)
    assert _state(built) == before


def test_a_merge_holds_when_sources_change(built: Store, tmp_path: Path) -> None:
    merge(built.services(), "linear attention", "Kernel attention")
    text = NOTES["b.md"] + "Kernel attention was compared with Titans.\n"
    (tmp_path / "b.md").write_text(text, "utf-8")
    built.build(*(tmp_path / name for name in NOTES))
    assert "Kernel attention" not in _titles(built)


def test_a_dry_run_tells_the_same_and_leaves_no_trace(built: Store) -> None:
    before = _state(built)
    dry = merge(built.services(), "linear attention", "Kernel attention", dry_run=True)
    assert _state(built) == before
    assert merge(built.services(), "linear attention", "Kernel attention") == dry


def test_a_chain_of_merges_ends_in_the_concept_that_stays(built: Store) -> None:
    before = _state(built)
    merge(built.services(), "Kernel attention", "Titans")
    merge(built.services(), "linear attention", "Kernel attention")
    built.build(names=AFTER)
    assert not {"Kernel attention", "Titans"} & _titles(built)
    for name in ("titans", "kernel-attention"):
        assert "[[concepts/линейное-внимание|" in built.files()[f"concepts/{name}.md"].decode()
    unmerge(built.services(), "linear attention", "Titans")
    built.build(names=AFTER)
    assert "Titans" in _titles(built)
    assert "Kernel attention" not in _titles(built)
    unmerge(built.services(), "linear attention")
    built.build(names=AFTER)
    assert _state(built) == before


def test_merges_are_taken_back_one_by_one_the_last_first(built: Store) -> None:
    states = [_state(built)]
    for pair in (("Kernel attention", "linear attention"), ("Titans", "Линейное внимание")):
        merge(built.services(), *pair)
        built.build(names=AFTER)
        states.append(_state(built))
    remove_sources(built.services(), ["b.md"])
    built.build(*(built.root / name for name in NOTES))
    assert _state(built) == states[2]
    for expected in (states[1], states[0]):
        unmerge(built.services(), "linear attention")
        built.build(names=AFTER)
        assert _state(built) == expected


def test_a_name_can_be_split_out_of_its_concept(built: Store) -> None:
    [page] = built.database.dicts("find_page", {"slug": "", "keys": ["linear attention"]})
    assert page["key"] == "линейное внимание"
    unmerge(built.services(), "Линейное внимание", "linear attention")
    assert {"Линейное внимание", "Linear attention"} <= _titles(built)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda s: merge(s, "Titans", "No such"), NotFoundError, "No such: no concept has this"),
        (lambda s: merge(s, "linear attention", "Линейное внимание"), InputError, "one concept"),
        (lambda s: unmerge(s, "Titans"), InputError, "nothing was merged into Titans by hand"),
        (lambda s: unmerge(s, "Titans", "surprise metric"), InputError, "is no other name of"),
        (lambda s: remove_sources(s, ["a.md", "x.md"]), NotFoundError, "x.md: the store holds no"),
    ],
)  # fmt: skip
def test_what_cannot_be_done_is_said_and_changes_nothing(
    built: Store, call: Callable[[object], object], error: type[Exception], message: str
) -> None:
    before = _state(built)
    with pytest.raises(error, match=message):
        call(built.services())
    assert _state(built) == before


def test_removing_a_source_and_adding_it_again_restores_everything(
    built: Store, tmp_path: Path
) -> None:
    before = _state(built)
    dry = remove_sources(built.services(), ["c.md"], dry_run=True)
    assert _state(built) == before
    assert remove_sources(built.services(), ["c.md"]) == dry
    assert ("concept", "Titans") in dry.removed
    assert ("source", "Titans") in dry.removed
    built.build(names=AFTER)
    assert "concepts/titans.md" not in built.files()
    assert "Линейное внимание" in _titles(built)
    built.build(tmp_path / "c.md")
    assert _state(built) == before


def test_one_of_two_names_of_a_source_can_go(built: Store, tmp_path: Path) -> None:
    (tmp_path / "copy.md").write_text(NOTES["c.md"], "utf-8")
    built.build(tmp_path / "copy.md")
    assert remove_sources(built.services(), ["copy.md"]).removed == ()
    assert "Titans" in _titles(built)


def test_the_commands_say_what_changes(
    tmp_path: Path, url: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from kbwiki.cli import main

    for name, text in NOTES.items():
        (tmp_path / name).write_text(text, "utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("KBWIKI_DATABASE_URL", url)
    for line in ("ingest a.md b.md c.md", "extract", "resolve", "write", "link", "export"):
        assert main(line.split()) == 0
    capsys.readouterr()
    assert main(["rm", "c.md", "--dry-run"]) == 0
    out = capsys.readouterr().out
    assert "removed source: Titans" in out
    assert out.endswith("dry run: nothing was changed\n")
    assert main(["merge", "linear attention", "Kernel attention", "--json"]) == 0
    first = json.loads(capsys.readouterr().out.splitlines()[0])
    assert ["concept", "Kernel attention"] in first["removed"]
    assert main(["merge", "list"]) == 0
    assert "Kernel attention" in capsys.readouterr().out
    assert main(["rm", str(tmp_path / "c.md")]) == 0
    assert not (tmp_path / "wiki" / "concepts" / "titans.md").exists()
    assert main(["merge", "Titans"]) == 2
