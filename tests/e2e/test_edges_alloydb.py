"""Edges typed where the server itself asks a model: a stand-in for AlloyDB's ai.generate.

Written to the documented signature; nothing here has run on AlloyDB.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kbwiki import db
from kbwiki.cli import main

N_PAIRS = 45
"""Three packs of questions."""
Run = Callable[..., tuple[int, str, str]]

_STAND_IN = """
create or replace function ai.generate(
    prompts text[], batch_size integer default null, model_id varchar(100) default null
) returns text[] language plpgsql as $body$
declare
    said text[];
begin
    {before}
    said := array(
        select (select string_agg(m[1] || case when m[2] < m[3] then ':U1' else ':U2' end, e'\n')
                from regexp_matches(p, '^(\\d+)\\. A = (\\w+) \\(\\w+\\); B = (\\w+)', 'gn') m)
        from unnest(prompts) p);
    insert into public.asked select p, model_id, pg_current_xact_id()::text from unnest(prompts) p;
    {after}
    return said;
end
$body$
"""


@pytest.fixture
def pairs(database: db.Database) -> db.Database:
    """A store on "AlloyDB" with 45 edges of which no rule says anything."""
    run = database.connection.execute
    for at in range(N_PAIRS):
        first, last = f"Alpha{at:02}", f"Beta{at:02}"
        text = f"{first} стоит рядом с {last}." if at % 2 else f"{first} stands near {last}."
        claim = {"number": str(at), "text": text, "lang": "ru" if at % 2 else "en"}
        claim_id = database.value("lay_statement", claim)
        for name in (first, last):
            start = text.index(name)
            ends = {"start_at": start, "end_at": start + len(name)}
            row = {"claim_id": claim_id, "key": name.casefold(), "title": name, "kind": "concept"}
            database.run("lay_mention", {**row, **ends})
    database.dicts("link_concepts", {"max_named": 12, "max_kept": 5})
    run("create table public.asked (prompt text, model text, xact text)")
    run("set allow_system_table_mods = on")
    run(
        "insert into pg_extension (oid, extname, extowner, extnamespace, extrelocatable, "
        "extversion) select 99999, 'google_ml_integration', extowner, extnamespace, false, "
        "'1.5.7' from pg_extension where extname = 'plpgsql'"
    )
    server(database)
    return database


def server(database: db.Database, before: str = "", after: str = "") -> None:
    """Let the server's function do something before it answers, or to its answer."""
    told = _STAND_IN.replace("{before}", before).replace("{after}", after)
    database.connection.execute(told.encode())


@pytest.fixture
def run(
    pairs: db.Database,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> Run:
    """Run a command without a key; return its code and what it printed."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("KBWIKI_DATABASE_URL", pairs.url)

    def command(*args: str) -> tuple[int, str, str]:
        code = main(list(args))
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return command


def asked(database: db.Database) -> list[tuple[Any, ...]]:
    """The (prompt, model, transaction) of every question that was answered."""
    return database.connection.execute("select * from public.asked").fetchall()


def typed(database: db.Database) -> int:
    """How many edges run as the stand-in says."""
    sql = (
        "select count(*) from kb.edge e join kb.concept h on h.id = e.head_id "
        "where e.type = 'uses' and e.method = 'llm' and h.title like 'Alpha%'"
    )
    row = database.connection.execute(sql.encode()).fetchone()
    assert row is not None
    return int(row[0])


def failures(run: Run) -> list[dict[str, Any]]:
    """What `status` says has failed."""
    rows: list[dict[str, Any]] = json.loads(run("status", "--json")[1])["failures"]
    return rows


@pytest.mark.parametrize("batch", [(), ("--batch",)])
def test_each_pack_is_a_transaction_of_its_own(
    pairs: db.Database, run: Run, batch: tuple[str, ...]
) -> None:
    code, out, err = run("classify-edges", *batch, "--json")
    assert (code, err) == (0, "")
    table = json.loads(out.splitlines()[-1])
    assert (table["pending"], table["calls"], table["estimated"]) == (0, 6, True)
    assert table["tokens"] > 1000
    assert table["usd"] is None
    assert typed(pairs) == N_PAIRS
    assert len({xact for _, _, xact in asked(pairs)}) == 6
    assert json.loads(run("classify-edges", "--json")[1].splitlines()[-1])["calls"] == 0
    assert len(asked(pairs)) == 6
    _, out, _ = run("classify-edges")
    assert "there is no key" not in out


def test_an_error_of_the_server_is_one_packs_and_the_next_run_asks_again(
    pairs: db.Database, run: Run
) -> None:
    poison = (
        "if prompts[1] like '%Alpha07 %' then raise exception 'quota of квота exceeded'; end if;"
    )
    server(pairs, before=poison)
    code, out, _ = run("classify-edges", "--json")
    table = json.loads(out.splitlines()[-1])
    assert code == 1
    assert typed(pairs) == N_PAIRS - table["pending"] > 0
    assert any("quota of квота exceeded" in row["reason"] for row in failures(run))
    server(pairs)
    assert run("classify-edges")[0] == 0
    assert typed(pairs) == N_PAIRS
    assert failures(run) == []


def test_a_server_that_only_fails_is_soon_asked_no_more(pairs: db.Database, run: Run) -> None:
    pairs.connection.execute("create sequence public.n_asked")
    server(pairs, before="perform nextval('public.n_asked'); raise exception 'no permission';")
    assert run("classify-edges")[0] == 1
    assert pairs.connection.execute("select last_value from public.n_asked").fetchone() == (3,)
    assert any("no permission" in row["reason"] for row in failures(run))


def test_an_answer_that_is_null_is_asked_edge_by_edge(pairs: db.Database, run: Run) -> None:
    server(pairs, after="if prompts[1] like '%Alpha07 %' then said := array[null]; end if;")
    assert run("classify-edges")[0] == 1
    assert typed(pairs) == N_PAIRS - 1
    [failure] = [row for row in failures(run) if row["stage"] == "classify-edges"]
    assert "the answer is empty" in failure["reason"]
    assert "Alpha07" in failure["item"]


def test_a_dry_run_and_limits_tell_what_the_server_would_cost(pairs: db.Database, run: Run) -> None:
    code, out, _ = run("classify-edges", "--dry-run", "--json")
    row = json.loads(out)
    assert (code, row["pending"], row["calls"]) == (0, N_PAIRS, {"at least": 3, "at most": 6})
    assert (row["usd"], row["model"]) == (None, "alloydb's default")
    assert pairs.connection.execute("select count(*) from kb.batch").fetchone() == (0,)
    code, _, err = run("classify-edges", "--max-cost", "1")
    assert code == 3
    assert "price of alloydb's default is not known" in err
    pairs.run("save_setting", {"name": "model_id", "value": "gemini-2.5-flash-lite"})
    assert json.loads(run("classify-edges", "--dry-run", "--json")[1])["usd"] > 0
    code, _, err = run("classify-edges", "--max-cost", "0.0000001")
    assert code == 3
    assert "--max-cost" in err
    assert asked(pairs) == []
    code, out, _ = run("classify-edges", "--max-cost", "1")
    assert code == 0
    assert "(estimate)" in out
    assert {model for _, model, _ in asked(pairs)} == {"gemini-2.5-flash-lite"}
    rows = [json.loads(line) for line in run("cost", "--by", "model", "--json")[1].splitlines()]
    assert any(row["calls"] == 6 for row in rows)
