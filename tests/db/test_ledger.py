"""The ledger shared by processes: what one that was killed held is free again."""

import time
from concurrent.futures import Future
from threading import Thread

from conftest import Store
from fakes.model import MODEL

from kbwiki.db import connect
from kbwiki.engines.asker import CallRecord
from kbwiki.ledger import Ledger

CALL = CallRecord("extract", "gemini", MODEL, "papers/обзор.md", "0" * 64)
LONGEST = 1_000_000
"""Tokens of a reply: $0.40 by the price of MODEL."""


def test_a_budget_that_a_killed_process_held_is_free_for_one_that_waits(store: Store) -> None:
    url = store.database.url
    held = connect(url)
    killed = Ledger(lambda: held, daily_usd=1.0)
    killed.begin(CALL, 0, LONGEST)
    killed.begin(CALL, 0, LONGEST)
    other = Ledger(lambda: connect(url), daily_usd=1.0)
    admitted: Future[int] = Future()
    Thread(target=lambda: admitted.set_result(other.begin(CALL, 0, LONGEST)), daemon=True).start()
    time.sleep(0.7)
    assert not admitted.done()
    held.close()  # as the system does for a process that is killed
    assert admitted.result(30) > 0
    other.close()
    rows = store.database.connection.execute("select status from kb.call order by id").fetchall()
    assert rows == [("lost",), ("lost",), ("open",)]
