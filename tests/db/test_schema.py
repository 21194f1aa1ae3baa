"""The schema: migrations, named queries, what the server must offer."""

import re
import subprocess
import sys
from pathlib import Path

import psycopg
import pytest
from conftest import ROOT

from kbwiki import db, embedded
from kbwiki.errors import SchemaError

PACKAGE = ROOT / "kbwiki"


def test_migrating_twice_changes_nothing(database: db.Database) -> None:
    assert db.migrate(database) == []


def test_a_fresh_database_gets_every_migration(cluster: embedded.Cluster) -> None:
    with psycopg.connect(cluster.url("postgres"), autocommit=True) as admin:
        admin.execute("create database fresh template template0")
        fresh = db.connect(cluster.url("fresh"))
        ran = db.migrate(fresh)
        fresh.close()
        admin.execute("drop database fresh")
    assert ran == [path.stem for path in sorted((db.sql_dir() / "migrations").glob("*.sql"))]


def test_six_processes_on_an_empty_database_end_well(cluster: embedded.Cluster) -> None:
    code = (
        "import sys; from kbwiki import db; d = db.connect(sys.argv[1]); db.migrate(d); "
        "print(d.value('read_schema_sha'))"
    )
    with psycopg.connect(cluster.url("postgres"), autocommit=True) as admin:
        admin.execute("create database crowd template template0")
        command = [sys.executable, "-c", code, cluster.url("crowd")]
        crowd = [
            subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            for _ in range(6)
        ]
        ends = [process.communicate(timeout=60) for process in crowd]
        admin.execute("drop database crowd")
    assert {out.strip() for out, _ in ends} == {db.schema_sha()}, ends


def test_an_edited_migration_is_refused(database: db.Database) -> None:
    database.connection.execute("update kb.migration set sha256 = 'x'")
    with pytest.raises(SchemaError, match="edited after it ran"):
        db.migrate(database)


def test_a_newer_schema_is_refused(database: db.Database) -> None:
    database.connection.execute("insert into kb.migration values ('9999_later', 'x', now())")
    database.connection.execute("update kb.migration set sha256 = 'x' where name = 'schema'")
    with pytest.raises(SchemaError, match="newer than this program"):
        db.migrate(database)


def test_a_locale_that_does_not_fold_cyrillic_is_refused(cluster: embedded.Cluster) -> None:
    with psycopg.connect(cluster.url("postgres"), autocommit=True) as admin:
        admin.execute(
            "create database plain template template0 locale_provider libc "
            "locale 'C' encoding 'UTF8'"
        )
        plain = db.connect(cluster.url("plain"))
        with pytest.raises(SchemaError, match="does not fold Cyrillic"):
            db.migrate(plain)
        plain.close()
        admin.execute("drop database plain")


def _as_statement(text: str) -> str:
    for at, name in enumerate(sorted(set(re.findall(r"%\((\w+)\)s", text))), 1):
        text = text.replace(f"%({name})s", f"${at}")
    return text.replace("%%", "%")


def test_every_named_query_can_be_prepared(database: db.Database) -> None:
    bootstrap = {"create_schema", "create_vector", "create_ledger", "relax_commit"}
    bootstrap |= {"fix_snapshot", "set_aside", "bring_back", "drop_store", "drop_aside"}
    for name, text in db.queries().items():
        if name not in bootstrap:
            database.connection.execute(f"prepare {name} as {_as_statement(text)}".encode())


def test_every_named_query_is_used() -> None:
    code = "\n".join(path.read_text("utf-8") for path in PACKAGE.rglob("*.py"))
    unused = [name for name in db.queries() if not re.search(rf"[\"']{name}[\"']", code)]
    assert unused == []


def test_no_sql_stands_in_python_files() -> None:
    pattern = re.compile(
        r"\b(select .+ from|insert into|delete from|update \w+ set)\b", re.IGNORECASE
    )
    found = [
        f"{path.relative_to(ROOT)}: {match.group()}"
        for path in PACKAGE.rglob("*.py")
        if path.name not in {"embedded.py", "embedded_wire.py", "embedded_watch.py"}
        for match in pattern.finditer(path.read_text("utf-8"))
    ]
    assert found == []


def test_a_nul_byte_is_dropped_before_it_reaches_the_server(database: db.Database) -> None:
    database.run("save_setting", {"name": "nul", "value": "до\x00 после"})
    assert database.value("read_setting", {"name": "nul"}) == "до после"


def test_sql_files_are_where_a_wheel_looks_for_them(tmp_path: Path) -> None:
    assert {p.name for p in db.sql_dir().iterdir()} >= {
        "migrations",
        "functions",
        "seed",
        "queries",
    }
