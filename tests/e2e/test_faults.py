"""One folder with one of each fault: exit code 1, a table, each named, everything else stored."""

import io
import json
import shutil
import tarfile
import zipfile
from pathlib import Path

import pytest
from conftest import ROOT, Store

from kbwiki.cli import main

DATA = ROOT / "tests" / "data" / "pdf"
GOOD = {
    "good.md": "# Хорошая заметка\n\n**Линейное внимание** — это внимание без экспоненты.\n",
    "good.txt": "Hopfield network\n\nA Hopfield network is a memory that holds patterns.\n",
}
WALL = (
    "<html><head><meta charset='utf-8'><title>Сайт</title></head><body><p>Мы используем файлы "
    "cookie. Продолжая, вы даёте согласие на обработку персональных данных.</p></body></html>"
)
FAULTS = {
    "bomb.zip/bomb.txt": "unpacks to far more",
    "broken.docx": "broken",
    "encrypted.pdf": "encrypted",
    "error.html": "error page",
    "no_unicode_ru.pdf": "no text came out",
    "scan.pdf": "no text came out",
    "wall.html": "cookie wall",
    "empty.md": "empty",
    "picture.txt": "encoding was not recognised",
    "broken.ipynb": "no notebook",
    "outside.tar/secret.md": "leads outside its archive",
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with two good notes, a paper that is whole in part, and one of each fault."""
    folder = tmp_path / "papers"
    folder.mkdir()
    for name, text in GOOD.items():
        (folder / name).write_text(text, "utf-8")
    (folder / "koi8.txt").write_bytes("Обычный русский текст о памяти моделей.".encode("koi8-r"))
    for name in ("encrypted.pdf", "no_unicode_ru.pdf", "scans_within.pdf"):
        shutil.copy(DATA / name, folder)
    shutil.copy(DATA / "no_text.pdf", folder / "scan.pdf")
    (folder / "wall.html").write_text(WALL, "utf-8")
    (folder / "error.html").write_text("<title>404 Not Found</title><h1>404 Not Found</h1>")
    (folder / "broken.docx").write_bytes(b"PK nothing of the kind")
    (folder / "empty.md").write_text(" ")
    (folder / "picture.txt").write_bytes(b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR\xff\xd8" * 9)
    (folder / "broken.ipynb").write_text('{"cells": [')
    with tarfile.open(folder / "outside.tar", "w") as archive:
        for name in ("../secret.md", "inside.md"):
            raw = b"# A note\n\nIt is **inside** of the archive.\n"
            member = tarfile.TarInfo(name)
            member.size = len(raw)
            archive.addfile(member, io.BytesIO(raw))
    shutil.copy(DATA / "broken_page.pdf", folder)
    with zipfile.ZipFile(folder / "bomb.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("bomb.txt", b"0" * 20_000_000)
        archive.writestr("inner.md", "# Inner note\n\nIt is **here** in the archive.\n")
    return folder


def test_each_fault_is_named_and_everything_else_is_stored(
    url: str, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(folder.parent)
    monkeypatch.setenv("KBWIKI_DATABASE_URL", url)
    assert main(["ingest", "papers"]) == 1
    said = capsys.readouterr()
    for name, why in FAULTS.items():
        [line] = [line for line in said.err.splitlines() if f"papers/{name}" in line]
        assert why in line
    table = [line.split() for line in said.out.splitlines()]
    at = table.index(["read", "unchanged", "changed", "moved", "quarantined", "failed"])
    assert table[at + 1] == ["7", "0", "0", "0", "2", "9"]
    for name, share, why in (
        ("scans_within.pdf", "60 %", "pages 3-4: no text layer, 2 of 5"),
        ("broken_page.pdf", "40 %", "page 2: broken, 1 of 5"),
    ):
        [partial] = [line for line in said.out.splitlines() if name in line]
        assert share in partial
        assert why in partial
    assert main(["sources", "--json"]) == 0
    uris = {json.loads(line)["uri"] for line in capsys.readouterr().out.splitlines()}
    there = {*GOOD, "koi8.txt", "scans_within.pdf", "bomb.zip/inner.md"}
    there |= {"broken_page.pdf", "outside.tar/inside.md"}
    assert uris == {f"papers/{name}" for name in there}


def test_a_program_is_told_what_the_table_tells(
    url: str, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(folder.parent)
    monkeypatch.setenv("KBWIKI_DATABASE_URL", url)
    assert main(["ingest", "papers", "--json"]) == 1
    [line] = capsys.readouterr().out.splitlines()
    told = json.loads(line)
    assert told["files"] == {
        "read": 7, "unchanged": 0, "changed": 0, "moved": 0, "quarantined": 2, "failed": 9,
    }  # fmt: skip
    _, partial = told["partial"]
    assert (partial["uri"], partial["parts"]) == ("papers/scans_within.pdf", [3, 5])
    assert partial["notes"] == ["pages 3-4: no text layer, 2 of 5; run with --ocr"]
    failed = {row["item"].removeprefix("papers/"): row for row in told["failures"]}
    assert failed.keys() == FAULTS.keys()
    assert {name for name, row in failed.items() if row["quarantined"]} == {
        "error.html",
        "wall.html",
    }
    assert all(FAULTS[name] in row["reason"] for name, row in failed.items())


def test_what_is_quarantined_is_listed_until_it_is_forced(
    url: str, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(folder.parent)
    monkeypatch.setenv("KBWIKI_DATABASE_URL", url)
    assert main(["ingest", "papers/wall.html", "papers/good.md"]) == 1
    capsys.readouterr()
    assert main(["status"]) == 0
    assert "quarantined ingest: papers/wall.html: it is a cookie wall." in capsys.readouterr().err
    assert main(["ingest", "--force", "papers/wall.html"]) == 0
    capsys.readouterr()
    assert main(["status"]) == 0
    assert "quarantined" not in capsys.readouterr().err
    assert main(["ingest", "papers"]) == 1
    said = capsys.readouterr()
    assert "wall.html" not in said.err


def test_a_page_that_became_a_wall_keeps_what_was_read(store: Store, folder: Path) -> None:
    page = folder / "page.html"
    body = "<p>Сейсмическая волна — это упругое колебание, которое идёт в толще Земли.</p>" * 3
    page.write_text(f"<meta charset='utf-8'><article><h1>Волны</h1>{body}</article>", "utf-8")
    assert store.build(page)["ingest"].failures == ()
    page.write_text(WALL, "utf-8")
    report = store.build(page)["ingest"]
    assert (len(report.failures), len(report.quarantined)) == (1, 1)
    [row] = store.database.dicts("list_sources")
    assert row["title"] == "Волны"


def test_a_person_can_see_what_was_read_and_what_was_not(
    url: str, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(folder.parent)
    monkeypatch.setenv("KBWIKI_DATABASE_URL", url)
    shutil.copy(DATA / "columns_ru.pdf", folder)
    assert main(["ingest", "papers"]) == 1
    capsys.readouterr()
    assert main(["source", "show", "papers/columns_ru.pdf", "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["title"] == "Память во время вывода"
    assert [row["heading"] for row in shown["outline"]][1:] == ["1 Память", "2 Забывание"]
    assert (shown["authors"], shown["coverage"]) == (["Анна Ли"], [1, 1])
    assert len(shown["page_characters"]) == 1
    assert shown["first"].startswith("Память во время вывода")
    assert main(["source", "show", "papers/scans_within.pdf"]) == 0
    said = capsys.readouterr().out
    assert "60 %" in said
    assert "1. Модуль памяти" in said
    assert main(["source", "show", "papers/scans_witin.pdf"]) == 1
    assert "Did you mean: papers/scans_within.pdf" in capsys.readouterr().err
    assert main(["sources", "--failed", "--json"]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert {row["item"].removeprefix("papers/") for row in rows} == set(FAULTS)
    assert main(["sources", "--failed"]) == 0
    assert "cookie wall" in capsys.readouterr().out
