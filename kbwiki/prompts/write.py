"""What a model replies to `write.md`."""

from kbwiki.prompts.lenient import LenientReply


class StatementReply(LenientReply):
    """A statement and the numbers of the evidence for it."""

    text: str
    cites: list[int] = []


class SectionReply(LenientReply):
    """A part of a page."""

    heading: str = ""
    statements: list[StatementReply] = []


class WriteReply(LenientReply):
    """A page."""

    summary: str = ""
    sections: list[SectionReply]
