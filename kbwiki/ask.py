"""What is told of a question: hits, why there are none, names that may have been meant."""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from kbwiki.db import Database
from kbwiki.question import suggest
from kbwiki.search import Found, Query, search_judged

if TYPE_CHECKING:
    from kbwiki.embedders import Embedder


@dataclass(frozen=True, slots=True)
class Asked:
    """What is told of a question: what was found, if the store speaks of it at all; the names that
    may have been meant; and where nothing was found, why, in the question's language.
    """

    found: Found
    meant: list[str]
    why_not: str = ""


_WHY_NOT = {
    "en": {
        True: "Nothing was found.",
        False: "Nothing was found: the question holds no word that could be looked for.",
    },
    "ru": {
        True: "Ничего не нашлось.",
        False: "Ничего не нашлось: в вопросе нет слова, по которому можно искать.",
    },
}


def ask(database: Database, query: Query, embedder: "Embedder | None") -> Asked:
    """Return what ``search_judged`` finds; no hit where the store does not speak of the question.

    Raises InputError for a source that the store does not hold.
    """
    found = search_judged(database, query, embedder)
    if not found.is_supported:
        found = replace(found, hits=[], between=[], shared=[])
    meant = suggest(database, query.question, found.named)
    return Asked(found, meant, "" if found.hits else _WHY_NOT[found.lang][found.has_content])
