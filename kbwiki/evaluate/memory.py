"""How well memory finds what questions expect: recall@k over the keys of memories."""

import json
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from kbwiki.errors import InputError
from kbwiki.evaluate.search import Question, Ranked
from kbwiki.memory.keeper import Keeper
from kbwiki.memory.recall import recall
from kbwiki.question import clean_question, lang_of_question

_HINT = 'A line is {"id": "q1", "question": "...", "expect": ["key", ...]}.'


def read_questions(path: Path) -> list[Question]:
    """Return the questions of a file of JSON lines; raise InputError for a line that is none."""
    try:
        lines = path.read_text("utf-8").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: it cannot be read.", "Give a file of JSON lines.") from error
    out: list[Question] = []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
            text = clean_question(row["question"])
            expect = tuple(frozenset([str(key)]) for key in row["expect"])
            identifier, kind = str(row.get("id", number)), str(row.get("kind", ""))
        except (ValueError, KeyError, TypeError, AttributeError, InputError) as error:
            raise InputError(f"{path}, line {number}: it is no question.", _HINT) from error
        if not expect:
            raise InputError(f"{path}, line {number}: it expects nothing.", _HINT)
        out.append(Question(identifier, text, expect, kind, lang_of_question(text)))
    if not out:
        raise InputError(f"{path}: it holds no question.", _HINT)
    return out


def run_questions(
    keeper: Keeper, questions: Sequence[Question], depth: int, on_step: Callable[[], None]
) -> Iterator[Ranked]:
    """Yield the ranked keys of each question; no use is counted."""
    keys = {row["id"]: row["key"] for row in keeper.database.dicts("list_memory_keys")}
    for question in questions:
        began = time.perf_counter()
        nodes = recall(keeper, question.text, k=depth, counts=False).nodes
        ms = (time.perf_counter() - began) * 1000
        ranked = tuple(dict.fromkeys(keys.get(node.id) or str(node.id) for node in nodes))
        yield Ranked(question, "hybrid", ranked, ms)
        on_step()
