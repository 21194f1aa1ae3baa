"""classify-edges: each Edge gets one of the directed types, inside the database.

Two classifiers stand behind `kb.classify_pending`: cue rules (rows of `kb.edge_rule`) and, for what
they are not sure of, a language model that SQL asks through `ai.generate`. On AlloyDB that function
is the server's own and one pass is enough. Elsewhere it queues the prompts; `DRAIN` lets the engine
answer them, with no transaction open, and the next pass takes the answers up.
"""

import re
from dataclasses import dataclass
from typing import Any

from kbwiki.errors import SchemaError
from kbwiki.prompts import prompt_text
from kbwiki.stages.stage import Outcome, Services, Stage

NAME = "classify-edges"
ASK = "ask-edges"
MIN_NATIVE = (1, 5, 2)
"""The google_ml_integration that brought ``ai.generate``."""
ANSWER_TOKENS = 6
"""Tokens of a line of an answer, for what is not asked yet."""
_HOW = {
    "if": "Answer with true or false and nothing else.\n\n",
    "rank": "Answer with one number from 0 to 1 and nothing else.\n\n",
    "generate": "",
}
"""What a caller of each of AlloyDB's functions expects of an answer."""


@dataclass(frozen=True, slots=True)
class Request:
    """A prompt in the queue of the shim."""

    key: str
    op: str
    prompt: str
    prompt_sha: str
    item: str


def is_native(services: Services) -> bool:
    """Tell whether the server itself can ask a model (AlloyDB)."""
    return bool(services.database.dicts("read_ai")[0]["is_native"])


def check_native(version: str | None) -> None:
    """Raise SchemaError for a google_ml_integration without ``ai.generate``; None: not there."""
    if version and tuple(map(int, re.findall(r"\d+", version)[:3])) < MIN_NATIVE:
        raise SchemaError(
            f"database: google_ml_integration {version} is too old.",
            "Its ai.generate needs 1.5.2: `alter extension google_ml_integration update`.",
        )


def run(services: Services) -> Outcome:
    """Make one pass: rules on what changed, answers that came, prompts on what is left."""
    database = services.database
    memo = services.memo.setdefault(NAME, {"n_done": 0, "failed": {}})
    is_first = "begun" not in memo
    with_model = services.engine.is_paid or (services.native_model and is_native(services))
    if with_model:
        check_native(database.dicts("read_ai")[0]["native_version"])
    with database.transaction():
        if with_model:
            _save_prompt(services)
            if not is_native(services):
                if is_first:
                    database.run("retry_requests")
                else:
                    database.run("note_failed_requests", {"stage": ASK})
        params = {
            "with_model": with_model,
            "model_id": services.engine.model or None,
            "retry": is_first,
            "max_new": services.limit if is_first else 0,
        }
        [counts] = database.dicts("classify_pending", params)
    memo["begun"] = True
    memo["counts"] = counts
    memo["n_done"] += counts["n_typed"] + counts["n_rejected"] + counts["n_settled"]
    types = ", ".join(f"{row['n']} {row['type']}" for row in database.dicts("count_edge_types"))
    return Outcome(n_done=memo["n_done"], note=types, failures=_failures(services))


def rehearse(services: Services, model: str) -> tuple[list[str], int, int]:
    """Return the prompts that a run would begin with, the edges in them, and the answers kept.

    To be undone: it leaves the batches in the database.
    """
    database = services.database
    if is_native(services):
        return [], 0, 0
    _save_prompt(services)
    last = database.value("last_batch")
    params = {"with_model": True, "model_id": model, "retry": True, "max_new": services.limit}
    [counts] = database.dicts("classify_pending", params)
    prompts = [row["prompt"] for row in database.dicts("list_waiting_prompts")]
    return prompts, counts["n_pending"], len(database.dicts("list_batches_done", {"after": last}))


def _save_prompt(services: Services) -> None:
    database, text = services.database, prompt_text("classify_edges")
    if database.value("read_setting", {"name": "classify_prompt"}) != text:
        database.run("save_setting", {"name": "classify_prompt", "value": text})


def _failures(services: Services) -> tuple[tuple[str, str], ...]:
    rows = services.database.dicts("list_failed_batches")
    return tuple((row["item"], row["reason"]) for row in rows)


def _requests(services: Services, skip: list[str]) -> list[Request]:
    """Return the prompts that wait for an answer; none where the server asks for itself."""
    if not services.engine.is_paid or is_native(services):
        return []
    rows = services.database.rows("list_requests", Request)
    return [row for row in rows if row.item not in skip]


def _ask(services: Services, request: Request) -> str:
    return services.engine.classify(_HOW[request.op] + request.prompt, request.item)


def _save(services: Services, request: Request, response: str) -> None:
    services.database.run("save_response", {"key": request.key, "response": response})


def _item(request: Any) -> str:
    return str(request.item)


DRAIN = Stage(name=ASK, key=_item, pending=_requests, work=_ask, save=_save)
STAGE = Stage(name=NAME, run=run, drain=DRAIN)
