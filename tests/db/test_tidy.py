"""What the planner knows: the figures of tables that changed much are new when a run ends."""

import pytest
from conftest import Store

from kbwiki.errors import DatabaseError

_ANALYZED = "select coalesce(sum(analyze_count), 0) from pg_stat_user_tables where relname = %s"
_FILL = (
    "insert into kb.setting (name, value)"
    " select md5(g::text), to_jsonb(g) from generate_series(%s::int, %s::int) g"
)
_WORDS = "строка {0} о предмете р{0} and of the subject s{0}, which has the property p{0}.\n\n"


def _analyzed(store: Store, table: str) -> int:
    store.database.run("flush_statistics")
    row = store.database.connection.execute(_ANALYZED, [table]).fetchone()
    assert row is not None
    return int(row[0])


def test_a_table_that_changed_much_is_analyzed_once(store: Store) -> None:
    store.database.connection.execute(_FILL, (1, 500))
    store.database.tidy()
    assert _analyzed(store, "setting") == 0
    store.database.connection.execute(_FILL, (501, 3000))
    store.database.tidy()
    store.database.tidy()
    assert _analyzed(store, "setting") == 1


def test_a_transaction_is_left_alone(store: Store) -> None:
    with store.database.transaction():
        store.database.connection.execute(_FILL, (1, 3000))
        store.database.tidy()
    assert _analyzed(store, "setting") == 0


def test_a_run_leaves_new_figures(store: Store) -> None:
    note = store.root / "note.md"
    note.write_text("# Note\n\n" + "".join(map(_WORDS.format, range(700))), "utf-8")
    store.build(note, names=("ingest",))
    assert _analyzed(store, "posting") == 1
    store.build(note, names=("ingest",))
    assert _analyzed(store, "posting") == 1


def test_a_run_outlives_statistics_that_cannot_be_made(store: Store) -> None:
    connection = store.database.connection
    connection.execute(
        "create function public.sour(word text) returns int language plpgsql immutable as $$"
        " begin if current_setting('test.sour', true) = 'yes' then raise 'sour'; end if;"
        " return 1; end $$"
    )
    connection.execute("create index on kb.setting (public.sour(name))")
    connection.execute(_FILL, (1, 3000))
    connection.execute("set test.sour = 'yes'")
    with pytest.raises(DatabaseError, match="sour"):
        store.database.tidy()
    note = store.root / "note.md"
    note.write_text("# Заметка\n\n**Скан** — это метод.\n", "utf-8")
    assert store.build(note, names=("ingest",))["ingest"].n_failed == 0
