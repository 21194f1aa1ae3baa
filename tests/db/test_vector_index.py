"""Vectors by index: what is near is found, in each language, and only large pools have one."""

import hashlib
from collections.abc import Callable

import numpy as np
import pytest
from conftest import Store

DIM = 384
Nearest = Callable[[str], list[str]]


@pytest.fixture
def filled(store: Store) -> Store:
    """A store with vectors in clusters: many English texts, some Russian ones, and few others."""
    draw = np.random.default_rng(3)
    rows = []
    for pool, n in (("en", 3000), ("ru", 600), ("memory/ru", 20)):
        for at in range(n):
            sha = hashlib.sha256(f"{pool} {at}".encode()).hexdigest()
            rows.append((sha, pool, _literal(_draw(draw))))
    with store.database.connection.cursor() as cursor:
        with cursor.copy("copy kb.vector (model, text_sha, pool, v) from stdin") as copy:
            for sha, pool, vector in rows:
                copy.write_row(("random", sha, pool, vector))
        cursor.execute("analyze kb.vector")
    return store


def _draw(draw: np.random.Generator) -> "np.typing.NDArray[np.float64]":
    centre = np.random.default_rng(int(draw.integers(40))).standard_normal(DIM)
    return centre + 0.7 * draw.standard_normal(DIM)


def _literal(vector: "np.typing.NDArray[np.float64]") -> str:
    return "[" + ",".join(f"{x:.5f}" for x in vector) + "]"


def _near(store: Store, vector: str, pool: str) -> list[tuple[str, float]]:
    rows = store.database.connection.execute(
        "select text_sha, cosine from kb.near_texts(%s, 'random', %s, 10) order by cosine desc",
        (vector, pool),
    ).fetchall()
    return [(row[0], row[1]) for row in rows][:10]


def _indexes(store: Store) -> list[str]:
    sql = "select indexdef from pg_indexes where tablename = 'vector' and indexdef like '%hnsw%'"
    return [row[0] for row in store.database.connection.execute(sql).fetchall()]


def test_few_vectors_have_no_index(filled: Store) -> None:
    assert filled.database.value("index_vectors", {"model": "random", "min_vectors": 4000}) == 0
    assert _indexes(filled) == []


def test_the_index_finds_nearly_what_a_look_at_all_finds(filled: Store) -> None:
    connection = filled.database.connection
    draw = np.random.default_rng(4)
    asked = [_literal(_draw(draw)) for _ in range(20)]
    pools = ("en", "ru", "memory/ru")
    exact = {pool: [_near(filled, vector, pool) for vector in asked] for pool in pools}
    assert filled.database.value("index_vectors", {"model": "random", "min_vectors": 2000}) == 2
    assert len(_indexes(filled)) == 2
    assert filled.database.value("index_vectors", {"model": "random", "min_vectors": 2000}) == 0
    connection.execute("set enable_seqscan = off")  # else so few are read through all the same
    connection.execute("set enable_bitmapscan = off")
    by_index = {pool: [_near(filled, vector, pool) for vector in asked] for pool in pools}
    assert by_index["memory/ru"] == exact["memory/ru"]
    for pool in ("en", "ru"):
        same = sum(
            len(set(a) & set(b)) for a, b in zip(by_index[pool], exact[pool], strict=True)
        ) / sum(map(len, exact[pool]))
        assert same > 0.8, (pool, same)
    connection.execute("select pg_stat_force_next_flush()")
    used = connection.execute(
        "select min(idx_scan) from pg_stat_user_indexes where indexrelname like 'vector\\_%' "
        "and indexrelid in (select oid from pg_class where relam = "
        "(select oid from pg_am where amname = 'hnsw'))"
    ).fetchall()
    assert used[0][0] >= len(asked)
