"""``kbwiki classify-edges``: run both classifiers and say what came of it."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import typer

from kbwiki.cli.console import Screen, err, out, print_json, print_table
from kbwiki.cli.run import interruptible, open_services, screen_for
from kbwiki.cli.store import find_place, open_database
from kbwiki.db import Database
from kbwiki.engines.chat import Usage
from kbwiki.engines.prices import price
from kbwiki.engines.tokens import count_tokens
from kbwiki.ledger import Ledger
from kbwiki.pipeline import run_stages, stage_named
from kbwiki.stages.classify_edges import ANSWER_TOKENS, NAME, is_native, rehearse
from kbwiki.stages.stage import Services


def classify(
    batch: bool,
    limit: int | None,
    dry_run: bool,
    max_usd: float | None,
    db: str | None,
    as_json: bool,
) -> None:
    """Type edges in one pass, or with ``batch`` until none is pending; print tables."""
    place = find_place(db)
    with (
        interruptible(NAME, [], db),
        open_database(place) as database,
        open_services(place, database, max_usd=max_usd) as (services, ledger),
    ):
        services.limit, services.native_model = limit, True
        if dry_run:
            _show_dry_run(services, as_json)
            return
        last = database.value("last_batch")
        with screen_for(as_json, services.engine, ledger) as screen:
            _run(services, screen, batch)
        table = _table(services, ledger, last)
    if as_json:
        print_json(table)
    else:
        _show(table)
    if screen.n_failed:
        raise typer.Exit(1)


def _run(services: Services, screen: Screen, batch: bool) -> None:
    stage = stage_named(NAME)
    if not batch:
        stage = replace(stage, drain=None)
    run_stages([stage], services, screen)


def _table(services: Services, ledger: Ledger | None, last: int) -> dict[str, Any]:
    """Return what the edges are now, and what this run asked and paid."""
    database = services.database
    counts = services.memo[NAME]["counts"]
    n_unanswered = 0 if is_native(services) else database.value("count_failed_requests")
    spent: dict[str, Any] = {"calls": 0, "tokens": 0, "usd": 0.0, "estimated": False}
    if ledger and ledger.n_calls:
        spent.update(calls=ledger.n_calls, tokens=ledger.tokens, usd=round(ledger.usd, 6))
    elif is_native(services):
        spent = _native_cost(database, services.engine.model, last)
    return {
        "types": {row["type"]: row["n"] for row in database.dicts("count_edge_types")},
        "methods": {row["method"]: row["n"] for row in database.dicts("count_edge_methods")},
        "pending": counts["n_pending"],
        "open_prompts": counts["n_open"],
        "failed": counts["n_failed"] + n_unanswered,
        "needs_review": database.value("count_reviews"),
        "model": services.engine.model or ("native" if is_native(services) else ""),
        **spent,
    }


def _native_cost(database: Database, model: str, last: int) -> dict[str, Any]:
    """Return what AlloyDB was asked in this run, its tokens and dollars estimated from texts."""
    rows = database.dicts("list_batches_done", {"after": last})
    asked = sum(count_tokens(row["prompt"]) for row in rows)
    said = sum(count_tokens(row["response"]) for row in rows)
    usd = price(model, Usage(asked, said)) if model else None
    return {"calls": len(rows), "tokens": asked + said, "usd": usd, "estimated": True}


def _show(table: Mapping[str, Any]) -> None:
    print_table(["type", "edges"], [[name, n] for name, n in table["types"].items()])
    print_table(["method", "edges"], [[name, n] for name, n in table["methods"].items()])
    about = " (estimate)" if table["estimated"] else ""
    usd = "price not known" if table["usd"] is None else f"${table['usd']:.4f}"
    out.print(
        f"pending {table['pending']}, failed {table['failed']}, calls {table['calls']}, "
        f"tokens {table['tokens']:,}{about}, {usd}{about}"
    )
    if table["needs_review"]:
        out.print(f"{table['needs_review']} need a look: kbwiki edge review")
    if not table["model"]:
        out.print(
            "No model was asked: there is no key. Cue rules decided, and the rest is related_to."
        )
    elif table["open_prompts"]:
        out.print(
            f"{table['open_prompts']} prompts wait for an answer: kbwiki classify-edges --batch"
        )


def _show_dry_run(services: Services, as_json: bool) -> None:
    """Print what a run would ask, after the rules had their say; nothing is stored."""
    database = services.database
    model, prompts, pending = services.engine.model, list[str](), 0
    if model:
        with database.locked(NAME), database.rehearsal():
            prompts, pending, _ = rehearse(services, model)
    # Each edge with a directed answer is asked once more, with its ends in the other order.
    calls = {"at least": len(prompts), "at most": 2 * len(prompts)}
    tokens = sum(count_tokens(prompt) for prompt in prompts)
    most = Usage(2 * tokens, 2 * ANSWER_TOKENS * pending)
    usd = (price(model, most) if prompts else 0.0) if model else 0.0
    if as_json:
        row = {"pending": pending, "calls": calls, "tokens": 2 * tokens, "usd": usd}
        print_json({**row, "model": model})
        return
    if not model:
        out.print("No model would be asked: there is no key. Cue rules would decide.")
        return
    dollars = "price not known" if usd is None else f"at most about ${usd:.4f}"
    out.print(
        f"{pending} edges would be asked in {calls['at least']} to {calls['at most']} calls of "
        f"{model}: at most about {2 * tokens:,} tokens, {dollars}"
    )
    err.print("[dim]nothing was stored[/dim]")
