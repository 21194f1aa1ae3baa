"""The index of words: what it holds of sources that come, are killed half way, and go."""

from pathlib import Path

import psycopg
import pytest
from conftest import Store

from kbwiki.search import Query, search
from kbwiki.stages import ingest
from kbwiki.stages.stage import Services

NOTES = {
    "gate.md": ("# Gates\n\nA forget gate decides what a recurrent memory drops.\n", "forget gate"),
    "окно.md": ("# Окна\n\nСкользящее окно внимания держит недавние токены.\n", "скользящих окон"),
}


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    """A folder of two notes, one in each language."""
    folder = tmp_path / "notes"
    folder.mkdir()
    for name, (text, _) in NOTES.items():
        (folder / name).write_text(text, "utf-8")
    return folder


def _save_all(services: Services) -> None:
    """Do what ingest does up to its end, as one that is killed then."""
    for item in ingest.pending(services, []):
        read = ingest.work(services, item)
        with services.database.transaction():
            ingest.save(services, item, read)


def _found(store: Store, question: str) -> list[str]:
    return [hit.text for hit in search(store.database, Query(question, mode="text"), None).hits]


def _sizes(store: Store) -> list[int]:
    rows = [
        store.database.connection.execute(f"select count(*) from kb.{table}".encode()).fetchone()
        for table in ("entry", "posting")
    ]
    return [row[0] for row in rows if row]


def test_what_a_killed_ingest_left_unindexed_is_found_after_the_next(
    store: Store, notes: Path
) -> None:
    _save_all(store.services(notes))
    assert not any(_found(store, question) for _, question in NOTES.values())
    report = store.build(notes, names=("ingest",))["ingest"]
    assert report.outcome.n_done == 0
    for text, question in NOTES.values():
        assert _found(store, question)[0] in text


def test_many_sources_are_found_before_their_ingest_ends(
    store: Store, notes: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ingest, "BATCH", 2)
    _save_all(store.services(notes))
    store.database.run("fold_tally")
    for text, question in NOTES.values():
        assert _found(store, question)[0] in text


def test_indexing_again_changes_nothing(store: Store, notes: Path) -> None:
    store.build(notes, names=("ingest",))
    before = _sizes(store)
    assert before[0] == len(NOTES)
    assert before[1] > before[0]
    store.database.run("settle_index")
    store.database.run("index_chunks", {"sources": [1, 2]})
    assert _sizes(store) == before


def test_a_chunk_that_another_removes_meanwhile_leaves_nothing(
    store: Store, notes: Path, url: str
) -> None:
    _save_all(store.services(notes))
    with psycopg.connect(url) as other:
        other.execute("delete from kb.chunk where lang = 'ru'")
        store.database.run("settle_index")
        other.commit()
    assert _sizes(store)[0] == 1
    store.database.run("settle_index")
    assert _sizes(store)[0] == 1
    store.database.connection.execute("delete from kb.chunk")
    assert _sizes(store) == [0, 0]


def test_a_second_passage_of_a_source_stands_before_what_hardly_fits(
    store: Store, tmp_path: Path
) -> None:
    filler = "The crew rested and had tea before it went on with the day. " * 40
    told = "The valve torque calibration procedure is in force."
    texts = {"handbook.md": f"# Handbook\n\n{told}\n\n{filler}\n\n{filler}\n\n{told}\n"}
    for at in range(8):
        texts[f"note{at}.md"] = f"# Note {at}\n\nIn case {at} somebody named a valve in passing.\n"
    for name, text in texts.items():
        (tmp_path / name).write_text(text, "utf-8")
    store.build(tmp_path, names=("ingest",))
    query = Query("valve torque calibration procedure", mode="text", types=("source",), k=3)
    hits = search(store.database, query, None).hits
    assert ["torque" in hit.text for hit in hits] == [True, True, False]


WALKED = {
    "en": ("how slowly does it break when frozen", "It breaks slowly when frozen.",
           "When frozen, the **{0}** breaks slowly.", "The **{0}** is a device."),
    "ru": ("почему медленный клапан ломается зимой", "Медленный клапан ломается зимой.",
           "Зимой медленный клапан прибора **{0}** ломается.", "**{0}** — это прибор."),
}  # fmt: skip


@pytest.mark.parametrize("lang", WALKED)
def test_what_fits_best_stays_first_where_no_concept_is_named(
    store: Store, tmp_path: Path, lang: str
) -> None:
    question, best, near, about = WALKED[lang]
    texts = {"best.md": best, "about.md": f"# Zetatron\n\n{about.format('Zetatron')}\n"}
    texts |= {f"near{at}.md": near.format("Zetatron") for at in range(9)}
    for name, text in texts.items():
        (tmp_path / name).write_text(f"{text}\n\n{len(name)} {name}\n", "utf-8")
    store.build(tmp_path)
    first = {}
    for mode in ("text", "graph", "hybrid"):
        found = search(store.database, Query(question, mode=mode, types=("source",)), None)
        assert not found.named
        first[mode] = found.hits[0].text
    assert first["text"].startswith(best)
    assert not first["graph"].startswith(best)  # the walk puts what the others lead to first
    assert first["hybrid"] == first["text"]


BRIDGED = {
    "en": ("who directed the glass harbour", "The glass harbour was directed by Tim Quillenbach.",
           "Mara Velde was married to Quillenbach for nine years.", "A ferry number {0} left."),
    "ru": ("кто снял стеклянную гавань", "Стеклянную гавань снял Тимур Торвальдсен.",
           "Мара Вельде девять лет была женой Торвальдсена.", "Паром номер {0} отплыл."),
}  # fmt: skip


@pytest.mark.parametrize("lang", BRIDGED)
def test_a_rare_name_of_which_there_is_no_concept_joins_two_sources(
    store: Store, tmp_path: Path, lang: str
) -> None:
    question, first, second, other = BRIDGED[lang]
    texts = [first, second, *(other.format(at) for at in range(6))]
    for at, text in enumerate(texts):
        (tmp_path / f"{at}.md").write_text(f"{text}\n", "utf-8")
    store.build(tmp_path, names=("ingest",))
    found = {
        mode: [hit.text for hit in search(store.database, Query(question, mode=mode), None).hits]
        for mode in ("text", "hybrid")
    }
    assert found == {"text": [first], "hybrid": [first, second]}


def test_whether_hits_have_something_to_show_costs_no_look_at_all_concepts(url: str) -> None:
    """However many concepts there are: a hundred hits are looked up one by one."""
    with psycopg.connect(url) as connection:
        connection.execute("set plan_cache_mode = force_generic_plan")
        connection.execute("prepare bare as select b.is_bare from kb.entry e, kb.bareness(e) b")
        plan = connection.execute("explain execute bare").fetchall()
    nodes = " ".join(line for (line,) in plan)
    assert "Index Scan using concept_pkey" in nodes
    assert "hashed" not in nodes
