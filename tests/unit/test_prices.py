"""The price table: whole, dated, and silent about what it does not know."""

from datetime import date

import pytest

from kbwiki.engines.chat import GEMINI_MODEL, Usage
from kbwiki.engines.prices import checked_on, price

DAY = date(2026, 11, 30)
USAGE = Usage(input_tokens=1_000_000, output_tokens=100_000)


def test_cached_input_is_cheaper_and_thinking_is_output() -> None:
    usage = Usage(1_000_000, 100_000, cached_tokens=400_000, thinking_tokens=300_000)
    expected = 0.6 * 0.30 + 0.4 * 0.03 + 0.4 * 2.50
    assert price("gemini-3.5-flash-lite", usage, DAY) == pytest.approx(expected)


def test_where_no_cached_price_is_known_the_whole_input_costs_the_same() -> None:
    usage = Usage(1_000_000, 0, cached_tokens=1_000_000)
    assert price("gemini-2.0-flash-lite", usage, DAY) == pytest.approx(0.075)


def test_the_default_model_has_a_price() -> None:
    assert price(GEMINI_MODEL, USAGE, DAY) == pytest.approx(0.55)
    assert checked_on() >= DAY


@pytest.mark.parametrize(
    ("model", "same_as"),
    [
        ("models/gemini-2.5-flash", "gemini-2.5-flash"),
        ("gemini-2.5-flash-lite-preview-09-2025", "gemini-2.5-flash-lite"),
        ("gemini-3.1-pro-preview", "gemini-3.1-pro"),
        ("gemini-2.0-flash-001", "gemini-2.0-flash"),
        ("gpt-4o-mini-2024-07-18", "gpt-4o-mini"),
        ("gpt-5-mini-2025-08-07", "gpt-5-mini"),
    ],
)
def test_a_version_of_a_model_costs_what_the_model_costs(model: str, same_as: str) -> None:
    assert price(model, USAGE, DAY) == price(same_as, USAGE, DAY) is not None


@pytest.mark.parametrize(
    "model", ["llama3.1:8b", "gemini-3.5-flash-image", "gpt-5.4-pro", "gpt-55", "gemini", ""]
)
def test_an_unknown_model_has_no_price(model: str) -> None:
    assert price(model, USAGE, DAY) is None


def test_a_price_that_changes_changes_on_its_day() -> None:
    before = price("gemini-3.8-flash", USAGE, date(2026, 12, 31))
    after = price("gemini-3.8-flash", USAGE, date(2027, 1, 1))
    assert before == pytest.approx(1.125)
    assert after == pytest.approx(2.25)
