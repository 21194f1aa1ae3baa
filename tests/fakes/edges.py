"""Language models for `FakeGemini` that type edges: a careful one, and what a prompt asks them."""

import re

from fakes.fake_gemini import Request, Say, Step
from fakes.model import MODEL, data_of

_PAIR = re.compile(r"^(\d+)\. A = (.+) \(\w+\); B = (.+) \(\w+\)$", re.MULTILINE)


def is_edges(request: Request) -> bool:
    """Whether a request is for typing edges."""
    return "You say how two things of a concept graph are linked" in request.prompt


def pairs_of(request: Request) -> list[tuple[str, str, str]]:
    """The (number, A, B) of each pair that a prompt asks about."""
    return _PAIR.findall(data_of(request.prompt))


def careful(request: Request) -> Step:
    """Say that of two names the first by letters uses the other, whatever their order."""
    lines = [f"{n}:U{1 if a < b else 2}" for n, a, b in pairs_of(request)]
    return Say("\n".join(lines), model=MODEL)
