"""What all replies share: a null stands for a field that was left out."""

from typing import Any

from pydantic import BaseModel, model_validator


class LenientReply(BaseModel):
    """A reply in which null means the field's default, so that one null spoils nothing else."""

    @model_validator(mode="before")
    @classmethod
    def _without_nulls(cls, value: Any) -> Any:
        if isinstance(value, dict):
            return {name: part for name, part in value.items() if part is not None}
        return value
