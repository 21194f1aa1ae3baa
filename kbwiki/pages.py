"""Pages by their names, and the whole wiki as it stands, kept while nothing changes."""

import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from difflib import get_close_matches
from typing import Any, TypeVar

from kbwiki.db import Database
from kbwiki.errors import NotFoundError
from kbwiki.stages.export import load_wiki
from kbwiki.stages.render import Page, Wiki
from kbwiki.text.normal import canonical_key
from kbwiki.text.words import lemma_key

T = TypeVar("T")
MAX_LEAVES = 256
FRESH_S = 0.2


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
        hint = "Did you mean:" if near else "See `kbwiki list`."
        raise NotFoundError(f"{name}: no page has this slug, title or alias.", hint, near)
    return found[0]


class Shelf:
    """Keeps the pages of a store while no run and no decision changes them; thread-safe.

    ``clock`` in seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._loading = threading.Lock()
        self._looked_at = float("-inf")
        self._n_changes = 0
        self._version = ""
        self._wiki: Wiki | None = None
        self._leaves: OrderedDict[str, Any] = OrderedDict()

    def wiki(self, database: Database) -> Wiki:
        """Return all pages as they stand."""
        now, n_changes = self._clock(), self._n_changes
        version = database.value("read_wiki_version")
        # Two locks: who asks for what is kept must not wait while the whole is loaded.
        with self._loading:
            with self._lock:
                wiki = self._wiki if version == self._version else None
            if wiki is None:
                wiki = load_wiki(database)
                with self._lock:
                    self._wiki, self._version = wiki, version
                    self._leaves.clear()
        with self._lock:
            if n_changes == self._n_changes:
                self._looked_at = now
        return wiki

    def leaf(
        self,
        database: Database,
        name: str,
        key: tuple[str, str],
        make: Callable[[Wiki, Page], T],
    ) -> T | None:
        """Return what ``make`` makes of the page that a name leads to, kept for those read last.

        None for a page that is not there.
        """
        wiki = self.wiki(database)
        page = wiki.by_key.get(key)
        if page is None:
            return None
        with self._lock:
            kept: T | None = self._leaves.get(name) if self._wiki is wiki else None
        leaf = make(wiki, page) if kept is None else kept
        with self._lock:
            if self._wiki is wiki:
                self._leaves[name] = leaf
                while len(self._leaves) > MAX_LEAVES:
                    self._leaves.popitem(last=False)
        return leaf

    def kept(self, name: str) -> Any:
        """Return the leaf of a name without a look at the database; None where it is time to look.

        What another process changed is seen after FRESH_S.
        """
        with self._lock:
            is_fresh = self._clock() - self._looked_at <= FRESH_S
            return self._leaves.get(name) if is_fresh else None

    def look_again(self) -> None:
        """Have the next read look at the database: something was changed."""
        with self._lock:
            self._n_changes += 1
            self._looked_at = float("-inf")
