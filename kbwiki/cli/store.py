"""Opening a knowledge base: from flags and settings to a migrated database."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from kbwiki.errors import ConfigError, DatabaseError, NotFoundError

if TYPE_CHECKING:
    from kbwiki.config import Settings
    from kbwiki.db import Database
    from kbwiki.embedders import Embedder, Notice

_ATTACH_TRIES = 5


@dataclass(frozen=True, slots=True)
class Place:
    """Where a knowledge base lies, and the settings in force; ``home`` is its ``.kbwiki``."""

    settings: "Settings"
    root: Path
    home: Path

    @property
    def wiki(self) -> Path:
        """The folder of the exported wiki; raises ConfigError for one that holds other things."""
        wiki = Path(os.path.abspath(self.root / self.settings.wiki_dir))
        if wiki == self.root or wiki in self.root.parents or self.home in (wiki, *wiki.parents):
            raise ConfigError(
                f"KBWIKI_WIKI_DIR: {wiki} is no folder of its own.", "Name one, such as wiki."
            )
        return wiki


def find_place(db: str | None = None, create: bool = False) -> Place:
    """Return the knowledge base around the working directory, made here if ``create``.

    Raises NotFoundError where there is none and no database is given.
    """
    from kbwiki.config import HOME_NAME, find_home, load_settings

    here = Path.cwd()
    home = find_home(here)
    settings = load_settings((home.parent if home else here) / ".env", database_url=db)
    if home is None and not create and settings.database_url is None:
        raise NotFoundError(
            f"{here}: no knowledge base here or above.",
            "Make one: `kbwiki build FOLDER`, or `kbwiki init`.",
        )
    if home is None:
        home = here / HOME_NAME
        if create:
            make_home(home)
    return Place(settings, home.parent, home)


def make_home(home: Path) -> None:
    """Make a ``.kbwiki`` folder that version control and other tools leave alone."""
    try:
        home.mkdir(mode=0o700, exist_ok=True)
        (home / ".gitignore").write_text("*\n", "utf-8")
    except OSError as error:
        raise NotFoundError(
            f"{home}: {(error.strerror or str(error)).lower()}.",
            "Work in a folder that you may write to.",
        ) from error


@contextmanager
def open_database(place: Place, migrate: bool = True) -> Iterator["Database"]:
    """Yield a connection to the store's database, its schema current."""
    from kbwiki import db

    database = _connect(place)
    try:
        if migrate:
            db.migrate(database)
        yield database
    finally:
        database.close()


def _connect(place: Place) -> "Database":
    from kbwiki import db

    if place.settings.database_url is not None:
        return db.connect(place.settings.database_url.get_secret_value())
    from kbwiki import embedded

    for _ in range(_ATTACH_TRIES - 1):
        # The idle watcher may stop the server between the look and the connection.
        url = embedded.ensure(embedded.locate(place.home), place.settings.idle_minutes)
        try:
            return db.connect(url)
        except DatabaseError:
            continue
    return db.connect(embedded.ensure(embedded.locate(place.home), place.settings.idle_minutes))


def open_embedder(place: Place, notice: "Notice") -> "Embedder":
    """Return the embedder of the settings; it loads at its first text."""
    from kbwiki.embedders import make_embedder

    return make_embedder(
        place.settings.embedder, place.settings.cache_dir, place.settings.jobs or None, notice
    )
