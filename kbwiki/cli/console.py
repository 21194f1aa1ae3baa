"""What a person sees: progress bars or plain lines, tables, one JSON object a line."""

import json
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol

from rich.console import Console
from rich.markup import escape
from rich.table import Table

if TYPE_CHECKING:
    from rich.progress import Progress

    from kbwiki.pipeline import Report

out = Console(soft_wrap=True, highlight=False)
err = Console(stderr=True, soft_wrap=True, highlight=False)
MAX_FAILURES = 50
MAX_WIDTH = 10_000


def print_json(value: object) -> None:
    """Print one JSON object on a line of its own."""
    # A terminal that cannot show every letter still gets JSON that holds them all.
    is_utf8 = (sys.stdout.encoding or "").lower().replace("-", "") == "utf8"
    sys.stdout.write(json.dumps(value, ensure_ascii=not is_utf8, default=str) + "\n")
    sys.stdout.flush()


def print_table(columns: list[str], rows: list[list[object]], title: str = "") -> None:
    """Print rows under their headings."""
    table = Table(
        *columns,
        title=title or None,
        box=None,
        header_style="bold",
        title_justify="left",
        pad_edge=False,
    )
    for row in rows:
        table.add_row(*[escape("" if cell is None else str(cell)) for cell in row])
    if out.is_terminal:
        out.print(table)
    else:  # not cut to a width where a program reads it
        Console(file=sys.stdout, width=MAX_WIDTH, soft_wrap=True, highlight=False).print(table)


def notice(text: str) -> None:
    """Tell something on the side, where it disturbs no output."""
    err.print(f"[dim]{escape(text)}[/dim]")


@contextmanager
def progress(what: str, total: int) -> Iterator[Callable[[], None]]:
    """Yield what counts one step of a long command; a bar is shown on a terminal only."""
    if not err.is_terminal:
        yield lambda: None
        return
    with _bars() as bars:
        task = bars.add_task(what, total=total, rate="", spent="")
        yield lambda: bars.advance(task)


class Meter(Protocol):
    """What counts the tokens and dollars of a run, and what was thrown away of the replies."""

    tokens: int
    usd: float
    dropped: Counter[str]


class Screen:
    """Shows a run: a bar a stage on a terminal, a line a stage elsewhere, JSON if asked."""

    def __init__(self, as_json: bool, meter: "Meter | None" = None, engine: str = "") -> None:
        self.as_json = as_json
        self.engine = engine
        self.meter = meter
        self.before: tuple[int, float, Counter[str]] = (0, 0.0, Counter())
        self.began = 0.0
        self.n_seen = 0
        self.live: Progress | None = None
        self.task: Any = None
        self.total = 0
        self.n_failed = 0
        if err.is_terminal and not as_json:
            self.live = _bars()
            self.live.start()

    def begin(self, stage: str, total: int | None) -> None:
        """Start a stage, or add items to the one that runs."""
        if not self.live:
            return
        if self.task is None:
            self.total = self.n_seen = 0
            self.began = time.monotonic()
            self.task = self.live.add_task(stage, total=total, rate="", spent="")
        self.total += total or 0
        self.live.update(self.task, total=self.total or None)

    def advance(self, item: str, failed: bool) -> None:
        """Count one item."""
        if self.live and self.task is not None:
            tokens, dollars, _ = self._spent()
            spent = f"{tokens:,} tokens ${dollars:.4f}" if tokens else ""
            self.n_seen += 1
            rate = f"{self.n_seen / max(0.001, time.monotonic() - self.began):.1f}/s"
            self.live.update(self.task, advance=1, rate=rate, spent=spent)

    def _spent(self) -> tuple[int, float, Counter[str]]:
        """Return the tokens and dollars of the stage that runs, and what it dropped."""
        if self.meter is None:
            return 0, 0.0, Counter()
        tokens, dollars, dropped = self.before
        meter = self.meter
        return meter.tokens - tokens, meter.usd - dollars, meter.dropped - dropped

    def end(self, report: "Report") -> None:
        """Show how a stage ended, and what failed in it."""
        if self.live and self.task is not None:
            self.live.remove_task(self.task)
            self.task = None
        self.n_failed += report.n_failed
        tokens, dollars, dropped = self._spent()
        before = self.before
        self.before = (before[0] + tokens, before[1] + dollars, before[2] + dropped)
        if self.as_json:
            paid = {"tokens": tokens, "usd": round(dollars, 6), "dropped": dict(dropped)}
            print_json(
                {
                    "stage": report.stage,
                    "done": report.outcome.n_done,
                    "failed": report.n_failed,
                    "seconds": round(report.seconds, 3),
                    "note": report.outcome.note,
                    "engine": self.engine,
                    **(paid if self.meter else {}),
                    **_intake(report),
                    "failures": [
                        {
                            "item": item,
                            "reason": reason,
                            "quarantined": item in report.quarantined,
                        }
                        for item, reason in report.failures
                    ],
                }
            )
            return
        done = f"{report.stage:15} {report.outcome.n_done:6} done {report.seconds:7.2f} s"
        spent = f"{tokens:,} tokens ${dollars:.4f}" if tokens else ""
        out.print(f"{done}  {escape(report.outcome.note)} {spent}".rstrip())
        for item, reason in report.failures[:MAX_FAILURES]:
            text = reason if reason.startswith(item) else f"{item}: {reason}"
            err.print(f"  [red]failed[/red] {escape(text)}")
        if len(report.failures) > MAX_FAILURES:
            err.print(f"  and {len(report.failures) - MAX_FAILURES} more: kbwiki status")

    def close(self) -> None:
        """Give the terminal back."""
        if self.live:
            self.live.stop()


def intake_counts(report: "Report") -> dict[str, int]:
    """Return how many files of a run were read, unchanged, ..., quarantined and failed."""
    counts = report.intake.counts if report.intake else {}
    n_quarantined = len(report.quarantined)
    return {**counts, "quarantined": n_quarantined, "failed": report.n_failed - n_quarantined}


def _intake(report: "Report") -> dict[str, object]:
    if report.intake is None:
        return {}
    partial = [
        {
            "uri": part.uri,
            "parts": [part.n_read, part.n_parts],
            "signs": [part.n_kept, part.n_signs],
            "notes": part.notes,
        }
        for part in report.intake.partial
    ]
    return {
        "files": intake_counts(report),
        "partial": partial,
        "unread": report.intake.unread,
    }


def _bars() -> "Progress":
    from rich import progress

    return progress.Progress(
        progress.TextColumn("{task.description:15}"),
        progress.BarColumn(),
        progress.MofNCompleteColumn(),
        progress.TimeRemainingColumn(),
        progress.TextColumn("{task.fields[rate]} {task.fields[spent]}"),
        console=err,
        transient=True,
    )


def size(n_bytes: int) -> str:
    """Return a number of bytes for people."""
    value = float(n_bytes)
    for unit in ("B", "kB", "MB", "GB"):
        if value < 1000 or unit == "GB":
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1000
    return ""
