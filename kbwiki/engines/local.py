"""The engine without a model: extractive, deterministic, and honest about it."""

from collections.abc import Sequence
from dataclasses import replace

from kbwiki.engines.compose import compose
from kbwiki.engines.quoting import quote_answer
from kbwiki.engines.read import read_source
from kbwiki.errors import ConfigError
from kbwiki.records import Answer, Article, Brief, Document, Extraction, Pair, Passage
from kbwiki.text.words import lemma_key


class LocalEngine:
    """Reads with grammar and writes with the sources' own sentences."""

    name = "local-2"
    model = ""
    is_paid = False

    def extract(self, document: Document, item: str = "") -> Extraction:
        """Return the candidates and claims of one source."""
        return replace(read_source(document), engine=self.name)

    def write(self, brief: Brief, item: str = "") -> Article:
        """Return a page made of quoted statements, the definition first."""
        return compose(brief, self.name)

    def same(self, pairs: Sequence[Pair], item: str = "") -> list[bool | None]:
        """Return True for names that differ in form alone; the rest cannot be told."""
        return [lemma_key(p.first[0]) == lemma_key(p.second[0]) or None for p in pairs]

    def answer(self, question: str, passages: Sequence[Passage]) -> Answer:
        """Return the sentences that share most with the question, word for word."""
        return quote_answer(question, passages, self.name)

    def classify(self, prompt: str, item: str = "") -> str:
        """Raise ConfigError: cue rules in the database are all that there is without a model."""
        raise ConfigError("engine: there is no model to ask.", "Set GEMINI_API_KEY.")

    def close(self) -> None:
        """Hold nothing, so give nothing back."""
