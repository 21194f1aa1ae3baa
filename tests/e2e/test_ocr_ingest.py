"""--ocr on the command line: what was lost before is read, and not lost again."""

import json
from pathlib import Path

import pytest
from conftest import ROOT
from fakes.scan import needs_tesseract, scanned

from kbwiki.cli import main
from kbwiki.text import ocr

DATA = ROOT / "tests" / "data" / "pdf"


@pytest.fixture(autouse=True)
def papers(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a paper of which a part is scanned, and one that is a scan throughout."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("KBWIKI_DATABASE_URL", url)
    papers = tmp_path / "papers"
    papers.mkdir()
    part = scanned(DATA / "scans_within.pdf", keep=frozenset({0, 2, 3}))
    (papers / "part.pdf").write_bytes(part)
    (papers / "scan.pdf").write_bytes(scanned(DATA / "columns_ru.pdf"))
    return papers


def _sources(capsys: pytest.CaptureFixture[str]) -> dict[str, dict[str, object]]:
    capsys.readouterr()
    assert main(["sources", "--json"]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    return {row["uri"]: row for row in rows}


@needs_tesseract
def test_what_was_read_in_part_is_read_again_with_ocr_and_stays_so(
    papers: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["ingest", "papers"]) == 1
    said = capsys.readouterr()
    assert "pages 2-5: no text layer, 4 of 5; run with --ocr" in said.out
    assert "scan.pdf" in said.err
    assert main(["ingest", "papers", "--ocr"]) == 0
    rows = _sources(capsys)
    assert set(rows) == {"papers/part.pdf", "papers/scan.pdf"}
    assert "pages 2, 5: read by OCR, 2 of 5" in rows["papers/part.pdf"]["notes"]
    for more in ([], ["--ocr"]):
        assert main(["ingest", "papers", *more]) == 0
        assert "2 as before" in capsys.readouterr().out
        assert _sources(capsys) == rows
    (papers / "part.pdf").rename(papers / "other.pdf")
    assert main(["ingest", "papers", "--prune"]) == 0
    rows["papers/other.pdf"] = rows.pop("papers/part.pdf") | {"uri": "papers/other.pdf"}
    assert _sources(capsys) == rows


def test_a_machine_without_tesseract_reads_nothing_and_says_why(
    papers: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", str(papers))
    ocr.languages.cache_clear()
    assert main(["ingest", "papers", "--ocr"]) == 1
    said = capsys.readouterr().err
    assert "tesseract is not installed" in said
    assert "apt install tesseract-ocr tesseract-ocr-rus" in said
    ocr.languages.cache_clear()
