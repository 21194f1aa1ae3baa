"""What a model replies to `answer.md`."""

from pydantic import BaseModel

from kbwiki.prompts.write import StatementReply


class AnswerReply(BaseModel):
    """An answer, and what the passages do not say."""

    statements: list[StatementReply] = []
    missing: str = ""
