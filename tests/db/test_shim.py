"""The shim of AlloyDB's AI functions: their signatures, the queue, and what is not ours."""

from contextlib import nullcontext

import psycopg
import pytest

from kbwiki import db, embedded
from kbwiki.errors import SchemaError
from kbwiki.stages.classify_edges import check_native

ONE = "prompt text, model_id character varying DEFAULT NULL::character varying"
MANY = (
    "prompts text[], batch_size integer DEFAULT NULL::integer, "
    "model_id character varying DEFAULT NULL::character varying"
)
CURSOR = (
    "prompt text, input_cursor refcursor, batch_size integer DEFAULT NULL::integer, "
    "model_id character varying DEFAULT NULL::character varying"
)
SNAPSHOT = {
    (name, arguments, result)
    for name, one, many in (
        ("generate", "text", "text[]"),
        ("if", "boolean", "boolean[]"),
        ("rank", "real", "real[]"),
    )
    for arguments, result in ((ONE, one), (MANY, many), (CURSOR, "refcursor"))
}
"""What google_ml_integration documents: name, arguments with their defaults, result."""


def test_the_signatures_are_those_of_alloydb(database: db.Database) -> None:
    rows = database.connection.execute(
        "select p.proname, pg_get_function_arguments(p.oid), pg_get_function_result(p.oid) "
        "from pg_proc p where p.pronamespace = 'ai'::regnamespace"
    ).fetchall()
    assert set(rows) == SNAPSHOT
    assert len(rows) == len(SNAPSHOT)


def test_a_prompt_waits_until_it_is_answered(database: db.Database) -> None:
    run = database.connection.execute
    ask = "select ai.generate(prompts => array['one', null, 'one', 'два'], model_id => 'm')"
    assert run(ask).fetchone() == ([None, None, None, None],)
    assert run(
        "select op, model_id, prompt, status from ai_shim.request order by prompt"
    ).fetchall() == [
        ("generate", "m", "one", "pending"),
        ("generate", "m", "два", "pending"),
    ]
    run("update ai_shim.request set status = 'done', response = upper(prompt)")
    assert run(ask).fetchone() == (["ONE", None, "ONE", "ДВА"],)
    assert run("select ai.generate('one', 'm'), ai.generate('one')").fetchone() == ("ONE", None)
    run("set kb.ai_on_miss = 'error'")
    with pytest.raises(psycopg.DatabaseError, match="not there yet") as error:
        run("select ai.generate('three')")
    assert error.value.sqlstate == "KB002"


@pytest.mark.parametrize(
    ("name", "said", "wanted"),
    [("if", "True.", True), ("if", "perhaps", False), ("rank", "Score: 0.75", 0.75)],
)
def test_truth_and_rank_are_read_from_words(
    database: db.Database, name: str, said: str, wanted: object
) -> None:
    run = database.connection.execute
    call = f"select ai.{name}('is it?'), (ai.{name}(prompts => array['is it?', 'other']))[1:2]"
    assert run(call.encode()).fetchone() == (None, [None, None])
    run(
        "update ai_shim.request set status = 'done', response = %s where prompt = 'is it?'", (said,)
    )
    assert run(call.encode()).fetchone() == (wanted, [wanted, None])


def test_a_cursor_gives_inputs_with_their_outputs(database: db.Database) -> None:
    run = database.connection.execute
    for wanted in ([("a", None), ("б", None)], [("a", "Say:\nA"), ("б", "Say:\nБ")]):
        with database.connection.transaction():
            run("declare rows cursor for select unnest(array['a', 'б'])")
            name = run("select ai.generate('Say:', 'rows'::refcursor, 10, null)").fetchone()
            assert name is not None
            assert run(f'fetch all from "{name[0]}"'.encode()).fetchall() == wanted
        run(
            "update ai_shim.request set status = 'done', response = "
            "split_part(prompt, e'\\n', 1) || e'\\n' || upper(split_part(prompt, e'\\n', 2))"
        )


def test_others_may_not_call_what_spends_money(database: db.Database) -> None:
    rows = database.connection.execute(
        "select count(*) from pg_proc p "
        "where p.pronamespace::regnamespace::text in ('ai', 'ai_shim') "
        "and exists (select from aclexplode(coalesce(p.proacl, acldefault('f', p.proowner))) a "
        "            where a.grantee = 0)"
    ).fetchone()
    assert rows == (0,)


@pytest.mark.parametrize("name", ["ai", "ai_shim"])
def test_a_schema_of_somebody_else_is_refused(cluster: embedded.Cluster, name: str) -> None:
    with psycopg.connect(cluster.url("postgres"), autocommit=True) as admin:
        admin.execute("create database taken template template0")
        other = db.connect(cluster.url("taken"))
        other.connection.execute(f"create schema {name}".encode())
        with pytest.raises(SchemaError, match=f"schema {name} belongs to something else"):
            db.migrate(other)
        left = other.connection.execute("select to_regnamespace('kb')").fetchone()
        other.close()
        admin.execute("drop database taken")
    assert left == (None,)


def test_the_shim_is_laid_again_where_it_is_missing(database: db.Database) -> None:
    database.connection.execute("drop schema ai, ai_shim cascade")
    db.migrate(database)
    assert database.dicts("read_ai") == [
        {
            "is_native": False,
            "native_version": None,
            "ai": "kbwiki shim",
            "ai_shim": "kbwiki shim",
        }
    ]


@pytest.mark.parametrize(("version", "is_old"), [("1.4.9", True), ("1.5.2", False), (None, False)])
def test_an_extension_without_the_function_is_told(version: str | None, is_old: bool) -> None:
    with pytest.raises(SchemaError, match="too old") if is_old else nullcontext():
        check_native(version)


def test_a_server_that_answers_at_once_needs_one_pass(database: db.Database) -> None:
    """As AlloyDB does: its function in the place of the shim's, for this test."""
    run = database.connection.execute
    for at in range(25):
        claim = {"number": str(at), "text": f"One{at:02} by two{at:02}.", "lang": "en"}
        claim_id = database.value("lay_statement", claim)
        for name, start in ((f"One{at:02}", 0), (f"two{at:02}", 9)):
            row = {"key": name, "title": name, "kind": "concept"}
            span = {"start_at": start, "end_at": start + 5}
            database.run("lay_mention", {"claim_id": claim_id, **row, **span})
    database.dicts("link_concepts", {"max_named": 12, "max_kept": 5})
    run(
        """
        create or replace function ai.generate(
            prompts text[], batch_size integer default null, model_id varchar(100) default null
        ) returns text[] language sql immutable as $$
            select array_agg((
                select string_agg(m[1] || case when m[2] ~ '^One' then ':U1' else ':U2' end, e'\n')
                from regexp_matches(p, '^(\\d+)\\. A = (\\w+)', 'gn') m) order by at)
            from unnest(prompts) with ordinality as x (p, at)
        $$
        """
    )
    database.run("save_setting", {"name": "classify_prompt", "value": "$options\n\n$pairs"})
    params = {"with_model": True, "model_id": None, "retry": True, "max_new": None, "ask": True}
    [counts] = database.dicts("classify_pending", params)
    assert (counts["n_settled"], counts["n_pending"], counts["n_open"]) == (25, 0, 0)
    rows = run(
        "select e.type, count(*) from kb.edge e join kb.concept h on h.id = e.head_id "
        "where h.title like 'One%' group by 1"
    ).fetchall()
    assert rows == [("uses", 25)]
