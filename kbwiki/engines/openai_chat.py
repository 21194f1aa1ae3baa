"""The chat ``openai``: any server that speaks OpenAI's chat completions, local or far.

Ollama, vLLM, llama.cpp's server and gateways differ in what they accept, so whatever one refuses
by name is left out from then on. The SDK's own retries stay off (see chat.py).
"""

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
from kbwiki.errors import ConfigError, ModelError

if TYPE_CHECKING:
    import openai
    from openai.types.chat import ChatCompletion
    from pydantic import BaseModel

NAME = "openai"
BASE_URL = "https://api.openai.com/v1"
"""Passed on when none is given, so that OPENAI_BASE_URL cannot send a key elsewhere."""

_KEY_HINT = "Set OPENAI_API_KEY, or the base URL of a server that needs no key."
_MONEY_HINT = "See your account's billing page, then run again; what is done is kept."
_MONEY = re.compile(r"insufficient_quota|billing|insufficient (?:balance|credits|funds)", re.I)
_TOO_LARGE = r"tokens\b.*(?:too (?:large|big|high|many)|at most|exceed|maximum|less than or equal)"
_TOO_LONG = re.compile(r"context.{0,9}(?:length|window|size)|(?:prompt|input).{0,9}too long", re.I)
_TERMS = (
    Term(
        "schema",
        (True, False),
        r"response_?format|json_?schema|schema|grammar",
        "openai: this server takes no reply schema; asking for JSON in words.",
    ),
    # A model with a small context refuses the number, not the name; what does not fit it is cut,
    # and asked again in smaller pieces.
    Term("cap", (None, 4096, 2048, 1024), _TOO_LARGE),
    Term(
        "limit",
        ("max_tokens", "max_completion_tokens", None),
        rf"^(?!.*(?:{_TOO_LARGE})).*max_(?:completion_)?tokens",
    ),
    Term("temperature", (0.0, None), r"temperature"),
    Term("thinking", ("none", "minimal", "low", None), r"reasoning|think"),
)


class OpenAIChat:
    """A model behind an OpenAI-compatible server."""

    name = NAME

    def __init__(self, model: str, account: Account, way: Way) -> None:
        if not model:
            raise ConfigError("openai: no model named.", "Set the name of a model that it serves.")
        self.model = model
        self._key = account.key
        self._client = _make_client(account, way)
        self._patient = way.patient(NAME)
        self._terms = Terms(_TERMS, way.on_notice)

    def __repr__(self) -> str:
        return f"OpenAIChat({self.model!r})"

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
        name = schema.__name__ if schema else ""

        def ask(terms: dict[str, object]) -> Reply:
            body = _body(terms, max_output_tokens)
            text = prompt
            if described and terms["schema"]:
                body["response_format"] = _response_format(name, described)
            elif described:
                text = ask_in_words(prompt, described)
            n_tokens = estimate_tokens(text)
            return self._patient.call(n_tokens, lambda: self._ask(text, body), on_lost)

        try:
            return negotiate(NAME, self._terms, ask)
        except ModelError as error:
            if not _TOO_LONG.search(error.message):
                raise
            # A part too long for the model is asked again in smaller pieces, as is a long reply.
            return Reply("", self.model, Usage(), True, 0)

    def close(self) -> None:
        """Close the HTTP client."""
        self._client.close()

    def _ask(self, prompt: str, body: dict[str, Any]) -> Reply:
        started = perf_counter()
        with _Translated(self._key):
            completion = self._client.chat.completions.create(
                model=self.model, messages=[{"role": "user", "content": prompt}], extra_body=body
            )
        return _reply(completion, self.model, round((perf_counter() - started) * 1000))


def _make_client(account: Account, way: Way) -> "openai.OpenAI":
    from openai import OpenAI

    if not account.key and not account.base_url:
        raise ConfigError("openai: no key.", _KEY_HINT)
    return OpenAI(
        # An empty string, unlike None, keeps the SDK from looking into the environment.
        api_key=account.key or "none",
        organization="",
        project="",
        base_url=account.base_url or BASE_URL,
        timeout=way.timeout_s,
        max_retries=0,
    )


def _body(terms: Mapping[str, object], max_output_tokens: int) -> dict[str, Any]:
    body: dict[str, Any] = {}
    if terms["limit"]:
        cap = terms["cap"]
        limit = min(max_output_tokens, cap) if isinstance(cap, int) else max_output_tokens
        body[str(terms["limit"])] = limit
    if terms["temperature"] is not None:
        body["temperature"] = terms["temperature"]
    if terms["thinking"]:
        body["reasoning_effort"] = terms["thinking"]
    return body


def _response_format(name: str, schema: dict[str, Any]) -> dict[str, Any]:
    from kbwiki.engines.replies import closed

    return {
        "type": "json_schema",
        "json_schema": {"name": name, "strict": True, "schema": closed(schema)},
    }


def _reply(completion: "ChatCompletion", asked: str, ms: int) -> Reply:
    # The SDK hands on whatever JSON came, typed as if it were a completion.
    choices = getattr(completion, "choices", None)
    if choices is None:
        raise Fault("again", "the reply is no chat completion", is_lost=True)
    usage = _usage(getattr(completion, "usage", None))
    model = completion.model or asked
    if not choices:
        raise NoReply("openai: no choices.", model=model, usage=usage)
    message, finish = choices[0].message, choices[0].finish_reason
    if message is None:
        raise Fault("again", "the reply holds no message", is_lost=True)
    if finish == "content_filter" or getattr(message, "refusal", None):
        why = clean(getattr(message, "refusal", None) or "content_filter")
        raise NoReply(f"openai: the reply was withheld ({why}).", model=model, usage=usage)
    text = message.content or ""
    if not text.strip() and finish != "length":
        raise NoReply("openai: the reply is empty.", model=model, usage=usage)
    return Reply(text, model, usage, finish == "length", ms)


def _usage(counts: Any) -> Usage:
    """Return the counts in our terms: theirs hold the thinking within the output."""
    if counts is None:
        return Usage()
    inner = getattr(counts.completion_tokens_details, "reasoning_tokens", None) or 0
    return Usage(
        counts.prompt_tokens or 0,
        max(0, (counts.completion_tokens or 0) - inner),
        getattr(counts.prompt_tokens_details, "cached_tokens", None) or 0,
        inner,
    )


class _Translated:
    """Turns what the SDK raises inside the block into a Fault."""

    def __init__(self, key: str) -> None:
        self._key = key

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, at: object) -> None:
        import openai

        if isinstance(error, openai.APIStatusError):
            raise _fault(error, self._key) from error
        if isinstance(error, openai.APITimeoutError):
            raise Fault("again", "no reply in time", is_lost=True) from error
        if isinstance(error, openai.APIConnectionError):
            raise _connection_fault(error) from error
        if isinstance(error, openai.APIError | JSONDecodeError):
            raise Fault("again", "the reply is no JSON", is_lost=True) from error


def _connection_fault(error: BaseException) -> Fault:
    cause = error.__cause__
    if cause is not None and type(cause).__name__ == "ConnectError":
        return Fault("away", "no connection", "Is the server up, and the base URL right?")
    return Fault("again", "the connection broke before the reply was whole", is_lost=True)


def _fault(error: "openai.APIStatusError", key: str) -> Fault:
    body = error.body if isinstance(error.body, dict) else {}
    what = clean(body.get("message") or error.message, key)
    code, wait_s = error.status_code, retry_after(error.response.headers)
    if code == 402 or (code in {400, 429} and _is_money(what, body)):
        return Fault("run", f"the quota is used up: {what}", _MONEY_HINT)
    if code == 429:
        return Fault("pace", what, wait_s=wait_s)
    if code in {408, 409} or code >= 500:
        return Fault("again", f"{code} {what}", wait_s=wait_s)
    if code in {401, 403}:
        return Fault("run", f"the key is refused: {what}", _KEY_HINT)
    if code == 404:
        return Fault("run", f"no such model or address: {what}", "See `kbwiki config`.")
    return Fault("terms" if code in {400, 422} else "item", f"{code} {what}")


def _is_money(what: str, body: Mapping[str, Any]) -> bool:
    return bool(_MONEY.search(f"{what} {body.get('code')} {body.get('type')}"))
