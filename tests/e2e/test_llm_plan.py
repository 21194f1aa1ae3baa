"""What a plan says of a build to come, against what the build then asks and costs."""

import json
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from fakes.fake_gemini import FakeGemini
from fakes.model import is_edges
from fakes.papers import NOTES, Run, build, calls, command_in, model_server


@pytest.fixture
def gemini(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeGemini]:
    """A server that the settings point to."""
    with model_server(monkeypatch) as fake:
        yield fake


@pytest.fixture
def run(
    url: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    gemini: FakeGemini,
) -> Run:
    """Run a command on a store with three notes."""
    return command_in(tmp_path, url, monkeypatch, capsys)


def _sums(run: Run) -> dict[str, dict[str, float]]:
    _, out, _ = run("cost", "--json")
    rows = map(json.loads, out.splitlines())
    names = ("calls", "input_tokens", "output_tokens", "usd")
    sums: dict[str, dict[str, float]] = {}
    for row in rows:
        sums[row["name"]] = {"usd": row["usd"], **{n: row[n] for n in names if n != "usd"}}
    return sums


def _store(url: str) -> list[tuple[object, ...]]:
    tables = "source", "extraction", "candidate", "concept", "mention", "call", "attempt"
    counts = ", ".join(f"(select count(*) from kb.{name})" for name in tables)
    with psycopg.connect(url) as connection:
        return connection.execute(f"select {counts}".encode()).fetchall()


def _plan(run: Run) -> dict[str, tuple[int, int]]:
    """What a plan says: calls and replies kept, by stage."""
    code, out, err = run("plan", "papers", "--json")
    assert (code, err) == (0, "")
    rows = map(json.loads, out.splitlines())
    return {row["stage"]: (row["calls"], row["cached"]) for row in rows}


def test_a_plan_comes_within_a_third_of_what_the_build_then_costs(
    run: Run, gemini: FakeGemini, url: str
) -> None:
    """Once a part was read, it is known how much this model finds and says."""
    for stage in ("ingest papers/associative-scan.md", "extract", "resolve", "write"):
        assert run(*stage.split())[0] == 0
    n_calls = len(gemini.requests)
    code, out, err = run("build", "papers", "--dry-run", "--json")
    assert (code, err) == (0, "")
    assert len(gemini.requests) == n_calls
    plans = {row["stage"]: row for row in map(json.loads, out.splitlines())}
    before = _sums(run)
    assert build(run)[0] == 0
    after = _sums(run)
    for task in ("extract", "write"):
        plan = plans[task]
        for name in ("calls", "input_tokens", "output_tokens", "usd"):
            real = after[task][name] - before[task][name]
            assert 0.7 <= plan[name] / real <= 1.3, (task, name, plan[name], real)
    code, out, _ = run("plan", "papers", "--json")
    assert [json.loads(line)["calls"] for line in out.splitlines()] == [0, 0, 0, 0]


def test_a_plan_counts_pages_that_an_earlier_run_left(
    run: Run, gemini: FakeGemini, url: str
) -> None:
    for stage in ("ingest papers", "extract"):
        assert run(*stage.split())[0] == 0
    before = _store(url)
    plan = _plan(run)
    assert _store(url) == before
    assert plan["extract"] == (0, 0)
    n_calls = len(gemini.requests)
    assert build(run)[0] == 0
    asked = gemini.requests[n_calls:]
    assert plan["write"] == (calls(url)["write ok"], 0)
    assert 0 < sum(map(is_edges, asked)) <= plan["classify-edges"][0]
    assert plan["write"][0] > 3


def test_a_plan_knows_the_replies_kept(run: Run, gemini: FakeGemini, url: str) -> None:
    assert build(run)[0] == 0
    n_calls = len(gemini.requests)
    made = calls(url)
    assert run("cache", "export", "replies.jsonl")[0] == 0
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("drop schema kb cascade")
    assert run("cache", "import", "replies.jsonl")[0] == 0
    tasks = {
        "extract": "extract",
        "resolve": "same",
        "write": "write",
        "classify-edges": "classify-edges",
    }
    assert _plan(run) == {stage: (0, made[f"{task} ok"]) for stage, task in tasks.items()}
    assert len(gemini.requests) == n_calls


def test_a_plan_goes_on_past_a_file_that_cannot_be_read(run: Run, tmp_path: Path) -> None:
    (tmp_path / "papers" / "пусто.pdf").write_bytes(b"no pdf")
    code, out, err = run("plan", "papers", "--json")
    assert code == 1
    assert err.startswith("failed: papers/пусто.pdf: ")
    assert json.loads(out.splitlines()[0])["calls"] >= len(NOTES)


def test_a_plan_without_a_model_says_that_nothing_is_paid(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KBWIKI_ENGINE", "local")
    code, out, _ = run("plan", "papers")
    assert (code, "nothing would be paid" in out) == (0, True)


def test_a_plan_without_the_key_of_a_store_that_a_model_wrote_says_so(
    run: Run, gemini: FakeGemini, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert build(run)[0] == 0
    for name in ("GEMINI_API_KEY", "GOOGLE_API_KEY", "KBWIKI_ENGINE"):
        monkeypatch.delenv(name, raising=False)
    code, out, err = run("plan", "papers")
    assert (code, out) == (1, "")
    assert "there is no key for a model" in err


def test_a_first_plan_says_what_is_a_guess_and_names_what_mends_it(
    run: Run, gemini: FakeGemini
) -> None:
    code, out, _ = run("plan", "papers")
    assert (code, "is a guess" in out) == (0, True)
    assert run("build", "papers/associative-scan.md")[0] == 0
    _, out, _ = run("plan", "papers", "--json")
    plans = {row["stage"]: row for row in map(json.loads, out.splitlines())}
    before = _sums(run)
    assert build(run)[0] == 0
    after = _sums(run)
    made = {task: after[task]["calls"] - before[task]["calls"] for task in ("extract", "write")}
    assert plans["extract"]["calls"] == made["extract"]
    assert 0.7 <= plans["write"]["calls"] / made["write"] <= 1.3
    assert 0 < plans["write"]["guessed"] <= plans["write"]["calls"]
