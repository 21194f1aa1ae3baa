"""What a model replies to `answer.md`."""

from kbwiki.prompts.lenient import LenientReply
from kbwiki.prompts.write import StatementReply


class AnswerReply(LenientReply):
    """An answer, and what the passages do not say."""

    statements: list[StatementReply]
    missing: str = ""
