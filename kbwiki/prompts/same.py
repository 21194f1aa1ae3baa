"""What a model replies to `same.md`."""

from kbwiki.prompts.lenient import LenientReply


class VerdictReply(LenientReply):
    """Whether the pair of a number is one thing; None if the text does not tell."""

    number: int
    same: bool | None = None


class SameReply(LenientReply):
    """The verdicts on all pairs."""

    verdicts: list[VerdictReply]
