"""Search: a question becomes ranked passages, by words and by vectors."""

from kbwiki.db import Database
from kbwiki.embedders import Embedder
from kbwiki.errors import InputError
from kbwiki.records import Hit
from kbwiki.text.normal import clean_line

MAX_QUESTION = 2000
"""Characters of a question; a longer one is cut, since a passage holds no more."""


def clean_question(question: str) -> str:
    """Return a question on one line, cut to length; raise InputError if no word is in it."""
    question = clean_line(question)[:MAX_QUESTION]
    if not any(c.isalnum() for c in question):
        raise InputError("query: the question is empty.", 'Ask: kbwiki query "what is ...".')
    return question


def search(database: Database, question: str, k: int, embedder: Embedder | None) -> list[Hit]:
    """Return at most ``k`` passages for a question of ``clean_question``, best first.

    Without an embedder it goes by words alone.
    """
    vector = None
    if embedder is not None:
        vector = "[" + ",".join(f"{x:.7g}" for x in embedder.embed([question], "query")[0]) + "]"
    params = {
        "question": question,
        "vector": vector,
        "model": embedder.name if embedder else "",
        "k": k,
    }
    return [
        Hit(
            kind=row["kind"],
            slug=f"sources/{row['slug']}",
            title=row["title"],
            snippet=clean_line(row["snippet"]),
            text=row["text"],
            score=round(row["score"], 4),
            lang=row["lang"],
            page=row["page"],
            parts={"words": round(row["words"], 4), "vectors": round(row["vectors"], 4)},
        )
        for row in database.dicts("search_chunks", params)
    ]


def usable_embedder(database: Database, embedder: Embedder) -> str:
    """Return why a search by vectors is not possible with this embedder, or an empty string."""
    stored = database.value("read_setting", {"name": "embedder"})
    if stored is None:
        return "the store has no vectors yet; run `kbwiki embed`"
    if stored != embedder.name:
        return f"its vectors are of {stored}, not {embedder.name}; run `kbwiki embed --replace`"
    return ""
