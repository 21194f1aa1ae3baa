"""How a model's answer on a pack of edges is read, line by line."""

import pytest

from kbwiki import db

WHOLE = ["U1", "N", "R"]


@pytest.fixture
def batch(database: db.Database) -> int:
    """A batch of three edges, open; its id."""
    run = database.connection.execute
    for at in range(3):
        claim = {"number": str(at), "text": f"Это{at} близ то{at}.", "lang": "ru"}
        claim_id = database.value("lay_statement", claim)
        for name, start in ((f"Это{at}", 0), (f"то{at}", 10)):
            row = {"key": name.casefold(), "title": name, "kind": "concept"}
            span = {"start_at": start, "end_at": start + len(name)}
            database.run("lay_mention", {"claim_id": claim_id, **row, **span})
    database.dicts("link_concepts", {"max_named": 12, "max_kept": 5})
    row = run(
        "insert into kb.batch (pass, seed, prompt, prompt_version, model_id) "
        "values ('first', '', '', kb.prompt_version(), '') returning id"
    ).fetchone()
    assert row is not None
    run(
        "insert into kb.batch_item (batch_id, line, edge_id, a_id, b_id, evidence_sha) "
        "select %s, row_number() over (order by id), id, head_id, tail_id, evidence_sha "
        "from kb.edge",
        row,
    )
    return int(row[0])


@pytest.mark.parametrize(
    ("said", "wanted"),
    [
        ("1:U1\n2:N\n3:R", WHOLE),
        ("1: u1\r\n2: n\r\n3: r\r\n", WHOLE),
        ("1) U1\n2. N.\n3 - R", WHOLE),
        ("**1:U1**\n**2:N**\n**3:R**", WHOLE),
        ("```\n1:`U1`\n2:`N`\n3:`R`\n```", WHOLE),
        ("| 1 | U1 |\n| 2 | N |\n| 3 | R |", WHOLE),
        ("[1] U1\n[2] N\n[3] R", WHOLE),
        ("1\tU1\n2\tN\n3\tR", WHOLE),
        ("\ufeff1：U1\n2：N\u00a0\n3：R", WHOLE),
        ("1:U1, 2:N, 3:R", WHOLE),
        ("1:U1 2:N 3:R", WHOLE),
        ('{"1": "U1", "2": "N", "3": "R"}', WHOLE),
        ("1:U1 (uses)\n2:N — отрицание\n3:R", WHOLE),
        ("Вот ответы:\n1:U1\n2:N\n3:R\nГотово.", WHOLE),
        ("1:U1\n2:N\n3:R\n4:U1\n99999999:U1", WHOLE),
        # A line is spoiled by a code that is none, by another line on it, and by not being there.
        ("1:U3\n2:X\n3:С", None),
        ("1:U1\n1:U2\n2:N\n3:R", ["", "N", "R"]),
        ("1:U\n2:N1\n3:R", ["", "", "R"]),
        ("2:N", ["", "N", ""]),
        # Words are no answer, whatever numbers and letters they hold.
        ("I cannot do that: 1, 2, 3.", None),
        ("1. A uses B.\n2. I see no link.\n3. R is fine", None),
        ("1. Первая использует вторую.\n2. Нет.\n3. Рядом.", None),
        ("", None),
        ("A" * 100_000, None),
    ],
)
def test_each_line_is_read_or_is_asked_again(
    database: db.Database, batch: int, said: str, wanted: list[str] | None
) -> None:
    run = database.connection.execute
    run("select kb.read_answers(%s, %s)", (batch, said))
    found = run("select answer from kb.batch_item order by line").fetchall()
    assert [row[0] for row in found] == (wanted or [""] * 3)
    status = run("select status, reason <> '' from kb.batch").fetchone()
    assert status == (("done", False) if wanted else ("failed", True))
