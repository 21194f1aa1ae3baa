"""Pages by their names, and the whole wiki as it stands, kept while nothing changes."""

import threading
from difflib import get_close_matches
from typing import Any

from kbwiki.db import Database
from kbwiki.errors import NotFoundError
from kbwiki.stages.export import load_wiki
from kbwiki.stages.render import Wiki
from kbwiki.text.normal import canonical_key
from kbwiki.text.words import lemma_key


def find_page(database: Database, name: str) -> dict[str, Any]:
    """Return the folder, slug and key of a page; raise NotFoundError with names that are near."""
    slug = name.removeprefix("concepts/").removesuffix(".md")
    keys = [canonical_key(name)]
    found = database.dicts("find_page", {"slug": slug, "keys": keys})
    if not found:
        aliases = [row["key"] for row in database.dicts("list_alias_keys")]
        keys = [key for key in aliases if lemma_key(key) == lemma_key(name)]
        found = database.dicts("find_page", {"slug": "", "keys": keys})
    if not found:
        near = ", ".join(get_close_matches(canonical_key(name), aliases, n=3))
        hint = f"Did you mean: {near}?" if near else "See `kbwiki list`."
        raise NotFoundError(f"{name}: no page has this slug, title or alias.", hint)
    return found[0]


class Shelf:
    """Keeps the pages of a store while no run and no decision changes them; thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._version = ""
        self._wiki: Wiki | None = None

    def wiki(self, database: Database) -> Wiki:
        """Return all pages as they stand."""
        version = database.value("read_wiki_version")
        with self._lock:
            if self._wiki is None or version != self._version:
                self._wiki, self._version = load_wiki(database), version
            return self._wiki
