"""The limiter: unlimited until refused, one pause for all, a rate that learns."""

import math
import threading
from collections import deque

import pytest

from kbwiki.engines.limiter import BURST_S, CUT, FLOOR, LEAST_STEP, Limiter


class Clock:
    """A clock that only sleeping moves."""

    def __init__(self) -> None:
        self.now = 100.0
        self.slept: list[float] = []

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds


@pytest.fixture
def clock() -> Clock:
    return Clock()


def test_nothing_waits_before_the_first_refusal(clock: Clock) -> None:
    limiter = Limiter(clock=clock)
    for _ in range(1000):
        limiter.take(50_000, clock.sleep)
    assert clock.slept == []
    assert math.isinf(limiter.rate)


def test_a_given_limit_holds_over_a_minute(clock: Clock) -> None:
    limiter = Limiter(60_000, clock=clock)
    started = clock.now
    for _ in range(121):
        limiter.take(1_000, clock.sleep)
    assert clock.now - started == pytest.approx(120 - BURST_S)


def test_a_request_larger_than_the_rate_waits_but_is_let_through(clock: Clock) -> None:
    limiter = Limiter(1_000, clock=clock)
    limiter.take(10_000, clock.sleep)
    limiter.take(1, clock.sleep)
    assert clock.now - 100.0 == pytest.approx(600 - BURST_S)


def test_a_pause_holds_everybody_for_all_of_it(clock: Clock) -> None:
    limiter = Limiter(clock=clock)
    refused = limiter.take(10, clock.sleep)
    limiter.refuse(refused, 30.0)
    assert limiter.paused_s == 30.0
    limiter.take(10, clock.sleep)
    assert clock.now >= 130.0


def test_a_longer_pause_told_while_one_sleeps_holds_it_too(clock: Clock) -> None:
    limiter = Limiter(clock=clock)
    ticket = limiter.take(10, clock.sleep)
    limiter.refuse(ticket, 5.0)

    def sleep(seconds: float) -> None:
        if not clock.slept:
            limiter.refuse(ticket, 50.0)
        clock.sleep(seconds)

    limiter.take(10, sleep)
    assert clock.now >= 150.0


def test_a_shorter_pause_does_not_cut_a_longer_one_short(clock: Clock) -> None:
    limiter = Limiter(clock=clock)
    ticket = limiter.take(10, clock.sleep)
    limiter.refuse(ticket, 50.0)
    limiter.refuse(ticket, 1.0)
    assert limiter.paused_s == 50.0


def test_the_first_refusal_sets_the_rate_from_what_went_through(clock: Clock) -> None:
    limiter = Limiter(clock=clock)
    tickets = [limiter.take(10_000, clock.sleep) for _ in range(10)]
    limiter.refuse(tickets[-1], 1.0)
    assert limiter.rate == pytest.approx(100_000 * CUT)


def test_a_refusal_that_our_traffic_cannot_explain_only_pauses(clock: Clock) -> None:
    limiter = Limiter(clock=clock)
    limiter.refuse(limiter.take(500, clock.sleep), 20.0)
    assert math.isinf(limiter.rate)
    assert limiter.paused_s == 20.0


def test_a_limit_below_the_floor_is_kept(clock: Clock) -> None:
    limiter = Limiter(1_000, clock=clock)
    limiter.refuse(limiter.take(500, clock.sleep), 1.0)
    assert limiter.rate == 1_000


def test_eight_workers_refused_together_cut_once(clock: Clock) -> None:
    limiter = Limiter(100_000, clock=clock)
    tickets = [limiter.take(10, clock.sleep) for _ in range(8)]
    for ticket in tickets:
        limiter.refuse(ticket, 1.0)
    assert limiter.rate == pytest.approx(100_000 * CUT)


def test_a_refusal_after_the_pause_cuts_again_and_never_below_the_floor(clock: Clock) -> None:
    limiter = Limiter(100_000, clock=clock)
    rates = []
    for _ in range(20):
        limiter.refuse(limiter.take(10, clock.sleep), 1.0)
        rates.append(limiter.rate)
    assert rates[1] == pytest.approx(100_000 * CUT * CUT)
    assert rates[-1] == FLOOR


def test_the_rate_recovers_by_steps_and_not_above_the_limit(clock: Clock) -> None:
    limiter = Limiter(100_000, clock=clock)
    limiter.refuse(limiter.take(10, clock.sleep), 1.0)
    cut = limiter.rate
    used = 0
    while used < cut:  # a minute of full use
        ticket = limiter.take(1_000, clock.sleep)
        limiter.settle(ticket, 1_000)
        used += 1_000
    assert cut + 0.9 * LEAST_STEP < limiter.rate <= cut + LEAST_STEP
    for _ in range(3_000):
        limiter.settle(limiter.take(1_000, clock.sleep), 1_000)
    assert limiter.rate == 100_000


def test_settling_corrects_a_wrong_estimate(clock: Clock) -> None:
    limiter = Limiter(60_000, clock=clock)
    limiter.settle(limiter.take(60_000, clock.sleep), 1_000)
    limiter.take(1_000, clock.sleep)
    assert clock.now - 100.0 < 1.0


def test_sleep_may_end_the_wait(clock: Clock) -> None:
    limiter = Limiter(clock=clock)
    limiter.refuse(limiter.take(1, clock.sleep), 60.0)

    def stop(seconds: float) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        limiter.take(1, stop)


def test_many_threads_share_one_rate(clock: Clock) -> None:
    limiter = Limiter(60_000, clock=clock)
    waits: list[float] = []

    def work() -> None:
        for _ in range(50):
            limiter.take(1_000, waits.append if not clock.slept else clock.sleep)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    # Four hundred seconds of tokens, reserved one after the other on a clock that stands still.
    assert max(waits) == pytest.approx(399 - BURST_S)


@pytest.mark.parametrize("limit", [30_000, 100_000, 1_000_000])
@pytest.mark.parametrize("guess", [None, 4_000_000])
def test_an_unknown_limit_is_learnt_within_an_hour(
    clock: Clock, limit: int, guess: int | None
) -> None:
    """A provider that counts the last minute's tokens and tells when there is room again."""
    limiter = Limiter(guess, clock=clock)
    ends_at = clock.now + 3600
    recent: deque[float] = deque()
    n_refused = n_tokens = 0
    while clock.now < ends_at:
        ticket = limiter.take(3_000, clock.sleep)
        clock.now += 0.05
        while recent and recent[0] < clock.now - 60:
            recent.popleft()
        if (len(recent) + 1) * 3_000 > limit:
            n_refused += 1
            limiter.refuse(ticket, recent[0] + 60 - clock.now)
        else:
            recent.append(clock.now)
            n_tokens += 3_000
            limiter.settle(ticket, 3_000)
    assert n_tokens > 0.85 * limit * 60
    assert n_refused < 60
