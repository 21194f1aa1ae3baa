"""What a model replies to `same.md`."""

from pydantic import BaseModel


class VerdictReply(BaseModel):
    """Whether the pair of a number is one thing; None if the text does not tell."""

    number: int
    same: bool | None = None


class SameReply(BaseModel):
    """The verdicts on all pairs."""

    verdicts: list[VerdictReply] = []
