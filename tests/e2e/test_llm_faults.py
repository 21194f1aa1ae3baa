"""A provider's faults in a build, through the command line: nothing is lost and all is said."""

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from fakes.fake_gemini import (
    Fail,
    FakeGemini,
    Hang,
    Request,
    Reset,
    Say,
    Step,
    per_day,
    per_minute,
)
from fakes.model import MODEL, data_of, extracted, is_read, reader

from kbwiki.cli import main
from kbwiki.engines.chat import Patience, make_chat

Run = Callable[..., tuple[int, str, str]]
N_NOTES = 6
FAILED_ONCE = "1 failed; the rest is done. The next run tries it again."


@pytest.fixture
def gemini(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeGemini]:
    """A server that the settings point to, and little patience with it."""
    defaults = make_chat.__kwdefaults__
    monkeypatch.setitem(defaults, "patience", Patience(base_s=0.01, cap_s=0.05, grace_s=0.05))
    monkeypatch.setitem(defaults, "timeout_s", 2.0)
    with FakeGemini(reader) as fake:
        monkeypatch.setenv("GEMINI_API_KEY", "secret-key-1")
        monkeypatch.setenv("KBWIKI_GEMINI_BASE_URL", fake.url)
        monkeypatch.setenv("KBWIKI_MODEL", MODEL)
        yield fake


@pytest.fixture
def run(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Run:
    """Run a command on a store into which six notes were read."""
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


def _n_read(url: str) -> int:
    return int(_all(url, "select count(*) from kb.extraction")[0][0])


def _is_clean(url: str) -> bool:
    sql = "select (select count(*) from kb.lease) + count(*) from kb.run where ended_at is null"
    return bool(_all(url, sql) == [(0,)])


def _failures(run: Run) -> list[dict[str, Any]]:
    status = json.loads(run("status", "--json")[1].splitlines()[-1])
    failures: list[dict[str, Any]] = status["failures"]
    return failures


PASSING: dict[str, Step] = {
    "429 with Retry-After": Fail(429, headers={"Retry-After": "0.1"}, details=per_minute("0.1s")),
    "500": Fail(500),
    "503": Fail(503, "overloaded"),
    "time-out": Hang(),
    "reset in mid-reply": Reset(),
}


@pytest.mark.parametrize("step", PASSING.values(), ids=PASSING.keys())
def test_a_fault_that_passes_leaves_no_trace_in_a_build(
    run: Run, gemini: FakeGemini, url: str, step: Step
) -> None:
    gemini.script(step, step)
    code, out, err = run("extract", "--jobs", "3")
    assert (code, err) == (0, "")
    assert f"{N_NOTES} done" in out
    assert _n_read(url) == N_NOTES
    assert _failures(run) == []
    assert len(gemini.asked()) == N_NOTES + 2


@pytest.mark.parametrize("step", [Hang(), Reset(), Fail(500)], ids=["time-out", "reset", "500"])
def test_an_attempt_that_may_be_billed_is_in_the_ledger(
    run: Run, gemini: FakeGemini, url: str, step: Step
) -> None:
    """A server's own error is not billed; a reply that was never read may be."""
    gemini.script(step, step)
    assert run("extract", "--jobs", "1")[0] == 0
    rows = _all(url, "select status, input_tokens, usd::float8, reason from kb.call order by id")
    assert [row[0] for row in rows] == ["ok"] * N_NOTES
    first, last = rows[0], rows[-1]
    if isinstance(step, Fail):
        assert first[1] < 1.5 * last[1]
        assert first[3] == ""
    else:
        assert first[1] > 2.5 * last[1]
        assert first[2] > last[2]
        assert first[3] == "2 attempts without a reply, counted with the prompt"


ENDING: dict[str, tuple[Step, str]] = {
    "quota of the day": (Fail(429, "quota exceeded", details=per_day()), "quota is used up"),
    "billing": (Fail(402, "billing is not enabled"), "billing is not enabled"),
    "bad key": (Fail(400, "API key not valid. Please pass a valid API key."), "API key not valid"),
    "no such model": (Fail(404, "models/x is not found"), "no such model"),
}


@pytest.mark.parametrize(("step", "said"), ENDING.values(), ids=ENDING.keys())
def test_a_fault_that_no_item_survives_ends_the_run_with_one_message_and_loses_nothing(
    run: Run, gemini: FakeGemini, url: str, step: Step, said: str
) -> None:
    gemini.answer = lambda request: reader(request) if len(gemini.asked()) < 3 else step
    code, _, err = run("extract", "--jobs", "1")
    assert code == 1
    assert err.count("error: ") == 1
    assert said in err
    assert "secret-key-1" not in err
    assert len(gemini.asked()) <= 4
    assert _n_read(url) == 2
    assert _is_clean(url)
    assert _failures(run) == []
    gemini.answer = reader
    gemini.requests.clear()
    assert run("extract")[0] == 0
    assert len(gemini.asked()) == N_NOTES - 2


FAILING: dict[str, tuple[Step, str]] = {
    "blocked": (Say("", finish="SAFETY"), "SAFETY"),
    "empty": (Say(""), "the reply is empty"),
    "prose": ("Извините, я не могу.", "prose where JSON was asked for"),
    "wrong keys": ('{"concepts": [{"nom": "a"}]}', "concepts.0.name: Field required"),
    "wrong request": (Fail(400, "invalid argument"), "400 invalid argument"),
}


@pytest.mark.parametrize(("step", "said"), FAILING.values(), ids=FAILING.keys())
def test_a_reply_that_is_none_fails_its_item_with_the_reason_and_the_next_run_mends_it(
    run: Run, gemini: FakeGemini, url: str, step: Step, said: str
) -> None:
    gemini.script(step)
    code, out, err = run("extract", "--jobs", "1")
    assert code == 1
    assert f"{N_NOTES - 1} done" in out
    assert err.splitlines()[-1] == FAILED_ONCE
    (failure,) = _failures(run)
    assert (failure["stage"], failure["item"]) == ("extract", "papers/note-0.md")
    assert said in failure["reason"]
    gemini.requests.clear()
    assert run("extract")[0] == 0
    assert len(gemini.asked()) == 1
    assert (_n_read(url), _failures(run)) == (N_NOTES, [])


TEX = r"The rule \(\alpha \nabla f\) is «named» \"delta\"."
READABLE: dict[str, str] = {
    "fenced": '```json\n{"summary": "s", "concepts": [{"name": "delta rule"}]}\n```',
    "trailing comma": '{"summary": "s", "concepts": [{"name": "delta rule",},],}',
    "unknown field": '{"mood": "good", "concepts": [{"name": "delta rule", "x": 1}]}',
    "LaTeX and quotes": '{"summary": "' + TEX + '", "concepts": [{"name": "delta rule"}]}',
    "prose around": 'Here: {"summary": "s", "concepts": [{"name": "delta rule"}]} Done.',
}


@pytest.mark.parametrize("text", READABLE.values(), ids=READABLE.keys())
def test_a_reply_as_models_write_it_is_read(
    run: Run, gemini: FakeGemini, url: str, text: str
) -> None:
    gemini.answer = lambda request: text
    code, _, err = run("extract")
    assert (code, err) == (0, "")
    assert _all(url, "select distinct key from kb.candidate") == [("delta rule",)]


@pytest.mark.parametrize("n", [0, 500])
def test_a_reply_of_no_concept_or_of_very_many_is_taken_as_it_is(
    run: Run, gemini: FakeGemini, url: str, n: int
) -> None:
    concepts = [{"name": f"метод Q{at}"} for at in range(n)]
    gemini.answer = lambda request: json.dumps({"concepts": concepts}, ensure_ascii=False)
    assert run("extract")[0] == 0
    for stage in ("resolve", "write", "link", "classify-edges", "export"):
        code, _, err = run(stage)
        assert (code, err) == (0, "")
    assert _n_read(url) == N_NOTES
    assert _all(url, "select count(*) from kb.candidate") == [(n * N_NOTES,)]


def _sloppy(request: Request) -> Step:
    """Answer with a false quote, author, year and relation beside the true ones."""
    if not is_read(request):
        return reader(request)
    reply = extracted(data_of(request.prompt))
    reply["claims"].append({"text": "x", "quote": "These words are nowhere."})
    reply |= {"authors": ["Nobody N."], "year": 1867}
    reply["relations"] = [{"head": "linear attention", "tail": "nothing", "quote": "uses"}]
    return json.dumps(reply, ensure_ascii=False)


def test_what_is_thrown_away_is_said_at_the_end_of_a_run(run: Run, gemini: FakeGemini) -> None:
    gemini.answer = _sloppy
    _, out, _ = run("extract", "--json")
    row = json.loads(out)
    assert row["dropped"] == {"quotes": N_NOTES, "authors": N_NOTES, "relations": N_NOTES}
    assert row["engine"].startswith(f"gemini:{MODEL}:")
    assert (row["tokens"] > 0, row["usd"] > 0) == (True, True)
    run("resolve")
    _, out, _ = run("write")
    line = out.splitlines()[-1]
    assert line.startswith(f"engine gemini:{MODEL}")
    n_pages = int(out.split()[1])
    assert n_pages > N_NOTES
    assert re.search(rf"; dropped: \d+ links, {n_pages} statements$", line)


def test_authors_and_year_that_a_model_reads_off_a_source_stand_on_its_page(
    run: Run, gemini: FakeGemini, url: str, tmp_path: Path
) -> None:
    given = "---\nauthors: [Anna Given]\nyear: 2001\n---\n# Given\n\nBy Peter Read, 2019. It is.\n"
    (tmp_path / "papers" / "given.md").write_text(given, "utf-8")
    plain = "# Plain\n\nАнна Чтец и Peter Read, 2019. **Fast weights** are a memory.\n"
    (tmp_path / "papers" / "plain.md").write_text(plain, "utf-8")

    def answer(request: Request) -> Step:
        if not is_read(request):
            return reader(request)
        names = ["Анна Чтец", "Peter Read", "No One"]
        reply = {"authors": names, "year": 2019, "concepts": []}
        return json.dumps(reply, ensure_ascii=False)

    gemini.answer = answer
    for args in ("ingest papers", "extract", "resolve", "write", "export"):
        assert run(*args.split())[0] == 0
    plain_page = (tmp_path / "wiki" / "sources" / "plain.md").read_text("utf-8")
    assert 'authors: ["Анна Чтец", "Peter Read"]\nyear: 2019\n' in plain_page
    given_page = (tmp_path / "wiki" / "sources" / "given.md").read_text("utf-8")
    assert 'authors: ["Anna Given"]\nyear: 2001\n' in given_page


@pytest.mark.parametrize(("setting", "language"), [("auto", "Russian"), ("en", "English")])
def test_a_page_is_written_in_the_readers_language_else_in_that_of_most_evidence(
    run: Run,
    gemini: FakeGemini,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    setting: str,
    language: str,
) -> None:
    monkeypatch.setenv("KBWIKI_LANG", setting)
    (tmp_path / "papers" / "mamba.md").write_text("# Mamba\n\nMamba is a model.\n", "utf-8")
    for at in range(3):
        text = f"# О Mamba {at}\n\nMamba — это модель, которая читает длинные ряды в опыте {at}.\n"
        (tmp_path / "papers" / f"mamba-{at}.md").write_text(text, "utf-8")
    for args in ("ingest papers", "extract", "resolve"):
        assert run(*args.split())[0] == 0
    gemini.requests.clear()
    assert run("write")[0] == 0
    (prompt,) = [r.prompt for r in gemini.asked() if "Subject: Mamba\nKind: model" in r.prompt]
    assert f"Write in {language}." in prompt
