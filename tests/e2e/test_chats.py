"""Both chats through their real clients over real HTTP, and every fault a provider can have."""

import json
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from email.utils import formatdate

import pytest
from fakes.fake_gemini import (
    Fail,
    FakeGemini,
    Hang,
    Raw,
    Request,
    Reset,
    Say,
    Step,
    Trickle,
    per_day,
    per_minute,
)
from pydantic import BaseModel

from kbwiki.engines.chat import Account, Chat, NoReply, Patience, Stopped, Usage, Way, make_chat
from kbwiki.engines.gemini import GeminiChat
from kbwiki.engines.prices import price
from kbwiki.engines.replies import parse_reply
from kbwiki.errors import ConfigError, ModelError

KEY = "AIzaSy-a-very-secret-key"
QUICK = Patience(base_s=0.004, cap_s=0.02, grace_s=0.05)
BOTH = pytest.mark.parametrize("name", ["gemini", "openai"])


class Concept(BaseModel):
    name: str
    note: str = ""


class Found(BaseModel):
    concepts: list[Concept]


@dataclass
class Setup:
    """A server, the chats made for it and what they told."""

    server: FakeGemini
    notices: list[str] = field(default_factory=list)
    chats: list[Chat] = field(default_factory=list)
    stop: threading.Event = field(default_factory=threading.Event)

    def chat(
        self,
        name: str,
        model: str = "gemini-flash-lite-latest",
        timeout_s: float = 20.0,
        patience: Patience = QUICK,
    ) -> Chat:
        url = self.server.url + ("/v1" if name == "openai" else "")
        chat = make_chat(
            name,
            model,
            key=KEY,
            base_url=url,
            timeout_s=timeout_s,
            patience=patience,
            stop=self.stop,
            on_notice=self.notices.append,
        )
        self.chats.append(chat)
        return chat


@pytest.fixture
def setup() -> Iterator[Setup]:
    with FakeGemini() as server:
        made = Setup(server)
        yield made
        for chat in made.chats:
            chat.close()


def ask(chat: Chat, prompt: str = "Найди concepts.") -> list[str]:
    reply = chat.complete(prompt, Found, 1000)
    assert not reply.truncated
    found = parse_reply(reply.text, Found)
    return [concept.name for concept in found.concepts]


def found(*names: str) -> str:
    return json.dumps({"concepts": [{"name": name} for name in names]}, ensure_ascii=False)


@BOTH
def test_a_prompt_and_a_reply_in_two_languages(setup: Setup, name: str) -> None:
    setup.server.script(found("поиск по графу", "graph retrieval"))
    chat = setup.chat(name)
    assert ask(chat, "Прочти source: «ёж» — 𝐀") == ["поиск по графу", "graph retrieval"]
    (request,) = setup.server.asked()
    assert request.prompt == "Прочти source: «ёж» — 𝐀"
    assert request.key == KEY
    assert request.schema is not None
    assert list(request.schema["properties"]) == ["concepts"]


def test_gemini_is_asked_as_its_api_wants_it(setup: Setup) -> None:
    setup.chat("gemini").complete("x", Found, 321)
    setup.chat("gemini", "gemini-2.5-flash").complete("y", None, 5)
    level, budget = setup.server.asked()
    assert level.path.endswith("/models/gemini-flash-lite-latest:generateContent")
    config = level.body["generationConfig"]
    assert config["temperature"] == 0
    assert config["maxOutputTokens"] == 321
    assert config["responseMimeType"] == "application/json"
    assert config["responseJsonSchema"]["required"] == ["concepts"]
    assert list(config["thinkingConfig"].values()) == ["MINIMAL"]
    assert list(budget.body["generationConfig"]["thinkingConfig"].values()) == [0]
    assert "responseMimeType" not in budget.body["generationConfig"]


def test_openai_is_asked_as_its_api_wants_it(setup: Setup) -> None:
    setup.chat("openai", "llama3").complete("x", Found, 321)
    (request,) = setup.server.asked()
    assert request.body["model"] == "llama3"
    assert request.body["max_tokens"] == 321
    assert request.body["temperature"] == 0
    assert request.body["reasoning_effort"] == "none"
    shape = request.body["response_format"]["json_schema"]
    assert shape["strict"] is True
    assert shape["schema"]["additionalProperties"] is False


@BOTH
def test_the_usage_is_what_the_provider_bills(setup: Setup, name: str) -> None:
    setup.server.script(
        Say(found("a"), input_tokens=1000, output_tokens=50, cached_tokens=400, thinking_tokens=30)
    )
    reply = setup.chat(name).complete("x", Found, 1000)
    assert reply.usage == Usage(1000, 50, 400, 30)
    assert reply.model == "gemini-3.5-flash-lite"
    assert not reply.truncated
    expected = (600 * 0.30 + 400 * 0.03 + 80 * 2.50) / 1e6
    assert price(reply.model, reply.usage) == pytest.approx(expected)


# Faults that pass.


@BOTH
@pytest.mark.parametrize("times", [1, 12])
def test_429_is_waited_out_and_not_counted_as_an_attempt(
    setup: Setup, name: str, times: int
) -> None:
    setup.server.script(*[Fail(429, "slow down", {"Retry-After": "0.01"})] * times, found("a"))
    assert ask(setup.chat(name)) == ["a"]
    assert len(setup.server.asked()) == times + 1


def timed_gap(setup: Setup, name: str, fail: Fail) -> float:
    """Return the seconds between a refused request and the next one."""
    times: list[float] = []

    def answer(request: Request) -> Step:
        times.append(time.monotonic())
        return found("a") if len(times) > 1 else fail

    setup.server.answer = answer
    assert ask(setup.chat(name)) == ["a"]
    return times[1] - times[0]


@BOTH
def test_a_retry_after_in_seconds_is_honoured(setup: Setup, name: str) -> None:
    assert timed_gap(setup, name, Fail(429, "slow", {"Retry-After": "0.3"})) >= 0.3


@BOTH
def test_a_retry_after_as_a_date_is_read_against_the_servers_clock(setup: Setup, name: str) -> None:
    # The date is a second ahead of a server whose clock is an hour behind.
    then = time.time() - 3600
    headers = {
        "Retry-After": formatdate(then + 1, usegmt=True),
        "Date": formatdate(then, usegmt=True),
    }
    gap = timed_gap(setup, name, Fail(429, "slow", headers))
    assert 0.9 <= gap < 30


def test_the_retry_info_of_gemini_is_honoured(setup: Setup) -> None:
    said = "You exceeded your current quota, please check your plan and billing details."
    fail = Fail(429, said, details=per_minute("0.3s"))
    assert timed_gap(setup, "gemini", fail) >= 0.3


@BOTH
def test_one_pause_holds_all_workers(setup: Setup, name: str) -> None:
    gate = threading.Barrier(4)
    refused_at: list[float] = []
    times: list[float] = []

    def answer(request: Request) -> Step:
        if request.prompt == "first":
            refused_at.append(time.monotonic())
            return Fail(429, "slow", {"Retry-After": "0.4"}) if len(refused_at) == 1 else found("a")
        times.append(time.monotonic())
        return found("b")

    setup.server.answer = answer
    chat = setup.chat(name)

    def first() -> list[str]:
        return ask(chat, "first")

    def other() -> list[str]:
        gate.wait(10)
        return ask(chat, "other")

    with ThreadPoolExecutor(5) as pool:
        waiting = [pool.submit(other) for _ in range(3)]
        refused = pool.submit(first)
        poll(lambda: chat._patient._limiter.paused_s > 0)
        gate.wait(10)
        assert refused.result(10) == ["a"]
        assert [w.result(10) for w in waiting] == [["b"]] * 3
    assert min(times) - refused_at[0] >= 0.4


def poll(is_so: Callable[[], bool]) -> None:
    ends_at = time.monotonic() + 10
    while not is_so():
        assert time.monotonic() < ends_at
        time.sleep(0.002)


def test_a_limit_that_never_lifts_ends_the_run(setup: Setup) -> None:
    setup.server.script(*[Fail(429, "slow", {"Retry-After": "3600"})])
    with pytest.raises(ConfigError, match="asked to wait 60 minutes: slow"):
        ask(setup.chat("gemini"))


PASSING: dict[str, Step] = {
    "500": Fail(500),
    "502 with a page": Fail(502, raw=b"<html>Bad gateway</html>"),
    "503": Fail(503, "overloaded", {"Retry-After": "0.01"}),
    "504": Fail(504),
    "reset in mid-reply": Reset(),
}


@BOTH
@pytest.mark.parametrize("step", PASSING.values(), ids=PASSING.keys())
def test_a_passing_fault_is_tried_again(setup: Setup, name: str, step: Step) -> None:
    setup.server.script(step, step, step, step, found("a"))
    assert ask(setup.chat(name)) == ["a"]
    assert len(setup.server.asked()) == 5


@BOTH
@pytest.mark.parametrize("step", PASSING.values(), ids=PASSING.keys())
def test_five_attempts_are_the_most(setup: Setup, name: str, step: Step) -> None:
    setup.server.script(*[step] * 5)
    with pytest.raises(ModelError, match=r"5 attempts"):
        ask(setup.chat(name))
    assert len(setup.server.asked()) == 5


@BOTH
def test_a_call_without_a_reply_times_out_and_is_tried_again(setup: Setup, name: str) -> None:
    setup.server.script(Hang())
    setup.server.answer = lambda request: found("a")
    assert ask(setup.chat(name, timeout_s=0.3)) == ["a"]
    assert len(setup.server.asked()) >= 2


@BOTH
def test_a_reply_that_trickles_for_ever_is_given_up(setup: Setup, name: str) -> None:
    setup.server.script(Trickle())
    setup.server.answer = lambda request: found("a")
    assert ask(setup.chat(name, timeout_s=0.4)) == ["a"]


@BOTH
def test_a_reply_that_is_no_json_at_all_is_tried_again(setup: Setup, name: str) -> None:
    setup.server.script(Fail(200, raw=b"<html>hello</html>"), found("a"))
    assert ask(setup.chat(name)) == ["a"]


@BOTH
def test_no_server_at_all_ends_the_run(name: str) -> None:
    with FakeGemini() as server:
        url = server.url
    chat = make_chat(name, "m", key=KEY, base_url=url, patience=QUICK)
    with pytest.raises(ConfigError, match="no connection"):
        chat.complete("x", None, 10)
    chat.close()


# Faults that end the run: one request, one message, the key in none of it.

ENDING: dict[str, tuple[str, Step, str]] = {
    "gemini: bad key": (
        "gemini",
        Fail(
            400,
            f"API key not valid ({KEY}). Please pass a valid API key.",
            details=[
                {"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "API_KEY_INVALID"}
            ],
        ),
        "refused",
    ),
    "gemini: no leave": ("gemini", Fail(403, f"Consumer {KEY} is suspended."), "refused"),
    "gemini: unknown model": ("gemini", Fail(404, "models/x is not found"), "no such model"),
    "gemini: quota of the day": (
        "gemini",
        Fail(429, "You exceeded your current quota.", details=per_day()),
        "quota is used up",
    ),
    "gemini: spending cap": (
        "gemini",
        Fail(429, "Your project has exceeded its monthly spending cap."),
        "spending cap",
    ),
    "gemini: no such country": (
        "gemini",
        Raw({}),  # replaced below: its status differs from its code
        "location",
    ),
    "openai: bad key": ("openai", Fail(401, f"Incorrect API key provided: {KEY}."), "refused"),
    "openai: unknown model": ("openai", Fail(404, "The model `x` does not exist"), "no such model"),
    "openai: quota": (
        "openai",
        Fail(429, "You exceeded your current quota.", code="insufficient_quota"),
        "quota is used up",
    ),
    "openai: billing": ("openai", Fail(402, "Insufficient Balance"), "quota is used up"),
}
ENDING["gemini: no such country"] = (
    "gemini",
    Fail(
        400,
        raw=b'{"error": {"code": 400, "status": "FAILED_PRECONDITION", '
        b'"message": "User location is not supported for the API use."}}',
    ),
    "location is not supported",
)


@pytest.mark.parametrize(("name", "step", "said"), ENDING.values(), ids=ENDING.keys())
def test_what_no_retry_can_help_ends_the_run_at_once(
    setup: Setup, name: str, step: Step, said: str
) -> None:
    setup.server.script(step)
    with pytest.raises(ConfigError, match=said) as caught:
        ask(setup.chat(name))
    assert len(setup.server.asked()) == 1
    assert caught.value.hint
    assert KEY not in str(caught.value)


# Faults of one item.

SILENT: dict[str, tuple[str, Step, str]] = {
    "gemini: blocked prompt": (
        "gemini",
        Raw(
            {
                "promptFeedback": {"blockReason": "PROHIBITED_CONTENT"},
                "usageMetadata": {"promptTokenCount": 7},
            }
        ),
        "PROHIBITED_CONTENT",
    ),
    "gemini: no candidates": ("gemini", Raw({"usageMetadata": {"promptTokenCount": 7}}), "no cand"),
    "gemini: withheld": ("gemini", Say(found("a"), "SAFETY", 7), "withheld .SAFETY"),
    "gemini: recitation": ("gemini", Say("", "RECITATION", 7), "RECITATION"),
    "gemini: a reason of the future": ("gemini", Say("", "BOREDOM", 7), "BOREDOM"),
    "gemini: empty": ("gemini", Say("", "STOP", 7), "empty"),
    "openai: withheld": ("openai", Say(found("a"), "SAFETY", 7), "content_filter"),
    "openai: empty": ("openai", Say(" ", "STOP", 7), "empty"),
}


@pytest.mark.parametrize(("name", "step", "said"), SILENT.values(), ids=SILENT.keys())
@pytest.mark.filterwarnings("ignore:BOREDOM is not a valid FinishReason")
def test_a_blocked_or_empty_reply_fails_its_item_with_the_reason_and_the_bill(
    setup: Setup, name: str, step: Step, said: str
) -> None:
    setup.server.script(step)
    with pytest.raises(NoReply, match=said) as caught:
        ask(setup.chat(name))
    assert caught.value.usage.input_tokens == 7
    assert len(setup.server.asked()) == 1


@BOTH
def test_a_request_that_is_wrong_fails_its_item_at_once(setup: Setup, name: str) -> None:
    setup.server.script(Fail(400, "The input token count exceeds the maximum"), found("next"))
    chat = setup.chat(name)
    with pytest.raises(ModelError, match="400 The input token count"):
        ask(chat)
    assert ask(chat) == ["next"]
    assert setup.notices == []


@BOTH
def test_a_cut_reply_says_so_even_when_it_is_empty(setup: Setup, name: str) -> None:
    setup.server.script(Say(found("a", "b")[:-9], "MAX_TOKENS"), Say("", "MAX_TOKENS"))
    chat = setup.chat(name)
    for _ in range(2):
        assert chat.complete("x", Found, 1000).truncated


READABLE: dict[str, tuple[str, list[str]]] = {
    "prose around": ("Конечно! " + found("a") + " Готово.", ["a"]),
    "fenced": (f"```json\n{found('a')}\n```", ["a"]),
    "trailing comma": ('{"concepts": [{"name": "a",},],}', ["a"]),
    "unknown field": ('{"concepts": [{"name": "a", "x": 1}], "y": 2}', ["a"]),
    "LaTeX": (r'{"concepts": [{"name": "\alpha и \frac{1}{2}"}]}', [r"\alpha и \frac{1}{2}"]),
    "quotes": ('{"concepts": [{"name": "так "называемый" метод"}]}', ['так "называемый" метод']),
    "none": (found(), []),
    "five hundred": (found(*map(str, range(500))), [*map(str, range(500))]),
}


@BOTH
@pytest.mark.parametrize(("text", "names"), READABLE.values(), ids=READABLE.keys())
def test_replies_as_models_write_them(setup: Setup, name: str, text: str, names: list[str]) -> None:
    setup.server.script(text)
    assert ask(setup.chat(name)) == names


@BOTH
@pytest.mark.parametrize("text", ["Извините, не могу.", '{"concept": [{"name": "a"}]}'])
def test_replies_that_are_no_answer(setup: Setup, name: str, text: str) -> None:
    setup.server.script(text)
    with pytest.raises(ModelError, match=r"^reply: "):
        ask(setup.chat(name))


# What a provider refuses is asked for once.


def refusing(*words: str) -> Callable[[Request], Step]:
    """Answer 400 to a request whose body holds one of the words."""

    def answer(request: Request) -> Step:
        body = json.dumps({**request.body, "messages": [], "contents": []})
        for word in words:
            if word in body:
                return Fail(400, f'Unknown name "{word}": Cannot find field.')
        return "Here: " + found("a")

    return answer


@pytest.mark.parametrize(
    ("name", "word"), [("gemini", "responseJsonSchema"), ("openai", "response_format")]
)
def test_a_refused_schema_is_told_once_and_put_in_words_from_then_on(
    setup: Setup, name: str, word: str
) -> None:
    setup.server.answer = refusing(word)
    chat = setup.chat(name)
    assert [ask(chat) for _ in range(3)] == [["a"]] * 3
    requests = setup.server.asked()
    assert [bool(r.schema) for r in requests] == [True, False, False, False]
    assert all('"concepts"' in r.prompt for r in requests[1:])
    assert len(setup.notices) == 1
    assert "no reply schema" in setup.notices[0]


def test_eight_workers_whose_schema_is_refused_together_tell_it_once(setup: Setup) -> None:
    setup.server.answer = refusing("response_format")
    setup.server.delay_s = 0.05
    chat = setup.chat("openai")
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(lambda _: ask(chat), range(16))) == [["a"]] * 16
    assert len(setup.notices) == 1
    assert sum(bool(r.schema) for r in setup.server.asked()) <= 8


@pytest.mark.parametrize(
    ("model", "words", "accepted"),
    [
        ("gemini-2.5-pro", {"0": "The thinking budget 0 is invalid"}, 128),
        ("gemini-4-argon", {"MINIMAL": "Thinking level MINIMAL is not supported"}, "LOW"),
        ("gemini-2.0-flash", dict.fromkeys(["0", "128"], "thinking is not supported"), None),
    ],
)
def test_thinking_is_least_where_it_cannot_be_off(
    setup: Setup, model: str, words: dict[str, str], accepted: object
) -> None:
    def answer(request: Request) -> Step:
        asked = request.body["generationConfig"].get("thinkingConfig", {})
        value = next(iter(asked.values()), None)
        return Fail(400, words[str(value)]) if str(value) in words else found("a")

    setup.server.answer = answer
    chat = setup.chat("gemini", model)
    assert [ask(chat), ask(chat)] == [["a"], ["a"]]
    assert len(setup.server.asked()) == len(words) + 2
    last = setup.server.asked()[-1].body["generationConfig"].get("thinkingConfig", {})
    assert next(iter(last.values()), None) == accepted
    assert len(setup.notices) == (accepted is None)


def test_a_newer_openai_model_gets_the_words_it_knows(setup: Setup) -> None:
    def answer(request: Request) -> Step:
        if request.body.get("max_tokens"):
            return Fail(400, "Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens'.")
        if "temperature" in request.body:
            return Fail(400, "Unsupported value: 'temperature' does not support 0.")
        if request.body["reasoning_effort"] == "none":
            return Fail(400, "Unsupported value: 'reasoning_effort' does not support 'none'.")
        return found("a")

    setup.server.answer = answer
    chat = setup.chat("openai", "gpt-5-mini")
    assert [ask(chat), ask(chat)] == [["a"], ["a"]]
    body = setup.server.asked()[-1].body
    assert body["max_completion_tokens"] == 1000
    assert body["reasoning_effort"] == "minimal"
    assert len(setup.server.asked()) == 5


LARGE = "'max_tokens' is too large: {}. This model supports at most 2048 completion tokens."


def test_a_limit_that_is_too_large_is_lowered_and_stays_a_limit(setup: Setup) -> None:
    def answer(request: Request) -> Step:
        limit = request.body["max_tokens"]
        return Fail(400, LARGE.format(limit)) if limit > 2048 else found("a")

    setup.server.answer = answer
    chat = setup.chat("openai", "small")
    for _ in range(2):
        assert chat.complete("x", Found, 8192).text == found("a")
    assert [r.body["max_tokens"] for r in setup.server.asked()] == [8192, 4096, 2048, 2048]


CONTEXT = [
    "This model's maximum context length is 4096 tokens. However, you requested 9000 tokens.",
    "the request exceeds the available context size, try increasing it",
    "Prompt is too long: 9000 tokens",
]


@pytest.mark.parametrize("words", CONTEXT)
def test_a_prompt_too_long_for_the_model_is_to_be_asked_in_smaller_pieces(
    setup: Setup, words: str
) -> None:
    setup.server.answer = lambda request: Fail(400, words)
    reply = setup.chat("openai", "small").complete("x", Found, 8192)
    assert (reply.truncated, reply.text, reply.usage) == (True, "", Usage())


# Many at once, and the end of a run.


@BOTH
def test_eight_workers_are_under_way_at_once(setup: Setup, name: str) -> None:
    setup.server.delay_s = 0.2
    setup.server.answer = lambda request: found(request.prompt)
    chat = setup.chat(name)
    started = time.monotonic()
    with ThreadPoolExecutor(8) as pool:
        replies = list(pool.map(lambda i: ask(chat, f"вопрос {i}"), range(40)))
    print(f"{name}: 40 calls of 0.2 s by 8 workers: {time.monotonic() - started:.2f} s, ideal 1.00")
    assert replies == [[f"вопрос {i}"] for i in range(40)]
    assert setup.server.most_at_once == 8
    assert len(setup.server.asked()) == 40


@BOTH
@pytest.mark.parametrize("why", ["slow call", "pause", "backoff"])
def test_a_stop_ends_every_wait_soon(setup: Setup, name: str, why: str) -> None:
    steps: dict[str, Step] = {
        "slow call": Hang(),
        "pause": Fail(429, "slow", {"Retry-After": "500"}),
        "backoff": Fail(503, "busy", {"Retry-After": "500"}),
    }
    setup.server.script(steps[why])
    chat = setup.chat(name)
    with ThreadPoolExecutor(1) as pool:
        call = pool.submit(ask, chat)
        poll(lambda: len(setup.server.asked()) == 1)
        setup.stop.set()
        with pytest.raises(Stopped, match="stopped"):
            call.result(timeout=2)
    assert [n for n in setup.notices if "500 s" in n] == setup.notices
    assert len(setup.notices) == (why == "pause")
    with pytest.raises(Stopped):
        ask(chat)
    assert len(setup.server.asked()) == 1


def test_a_reply_that_is_nearly_there_is_kept_at_a_stop(setup: Setup) -> None:
    setup.server.delay_s = 0.3
    setup.server.script(found("paid for"))
    chat = setup.chat("gemini", patience=Patience(grace_s=5.0))
    with ThreadPoolExecutor(1) as pool:
        call = pool.submit(ask, chat)
        poll(lambda: len(setup.server.asked()) == 1)
        setup.stop.set()
        assert call.result(timeout=5) == ["paid for"]


# Keys and addresses are ours to choose.


def test_nothing_of_the_environment_reaches_a_provider(
    setup: Setup, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    for variable in ("GOOGLE_API_KEY", "GEMINI_API_KEY", "OPENAI_API_KEY", "OPENAI_ADMIN_KEY"):
        monkeypatch.setenv(variable, "another-key")
    for variable in ("GOOGLE_GEMINI_BASE_URL", "GOOGLE_VERTEX_BASE_URL", "OPENAI_BASE_URL"):
        monkeypatch.setenv(variable, "http://127.0.0.1:9/")
    for variable in ("OPENAI_ORG_ID", "OPENAI_PROJECT_ID", "GOOGLE_CLOUD_PROJECT"):
        monkeypatch.setenv(variable, "another-project")
    monkeypatch.setenv("GOOGLE_GENAI_USE_VERTEXAI", "true")
    for name in ("gemini", "openai"):
        setup.chat(name).complete("x", None, 10)
    for request in setup.server.asked():
        sent = json.dumps(request.headers)
        assert request.key == KEY
        assert "another" not in sent
    assert caplog.records == []


def test_without_a_base_url_a_key_goes_to_its_own_provider(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GOOGLE_GEMINI_BASE_URL", "http://127.0.0.1:9/")
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/")
    gemini, openai = make_chat("gemini", key=KEY), make_chat("openai", "gpt-6-luna", key=KEY)
    options = gemini._client._api_client._http_options
    assert options.base_url == "https://generativelanguage.googleapis.com/"
    assert str(openai._client.base_url) == "https://api.openai.com/v1/"
    assert KEY not in repr([gemini, openai, Account(KEY)])
    gemini.close()
    openai.close()


def test_vertex_is_asked_by_project_with_a_token(setup: Setup) -> None:
    from google.oauth2.credentials import Credentials

    account = Account(base_url=setup.server.url, project="p1", location="europe-west1")
    token = Credentials("a-token")
    chat = GeminiChat("gemini-2.5-flash", account, Way(patience=QUICK), credentials=token)
    setup.chats.append(chat)
    setup.server.script(found("a"))
    assert ask(chat) == ["a"]
    (request,) = setup.server.asked()
    assert "/projects/p1/locations/europe-west1/publishers/google/models/" in request.path
    assert request.headers["authorization"] == "Bearer a-token"


def test_vertex_without_credentials_ends_the_run(
    setup: Setup, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", "/nowhere/credentials.json")
    chat = make_chat("gemini", base_url=setup.server.url, project="p1", location="europe-west1")
    setup.chats.append(chat)
    with pytest.raises(ConfigError, match="/nowhere") as caught:
        ask(chat)
    assert "gcloud auth" in caught.value.hint


def test_a_local_server_needs_no_key(setup: Setup) -> None:
    chat = make_chat("openai", "llama3", base_url=setup.server.url + "/v1")
    setup.chats.append(chat)
    assert chat.complete("Привет", None, 10).text == "stub: Привет"


@pytest.mark.parametrize(
    ("name", "model", "key", "said"),
    [
        ("gemini", "", "", "gemini: no key"),
        ("openai", "m", "", "openai: no key"),
        ("openai", "", KEY, "openai: no model"),
        ("claude", "m", KEY, "no chat 'claude'"),
        ("gemini", "", "ключ", "gemini: the key holds"),
        ("gemini", "", "two\nlines", "gemini: the key holds"),
    ],
)
def test_a_chat_that_cannot_be_made_says_what_to_set(
    monkeypatch: pytest.MonkeyPatch, name: str, model: str, key: str, said: str
) -> None:
    monkeypatch.setenv("GOOGLE_API_KEY", "from-the-environment")
    monkeypatch.setenv("OPENAI_API_KEY", "from-the-environment")
    with pytest.raises(ConfigError, match=said) as caught:
        make_chat(name, model, key=key)
    assert caught.value.hint
    assert "ключ" not in str(caught.value)
