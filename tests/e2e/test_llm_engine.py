"""The tasks over a real client: what the token limit cut is asked again in smaller pieces."""

import json
import re
from collections.abc import Iterator

import pytest
from fakes.fake_gemini import FakeGemini, Request, Say, Step

from kbwiki import db, prompts
from kbwiki.engines import llm
from kbwiki.engines.chat import make_chat
from kbwiki.engines.llm import LlmEngine
from kbwiki.errors import ModelError
from kbwiki.ledger import Ledger
from kbwiki.prompts.extract import ExtractReply
from kbwiki.records import Brief, Pair, Passage, Statement

CUT = Say('{"', finish="MAX_TOKENS")


@pytest.fixture
def gemini() -> Iterator[FakeGemini]:
    with FakeGemini() as fake:
        yield fake


@pytest.fixture
def engine(gemini: FakeGemini, url: str) -> Iterator[LlmEngine]:
    """An engine with a ledger."""
    ledger = Ledger(lambda: db.connect(url))
    chat = make_chat("gemini", "gemini-2.5-flash-lite", key="k", base_url=gemini.url)
    engine = LlmEngine(chat, ledger)
    yield engine
    engine.close()
    ledger.close()


def test_the_name_of_an_engine_holds_what_decides_its_pages_and_nothing_else(
    engine: LlmEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def name() -> str:
        llm._method_sha.cache_clear()
        return LlmEngine(engine._asker.chat, engine._asker._book).name

    before = name()
    real = prompts.prompt_text
    for task, is_new in (("answer", False), ("same", False), ("extract", True), ("write", True)):
        with monkeypatch.context() as patch:
            patch.setattr(llm, "prompt_text", lambda t, task=task: real(t) + "!" * (t == task))
            assert (name() != before) == is_new, task
    with monkeypatch.context() as patch:
        patch.setattr(llm, "WINDOW_TOKENS", 2000)
        assert name() != before
    with monkeypatch.context() as patch:
        patch.setattr(llm, "WriteReply", ExtractReply)
        assert name() != before
    assert name() == before


def _numbers(request: Request) -> list[int]:
    return [int(n) for n in re.findall(r"^\[(\d+)\]", request.prompt, re.MULTILINE)]


def _fits(n: int, reply: object) -> Step:
    return json.dumps(reply, ensure_ascii=False) if n <= 3 else CUT


def test_verdicts_keep_their_order_when_they_are_asked_in_pieces(
    engine: LlmEngine, gemini: FakeGemini
) -> None:
    def answer(request: Request) -> Step:
        numbers = _numbers(request)
        same = [f"x{n} (" in request.prompt for n in (0, 3, 6)]
        verdicts = [{"number": n, "same": same[0] if n == 1 else None} for n in numbers]
        return _fits(len(numbers), {"verdicts": verdicts})

    gemini.answer = answer
    pairs = [Pair((f"x{n}", "model", ""), (f"икс {n}", "model", "")) for n in range(8)]
    # Eight do not fit, nor do four; of the pairs of two, the first begins with x0.
    assert engine.same(pairs) == [True, None, False, None, False, None, False, None]


def test_an_answer_that_does_not_fit_is_made_of_fewer_passages(
    engine: LlmEngine, gemini: FakeGemini
) -> None:
    reply = {"statements": [{"text": "Так.", "cites": [1, 3]}], "missing": ""}
    gemini.answer = lambda request: _fits(len(_numbers(request)), reply)
    passages = [Passage(f"s{n}", f"Title {n}", f"Text {n}.") for n in range(6)]
    answer = engine.answer("как?", passages)
    assert answer.statements == (("Так.", (1, 3)),)
    assert [len(_numbers(request)) for request in gemini.asked()] == [6, 3]
    gemini.answer = lambda request: CUT
    with pytest.raises(ModelError, match="the reply does not fit"):
        engine.answer("why?", passages)


def _statement(n: int) -> Statement:
    text, wording = f"It is {n}.", f"Linear attention is {n}."
    return Statement(
        1, "s", "Source", n * 10, n * 10 + 5, text, "en", None, "", 0.8, False, (), wording
    )


def test_a_page_that_does_not_fit_is_made_of_less_evidence_each_in_other_words(
    engine: LlmEngine, gemini: FakeGemini
) -> None:
    said = [{"text": "It is so.", "cites": [2]}]
    reply = {"summary": "s", "sections": [{"heading": "", "statements": said}]}
    gemini.answer = lambda request: _fits(len(_numbers(request)), reply)
    brief = Brief("Linear attention", "method", "en", (), tuple(map(_statement, range(12))))
    article = engine.write(brief, "concepts/linear-attention")
    assert [len(_numbers(request)) for request in gemini.asked()] == [12, 6, 3]
    assert [citation.quote for citation in article.citations] == ["It is 1."]
    assert article.engine == "gemini-2.5-flash-lite"
    assert (
        "[2] (Source) It is 1.\n    that is: Linear attention is 1.\n" in gemini.asked()[0].prompt
    )
