"""answer: questions that were filed are answered anew when a passage that they cite has changed."""

from dataclasses import dataclass

from kbwiki.answers import FiledAnswer, answer_found, list_stale, save_answer
from kbwiki.embedders import Embedder
from kbwiki.errors import ModelError
from kbwiki.records import Answer
from kbwiki.search import Found, Query, search, usable_embedder
from kbwiki.stages.stage import BATCH, Services, Stage


@dataclass(frozen=True, slots=True)
class Item:
    """A filed question and what the store holds on it now."""

    key: str
    query: Query
    found: Found


def pending(services: Services, skip: list[str]) -> list[Item]:
    """Return the questions whose answers cite what no longer stands, each with new hits."""
    stale = [filed for filed in list_stale(services.database) if filed.key not in skip][:BATCH]
    if not stale:
        return []
    embedder = _embedder(services)
    return [_item(services, filed, embedder) for filed in stale]


def _item(services: Services, filed: FiledAnswer, embedder: Embedder | None) -> Item:
    query = Query(filed.question, k=filed.k)
    return Item(filed.key, query, search(services.database, query, embedder))


def _embedder(services: Services) -> Embedder | None:
    """Return the embedder of the store's vectors, None where there is none."""
    try:
        embedder = services.embedder()
    except ModelError:
        return None
    return None if usable_embedder(services.database, embedder) else embedder


def work(services: Services, item: Item) -> Answer:
    """Return the new answer."""
    return answer_found(services.engine, None, item.query.question, item.found)


def save(services: Services, item: Item, answer: Answer) -> None:
    """Put the new answer in the place of the old; what nothing answers any more goes."""
    if not answer.statements:
        services.database.run("delete_answer", {"key": item.key})
        return
    save_answer(services.database, item.query, item.found, answer)


STAGE = Stage(name="answer", key=lambda item: item.key, pending=pending, work=work, save=save)
