"""What a model replies to `extract.md`."""

import re

from pydantic import field_validator

from kbwiki.prompts.lenient import LenientReply
from kbwiki.records import CONCEPT_KINDS, ConceptKind


class ConceptReply(LenientReply):
    """A concept as a part names it."""

    name: str
    aliases: list[str] = []
    kind: ConceptKind = "concept"
    definition: str = ""
    quote: str = ""

    @field_validator("kind", mode="before")
    @classmethod
    def _known_kind(cls, value: object) -> object:
        return value if value in CONCEPT_KINDS else "concept"


class ClaimReply(LenientReply):
    """A statement with the words that say it."""

    text: str = ""
    quote: str


class RelationReply(LenientReply):
    """Two concepts that one sentence relates."""

    head: str
    tail: str
    quote: str


class ExtractReply(LenientReply):
    """What one part of a source holds."""

    title: str = ""
    authors: list[str] = []
    year: int | None = None
    summary: str = ""

    concepts: list[ConceptReply]
    claims: list[ClaimReply] = []
    relations: list[RelationReply] = []

    @field_validator("year", mode="before")
    @classmethod
    def _only_a_year(cls, value: object) -> int | None:
        found = re.search(r"\b(?:1[5-9]|20)\d\d\b", str(value)[:40])
        return int(found.group()) if found else None
