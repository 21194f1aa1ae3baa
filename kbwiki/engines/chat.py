"""Ask a language model, patiently: the seam to the providers and the layer of retries they share.

Owns what a reply is, which faults deserve another try and who waits how long. Knows no provider's
wire format, no prompt and no database.
"""

import math
import random
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Literal, Protocol

from kbwiki.engines.limiter import Limiter
from kbwiki.errors import ConfigError, KbwikiError, ModelError
from kbwiki.text.normal import counted

if TYPE_CHECKING:
    from pydantic import BaseModel

GEMINI_MODEL = "gemini-flash-lite-latest"
"""The default of ``gemini``: Google's own name for its newest small model."""

Notice = Callable[[str], None]
Lost = Callable[[], None]
"""Hears of each attempt that was given up after it was sent: the provider may bill it."""
_POLL_S = 0.1
_LONG_S = 2.0


@dataclass(frozen=True, slots=True)
class Usage:
    """What a call cost in tokens. ``input_tokens`` includes the cached ones, ``output_tokens``
    excludes the thinking; both outputs are billed."""

    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    thinking_tokens: int = 0


@dataclass(frozen=True, slots=True)
class Reply:
    """What a model said. ``model`` is the name that the reply gives; ``ms`` of the last attempt.

    ``truncated``: the token limit cut it, so that it must not be read as if whole.
    """

    text: str
    model: str
    usage: Usage
    truncated: bool
    ms: int


class NoReply(ModelError):
    """The provider answered, and billed, without an answer: blocked, refused or empty."""

    def __init__(
        self, message: str, hint: str = "", *, model: str = "", usage: Usage | None = None
    ):
        super().__init__(message, hint)
        self.model = model
        self.usage = usage or Usage()


class Stopped(KbwikiError):
    """The run was asked to end while a call waited; the item is neither done nor failed."""


def nothing() -> None:
    """Do nothing."""


class Chat(Protocol):
    """A language model behind a provider; safe to share between threads."""

    name: str
    """The provider: ``gemini`` or ``openai``."""
    model: str
    """The model as asked for; what answered is in the reply."""

    def complete(
        self,
        prompt: str,
        schema: "type[BaseModel] | None",
        max_output_tokens: int,
        on_lost: Lost = nothing,
    ) -> Reply:
        """Return the model's reply, as JSON that fits ``schema`` where one is given.

        Raises ModelError when this prompt cannot be answered, ConfigError when none can (key,
        quota, model name), Stopped when the run's stop event is set.
        """
        ...

    def close(self) -> None:
        """Give back the connections."""
        ...


FaultKind = Literal["pace", "again", "away", "terms", "item", "run"]


class Fault(Exception):
    """Why one request failed, in our terms; a provider's module makes it from its own errors.

    pace: too fast, all wait; again: passes by itself; away: nobody answers; terms: the request is
    not understood as put; item: this prompt will never do; run: no prompt will. ``is_lost``: it was
    sent and no reply read, so it may be billed.
    """

    def __init__(
        self,
        kind: FaultKind,
        what: str,
        hint: str = "",
        wait_s: float | None = None,
        is_lost: bool = False,
    ) -> None:
        super().__init__(what)
        self.is_lost = is_lost
        self.kind = kind
        self.what = what
        self.hint = hint
        self.wait_s = wait_s


@dataclass(frozen=True, slots=True)
class Patience:
    """How long to go on: tries of one call, seconds of backoff, of pauses and after a stop."""

    attempts: int = 5
    base_s: float = 1.0
    cap_s: float = 60.0
    max_pause_s: float = 900.0
    grace_s: float = 0.8


class Patient:
    """Makes one call after another until one succeeds or none can; shared by all workers."""

    def __init__(
        self,
        where: str,
        limiter: Limiter,
        patience: Patience,
        *,
        deadline_s: float,
        stop: threading.Event,
        on_notice: Notice | None = None,
        draw: Callable[[], float] = random.random,
    ) -> None:
        self._where = where
        self._limiter = limiter
        self._patience = patience
        self._deadline_s = deadline_s
        self._stop = stop
        self._on_notice = on_notice
        self._lock = threading.Lock()
        self._draw = draw

    def call(self, n_tokens: int, raw: Callable[[], Reply], on_lost: Lost = nothing) -> Reply:
        """Return the first reply of ``raw``, which raises Fault; ``n_tokens`` is an estimate.

        A fault of kind ``terms`` passes through: the caller may know another way to ask.
        """
        failures = refusals = 0
        paused_s = 0.0
        while True:
            self._sleep(0.0)
            ticket = self._limiter.take(n_tokens, self._sleep)
            try:
                reply = self._watched(raw, on_lost)
            except Fault as fault:
                if fault.is_lost:
                    on_lost()
                if fault.kind == "pace":
                    refusals += 1
                    wait_s = self._pause(fault, refusals)
                    paused_s += wait_s
                    self._check_pause(fault, paused_s)
                    self._limiter.refuse(ticket, wait_s)
                    self._tell_pause(wait_s)
                    continue
                failures += 1
                self._check_failure(fault, failures)
                asked_s = min(fault.wait_s or 0.0, self._patience.cap_s)
                self._sleep(max(self._backoff(failures), asked_s))
            else:
                self._limiter.settle(ticket, reply.usage.input_tokens)
                return reply

    def _backoff(self, n: int) -> float:
        """Return the wait after the ``n``-th failure: exponential, with full jitter."""
        return self._draw() * min(self._patience.cap_s, self._patience.base_s * 2.0 ** (n - 1))

    def _pause(self, fault: Fault, refusals: int) -> float:
        """Return what the provider asks for, more where it proves too little or says nothing."""
        told = 3 if fault.wait_s else 0
        return max(fault.wait_s or 0.0, self._backoff(refusals - told) if refusals > told else 0.0)

    def _sleep(self, seconds: float) -> None:
        if self._stop.wait(seconds):
            raise stopped(self._where)

    def _watched(self, raw: Callable[[], Reply], on_lost: Lost) -> Reply:
        """Run ``raw`` in a thread that may be left behind: a blocking socket cannot be interrupted.

        A time-out of the SDK restarts with every byte, so the deadline for the whole is kept here;
        a reply that is nearly there when the run stops is paid for, so it gets some grace.
        """
        outcome = _Outcome()
        threading.Thread(target=outcome.fill, args=(raw,), name="kbwiki-call", daemon=True).start()
        ends_at = time.monotonic() + self._deadline_s
        while not outcome.done.wait(_POLL_S):
            if self._stop.is_set() and not outcome.done.wait(self._patience.grace_s):
                on_lost()
                raise stopped(self._where)
            if time.monotonic() > ends_at:
                what = f"no whole reply within {self._deadline_s:.0f} s"
                raise Fault("again", what, is_lost=True)
        return outcome.take()

    def _check_pause(self, fault: Fault, paused_s: float) -> None:
        if paused_s > self._patience.max_pause_s:
            raise ConfigError(
                f"{self._where}: asked to wait {counted(round(paused_s / 60), 'minute')}: "
                f"{fault.what}.",
                fault.hint or "Run again later, or with fewer --jobs; what is done is kept.",
            ) from fault

    def _tell_pause(self, wait_s: float) -> None:
        """Explain the first silence that a person would wonder about, and no later one."""
        if wait_s >= _LONG_S and self._on_notice:
            tell, self._on_notice = self._on_notice, None
            tell(
                f"{self._where}: asked to slow down; waiting {wait_s:.0f} s, then going on slower."
            )

    def _check_failure(self, fault: Fault, failures: int) -> None:
        if fault.kind == "terms":
            raise fault
        if fault.kind == "run":
            raise ConfigError(f"{self._where}: {fault.what}.", fault.hint) from fault
        if fault.kind == "item":
            raise ModelError(f"{self._where}: {fault.what}.", fault.hint) from fault
        if failures >= self._patience.attempts:
            what = f"{self._where}: {fault.what} ({counted(failures, 'attempt')})."
            error = ConfigError if fault.kind == "away" else ModelError
            raise error(what, fault.hint or "Run again later; what is done is kept.") from fault


def stopped(where: str) -> Stopped:
    """Return the error of a call that was given up because the run ends."""
    return Stopped(f"{where}: stopped before the reply.", "Continue with: kbwiki build")


class _Outcome:
    """Carries what a call ends with, a reply or an error, from its thread to another."""

    def __init__(self) -> None:
        self.done = threading.Event()
        self._reply: Reply | None = None
        self._error: BaseException | None = None

    def fill(self, raw: Callable[[], Reply]) -> None:
        with self:
            self._reply = raw()

    def take(self) -> Reply:
        if self._error is not None:
            raise self._error
        assert self._reply is not None
        return self._reply

    def __enter__(self) -> None:
        return None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: object
    ) -> bool:
        self._error = error
        self.done.set()
        return True


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Return the seconds of a Retry-After header, given as seconds or as an HTTP date.

    A date is read against the server's own ``Date``, whose clock need not be ours.
    """
    value = headers.get("retry-after", "").strip()
    if not value:
        return None
    try:
        seconds = max(0.0, float(value))
        return seconds if math.isfinite(seconds) else None
    except ValueError:
        pass
    until = _http_date(value)
    now = _http_date(headers.get("date", "")) or datetime.now(UTC)
    return None if until is None else max(0.0, (until - now).total_seconds())


def _http_date(value: str) -> datetime | None:
    try:
        when = parsedate_to_datetime(value)
    except ValueError:
        return None
    return when if when.tzinfo else when.replace(tzinfo=UTC)


def estimate_tokens(text: str) -> int:
    """Return a guess at a text's tokens: a token is about four bytes of English, six of Russian."""
    return len(text.encode("utf-8", "replace")) // 5 + 1


def clean(text: object, key: str = "") -> str:
    """Return a provider's words fit for one line of a message, without the key."""
    line = " ".join(str(text or "").split())
    if key:
        line = line.replace(key, "***")
    return (line[:297] + "..." if len(line) > 300 else line).rstrip(".")


def check_key(where: str, key: str) -> str:
    """Return the key without surrounding blanks; raise ConfigError for one no header can carry."""
    key = key.strip()
    if not (key.isascii() and key.isprintable()) or " " in key:
        raise ConfigError(
            f"{where}: the key holds a blank or a letter that no key has.", "Copy it again."
        )
    return key


@dataclass(frozen=True, slots=True)
class Account:
    """Who asks, and where; the key stays out of ``repr``."""

    key: str = field(default="", repr=False)
    base_url: str = ""
    project: str = ""
    location: str = ""


@dataclass(frozen=True, slots=True)
class Way:
    """How every chat goes about its calls, whoever the provider is."""

    limiter: Limiter = field(default_factory=Limiter)
    patience: Patience = field(default_factory=Patience)
    timeout_s: float = 120.0
    stop: threading.Event = field(default_factory=threading.Event)
    on_notice: Notice | None = None

    def patient(self, where: str) -> Patient:
        """Return the retry layer of one chat; its deadline lets the SDK's own time-out go first."""
        return Patient(
            where,
            self.limiter,
            self.patience,
            deadline_s=self.timeout_s * 1.5,
            stop=self.stop,
            on_notice=self.on_notice,
        )


def make_chat(  # noqa: PLR0913 - one keyword for each setting
    name: str,
    model: str = "",
    *,
    key: str = "",
    base_url: str = "",
    project: str = "",
    location: str = "",
    timeout_s: float = 120.0,
    patience: Patience | None = None,
    stop: threading.Event | None = None,
    on_notice: Notice | None = None,
) -> Chat:
    """Return the chat of a provider; raise ConfigError for an unknown one or a missing key.

    ``project`` (with ``location``) means Vertex, with the machine's Google credentials. ``stop``,
    once set, ends every wait. ``on_notice`` hears once of each concession to the provider and of
    the first long pause.
    """
    account = Account(check_key(name, key), base_url, project, location)
    way = Way(
        Limiter(),
        patience or Patience(),
        timeout_s,
        stop or threading.Event(),
        on_notice,
    )
    if name == "gemini":
        from kbwiki.engines.gemini import GeminiChat

        return GeminiChat(model or GEMINI_MODEL, account, way)
    if name == "openai":
        from kbwiki.engines.openai_chat import OpenAIChat

        return OpenAIChat(model, account, way)
    raise ConfigError(f"engine: there is no chat {name!r}.", "Known: gemini, openai.")
