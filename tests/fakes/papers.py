"""A store with three notes and a careful model, run through the command line."""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from conftest import ROOT
from fakes.fake_gemini import FakeGemini
from fakes.model import MODEL, reader

from kbwiki import db
from kbwiki.cli import main

Run = Callable[..., tuple[int, str, str]]
NOTES = ("en/associative-scan.md", "en/linear-attention.md", "ru/сюрприз.md")
STAGES = (
    "ingest papers", "extract", "resolve", "write", "link", "classify-edges --batch", "export",
)  # fmt: skip
"""Every stage but embed, which asks no language model."""


@contextmanager
def model_server(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeGemini]:
    """Yield a server that the settings point to."""
    with FakeGemini(reader) as fake:
        monkeypatch.setenv("KBWIKI_ENGINE", "auto")
        monkeypatch.setenv("GEMINI_API_KEY", "secret-key-1")
        monkeypatch.setenv("KBWIKI_GEMINI_BASE_URL", fake.url)
        monkeypatch.setenv("KBWIKI_MODEL", MODEL)
        yield fake


def command_in(
    folder: Path, url: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Run:
    """Lay the notes into a folder; return what runs a command there: its code, output, errors."""
    (folder / "papers").mkdir()
    for name in NOTES:
        (folder / "papers" / Path(name).name).write_bytes((ROOT / "corpus" / name).read_bytes())
    monkeypatch.chdir(folder)
    monkeypatch.setenv("KBWIKI_DATABASE_URL", url)

    def command(*args: str) -> tuple[int, str, str]:
        code = main(list(args))
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return command


def build(run: Run) -> tuple[int, str, str]:
    """Run the stages, as far as they go well."""
    outs, errs = "", ""
    for args in STAGES:
        code, out, err = run(*args.split())
        outs, errs = outs + out, errs + err
        if code:
            return code, outs, errs
    return 0, outs, errs


def calls(url: str) -> Counter[str]:
    """Count the calls of the ledger by task and status."""
    with closing(db.connect(url)) as database:
        sql = "select task || ' ' || status from kb.call"
        return Counter(row[0] for row in database.connection.execute(sql).fetchall())
