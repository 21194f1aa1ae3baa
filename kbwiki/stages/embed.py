"""embed: a vector for each text that is searched: chunks, concepts, articles.

Vectors are kept by the hash of their text: one that comes back, or stands twice, costs nothing.
"""

from dataclasses import dataclass

from kbwiki.db import Database
from kbwiki.errors import ConfigError, ModelError
from kbwiki.stages.stage import BATCH, Services, Stage
from kbwiki.vectors import literal, query_that_saves

TEXTS_PER_ITEM = 32
MAX_EXACT = 50_000
"""Vectors of a language that are compared one by one; more get an index."""


@dataclass(frozen=True, slots=True)
class Texts:
    """Texts to embed together, their hashes, and the pools in which they are searched."""

    shas: tuple[str, ...]
    texts: tuple[str, ...]
    pools: tuple[str, ...]


def pending(services: Services, skip: list[str]) -> list[Texts]:
    """Return the texts without a vector; refuse to mix vectors of two models."""
    if not services.database.value("has_texts"):
        return []
    model = services.embedder().name
    stored = services.database.value("read_setting", {"name": "embedder"})
    if stored not in {None, model}:
        raise ModelError(
            f"embed: the store holds vectors of {stored}, and the model is now {model}.",
            "Run `kbwiki embed --replace` to embed everything anew; text search works meanwhile.",
        )
    rows = services.database.dicts(
        "list_unembedded", {"model": model, "limit": BATCH * TEXTS_PER_ITEM}
    )
    spans = [key.split("-") for key in skip]
    rows = [row for row in rows if not any(a <= row["text_sha"] <= b for a, b in spans)]
    items = [rows[at : at + TEXTS_PER_ITEM] for at in range(0, len(rows), TEXTS_PER_ITEM)]
    return [
        Texts(*(tuple(row[name] for row in item) for name in ("text_sha", "text", "pool")))
        for item in items
    ]


def key(item: Texts) -> str:
    """Return the span of hashes that an item covers, for the next texts may be cut elsewhere."""
    return f"{item.shas[0]}-{item.shas[-1]}"


def work(services: Services, item: Texts) -> list[list[float]]:
    """Return one vector a text."""
    try:
        vectors = services.embedder().embed(item.texts, "passage")
    except ConfigError as error:
        raise ModelError(error.message, error.hint) from error
    return [list(map(float, vector)) for vector in vectors]


def save(services: Services, item: Texts, vectors: list[list[float]]) -> None:
    """Store vectors under the hashes of their texts."""
    embedder = services.embedder()
    database = services.database
    database.run("save_setting", {"name": "embedder", "value": embedder.name})
    texts = list(map(literal, vectors))
    params = {"model": embedder.name, "shas": list(item.shas), "pools": list(item.pools)}
    database.run(query_that_saves(embedder.dim), {**params, "vectors": texts})


def finish(services: Services) -> str:
    """Settle the search index; return how many vectors there are, and of which model."""
    database = services.database
    database.run("settle_index")
    model = database.value("read_setting", {"name": "embedder"})
    if not model:
        return ""
    n_indexes = database.value("index_vectors", {"model": model, "min_vectors": MAX_EXACT})
    made = f", {n_indexes} HNSW indexes made" if n_indexes else ""
    return f"{database.value('count_vectors', {'model': model})} vectors of {model}{made}"


def forget_vectors(database: Database) -> None:
    """Drop all vectors and the name of their model, so that another may be used."""
    with database.transaction():
        database.run("delete_vectors")
        database.run("delete_setting", {"name": "embedder"})


STAGE = Stage(
    name="embed",
    key=key,
    pending=pending,
    work=work,
    save=save,
    finish=finish,
)
