"""Prompts: one task each, a text with ``$names`` to fill in and the reply's model beside it."""

import hashlib
from functools import cache
from importlib import resources
from string import Template


@cache
def prompt_text(task: str) -> str:
    """Return the text of a task's prompt."""
    return (resources.files("kbwiki") / "prompts" / f"{task}.md").read_text("utf-8")


def fill(task: str, **values: str) -> str:
    """Return a prompt with its names filled in; the values are never read as templates."""
    return Template(prompt_text(task)).substitute(values)


def fenced(text: str) -> str:
    """Return text between two lines that it cannot itself contain, so that it is read as data."""
    mark = hashlib.sha256(text.encode()).hexdigest()[:12]
    return f"=== data {mark} ===\n{text}\n=== end {mark} ==="
