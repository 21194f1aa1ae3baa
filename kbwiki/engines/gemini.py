"""The chat ``gemini``: Google's models through google-genai, by API key or through Vertex.

Owns the request as Gemini wants it and what Gemini's errors mean. The SDK's own retries stay off:
they know neither Retry-After nor that a used-up quota ends a run.
"""

import logging
import re
from collections.abc import Mapping
from json import JSONDecodeError
from time import perf_counter
from typing import TYPE_CHECKING, Any

from kbwiki.engines.chat import (
    Account,
    Fault,
    Lost,
    NoReply,
    Reply,
    Usage,
    Way,
    clean,
    estimate_tokens,
    nothing,
    retry_after,
)
from kbwiki.engines.negotiate import Term, Terms, negotiate
from kbwiki.errors import ConfigError

if TYPE_CHECKING:
    from google.genai import Client, errors, types
    from pydantic import BaseModel

NAME = "gemini"
BASE_URL = "https://generativelanguage.googleapis.com/"
"""Passed on when none is given, so that GOOGLE_GEMINI_BASE_URL cannot send a key elsewhere."""

_KEY_HINT = "Set GEMINI_API_KEY to a key of https://aistudio.google.com/apikey."
_MONEY_HINT = "See https://aistudio.google.com/usage, then run again; what is done is kept."
_WHOLE = {"", "STOP", "FINISH_REASON_UNSPECIFIED"}
_CUT = {"MAX_TOKENS", "CONTINUATION"}
_PASSING = {408, 499, 500, 502, 503, 504}
_PER_DAY = re.compile(r"per_?(?:day|month)", re.IGNORECASE)
_MONEY = re.compile(r"billing|spend|prepa|credits|limit: 0\b", re.IGNORECASE)


class GeminiChat:
    """A Gemini model. The client is kept: a client without a reference closes itself."""

    name = NAME

    def __init__(self, model: str, account: Account, way: Way, *, credentials: Any = None) -> None:
        self.model = model
        self._key = account.key
        self._client = _make_client(account, way, credentials)
        self._patient = way.patient(NAME)
        self._terms = Terms(_terms_of(model), way.on_notice)

    def __repr__(self) -> str:
        return f"GeminiChat({self.model!r})"

    def complete(
        self,
        prompt: str,
        schema: "type[BaseModel] | None",
        max_output_tokens: int,
        on_lost: Lost = nothing,
    ) -> Reply:
        """Return the model's reply; see Chat."""
        from kbwiki.engines.replies import ask_in_words, schema_of

        described = schema_of(schema) if schema else None

        def ask(terms: dict[str, object]) -> Reply:
            by_schema = described if terms["schema"] else None
            text = prompt if by_schema or not described else ask_in_words(prompt, described)
            config = _config(terms, described is not None, by_schema, max_output_tokens)
            n_tokens = estimate_tokens(text)
            return self._patient.call(n_tokens, lambda: self._ask(text, config), on_lost)

        return negotiate(NAME, self._terms, ask)

    def close(self) -> None:
        """Close the HTTP client."""
        self._client.close()

    def _ask(self, prompt: str, config: "types.GenerateContentConfig") -> Reply:
        started = perf_counter()
        with _Translated(self._key):
            response = self._client.models.generate_content(
                model=self.model, contents=prompt, config=config
            )
        return _reply(response, self.model, round((perf_counter() - started) * 1000))


def _make_client(account: Account, way: Way, credentials: Any) -> "Client":
    from google.genai import Client, types

    options = types.HttpOptions(timeout=round(way.timeout_s * 1000))
    # The SDK warns at every start that it prefers GOOGLE_API_KEY, though we pass the key ourselves.
    logging.getLogger("google_genai._api_client").addFilter(_is_no_key_talk)
    if account.project:
        if account.base_url:
            options.base_url = account.base_url
        with _Translated(account.key):
            return Client(
                vertexai=True,
                project=account.project,
                location=account.location or "global",
                credentials=credentials,
                http_options=options,
            )
    if not account.key:
        raise ConfigError("gemini: no key.", _KEY_HINT)
    options.base_url = account.base_url or BASE_URL
    return Client(vertexai=False, api_key=account.key, http_options=options)


def _is_no_key_talk(record: logging.LogRecord) -> bool:
    return "Both GOOGLE_API_KEY and GEMINI_API_KEY" not in record.getMessage()


def _terms_of(model: str) -> tuple[Term, ...]:
    """Thinking off or least: Gemini up to 2.5 takes a budget, later ones a level."""
    old = re.match(r"(?:models/)?gemini-[12]\b", model)
    thinking: tuple[object, ...] = (0, 128, None) if old else ("MINIMAL", "LOW", 0, None)
    return (
        Term(
            "thinking",
            thinking,
            r"thinking|\bbudget\b",
            "gemini: this model takes no limit on thinking; what it thinks is billed as output.",
        ),
        Term("temperature", (0.0, None), r"temperature"),
        Term(
            "schema",
            (True, False),
            r"schema|response_?mime_?type",
            "gemini: this model takes no reply schema; asking for JSON in words.",
        ),
    )


def _config(
    terms: Mapping[str, object],
    is_json: bool,
    schema: dict[str, Any] | None,
    max_output_tokens: int,
) -> "types.GenerateContentConfig":
    from google.genai import types

    thinking = terms["thinking"]
    least = None
    if isinstance(thinking, str):
        least = types.ThinkingConfig(thinking_level=types.ThinkingLevel(thinking))
    elif isinstance(thinking, int):
        least = types.ThinkingConfig(thinking_budget=thinking)
    temperature = terms["temperature"]
    return types.GenerateContentConfig(
        temperature=temperature if isinstance(temperature, float) else None,
        max_output_tokens=max_output_tokens,
        response_mime_type="application/json" if is_json and schema else None,
        response_json_schema=schema,
        thinking_config=least,
    )


def _reply(response: "types.GenerateContentResponse", asked: str, ms: int) -> Reply:
    usage = _usage(response.usage_metadata)
    model = response.model_version or asked
    if not response.candidates:
        feedback = response.prompt_feedback
        reason = feedback.block_reason if feedback else None
        what = f"the prompt was blocked ({_name(reason)})" if reason else "no candidates"
        raise NoReply(f"gemini: {what}.", model=model, usage=usage)
    candidate = response.candidates[0]
    # response.text would log a warning for each part that is no text.
    parts = (candidate.content.parts if candidate.content else None) or []
    text = "".join(part.text for part in parts if part.text and not part.thought)
    finish = _name(candidate.finish_reason)
    if finish not in _WHOLE | _CUT:
        raise NoReply(f"gemini: the reply was withheld ({finish}).", model=model, usage=usage)
    if not text.strip() and finish not in _CUT:
        raise NoReply("gemini: the reply is empty.", model=model, usage=usage)
    return Reply(text, model, usage, finish in _CUT, ms)


def _usage(counts: "types.GenerateContentResponseUsageMetadata | None") -> Usage:
    if counts is None:
        return Usage()
    return Usage(
        counts.prompt_token_count or 0,
        counts.candidates_token_count or 0,
        counts.cached_content_token_count or 0,
        counts.thoughts_token_count or 0,
    )


def _name(value: Any) -> str:
    return str(getattr(value, "value", value) or "")


class _Translated:
    """Turns what the SDK raises inside the block into a Fault."""

    def __init__(self, key: str) -> None:
        self._key = key

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, at: object) -> None:
        from google.auth import exceptions as auth
        from google.genai import errors
        from pydantic import ValidationError

        if isinstance(error, errors.APIError):
            raise _fault(error, self._key) from error
        if isinstance(error, errors.UnknownApiResponseError | JSONDecodeError | ValidationError):
            raise Fault("again", "the reply is no JSON of Gemini's", is_lost=True) from error
        if isinstance(error, auth.TransportError):
            raise Fault("away", "cannot reach Google's sign-in") from error
        if isinstance(error, auth.GoogleAuthError):
            hint = "Run `gcloud auth application-default login`."
            raise Fault("run", clean(error, self._key), hint) from error
        if error is not None and (fault := _network_fault(error)):
            raise fault from error


def _network_fault(error: BaseException) -> Fault | None:
    """Name a fault of the connection; google-genai uses httpx2 or httpx, whichever is there."""
    names = {f"{kind.__module__.partition('.')[0]}.{kind.__name__}" for kind in type(error).mro()}
    if not names & {"httpx.TransportError", "httpx2.TransportError"}:
        return None
    if names & {"httpx.ConnectError", "httpx2.ConnectError"}:
        return Fault("away", "no connection", "Is the network up, and the base URL right?")
    if names & {"httpx.TimeoutException", "httpx2.TimeoutException"}:
        return Fault("again", "no reply in time", is_lost=True)
    return Fault("again", "the connection broke before the reply was whole", is_lost=True)


def _fault(error: "errors.APIError", key: str) -> Fault:
    what = clean(error.message or error.status or "refused", key)
    code, details = error.code, _details(error)
    if code == 429:
        return _pace(what, details, _wait_s(error, details))
    if code in _PASSING:
        return Fault("again", f"{code} {what}", wait_s=_wait_s(error, details))
    if code in {401, 403} or _is_bad_key(what, details):
        return Fault("run", f"the key or project is refused: {what}", _KEY_HINT)
    if code == 402 or error.status == "FAILED_PRECONDITION":
        return Fault("run", what, _MONEY_HINT)
    if code == 404:
        return Fault("run", f"no such model: {what}", "See `kbwiki config` for the model's name.")
    return Fault("terms" if code == 400 else "item", f"{code} {what}")


def _pace(what: str, details: list[dict[str, Any]], wait_s: float | None) -> Fault:
    """Tell a limit by the minute, which passes, from one by the day or the purse.

    The message of both may speak of plan and billing, so the violated quotas are looked at first.
    """
    violations = [v for d in details if _type(d) == "QuotaFailure" for v in d.get("violations", [])]
    ids = " ".join(f"{v.get('quotaId', '')} {v.get('quotaMetric', '')}" for v in violations)
    is_nothing = any(str(v.get("quotaValue", "")) == "0" for v in violations)
    spent = bool(_PER_DAY.search(ids)) or is_nothing
    if not violations and wait_s is None:
        spent = bool(_MONEY.search(what))
    if spent:
        return Fault("run", f"the quota is used up: {what}", _MONEY_HINT)
    return Fault("pace", what, wait_s=wait_s)


def _details(error: "errors.APIError") -> list[dict[str, Any]]:
    body = error.details
    inner = body.get("error", body) if isinstance(body, dict) else {}
    found = inner.get("details") if isinstance(inner, dict) else None
    return [d for d in found if isinstance(d, dict)] if isinstance(found, list) else []


def _type(detail: Mapping[str, Any]) -> str:
    return str(detail.get("@type", "")).rpartition(".")[2]


def _is_bad_key(what: str, details: list[dict[str, Any]]) -> bool:
    return "API key" in what or any(d.get("reason") == "API_KEY_INVALID" for d in details)


def _wait_s(error: "errors.APIError", details: list[dict[str, Any]]) -> float | None:
    """Return the longer wait of the header and of the RetryInfo in the body (``37.5s``)."""
    headers = getattr(error.response, "headers", None) or {}
    waits = [retry_after(headers)]
    for detail in details:
        delay = re.fullmatch(r"(\d+(?:\.\d+)?)s", str(detail.get("retryDelay", "")))
        waits.append(float(delay[1]) if delay and _type(detail) == "RetryInfo" else None)
    return max((wait for wait in waits if wait is not None), default=None)
