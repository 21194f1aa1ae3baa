"""What a call costs, from the dated table ``prices.toml`` beside this module."""

import re
import tomllib
from datetime import date
from functools import cache
from importlib.resources import files
from typing import Any

from kbwiki.engines.chat import Usage

_VERSION = re.compile(r"(?:[-@](?:preview|latest|exp|\d+))*")
"""What may follow a name of the table: a version of the model. Anything else is another model."""


def price(model: str, usage: Usage, on: date | None = None) -> float | None:
    """Return the dollars of a call as the table knew them for that day; None: unknown model.

    The longest name in the table that begins ``model`` counts. Thinking is billed as output.
    """
    rates = _rates(model, on or date.today())
    if rates is None:
        return None
    cached = min(usage.cached_tokens, usage.input_tokens)
    dollars = (
        (usage.input_tokens - cached) * rates["input"]
        + cached * rates.get("cached", rates["input"])
        + (usage.output_tokens + usage.thinking_tokens) * rates["output"]
    )
    return float(dollars / 1_000_000)


def checked_on() -> date:
    """Return the day on which the table was last compared with the providers' prices."""
    day: date = _table()["checked"]
    return day


def _rates(model: str, on: date) -> dict[str, Any] | None:
    name = model.removeprefix("models/")
    known = [
        prefix
        for prefix in _table()["model"]
        if name.startswith(prefix) and _VERSION.fullmatch(name, len(prefix))
    ]
    if not known:
        return None
    current: dict[str, Any] | None = None
    for rates in _table()["model"][max(known, key=len)]["prices"]:
        if rates.get("since", on) <= on:
            current = rates
    return current


@cache
def _table() -> dict[str, Any]:
    return tomllib.loads(files("kbwiki.engines").joinpath("prices.toml").read_text("utf-8"))
