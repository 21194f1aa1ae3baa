"""What one provider accepts, found out by asking: a refused part of a request is left out.

Knows no provider's terms; a chat brings its own.
"""

import re
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from kbwiki.engines.chat import Fault, Notice, Reply
from kbwiki.errors import ModelError


@dataclass(frozen=True, slots=True)
class Term:
    """A part of a request that some provider or model refuses.

    ``options`` in order of preference, ending with what asks for nothing; ``said`` finds it in a
    refusal; ``notice`` tells a person that the end was reached.
    """

    name: str
    options: tuple[object, ...]
    said: str
    notice: str = ""


class Terms:
    """What one provider accepts, found out by asking: the first option of each not refused yet."""

    def __init__(self, terms: tuple[Term, ...], on_notice: Notice | None = None) -> None:
        self._terms = terms
        self._at = dict.fromkeys((term.name for term in terms), 0)
        self._lock = threading.Lock()
        self._on_notice = on_notice

    def now(self) -> dict[str, object]:
        """Return the option of each term to ask with."""
        with self._lock:
            return {term.name: term.options[self._at[term.name]] for term in self._terms}

    def concede(self, asked: Mapping[str, object], refusal: str) -> bool:
        """Give way where ``refusal`` names a term; False when there is nothing to give.

        Workers that asked together concede together: one step, one notice.
        """
        for term in self._terms:
            index = term.options.index(asked[term.name])
            if index + 1 == len(term.options) or not re.search(term.said, refusal, re.IGNORECASE):
                continue
            last = len(term.options) - 1
            with self._lock:
                is_news = self._at[term.name] < last == index + 1
                self._at[term.name] = max(self._at[term.name], index + 1)
            if is_news and term.notice and self._on_notice:
                self._on_notice(term.notice)
            return True
        return False


def negotiate(where: str, terms: Terms, ask: Callable[[dict[str, object]], Reply]) -> Reply:
    """Return the reply of ``ask``, giving way on the terms that the provider refuses."""
    while True:
        asked = terms.now()
        try:
            return ask(asked)
        except Fault as fault:
            if not terms.concede(asked, fault.what):
                raise ModelError(f"{where}: {fault.what}.", fault.hint) from fault
