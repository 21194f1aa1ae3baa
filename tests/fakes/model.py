"""A careful language model for `FakeGemini`: it says what the grammar finds in the prompt."""

import json
import re
from typing import Any

from fakes.fake_gemini import Request, Say, Step

from kbwiki.engines.read import read_source
from kbwiki.text.markdown import read_markdown

MODEL = "gemini-2.5-flash-lite"
_PAIR = re.compile(r"^(\d+)\. A = (.+) \(\w+\); B = (.+) \(\w+\)$", re.MULTILINE)
_FENCED = re.compile(r"=== data (\w+) ===\n(.*)\n=== end \1 ===", re.DOTALL)


def data_of(prompt: str) -> str:
    """The part of a prompt that is data."""
    found = _FENCED.search(prompt)
    assert found, prompt
    return found.group(2)


def is_read(request: Request) -> bool:
    """Whether a request is for reading a source, not for writing a page."""
    return "You read one part" in request.prompt


def is_compared(request: Request) -> bool:
    """Whether a request asks which names are one."""
    return "You decide whether two names" in request.prompt


def is_edges(request: Request) -> bool:
    """Whether a request is for typing edges."""
    return "You say how two things of a concept graph are linked" in request.prompt


def pairs_of(request: Request) -> list[tuple[str, str, str]]:
    """The (number, A, B) of each pair that a prompt asks about."""
    return _PAIR.findall(data_of(request.prompt))


def reader(request: Request) -> Step:
    """Answer as a careful model would: with what the grammar finds in the part it was given.

    Of two things the first by letters uses the other, whatever the order in which they are put.
    """
    text = data_of(request.prompt)
    if is_compared(request):
        numbers = [int(n) for n in re.findall(r"^\[(\d+)\]", text, re.MULTILINE)]
        verdicts = [{"number": n, "same": False} for n in numbers]
        return Say(json.dumps({"verdicts": verdicts}), model=MODEL)
    if is_edges(request):
        lines = [f"{n}:U{1 if a < b else 2}" for n, a, b in pairs_of(request)]
        return Say("\n".join(lines), model=MODEL)
    reply = extracted(text.partition("\n\n")[2]) if is_read(request) else written(text)
    return Say(json.dumps(reply, ensure_ascii=False), model=MODEL)


def extracted(text: str) -> dict[str, Any]:
    """What the grammar finds in a part of a source, as a reply."""
    document = read_markdown(text)
    read = read_source(document)
    strong = {"bold", "link", "definition", "title"}
    concepts = [
        {
            "name": c.name,
            "aliases": [a.name for a in c.aliases],
            "kind": c.kind or "concept",
            "definition": document.text[slice(*c.definition)] if c.definition else "",
            "quote": "",
        }
        for c in read.candidates
        if strong & c.signals.keys()
    ]
    claims = [{"text": c.text, "quote": c.text} for c in read.claims if c.rank > 0.6]
    return {"summary": read.summary, "concepts": concepts, "claims": claims}


def written(text: str) -> dict[str, Any]:
    """A page with a statement for each of three pieces of evidence, and two that must go."""
    lines = [line for line in text.splitlines() if line.startswith("[")]
    targets = text.split("Pages that may be linked:\n", 1)[1].split("\n\n", 1)[0].splitlines()
    said = [
        {"text": f"Statement {n} names [[{targets[0]}]] and [[No such page]].", "cites": [n]}
        for n, _ in enumerate(lines[:3], 1)
    ]
    said.append({"text": "Nobody said this.", "cites": [999]})
    return {"summary": "A summary.", "sections": [{"heading": "", "statements": said}]}
