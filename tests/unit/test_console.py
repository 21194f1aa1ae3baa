"""What a person sees of a run on a terminal."""

import io
from collections import Counter

import pytest
from rich.console import Console

from kbwiki.cli import console
from kbwiki.cli.console import Screen


class Paid:
    """A meter that a test turns."""

    def __init__(self) -> None:
        self.tokens = 0
        self.usd = 0.0
        self.dropped: Counter[str] = Counter()


def test_a_bar_shows_count_rate_tokens_and_dollars_of_its_stage(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shown = io.StringIO()
    monkeypatch.setattr(console, "err", Console(file=shown, force_terminal=True, width=120))
    meter = Paid()
    screen = Screen(False, meter)
    screen.begin("extract", 3)
    meter.tokens, meter.usd = 1200, 0.01
    screen.advance("a", failed=False)
    screen.begin("extract", 4)
    screen.close()
    last = shown.getvalue()
    assert "extract" in last
    assert "1/7" in last
    assert "/s 1,200 tokens $0.0100" in last
