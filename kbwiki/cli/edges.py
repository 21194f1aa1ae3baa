"""``kbwiki classify-edges``: run both classifiers and say what came of it."""

from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import replace
from typing import Any

import typer

from kbwiki.cli.console import Screen, err, out, print_json, print_table
from kbwiki.cli.edge import tell_wait
from kbwiki.cli.run import interruptible, open_services, screen_for
from kbwiki.cli.store import Place, find_place, open_database
from kbwiki.db import connect
from kbwiki.engines.chat import Usage
from kbwiki.engines.prices import price
from kbwiki.engines.tokens import count_tokens
from kbwiki.ledger import Ledger
from kbwiki.pipeline import run_stages, stage_named
from kbwiki.stages.classify_edges import ANSWER_TOKENS, NAME, TYPING, is_native, model_of, rehearse
from kbwiki.stages.stage import Services
from kbwiki.text.normal import counted


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
        interruptible(NAME, ["--batch"] if batch else [], db),
        open_database(place) as database,
        open_services(place, database, max_usd=max_usd) as (services, paid),
    ):
        services.limit, services.native_model = limit, True
        if dry_run:
            _show_dry_run(services, as_json)
            return
        native = is_native(services)
        with _ledger(place, services, paid, max_usd) as ledger:
            with screen_for(as_json, services.engine, ledger) as screen:
                # AlloyDB asks for itself, so nothing is left to be answered by others.
                _run(services, screen, batch or native)
            table = _table(services, ledger, native)
    if as_json:
        print_json(table)
    else:
        _show(table)
    if screen.n_failed:
        raise typer.Exit(1)


@contextmanager
def _ledger(
    place: Place, services: Services, paid: Ledger | None, max_usd: float | None
) -> Iterator[Ledger | None]:
    """Yield the ledger of the run, opened here where the server asks and no engine has one."""
    if paid or not is_native(services):
        yield paid
        return
    url = services.database.url
    daily = place.settings.daily_usd
    with closing(Ledger(lambda: connect(url, "kbwiki ledger"), max_usd, daily)) as ledger:
        services.book = ledger
        yield ledger


def _run(services: Services, screen: Screen, drains: bool) -> None:
    stage = stage_named(NAME)
    if not drains:
        stage = replace(stage, drain=None)
    run_stages([stage], services, screen)


def _table(services: Services, ledger: Ledger | None, native: bool) -> dict[str, Any]:
    """Return what the edges are now, and what this run asked and paid."""
    database = services.database
    counts = services.memo[NAME]["counts"]
    spent: dict[str, Any] = {"calls": 0, "tokens": 0, "usd": 0.0}
    if ledger and ledger.n_calls:
        usd = round(ledger.usd, 6) if not native or ledger.usd else None
        spent = {"calls": ledger.n_calls, "tokens": ledger.tokens, "usd": usd}
    return {
        "types": {row["type"]: row["n"] for row in database.dicts("count_edge_types")},
        "methods": {row["method"]: row["n"] for row in database.dicts("count_edge_methods")},
        "pending": counts["n_pending"],
        "open_prompts": counts["n_open"],
        "failed": counts["n_failed"] + (0 if native else database.value("count_failed_requests")),
        "needs_review": database.value("count_reviews"),
        "model": model_of(services),
        **spent,
        "estimated": native,
    }


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
        out.print(
            counted(table["needs_review"], "edge needs", "edges need")
            + " a look: kbwiki edge review"
        )
    if not table["model"]:
        out.print(
            "No model was asked: there is no key. Cue rules decided, and the rest is related_to."
        )
    elif table["open_prompts"]:
        out.print(
            counted(table["open_prompts"], "prompt waits", "prompts wait")
            + " for an answer: kbwiki classify-edges --batch"
        )


def _show_dry_run(services: Services, as_json: bool) -> None:
    """Print what a run would ask, after the rules had their say; nothing is stored."""
    database = services.database
    model, prompts, pending = model_of(services), list[str](), 0
    if model:
        with database.locked(TYPING, tell_wait), database.rehearsal():
            prompts, pending, _ = rehearse(services, services.engine.model)
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
        f"{counted(pending, 'edge')} would be asked in {calls['at least']} to "
        f"{counted(calls['at most'], 'call')} of "
        f"{model}: at most about {2 * tokens:,} tokens, {dollars}. Answers that cannot be used are "
        "asked for again, edge by edge."
    )
    err.print("[dim]nothing was stored[/dim]")
