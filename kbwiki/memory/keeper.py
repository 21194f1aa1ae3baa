"""Who keeps and asks: the agent, its session, and the database and embedder it does it with."""

import hashlib
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from kbwiki.db import Database, again_on_collision
from kbwiki.embedders import Embedder
from kbwiki.errors import InputError, NotFoundError
from kbwiki.memory.guards import cleaned
from kbwiki.records import Lang
from kbwiki.text.normal import canonical_key, clean_line
from kbwiki.text.words import lang_of, stream
from kbwiki.vectors import literal, query_that_saves

POOLS = ("memory/en", "memory/ru")
MAX_QUERY = 2000
"""Characters of a text by which others are looked for."""
MAX_EXACT = 5000
"""Vectors of a language that are compared one by one; more get an index."""

T = TypeVar("T")
# A canonical key knows no minus and no case: -1 is not 1, and -x is not -X.
_OPTION = re.compile(r"(?<![^\s(\"'`])-{1,2}\w\S*")


@dataclass(frozen=True, slots=True)
class Keeper:
    """An agent at a store.

    ``agent`` is authenticated by whoever makes this; ``session`` may be empty, then it goes by
    agent and ``client`` and the time since the last memory. ``embedder`` is None where vectors
    cannot be had: memory then goes by words. An admin may forget what others said.
    """

    database: Database
    embedder: Embedder | None
    agent: str
    client: str = ""
    session: str = ""
    is_admin: bool = False

    @property
    def ear(self) -> str:
        """Under what name it is noted what this session recalled."""
        return f"{self.agent}\x1f{self.session or self.client}"


@dataclass(frozen=True, slots=True)
class Words:
    """What is derived from a text: its form for the vector, language, lemmas and hashes."""

    cleaned: str
    lang: Lang
    lemmas: str
    text_key: str
    text_sha: str


def words_of(text: str) -> Words:
    """Return what is derived from a memory's text."""
    clean = cleaned(text)
    return Words(
        cleaned=clean,
        lang=lang_of(clean),
        lemmas=" ".join(stream(clean[:MAX_QUERY]).lemmas),
        text_key=_sha("\x1f".join([canonical_key(text), *_OPTION.findall(text)])),
        # Not the plain hash: a text of the wiki with the same words belongs to another pool.
        text_sha=_sha(f"memory\x1f{clean}"),
    )


def _sha(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()


def word(value: str, what: str) -> str:
    """Return a domain, topic or the like as one trimmed line; raise InputError for a long one."""
    line = clean_line(value)
    if len(line) > 200:
        raise InputError(f"memory: the {what} has {len(line)} characters.", "At most 200.")
    return line


def embed(keeper: Keeper, text: str, kind: str) -> str | None:
    """Return a text's vector as a literal, or None without an embedder."""
    if keeper.embedder is None:
        return None
    return literal(keeper.embedder.embed([text], "query" if kind == "query" else "passage")[0])


def save_vectors(keeper: Keeper, shas: list[str], pools: list[str], vectors: list[str]) -> None:
    """Store vectors of the keeper's embedder under the hashes of their texts."""
    assert keeper.embedder is not None
    database = keeper.database
    if database.value("read_setting", {"name": "embedder"}) is None:
        database.run("save_setting", {"name": "embedder", "value": keeper.embedder.name})
    params = {"model": keeper.embedder.name, "shas": shas, "pools": pools, "vectors": vectors}
    database.run(query_that_saves(keeper.embedder.dim), params)


def index_many(keeper: Keeper) -> None:
    """Give the vectors an index where they have become many."""
    if keeper.embedder is not None:
        params = {"model": keeper.embedder.name, "min_vectors": MAX_EXACT}
        keeper.database.value("index_vectors", params)


def ensure_background(keeper: Keeper) -> None:
    """Embed the sentences that tell how close two texts come which have nothing in common."""
    if keeper.embedder is None:
        return
    if keeper.database.value("has_background", {"model": keeper.embedder.name}):
        return
    rows = keeper.database.dicts("list_background")
    vectors = keeper.embedder.embed([row["text"] for row in rows], "passage")
    shas = [row["text_sha"] for row in rows]
    save_vectors(keeper, shas, ["background"] * len(rows), [literal(v) for v in vectors])


def transact(database: Database, action: Callable[[], T]) -> T:
    """Return what an action returns in one transaction, tried again if another was in its way."""

    def attempt() -> T:
        with database.transaction():
            return action()

    return again_on_collision(attempt)


def find(keeper: Keeper, memory_id: int) -> dict[str, object]:
    """Return a memory that the keeper may see; raise NotFoundError for any other."""
    rows = keeper.database.dicts("find_memory", {"id": memory_id})
    if not rows or (rows[0]["owner"] not in {"", keeper.agent} and not keeper.is_admin):
        raise NotFoundError(f"memory {memory_id}: there is none.", "`kbwiki memory list`.")
    return rows[0]
