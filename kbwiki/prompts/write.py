"""What a model replies to `write.md`."""

from pydantic import BaseModel


class StatementReply(BaseModel):
    """A statement and the numbers of the evidence for it."""

    text: str
    cites: list[int] = []


class SectionReply(BaseModel):
    """A part of a page."""

    heading: str = ""
    statements: list[StatementReply] = []


class WriteReply(BaseModel):
    """A page."""

    summary: str = ""
    sections: list[SectionReply] = []
