"""answer: filed questions are answered anew when a passage that they cite has changed.

A question stays when nothing answers it any more, and is asked again when the sources have changed.
"""

from dataclasses import dataclass

from kbwiki.answers import (
    Answered,
    FiledAnswer,
    Gathered,
    answer_from,
    gather,
    list_stale,
    save_answer,
)
from kbwiki.embedders import Embedder
from kbwiki.errors import InputError, ModelError
from kbwiki.search import Query, search_judged, usable_embedder
from kbwiki.stages.stage import BATCH, Services, Stage


@dataclass(frozen=True, slots=True)
class Item:
    """A filed question and what the store holds on it now, of these sources."""

    key: str
    query: Query
    gathered: Gathered
    embedder: Embedder | None
    sources_sha: str


def pending(services: Services, skip: list[str]) -> list[Item]:
    """Return the questions to answer anew, each with what is found now."""
    stale = [filed for filed in list_stale(services.database) if filed.key not in skip][:BATCH]
    if not stale:
        return []
    embedder = _embedder(services)
    sources_sha = services.database.value("read_sources_sha")
    return [_item(services, filed, embedder, sources_sha) for filed in stale]


def _item(
    services: Services, filed: FiledAnswer, embedder: Embedder | None, sources_sha: str
) -> Item:
    query = filed.query()
    try:
        found = search_judged(services.database, query, embedder)
        gathered = gather(services.database, query.question, found)
    except InputError:  # the source that it was limited to is gone
        gathered = Gathered(query.question, ())
    return Item(filed.key, query, gathered, embedder, sources_sha)


def _embedder(services: Services) -> Embedder | None:
    """Return the embedder of the store's vectors, None where there is none."""
    try:
        embedder = services.embedder()
    except ModelError:
        return None
    return None if usable_embedder(services.database, embedder) else embedder


def work(services: Services, item: Item) -> Answered:
    """Return the new answer."""
    return answer_from(services.engine, item.embedder, item.gathered)


def save(services: Services, item: Item, answered: Answered) -> None:
    """Put the new answer in the place of the old; without one the question stays alone."""
    try:
        save_answer(services.database, item.query, answered)
    except InputError:
        unanswered = {"key": item.key, "sources_sha": item.sources_sha}
        services.database.run("withdraw_answer", unanswered)


STAGE = Stage(name="answer", key=lambda item: item.key, pending=pending, work=work, save=save)
