"""Addresses and standard input, taken in through the command line."""

import io
import json
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import ROOT
from fakes.web import Web, serve_web

from kbwiki import fetch
from kbwiki.cli import main

DATA = ROOT / "tests" / "data" / "pdf"
ARTICLE = (
    "<html><head><title>{title}</title></head><body><nav>Меню Войти</nav><article><h1>{title}</h1>"
    "<p><b>{title}</b> — это упругое колебание, которое распространяется в толще Земли и приходит "
    "на станцию после землетрясения.</p><p>Скорость волны зависит от плотности пород, через "
    "которые она проходит на пути к станции.</p></article></body></html>"
)
WALL = "<title>Вход</title><p>Войдите, чтобы читать дальше. Авторизуйтесь.</p>"


@pytest.fixture
def web() -> Iterator[Web]:
    with serve_web() as web:
        yield web


@pytest.fixture(autouse=True)
def folder(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A knowledge base of the test's own, in which the commands run."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("KBWIKI_DATABASE_URL", url)
    return tmp_path


def _said(capsys: pytest.CaptureFixture[str], *args: str) -> list[dict[str, object]]:
    assert main([*args, "--json"]) == 0
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def _table(text: str) -> dict[str, str]:
    rows = [line.split() for line in text.splitlines()]
    at = next(i for i, row in enumerate(rows) if row[:2] == ["read", "unchanged"])
    return dict(zip(rows[at], rows[at + 1], strict=True))


def test_a_page_is_fetched_kept_and_named_by_its_address(
    web: Web, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    raw = ARTICLE.format(title="Сейсмическая волна").encode("cp1251")
    address = web.page("/%D0%B2", raw, "text/html; charset=windows-1251")
    assert main(["ingest", "--allow-private", address]) == 0
    said = capsys.readouterr()
    assert "fetching it over the network" in said.err
    assert _table(said.out)["read"] == "1"
    [row] = _said(capsys, "sources")
    assert (row["uri"], row["title"]) == (web.url("/в"), "Сейсмическая волна")
    [page] = (folder / ".kbwiki" / "fetched").glob("*.html")
    assert page.read_bytes() == raw
    about = json.loads(page.with_suffix(".json").read_bytes())
    assert (about["uri"], about["charset"]) == (web.url("/в"), "windows-1251")
    assert main(["ingest", "--allow-private", web.url("/в#part")]) == 0
    assert _table(capsys.readouterr().out)["unchanged"] == "1"
    web.page("/%D0%B2", ARTICLE.format(title="Волна").encode(), "text/html")
    assert main(["ingest", "--allow-private", address]) == 0
    assert _table(capsys.readouterr().out)["changed"] == "1"
    [row] = _said(capsys, "sources")
    assert row["title"] == "Волна"
    assert main(["rm", web.url("/в")]) == 0
    capsys.readouterr()
    assert _said(capsys, "sources") == []


@pytest.mark.parametrize(
    ("path", "kind", "name", "title"),
    [
        ("/paper", "application/pdf", "columns_ru.pdf", "Память во время вывода"),
        ("/paper", "text/html", "columns_ru.pdf", "Память во время вывода"),
        ("/paper.pdf", "application/octet-stream", "columns_en.pdf", "Memory at test time"),
        ("/paper?download=1", "", "columns_en.pdf", "Memory at test time"),
    ],
)
def test_a_paper_is_told_by_its_bytes(
    web: Web, capsys: pytest.CaptureFixture[str], path: str, kind: str, name: str, title: str
) -> None:
    address = web.page(path, (DATA / name).read_bytes(), kind)
    assert main(["ingest", "--allow-private", address]) == 0
    capsys.readouterr()
    [row] = _said(capsys, "sources")
    assert (row["title"], row["pages"]) == (title, 1)


def test_a_paper_of_arxiv_is_named_by_its_id(
    web: Web, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(fetch, "ARXIV", web.url("/pdf/"))
    web.redirect("/pdf/2501.00663", "/pdf/2501.00663v1", 301)
    paper = (DATA / "layout_ru.pdf").read_bytes()
    web.page("/pdf/2501.00663v1", paper, "application/pdf")
    for state in ("read", "unchanged"):
        assert main(["ingest", "--allow-private", "arxiv:2501.00663"]) == 0
        assert _table(capsys.readouterr().out)[state] == "1"
    [row] = _said(capsys, "sources")
    assert (row["uri"], row["title"]) == (
        web.url("/pdf/2501.00663"),
        "Память, которая учится во время чтения",
    )
    [shown] = _said(capsys, "source", "show", web.url("/pdf/2501.00663"))
    assert shown["ids"] == ["doi:10.1234/mem.2024.17", "arxiv:2501.00663"]
    assert (shown["authors"], shown["year"]) == (
        ["Анна Ли", "Борис Иванов", "Клара Фёдорова"],
        2024,
    )


@pytest.mark.parametrize(
    ("path", "body", "kind", "title"),
    [
        ("/notes.md", b"# Fast weights\n\nA **fast weight** changes.\n", "text/plain",
         "Fast weights"),
        ("/raw", b"Fast weights\n\nA fast weight changes.\n", "text/plain", "Fast weights"),
        ("/a.tex", b"\\title{Fast weights}\\begin{document}A fast weight.\\end{document}",
         "application/octet-stream", "Fast weights"),
        ("/feed", ARTICLE.format(title="Волна").encode(), "application/octet-stream", "Волна"),
    ],
)  # fmt: skip
def test_a_text_is_told_by_its_type_and_its_address(
    web: Web, capsys: pytest.CaptureFixture[str], path: str, body: bytes, kind: str, title: str
) -> None:
    assert main(["ingest", "--allow-private", web.page(path, body, kind)]) == 0
    capsys.readouterr()
    [row] = _said(capsys, "sources")
    assert row["title"] == title


def test_what_cannot_be_fetched_is_named_and_the_rest_is_taken_in(
    web: Web, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "note.md").write_text(
        "# Память\n\n**Память** — это способ хранить прошлое.\n", "utf-8"
    )
    addresses = {
        web.page("/picture", b"\x89PNG...", "image/png"): "it is image/png",
        web.url("/nothing"): "404",
        web.page("/login.pdf", WALL.encode(), "application/pdf; charset=utf-8"): "login page",
        web.page("/empty", b" ", "text/html"): "empty",
        "ftp://example.org/paper.pdf": "only http and https",
        "arxiv:nonsense": "no arXiv id",
    }
    good = web.page("/good", ARTICLE.format(title="Волна").encode(), "text/html; charset=utf-8")
    names = [*addresses, good, "note.md"]
    assert main(["ingest", "--allow-private", *names]) == 1
    said = capsys.readouterr()
    for address, why in addresses.items():
        [line] = [line for line in said.err.splitlines() if f"failed {address}" in line]
        assert why in line
    table = _table(said.out)
    assert (table["read"], table["quarantined"], table["failed"]) == ("2", "1", "5")
    failed = _said(capsys, "sources", "--failed")
    assert {str(row["item"]) for row in failed} == set(addresses)


def test_an_address_that_failed_is_listed_until_it_is_read_or_let_go_of(
    web: Web,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (folder / "note.md").write_text("# Память\n\nПамять хранит прошлое.\n", "utf-8")
    late, never, wrong = web.url("/late"), web.url("/never"), "arxiv:2501.O0663"
    assert main(["ingest", "--allow-private", late, never, wrong]) == 1
    assert main(["ingest", "note.md"]) == 0
    capsys.readouterr()
    assert {row["item"] for row in _said(capsys, "sources", "--failed")} == {late, never, wrong}
    assert main(["status"]) == 0
    [line] = [line for line in capsys.readouterr().err.splitlines() if wrong in line]
    assert "it is no arXiv id. (tried 1 time)" in line
    web.page("/late", ARTICLE.format(title="Волна").encode(), "text/html; charset=utf-8")
    assert main(["ingest", "--allow-private", late]) == 0
    capsys.readouterr()
    assert {row["item"] for row in _said(capsys, "sources", "--failed")} == {never, wrong}
    (folder / "sub").mkdir()
    monkeypatch.chdir(folder / "sub")  # an address is no path from where one stands
    assert main(["rm", never, wrong]) == 0
    capsys.readouterr()
    assert _said(capsys, "sources", "--failed") == []


def test_this_machine_is_not_asked_unless_that_is_allowed(
    web: Web, capsys: pytest.CaptureFixture[str]
) -> None:
    address = web.page("/", ARTICLE.format(title="Волна").encode())
    for host in ("127.0.0.1", "localhost"):
        assert main(["ingest", address.replace("127.0.0.1", host)]) == 1
        assert "--allow-private" in capsys.readouterr().err
    assert web.asked == []


def test_a_page_may_be_built_into_the_wiki_and_outlives_a_build_that_prunes(
    web: Web, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    notes = folder / "notes"
    notes.mkdir()
    shutil.copy(ROOT / "corpus" / "ru" / "сюрприз.md", notes)
    assert (
        main(["ingest", "--allow-private", web.page("/", ARTICLE.format(title="Волна").encode())])
        == 0
    )
    assert main(["ingest", ".", "--prune"]) == 0
    capsys.readouterr()
    assert len(_said(capsys, "sources")) == 2


def _give(monkeypatch: pytest.MonkeyPatch, raw: bytes) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(raw), encoding="utf-8"))


@pytest.mark.parametrize(
    ("raw", "title"),
    [
        pytest.param("Память хранит прошлое.".encode(), "Заметка о памяти", id="text"),
        pytest.param("Память хранит прошлое моделей.".encode("cp1251"), "Память", id="cp1251"),
        pytest.param(ARTICLE.format(title="Волна").encode(), "Своё имя", id="a page"),
        pytest.param((DATA / "columns_en.pdf").read_bytes(), "A paper of mine", id="a paper"),
    ],
)
def test_standard_input_is_read_under_the_title_that_is_given(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], raw: bytes, title: str
) -> None:
    _give(monkeypatch, raw)
    assert main(["ingest", "-", "--title", title]) == 0
    capsys.readouterr()
    [row] = _said(capsys, "sources")
    assert (row["uri"], row["title"]) == (f"stdin://{title}", title)
    _give(monkeypatch, raw)
    assert main(["ingest", "-", "--title", title]) == 0
    assert _table(capsys.readouterr().out)["unchanged"] == "1"


def test_standard_input_without_a_title_has_that_of_its_text(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    _give(monkeypatch, "# Память\n\nПамять хранит прошлое.\n".encode())
    assert main(["ingest", "-"]) == 0
    capsys.readouterr()
    [row] = _said(capsys, "sources")
    assert row["title"] == "Память"


@pytest.mark.parametrize(
    ("args", "raw", "why"),
    [
        (["-"], b" \n", "it is empty"),
        (["-"], b"x" * 60_000, "over the limit"),
        (["note.md", "--title", "A"], b"", "names what is read from -"),
    ],
)
def test_standard_input_that_cannot_be_used_is_refused(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    args: list[str],
    raw: bytes,
    why: str,
) -> None:
    monkeypatch.setenv("KBWIKI_MAX_FILE_MB", "0.05")
    _give(monkeypatch, raw)
    assert main(["ingest", *args]) != 0
    assert why in capsys.readouterr().err


def test_a_plan_asks_for_paths_alone(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["build", "--dry-run", "https://example.org/"]) != 0
    assert "kbwiki ingest" in capsys.readouterr().err
