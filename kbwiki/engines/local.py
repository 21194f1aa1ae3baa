"""The engine without a model: extractive, deterministic, and honest about it."""

from kbwiki.engines.compose import compose
from kbwiki.engines.read import read_source
from kbwiki.records import Article, Brief, Document, Extraction


class LocalEngine:
    """Reads with grammar and writes with the sources' own sentences."""

    name = "local-2"
    is_paid = False

    def extract(self, document: Document, item: str = "") -> Extraction:
        """Return the candidates and claims of one source."""
        return read_source(document)

    def write(self, brief: Brief, item: str = "") -> Article:
        """Return a page made of quoted statements, the definition first."""
        return compose(brief, self.name)

    def close(self) -> None:
        """Hold nothing, so give nothing back."""
