"""A chat that is made at its first call: a command that asks nothing needs no key."""

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

from kbwiki.engines.chat import Chat, Lost, Reply, nothing

if TYPE_CHECKING:
    from pydantic import BaseModel


class LateChat:
    """Stands for the chat that ``make`` returns, or raises for, when it is first asked."""

    def __init__(self, name: str, model: str, make: Callable[[], Chat]) -> None:
        self.name = name
        self.model = model
        self._make = make
        self._made: Chat | None = None
        self._lock = threading.Lock()

    def complete(
        self,
        prompt: str,
        schema: "type[BaseModel] | None",
        max_output_tokens: int,
        on_lost: Lost = nothing,
    ) -> Reply:
        """Return the model's reply; see Chat."""
        with self._lock:
            if self._made is None:
                self._made = self._make()
        return self._made.complete(prompt, schema, max_output_tokens, on_lost)

    def close(self) -> None:
        """Give back the connections, if there are any."""
        if self._made is not None:
            self._made.close()
