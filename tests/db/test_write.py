"""What `write` stores: no quote that does not stand where it is said to."""

from pathlib import Path

import pytest
from conftest import Store

from kbwiki.errors import ModelError
from kbwiki.records import Article, Citation
from kbwiki.stages import write

NOTE = (
    "# Линейное внимание\n\n**Линейное внимание** (linear attention) — это внимание без softmax.\n"
)


@pytest.fixture
def item(store: Store, tmp_path: Path) -> write.Item:
    """A page that is to be written."""
    (tmp_path / "note.md").write_text(NOTE, "utf-8")
    store.build(tmp_path / "note.md", names=("ingest", "extract", "resolve"))
    return write.pending(store.services(), [])[0]


def _article(item: write.Item, *citations: Citation) -> Article:
    body = "".join(f"Слова.[^{c.ordinal}]" for c in citations)
    return Article(item.brief.title, "ru", "", body, citations, "test")


def _rows(store: Store) -> list[tuple[int, str]]:
    return store.database.connection.execute(
        "select ordinal, quote from kb.citation order by ordinal"
    ).fetchall()


def test_fewer_citations_than_before_leave_none_behind(store: Store, item: write.Item) -> None:
    statement = item.brief.statements[0]
    good = [
        Citation(n, statement.source_id, statement.start, statement.end, statement.text, None)
        for n in (1, 2, 3)
    ]
    write.save(store.services(), item, _article(item, *good))
    assert _rows(store) == [(n, statement.text) for n in (1, 2, 3)]
    write.save(store.services(), item, _article(item, good[0]))
    assert _rows(store) == [(1, statement.text)]
    write.save(store.services(), item, _article(item))
    assert _rows(store) == []


@pytest.mark.parametrize(("shift", "quote"), [(1, None), (0, "Другие слова.")])
def test_a_quote_that_stands_elsewhere_is_refused(
    store: Store, item: write.Item, shift: int, quote: str | None
) -> None:
    statement = item.brief.statements[0]
    false = Citation(
        1,
        statement.source_id,
        statement.start + shift,
        statement.end + shift,
        quote or statement.text,
        None,
    )
    with pytest.raises(ModelError, match="1 quote does not stand where said to"):
        write.save(store.services(), item, _article(item, false))
