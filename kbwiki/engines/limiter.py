"""How fast we may ask: one pause and one token rate, shared by all workers of a chat.

``limits``, ``pyrate-limiter``, ``aiolimiter`` and ``token-bucket`` enforce a rate that is known
beforehand; none learns it from refusals or holds all callers for a Retry-After, and that is what
this module is. Knows no provider and no HTTP.
"""

import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

CUT = 0.7
"""A refusal multiplies the rate by this (AIMD, Chiu and Jain 1989)."""
STEP = 0.1
"""A minute of full use without a refusal adds this share of the rate at the last cut, ..."""
LEAST_STEP = 10_000.0
"""... but no fewer tokens a minute, so that one bad minute is not paid for all day."""
FLOOR = 10_000.0
"""Tokens a minute below which no refusal pushes the rate; the pauses still hold there."""
BURST_S = 5.0
"""Idle time that may be saved up, so that the workers need not start one by one."""
_WINDOW_S = 60.0


@dataclass(frozen=True, slots=True)
class Ticket:
    """Leave to make one call: its tokens as estimated and when it was given."""

    n_tokens: int
    taken_at: float


class Limiter:
    """A token-per-minute rate that starts unlimited, or at ``limit``, and learns from refusals.

    ``limit`` is a ceiling: the rate never grows above it. Thread-safe.
    """

    def __init__(
        self, limit: float | None = None, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._clock = clock
        self._limit = float("inf") if limit is None else float(limit)
        self._rate = self._limit
        self._step = LEAST_STEP
        self._lock = threading.Lock()
        self._free_at = clock() - BURST_S
        self._paused_until = self._cut_at = float("-inf")
        self._recent: deque[tuple[float, int]] = deque()

    @property
    def rate(self) -> float:
        """Tokens a minute that are let through now; ``inf`` before the first refusal."""
        return self._rate

    @property
    def paused_s(self) -> float:
        """Seconds that the common pause still lasts; 0 when there is none."""
        return max(0.0, self._paused_until - self._clock())

    def take(self, n_tokens: int, sleep: Callable[[float], object]) -> Ticket:
        """Wait for a turn; ``sleep`` does the waiting and may raise to end it."""
        wait = self._reserve(n_tokens)
        if wait > 0:
            sleep(wait)
        # Another worker may be told to wait while this one sleeps.
        while (wait := self.paused_s) > 0:
            sleep(wait)
        with self._lock:
            now = self._clock()
            self._forget(now)
            self._recent.append((now, n_tokens))
            return Ticket(n_tokens, now)

    def refuse(self, ticket: Ticket, pause_s: float) -> None:
        """Hold everybody for ``pause_s`` and, once for all calls under way, cut the rate.

        The first cut starts from what went through in a minute; a refusal that so little traffic
        cannot have caused (somebody else uses the key) teaches nothing.
        """
        with self._lock:
            now = self._clock()
            self._paused_until = max(self._paused_until, now + pause_s)
            if ticket.taken_at <= self._cut_at:
                return
            self._cut_at = now
            known = self._rate if self._rate < float("inf") else float(self._seen(now))
            if known < FLOOR:
                return
            self._rate = max(FLOOR, known * CUT)
            self._step = max(LEAST_STEP, self._rate * STEP)
            self._free_at = max(self._free_at, self._paused_until)

    def settle(self, ticket: Ticket, n_tokens: int) -> None:
        """Correct the estimate by what the call cost, and let the rate recover a little."""
        with self._lock:
            if self._rate == float("inf"):
                return
            self._free_at += (n_tokens - ticket.n_tokens) * 60.0 / self._rate
            self._rate = min(self._limit, self._rate + self._step * n_tokens / self._rate)

    def _reserve(self, n_tokens: int) -> float:
        """Return the seconds until the turn of ``n_tokens`` (the virtual scheduling of GCRA)."""
        with self._lock:
            now = self._clock()
            start = max(self._free_at, now - BURST_S)
            self._free_at = start + n_tokens * 60.0 / self._rate
            return max(start, self._paused_until) - now

    def _forget(self, now: float) -> None:
        while self._recent and self._recent[0][0] < now - _WINDOW_S:
            self._recent.popleft()

    def _seen(self, now: float) -> int:
        self._forget(now)
        return sum(n_tokens for _, n_tokens in self._recent)
