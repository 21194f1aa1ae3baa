"""Money and engines through the command line: limits, the cache, and who is asked."""

import json
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import psycopg
import pytest
from fakes.fake_gemini import Fail, FakeGemini, Request, Say, Step
from fakes.model import MODEL, reader

from kbwiki.cli import main

Run = Callable[..., tuple[int, str, str]]
N_NOTES = 12
RESERVED = 0.0036
"""The most that a call for reading may cost, in dollars, by the price of MODEL."""


@pytest.fixture
def gemini(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeGemini]:
    """A server that the settings point to."""
    with FakeGemini(reader) as fake:
        monkeypatch.setenv("GEMINI_API_KEY", "secret-key-1")
        monkeypatch.setenv("KBWIKI_GEMINI_BASE_URL", fake.url)
        monkeypatch.setenv("KBWIKI_MODEL", MODEL)
        yield fake


@pytest.fixture
def run(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Run:
    """Run a command on a store into which twelve notes were read."""
    (tmp_path / "papers").mkdir()
    for at in range(N_NOTES):
        text = f"Linear attention is a method that uses fast weights in study {at}."
        if at % 2:
            text = f"Линейное внимание — это метод, который использует память в опыте {at}."
        (tmp_path / "papers" / f"note-{at}.md").write_text(f"# N {at}\n\n{text}\n", "utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("KBWIKI_DATABASE_URL", url)

    def command(*args: str) -> tuple[int, str, str]:
        code = main(list(args))
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    assert command("ingest", "papers")[0] == 0
    return command


def _all(url: str, sql: str) -> list[tuple[Any, ...]]:
    with psycopg.connect(url, autocommit=True) as connection:
        return connection.execute(sql.encode()).fetchall()


def _long(request: Request) -> Step:
    step = reader(request)
    assert isinstance(step, Say)
    return replace(step, output_tokens=8000)


# --- limits -----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["--max-cost", "KBWIKI_DAILY_USD"])
def test_eight_workers_stop_before_the_call_that_would_pass_the_limit_and_keep_all_they_paid(
    run: Run, gemini: FakeGemini, url: str, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    limit = 0.02
    args = ["--max-cost", str(limit)] if name == "--max-cost" else []
    if not args:
        monkeypatch.setenv(name, str(limit))
    gemini.answer, gemini.delay_s = _long, 0.05
    code, out, err = run("extract", "--jobs", "8", "--json", *args)
    assert code == 3
    assert err.startswith(f"error: cost: the next call would pass {name} of $0.02 (")
    ((n_calls, usd),) = _all(url, "select count(*), sum(usd)::float8 from kb.call")
    assert limit - RESERVED < usd <= limit
    report = json.loads(out)
    assert (report["done"], report["failed"], report["note"]) == (n_calls, 0, "stopped")
    assert _all(url, "select count(*) from kb.extraction") == [(n_calls,)]
    assert _all(url, "select count(*) from kb.attempt") == [(0,)]
    assert _all(url, "select count(*) from kb.lease") == [(0,)]
    assert _all(url, "select count(*) from kb.run where ended_at is null") == [(0,)]
    monkeypatch.delenv("KBWIKI_DAILY_USD", raising=False)
    assert run("extract")[0] == 0
    assert set(Counter(r.prompt for r in gemini.asked()).values()) == {1}
    assert len(gemini.asked()) == N_NOTES


def test_a_limit_is_used_up_though_each_call_could_have_cost_more(
    run: Run, gemini: FakeGemini, url: str
) -> None:
    gemini.delay_s = 0.05
    code, _, err = run("extract", "--jobs", "8", "--max-cost", str(1.5 * RESERVED))
    assert (code, err) == (0, "")
    assert _all(url, "select count(*) from kb.extraction") == [(N_NOTES,)]


def test_a_limit_stops_a_build_before_the_stages_that_follow(
    run: Run, gemini: FakeGemini, url: str
) -> None:
    code, out, err = run("build", "papers", "--max-cost", "0", "--json")
    assert code == 3
    assert [json.loads(line)["stage"] for line in out.splitlines()] == ["ingest", "extract"]
    assert err.count("error: ") == 1
    assert gemini.asked() == []


# --- the cache --------------------------------------------------------------------------------


def test_a_cut_reply_is_paid_for_once_too(
    run: Run, gemini: FakeGemini, url: str, tmp_path: Path
) -> None:
    text = " ".join(f"Linear attention is a method of kind {at}." for at in range(40))
    (tmp_path / "papers" / "long.md").write_text(f"# Long\n\n{text}\n\n{text}\n", "utf-8")
    assert run("ingest", "papers")[0] == 0

    def answer(request: Request) -> Step:
        return Say('{"concepts": [', "MAX_TOKENS") if text in request.prompt else reader(request)

    gemini.answer = answer
    code, _, err = run("extract")
    assert (code, err) == (0, "")
    assert _all(url, "select count(*) from kb.call where status = 'truncated'")[0][0] >= 1
    n_calls = len(gemini.asked())
    assert run("cache", "export", "replies.jsonl")[0] == 0
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("drop schema kb cascade")
    assert run("cache", "import", "replies.jsonl")[0] == 0
    assert run("ingest", "papers")[0] == 0
    assert run("extract")[0] == 0
    assert len(gemini.asked()) == n_calls


def test_a_file_that_moves_asks_a_model_nothing(
    run: Run, gemini: FakeGemini, tmp_path: Path
) -> None:
    stages = ("ingest papers", "extract", "resolve", "write", "export")
    assert [run(*stage.split())[0] for stage in stages] == [0] * len(stages)
    n_calls = len(gemini.asked())
    assert n_calls > N_NOTES
    papers = tmp_path / "papers"
    (papers / "new").mkdir()
    (papers / "note-3.md").rename(papers / "a заметка.md")
    (papers / "note-4.md").rename(papers / "new" / "note-4.md")
    assert [run(*stage.split())[0] for stage in stages] == [0] * len(stages)
    assert len(gemini.asked()) == n_calls
    pages = [page.read_text("utf-8") for page in (tmp_path / "wiki" / "sources").iterdir()]
    for uri in ("papers/a заметка.md", "papers/new/note-4.md"):
        assert sum(f'uri: "{uri}"' in page for page in pages) == 1


def test_replies_with_any_letter_survive_a_file(
    run: Run, gemini: FakeGemini, url: str, tmp_path: Path
) -> None:
    summary = "line\u2028end, \x85, «ёж», 𝐀, \\n"
    reply = {"summary": summary, "concepts": []}
    gemini.answer = lambda request: json.dumps(reply, ensure_ascii=False)
    assert run("extract")[0] == 0
    before = _all(url, "select key, task, model, reply from kb.cache order by key")
    code, out, _ = run("cache", "export", "replies.jsonl")
    assert (code, out) == (0, f"replies.jsonl: {N_NOTES} replies\n")
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("delete from kb.cache")
    code, out, _ = run("cache", "import", "replies.jsonl")
    assert (code, out) == (0, f"{N_NOTES} replies\n")
    assert _all(url, "select key, task, model, reply from kb.cache order by key") == before
    code, out, _ = run("cache", "export")
    assert out == (tmp_path / "replies.jsonl").read_text("utf-8")


GOOD = '{"key": "k", "task": "write", "model": "m", "reply": "r"}\n'
BROKEN = {
    "no JSON": GOOD + "\n{oops\n",
    "a list": GOOD + "\n[1]\n",
    "a key missing": GOOD + '\n{"key": "k2"}\n',
    "a number": GOOD + '\n{"key": "k2", "task": "write", "model": "m", "reply": 7}\n',
    "half a letter": GOOD + '\n{"key": "k2", "task": "write", "model": "m", "reply": "\\ud800"}\n',
}


@pytest.mark.parametrize("text", BROKEN.values(), ids=BROKEN.keys())
def test_an_import_with_a_broken_line_names_it_and_takes_nothing(
    run: Run, gemini: FakeGemini, url: str, tmp_path: Path, text: str
) -> None:
    (tmp_path / "bad.jsonl").write_text(text, "utf-8")
    code, _, err = run("cache", "import", "bad.jsonl")
    assert (code, err.splitlines()[0]) == (1, "error: cache, line 3: it is no reply.")
    assert _all(url, "select count(*) from kb.cache") == [(0,)]


def test_files_that_cannot_be_used_are_named_and_left_alone(run: Run, tmp_path: Path) -> None:
    (tmp_path / "bytes.jsonl").write_bytes(b"\xff\xfe\x00")
    (tmp_path / "folder").mkdir()
    said = {
        ("import", "none.jsonl"): "error: none.jsonl: no such file or directory.",
        ("import", "folder"): "error: folder: is a directory.",
        ("import", "bytes.jsonl"): "error: bytes.jsonl: it is no UTF-8 text.",
        ("export", "no/such.jsonl"): "error: no/such.jsonl: no such file or directory.",
        ("export", "folder"): "error: folder: is a directory.",
    }
    for args, message in said.items():
        code, _, err = run("cache", *args)
        assert (code, err.splitlines()[0]) == (1, message)
    assert not list(tmp_path.glob("*.new"))


def test_a_kept_reply_that_cannot_be_read_is_asked_for_again(
    run: Run, gemini: FakeGemini, url: str
) -> None:
    assert run("extract")[0] == 0
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("update kb.cache set reply = 'nonsense'")
        connection.execute("delete from kb.extraction")
    assert run("extract")[0] == 0
    assert len(gemini.asked()) == 2 * N_NOTES
    assert _all(url, "select count(*) from kb.cache where reply = 'nonsense'") == [(0,)]


def test_a_plan_and_costs_are_one_object_a_line(
    run: Run, gemini: FakeGemini, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run("cost", "--json") == (0, "", "")
    rows = [json.loads(line) for line in run("plan", "--json")[1].splitlines()]
    assert [(row["stage"], row["calls"] > 0) for row in rows] == [
        ("extract", True),
        ("resolve", False),
        ("write", True),
        ("classify-edges", False),  # the rules are sure of all that the notes say
    ]
    monkeypatch.setenv("KBWIKI_ENGINE", "local")
    rows = [json.loads(line) for line in run("plan", "--json")[1].splitlines()]
    assert [(row["stage"], row["calls"], row["usd"]) for row in rows] == [
        ("extract", 0, 0.0),
        ("resolve", 0, 0.0),
        ("write", 0, 0.0),
        ("classify-edges", 0, 0.0),
    ]
    assert gemini.asked() == []


def test_a_path_that_is_not_there_is_named_by_a_plan(run: Run, gemini: FakeGemini) -> None:
    code, _, err = run("plan", "nowhere")
    assert code == 1
    assert "nowhere" in err


# --- who is asked -----------------------------------------------------------------------------


@pytest.mark.parametrize("key", ["GEMINI_API_KEY", "GOOGLE_API_KEY", None])
def test_auto_asks_gemini_where_there_is_a_key_and_says_so(
    run: Run, gemini: FakeGemini, monkeypatch: pytest.MonkeyPatch, key: str | None
) -> None:
    monkeypatch.delenv("GEMINI_API_KEY")
    if key:
        monkeypatch.setenv(key, "secret-key-2")
    code, out, err = run("extract")
    assert (code, err) == (0, "")
    wanted = f"engine gemini:{MODEL}:" if key else "engine local-"
    assert out.splitlines()[-1].startswith(wanted)
    assert {request.key for request in gemini.asked()} == ({"secret-key-2"} if key else set())


@pytest.fixture
def openai(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeGemini]:
    """A server that speaks OpenAI's chat completions, to which the settings point."""
    with FakeGemini(_as_qwen) as fake:
        monkeypatch.setenv("KBWIKI_ENGINE", "openai")
        monkeypatch.setenv("KBWIKI_OPENAI_BASE_URL", f"{fake.url}/v1")
        monkeypatch.setenv("KBWIKI_MODEL", "qwen3")
        yield fake


def _as_qwen(request: Request) -> Step:
    step = reader(request)
    assert isinstance(step, Say)
    return replace(step, model="qwen3:8b")


def test_a_build_through_an_openai_compatible_server(
    run: Run, openai: FakeGemini, url: str, tmp_path: Path
) -> None:
    for command in ("extract", "resolve", "write", "link", "classify-edges", "export"):
        code, out, err = run(command)
        assert (code, err) == (0, "")
        if command in {"extract", "write"}:
            assert out.splitlines()[-1].startswith("engine openai:qwen3:")
    assert {request.task for request in openai.asked()} == {"chat"}
    assert _all(url, "select distinct engine from kb.extraction") == [("qwen3:8b",)]
    assert _all(url, "select distinct engine from kb.article") == [("qwen3:8b",)]
    page = next((tmp_path / "wiki" / "concepts").glob("linear-attention.md")).read_text("utf-8")
    assert 'engine: "qwen3:8b"' in page
    _, out, _ = run("cost", "--by", "model")
    assert "qwen3:8b" in out
    assert "no price" in out
    assert "calls without a price are not in it" in out
    _, out, _ = run("plan", "papers")
    assert "price not known" in out
    n_calls = len(openai.asked())
    assert run("extract")[0] == 0
    assert len(openai.asked()) == n_calls


def test_a_limit_cannot_be_kept_without_a_price(run: Run, openai: FakeGemini) -> None:
    code, _, err = run("extract", "--max-cost", "1")
    assert code == 3
    assert "the price of qwen3 is not known" in err
    assert openai.asked() == []


@pytest.mark.parametrize("name", ["gemini", "openai"])
def test_a_refused_schema_is_told_once_in_a_run_that_then_goes_well(
    run: Run, name: str, request: pytest.FixtureRequest, url: str
) -> None:
    fake: FakeGemini = request.getfixturevalue(name)
    answer = fake.answer

    def refuse(asked: Request) -> Step:
        is_by_schema = asked.schema is not None
        return Fail(400, "a response schema is not supported") if is_by_schema else answer(asked)

    fake.answer = refuse
    code, _, err = run("extract", "--jobs", "4")
    assert code == 0
    assert err.count("takes no reply schema; asking for JSON in words.") == 1
    assert len(err.splitlines()) == 1
    assert _all(url, "select count(*) from kb.extraction") == [(N_NOTES,)]
    assert len([asked for asked in fake.asked() if asked.schema is not None]) <= 4
