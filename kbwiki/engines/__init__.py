"""Engines: the four tasks that need a mind, done with rules (local) or with a language model."""

from typing import Protocol

from kbwiki.errors import ConfigError
from kbwiki.records import Article, Brief, Document, Extraction


class Engine(Protocol):
    """What a stage may ask of an engine. Implementations keep no state between calls."""

    name: str
    """Written into every row and page that it makes; a new name makes those stale."""
    is_paid: bool
    """Whether its answers cost money, so that none may be lost."""

    def extract(self, document: Document) -> Extraction:
        """Return the candidates and claims of one source."""
        ...

    def write(self, brief: Brief) -> Article:
        """Return the page of one concept or source; each statement in it carries a citation."""
        ...


def make_engine(name: str) -> Engine:
    """Return the engine of a setting: ``auto`` or ``local``; ConfigError for another."""
    if name in {"auto", "local"}:
        from kbwiki.engines.local import LocalEngine

        return LocalEngine()
    raise ConfigError(f"engine: there is no engine {name!r}.", "Known: auto, local.")
