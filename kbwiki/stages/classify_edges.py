"""classify-edges: each Edge gets one of the directed types, inside the database.

Two classifiers stand behind `kb.classify_pending`: cue rules (rows of `kb.edge_rule`) and, for what
they are not sure of, a language model that SQL asks through `ai.generate`. Elsewhere than on
AlloyDB that function queues the prompts; `DRAIN` lets the engine answer them, with no transaction
open, and the next pass takes the answers up. On AlloyDB it is the server's own, and `DRAIN` lets it
answer one pack of edges a transaction.
"""

import re
from dataclasses import dataclass, replace
from typing import Any

from kbwiki.errors import ModelError, SchemaError
from kbwiki.prompts import prompt_text
from kbwiki.stages.stage import BATCH, Outcome, Services, Stage

NAME = "classify-edges"
ASK = "ask-edges"
MIN_NATIVE = (1, 5, 2)
"""The google_ml_integration that brought ``ai.generate``."""
TYPING = "type-edges"
"""The lock on the columns of types: held for one pass, not while a model is asked."""
ANSWER_TOKENS = 6
"""Tokens of a line of an answer, for what is not asked yet."""
NATIVE = "alloydb"
"""The provider in the ledger, where the server asks by itself."""
MAX_ERRORS = 3
"""After so many errors of the server one after another it is asked no more in this run."""
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
    is_batch: bool
    """Whether it is on edges; else somebody else called `ai.generate`."""
    item: str


@dataclass(frozen=True, slots=True)
class Batch:
    """A pack of questions that the server itself can ask."""

    id: int
    prompt: str
    n_lines: int
    item: str


def is_native(services: Services) -> bool:
    """Tell whether the server itself can ask a model (AlloyDB)."""
    return bool(services.database.dicts("read_ai")[0]["is_native"])


def model_of(services: Services) -> str:
    """Return the model that is asked; empty: none. AlloyDB's default has no name that we know."""
    if is_native(services):
        named = services.database.value("read_setting", {"name": "model_id"})
        return services.engine.model or named or f"{NATIVE}'s default"
    return services.engine.model


def check_native(version: str | None) -> None:
    """Raise SchemaError for a google_ml_integration without ``ai.generate``; None: not there."""
    if version and tuple(map(int, re.findall(r"\d+", version)[:3])) < MIN_NATIVE:
        raise SchemaError(
            f"database: google_ml_integration {version} is too old.",
            "Its ai.generate needs 1.5.2: `alter extension google_ml_integration update`.",
        )


def _has_model(services: Services) -> bool:
    return services.engine.is_paid or (services.native_model and is_native(services))


def run(services: Services) -> Outcome:
    """Make one pass: rules on what changed, answers that came, prompts on what is left."""
    database = services.database
    memo = services.memo.setdefault(NAME, {"n_done": 0, "n_errors": 0})
    is_first = "begun" not in memo
    with_model, native = _has_model(services), is_native(services)
    if with_model:
        check_native(database.dicts("read_ai")[0]["native_version"])
    with database.locked(TYPING), database.transaction():
        if with_model:
            _save_prompt(services)
            if not native:
                if is_first:
                    database.run("retry_requests")
                else:
                    database.run("note_failed_requests", {"stage": ASK})
        params = {
            "with_model": with_model,
            "model_id": services.engine.model or None,
            "retry": is_first,
            "max_new": services.limit if is_first else 0,
            "ask": not native,
        }
        [counts] = database.dicts("classify_pending", params)
        if with_model and not native:
            database.run("drop_requests")
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
    _save_prompt(services)
    last = database.value("last_batch")
    params = {
        "with_model": True,
        "model_id": model or None,
        "retry": True,
        "max_new": services.limit,
        "ask": not is_native(services),
    }
    database.dicts("classify_pending", params)
    prompts = [row["prompt"] for row in database.dicts("list_waiting_prompts")]
    n_edges = database.value("count_edges_asked")
    return prompts, n_edges, database.value("count_batches_done", {"after": last})


def _save_prompt(services: Services) -> None:
    database, text = services.database, prompt_text("classify_edges")
    if database.value("read_setting", {"name": "classify_prompt"}) != text:
        database.run("save_setting", {"name": "classify_prompt", "value": text})


def _failures(services: Services) -> tuple[tuple[str, str], ...]:
    rows = services.database.dicts("list_failed_batches")
    return tuple((row["item"], row["reason"]) for row in rows)


def _requests(services: Services, skip: list[str]) -> list[Request] | list[Batch]:
    """Return the next prompts that wait for an answer."""
    if not _has_model(services):
        return []
    params = {"skip": skip, "limit": BATCH}
    if is_native(services):
        return services.database.rows("list_open_batches", Batch, params)
    return services.database.rows("list_requests", Request, params)


def _ask(services: Services, request: Request | Batch) -> str:
    from kbwiki.engines.chat import NoReply

    if isinstance(request, Batch):
        return ""
    try:
        return services.engine.classify(_HOW[request.op] + request.prompt, request.item)
    except NoReply as error:
        if not request.is_batch:
            raise
        # It was billed, and the same prompt would end so again: its edges are asked one by one.
        return error.message


def _save(services: Services, request: Request | Batch, response: str) -> None:
    if isinstance(request, Batch):
        _let_server_ask(services, request)
    else:
        services.database.run("save_response", {"key": request.key, "response": response})


def _let_server_ask(services: Services, batch: Batch) -> None:
    """Let AlloyDB ask one batch, and put down what that cost, as an estimate from the texts."""
    from kbwiki.engines.asker import CallRecord, prompt_sha
    from kbwiki.engines.chat import Usage
    from kbwiki.engines.tokens import count_tokens

    database, book = services.database, services.book
    memo = services.memo[NAME]
    if memo["n_errors"] >= MAX_ERRORS:
        raise ModelError(
            f"database: its model failed {MAX_ERRORS} times in a row.",
            "Does the server reach it? See README on AlloyDB.",
        )
    tokens = Usage(count_tokens(batch.prompt), ANSWER_TOKENS * batch.n_lines)
    sha = prompt_sha(batch.prompt)
    call = CallRecord("classify-edges", NATIVE, model_of(services), batch.item, sha, usage=tokens)
    number = book.begin(call, tokens.input_tokens, tokens.output_tokens) if book else 0
    params = {"id": batch.id, "model_id": services.engine.model or None}
    reason = database.value("ask_batch", params)
    memo["n_errors"] = memo["n_errors"] + 1 if reason else 0
    if book:
        said = count_tokens(database.value("read_response", {"id": batch.id}))
        usage = Usage(tokens.input_tokens, said)
        told = reason or "an estimate from the texts"
        call = replace(call, status="failed" if reason else "ok", usage=usage, reason=told)
        book.end(number, call, "", None)


def _item(request: Any) -> str:
    return str(request.item)


DRAIN = Stage(name=ASK, key=_item, pending=_requests, work=_ask, save=_save)
STAGE = Stage(name=NAME, run=run, drain=DRAIN)
