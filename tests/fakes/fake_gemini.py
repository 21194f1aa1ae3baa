"""A server on loopback that speaks Gemini's wire format, and OpenAI's chat completions.

``script`` queues what the next replies are, faults included; when the queue is empty ``answer``
speaks. Every request is kept in ``requests``. Run as a program it serves until it is ended.
"""

import hashlib
import json
import re
import socket
import sys
import threading
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Json = dict[str, Any]


@dataclass(frozen=True)
class Request:
    """One request as it came: ``task`` is generate, count, models, embed or chat."""

    task: str
    path: str
    model: str
    prompt: str
    schema: Json | None
    key: str
    headers: dict[str, str]
    body: Json


@dataclass(frozen=True)
class Say:
    """An answer with its finish reason (Gemini's words) and token counts; None: estimated."""

    text: str
    finish: str = "STOP"
    input_tokens: int | None = None
    output_tokens: int | None = None
    cached_tokens: int = 0
    thinking_tokens: int = 0
    model: str = ""


@dataclass(frozen=True)
class Fail:
    """An error reply; ``body`` overrides what its status would say."""

    status: int
    message: str = "scripted failure"
    headers: dict[str, str] = field(default_factory=dict)
    details: Sequence[Json] = ()
    code: str = ""
    raw: bytes | None = None


@dataclass(frozen=True)
class Raw:
    """A reply of status 200 with exactly this JSON, for what no other step can say."""

    body: Json


@dataclass(frozen=True)
class Reset:
    """The connection breaks after a part of the reply."""


@dataclass(frozen=True)
class Hang:
    """No reply until the server closes."""


@dataclass(frozen=True)
class Trickle:
    """A reply that comes byte by byte, each in time, and never ends."""


Step = Say | Fail | Raw | Reset | Hang | Trickle | str
Answer = Callable[[Request], Step]


def per_minute(delay: str = "0.05s") -> Sequence[Json]:
    """The details of a 429 that passes: a limit by the minute and when to come back."""
    return (
        _quota("GenerateContentInputTokensPerModelPerMinute-FreeTier"),
        {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": delay},
    )


def per_day() -> Sequence[Json]:
    """The details of a 429 that lasts until tomorrow, whatever its RetryInfo says."""
    return (
        _quota("GenerateRequestsPerDayPerProjectPerModel-FreeTier"),
        {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "7s"},
    )


def smallest(schema: Any, defs: Json | None = None) -> Any:
    """The smallest value that a JSON schema allows."""
    schema = schema or {}
    defs = defs or schema.get("$defs", {})
    if "$ref" in schema:
        return smallest(defs[schema["$ref"].rpartition("/")[2]], defs)
    if "enum" in schema:
        return schema["enum"][0]
    if "anyOf" in schema:
        return smallest(schema["anyOf"][0], defs)
    kind = str(schema.get("type", "")).lower()
    if kind == "object":
        return {name: smallest(part, defs) for name, part in schema.get("properties", {}).items()}
    return {"array": [], "integer": 1, "number": 0.5, "boolean": True, "null": None}.get(
        kind, "stub"
    )


def by_schema(request: Request) -> Step:
    """Answer with the smallest value that fits, or by naming the prompt."""
    if request.schema:
        return json.dumps(smallest(request.schema), ensure_ascii=False)
    return "stub: " + request.prompt[:60]


class FakeGemini:
    """The server; use it as a context manager. Attributes may be changed while it runs."""

    def __init__(self, answer: Answer = by_schema, delay_s: float = 0.0) -> None:
        self.answer = answer
        self.delay_s = delay_s
        self.requests: list[Request] = []
        self.most_at_once = 0
        self._at_once = 0
        self._steps: deque[Step] = deque()
        self._lock = threading.Lock()
        self._closed = threading.Event()
        handler = type("Handler", (_Handler,), {"fake": self})
        self._server = _Server(("127.0.0.1", 0), handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(0.02,), daemon=True
        )

    def __enter__(self) -> "FakeGemini":
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._closed.set()
        self._server.shutdown()
        self._server.server_close()

    def script(self, *steps: Step) -> None:
        """Queue what the next calls for a text get, in the order of their arrival."""
        with self._lock:
            self._steps.extend(steps)

    def asked(self) -> list[Request]:
        """The requests for a text so far."""
        with self._lock:
            return [r for r in self.requests if r.task in {"generate", "chat"}]

    def step_for(self, request: Request) -> Step:
        """Note a request for a text and choose its reply."""
        with self._lock:
            self.requests.append(request)
            step = self._steps.popleft() if self._steps else None
            self._at_once += 1
            self.most_at_once = max(self.most_at_once, self._at_once)
        if self.delay_s:
            self._closed.wait(self.delay_s)
        step = step or self.answer(request)
        if isinstance(step, Hang):
            self._closed.wait()
        return step

    def wait(self, seconds: float) -> bool:
        """Wait, and say whether the server is closing."""
        return self._closed.wait(seconds)

    def done(self) -> None:
        """Note that a reply is on its way."""
        with self._lock:
            self._at_once -= 1

    def note(self, request: Request) -> None:
        """Keep a request that asks for no text."""
        with self._lock:
            self.requests.append(request)


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 128

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that left in the middle is what some tests are about."""


class _Handler(BaseHTTPRequestHandler):
    fake: FakeGemini
    protocol_version = "HTTP/1.1"
    # Without it every call on a kept connection waits 40 ms for an acknowledgement.
    disable_nagle_algorithm = True

    def do_POST(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        raw = self.rfile.read(length)
        if len(raw) < length:  # the client was killed while it asked
            self.close_connection = True
            return
        body = json.loads(raw or b"{}")
        path = self.path.partition("?")[0]
        request = _request(path, body, {k.lower(): v for k, v in self.headers.items()})
        if request.task in {"generate", "chat"}:
            step = self.fake.step_for(request)
            self.fake.done()
            self._play(request, step)
            return
        self.fake.note(request)
        if request.task == "count":
            self._send(200, {"totalTokens": _tokens(_said(body.get("contents", [])))})
        elif request.task == "embed":
            self._send(200, _embeddings(body))
        else:
            self._send(404, _error(404, f"no route {path}"))

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        self.fake.note(_request(path, {}, {k.lower(): v for k, v in self.headers.items()}))
        if path.endswith("/models"):
            model = {
                "name": "models/stub",
                "inputTokenLimit": 1_000_000,
                "outputTokenLimit": 65_536,
            }
            data = [{"id": "stub", "object": "model", "created": 0, "owned_by": "fake"}]
            self._send(200, {"models": [model], "object": "list", "data": data})
        else:
            self._send(404, _error(404, f"no route {path}"))

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def _play(self, request: Request, step: Step) -> None:
        if isinstance(step, Hang):
            self.close_connection = True
            return
        is_chat = request.task == "chat"
        if isinstance(step, Reset):
            self._reset()
        elif isinstance(step, Trickle):
            self._trickle()
        elif isinstance(step, Fail):
            error = (
                _openai_error(step) if is_chat else _error(step.status, step.message, step.details)
            )
            self._send(step.status, error, step.headers, step.raw)
        elif isinstance(step, Raw):
            self._send(200, step.body)
        else:
            say = Say(step) if isinstance(step, str) else step
            self._send(200, _completion(request, say) if is_chat else _content(request, say))

    def _reset(self) -> None:
        self.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n")
        self.wfile.write(b'Content-Length: 5000\r\n\r\n{"candidates": [{"content"')
        self.wfile.flush()
        linger_off = b"\x01\x00\x00\x00\x00\x00\x00\x00"
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger_off)
        self.connection.close()
        self.close_connection = True

    def _trickle(self) -> None:
        self.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n")
        while not self.fake.wait(0.02):
            self.wfile.write(b" ")
        self.close_connection = True

    def _send(
        self,
        status: int,
        body: Json,
        headers: dict[str, str] | None = None,
        raw: bytes | None = None,
    ) -> None:
        data = raw if raw is not None else json.dumps(body, ensure_ascii=False).encode()
        self.send_response_only(status)
        self.send_header("Content-Type", "application/json; charset=utf-8")
        self.send_header("Content-Length", str(len(data)))
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)


def _request(path: str, body: Json, headers: dict[str, str]) -> Request:
    verbs = {"generateContent": "generate", "countTokens": "count", "batchEmbedContents": "embed"}
    task = verbs.get(path.rpartition(":")[2], "models")
    if path.endswith("/chat/completions"):
        shape = (body.get("response_format") or {}).get("json_schema", {}).get("schema")
        prompt = "\n".join(m["content"] for m in body.get("messages", []))
        key = headers.get("authorization", "").removeprefix("Bearer ")
        return Request("chat", path, body.get("model", ""), prompt, shape, key, headers, body)
    named = re.search(r"/models/([^:/]+)", path)
    config = body.get("generationConfig", {})
    shape = config.get("responseJsonSchema") or config.get("responseSchema")
    prompt = _said(body.get("contents", []))
    key = headers.get("x-goog-api-key", "")
    return Request(task, path, named[1] if named else "", prompt, shape, key, headers, body)


def _said(contents: list[Json]) -> str:
    return "\n".join(part.get("text", "") for c in contents for part in c.get("parts", []))


def _tokens(text: str) -> int:
    return max(1, len(text.encode()) // 5)


def _answering(request: Request, say: Say) -> str:
    return say.model or request.model.replace("flash-lite-latest", "3.5-flash-lite")


def _counts(request: Request, say: Say) -> tuple[int, int]:
    given = say.input_tokens, say.output_tokens
    estimated = _tokens(request.prompt), _tokens(say.text)
    return (
        estimated[0] if given[0] is None else given[0],
        estimated[1] if given[1] is None else given[1],
    )


def _content(request: Request, say: Say) -> Json:
    n_in, n_out = _counts(request, say)
    content = {"role": "model", "parts": [{"text": say.text}]} if say.text else {"role": "model"}
    return {
        "candidates": [{"content": content, "finishReason": say.finish, "index": 0}],
        "usageMetadata": {
            "promptTokenCount": n_in,
            "candidatesTokenCount": n_out,
            "thoughtsTokenCount": say.thinking_tokens,
            "cachedContentTokenCount": say.cached_tokens,
            "totalTokenCount": n_in + n_out + say.thinking_tokens,
        },
        "modelVersion": _answering(request, say),
        "responseId": "r1",
    }


def _completion(request: Request, say: Say) -> Json:
    n_in, n_out = _counts(request, say)
    finish = {"STOP": "stop", "MAX_TOKENS": "length", "SAFETY": "content_filter"}[say.finish]
    message = {"role": "assistant", "content": say.text}
    return {
        "id": "c1",
        "object": "chat.completion",
        "created": 0,
        "model": _answering(request, say),
        "choices": [{"index": 0, "message": message, "finish_reason": finish}],
        "usage": {
            "prompt_tokens": n_in,
            "completion_tokens": n_out + say.thinking_tokens,
            "total_tokens": n_in + n_out + say.thinking_tokens,
            "prompt_tokens_details": {"cached_tokens": say.cached_tokens},
            "completion_tokens_details": {"reasoning_tokens": say.thinking_tokens},
        },
    }


_STATUS = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    429: "RESOURCE_EXHAUSTED",
    503: "UNAVAILABLE",
    504: "DEADLINE_EXCEEDED",
}


def _error(status: int, message: str, details: Sequence[Json] = ()) -> Json:
    error: Json = {"code": status, "message": message, "status": _STATUS.get(status, "INTERNAL")}
    if details:
        error["details"] = list(details)
    return {"error": error}


def _openai_error(step: Fail) -> Json:
    return {
        "error": {"message": step.message, "type": step.code or None, "code": step.code or None}
    }


def _quota(quota_id: str) -> Json:
    metric = "generativelanguage.googleapis.com/generate_content_free_tier_requests"
    violation = {"quotaMetric": metric, "quotaId": quota_id, "quotaValue": "250"}
    return {"@type": "type.googleapis.com/google.rpc.QuotaFailure", "violations": [violation]}


def _embeddings(body: Json) -> Json:
    def vector(part: Json) -> list[float]:
        seed = hashlib.sha256(_said([part["content"]]).encode()).digest()
        n = part.get("outputDimensionality") or 768
        return [((seed[i % 32] ^ (i & 255)) - 127.5) / 127.5 for i in range(n)]

    return {"embeddings": [{"values": vector(part)} for part in body.get("requests", [])]}


if __name__ == "__main__":
    with FakeGemini(delay_s=float(sys.argv[1]) if len(sys.argv) > 1 else 0.0) as fake:
        print(fake.url, flush=True)
        threading.Event().wait()
