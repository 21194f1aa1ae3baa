"""What a model replies to `extract.md`."""

from pydantic import BaseModel

from kbwiki.records import ConceptKind


class ConceptReply(BaseModel):
    """A concept as a part names it."""

    name: str
    aliases: list[str] = []
    kind: ConceptKind = "concept"
    definition: str = ""
    quote: str = ""


class ClaimReply(BaseModel):
    """A statement with the words that say it."""

    text: str = ""
    quote: str


class RelationReply(BaseModel):
    """Two concepts that one sentence relates."""

    head: str
    tail: str
    quote: str


class ExtractReply(BaseModel):
    """What one part of a source holds."""

    title: str = ""
    authors: list[str] = []
    year: int | None = None
    summary: str = ""
    concepts: list[ConceptReply] = []
    claims: list[ClaimReply] = []
    relations: list[RelationReply] = []
