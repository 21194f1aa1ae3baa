"""Engines: the five tasks that need a mind, done with rules (local) or with a language model."""

from collections.abc import Sequence
from typing import Protocol

from kbwiki.records import Answer, Article, Brief, Document, Extraction, Pair, Passage


class Engine(Protocol):
    """What a stage may ask of an engine. Implementations keep no state between calls."""

    name: str
    """Written into every row and page that it makes; a new name makes those stale."""
    model: str
    """The model that is asked; empty where there is none."""
    is_paid: bool
    """Whether its answers cost money, so that none may be lost."""

    def extract(self, document: Document, item: str = "") -> Extraction:
        """Return the candidates and claims of one source; ``item`` names it in messages."""
        ...

    def write(self, brief: Brief, item: str = "") -> Article:
        """Return the page of one concept or source; each statement in it carries a citation."""
        ...

    def same(self, pairs: Sequence[Pair], item: str = "") -> list[bool | None]:
        """Return for each pair whether both are one concept; None if that cannot be told."""
        ...

    def answer(self, question: str, passages: Sequence[Passage]) -> Answer:
        """Return what the passages say on a question; no statement without a passage."""
        ...

    def classify(self, prompt: str, item: str = "") -> str:
        """Return the lines that a model says to a prompt on edges, which the database packed."""
        ...

    def close(self) -> None:
        """Give back what it holds."""
        ...
