"""Bad input: a clear line each, the rest goes on, nothing half-written."""

import os
import random
import resource
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from conftest import ROOT, Store

from kbwiki.cli import main
from kbwiki.stages import files
from kbwiki.stages.files import FileItem

GOOD = "# Хорошая заметка\n\n**Линейное внимание** (linear attention) — это внимание без softmax.\n"


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    """A folder with one good note."""
    folder = tmp_path / "notes"
    folder.mkdir()
    (folder / "good.md").write_text(GOOD, "utf-8")
    return folder


def _failures(store: Store, *paths: Path) -> dict[str, str]:
    return dict(store.build(*paths)["ingest"].failures)


def _sources(store: Store) -> list[str]:
    return sorted(Path(row["uri"]).name for row in store.database.dicts("list_source_uris"))


def test_a_path_that_is_not_there_is_named_and_the_rest_is_read(store: Store, notes: Path) -> None:
    failures = _failures(store, notes, store.root / "missing")
    assert failures == {"missing": "missing: no such file or directory. Check the path."}
    assert _sources(store) == ["good.md"]


def test_an_empty_folder_is_named(store: Store, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    [(item, reason)] = _failures(store, tmp_path / "empty").items()
    assert item == "empty"
    assert reason.startswith("empty: no file to read in this folder. Known kinds: .md")


def test_an_empty_file_is_named_until_it_is_filled(store: Store, notes: Path) -> None:
    (notes / "empty.md").write_text(" \n")
    assert _failures(store, notes) == {
        "notes/empty.md": "notes/empty.md: the file is empty. Nothing was stored."
    }
    assert [row["item"] for row in store.database.dicts("list_failures")] == ["notes/empty.md"]
    (notes / "empty.md").write_text("# Filled\n\nNow **linear attention** is here.\n")
    assert _failures(store, notes) == {}
    assert store.database.dicts("list_failures") == []


def test_a_file_over_the_limit_is_not_even_opened(store: Store, notes: Path) -> None:
    big = notes / "big.txt"
    with big.open("wb") as file:
        file.truncate(200_000_000)
    assert _failures(store, notes) == {
        "notes/big.txt": "notes/big.txt: 200 MB is over the limit of 50 MB. "
        "Split it, or set KBWIKI_MAX_FILE_MB."
    }


def test_a_broken_pdf_is_named(store: Store, notes: Path) -> None:
    (notes / "broken.pdf").write_bytes(b"%PDF-1.7\nnothing of the kind")
    [reason] = _failures(store, notes).values()
    assert reason.startswith("notes/broken.pdf: ")
    assert _sources(store) == ["good.md"]


def test_a_folder_named_like_a_note_is_a_folder(store: Store, notes: Path) -> None:
    (notes / "x.md").mkdir()
    (notes / "x.md" / "inner.md").write_text(GOOD + "\nЕщё одно предложение о внимании.\n", "utf-8")
    assert _failures(store, notes) == {}
    assert _sources(store) == ["good.md", "inner.md"]


def test_a_pipe_is_refused_and_does_not_block(store: Store, notes: Path) -> None:
    os.mkfifo(notes / "pipe.md")
    assert _failures(store, notes) == {
        "notes/pipe.md": "notes/pipe.md: it is no regular file. Leave it out with .kbwikiignore."
    }


def test_a_file_that_changes_while_it_is_read_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "moving.md"
    path.write_bytes(b"x" * 40_000_000)
    stop = threading.Event()

    def grow() -> None:
        with path.open("ab") as file:
            while not stop.is_set():
                file.write(b"y")
                file.flush()

    writer = threading.Thread(target=grow)
    writer.start()
    try:
        with pytest.raises(files.InputError, match="changed while it was read"):
            _read_often(FileItem(path, "moving.md"))
    finally:
        stop.set()
        writer.join()


def _read_often(item: FileItem) -> None:
    for _ in range(50):
        files.read_file(item, 1_000_000_000)


def test_nul_bytes_do_not_reach_the_store(store: Store, notes: Path) -> None:
    (notes / "nul.md").write_bytes(
        "# Нуль\x00\n\nБайт\x00 **линейного внимания** здесь.\n".encode()
    )
    assert _failures(store, notes) == {}
    texts = [row["text"] for row in store.database.dicts("list_extractions")]
    assert len(texts) == 2
    assert not any("\x00" in text for text in texts)


def test_a_title_of_300_letters_becomes_one_file_with_a_stable_name(
    store: Store, notes: Path
) -> None:
    title = "Очень длинное название " * 13
    (notes / "long.md").write_text(
        f"# {title}\n\nТекст о **линейном внимании** в заметке.\n", "utf-8"
    )
    assert _failures(store, notes) == {}
    names = [name for name in store.files() if name.startswith("sources/очень")]
    assert len(names) == 1
    assert len(names[0].removeprefix("sources/").encode()) <= 200
    store.build(notes)
    assert [name for name in store.files() if name.startswith("sources/очень")] == names


def test_two_notes_of_one_name_keep_a_page_each(store: Store, tmp_path: Path) -> None:
    for folder, word in (("a", "ключи"), ("b", "замки")):
        (tmp_path / folder).mkdir()
        text = f"Заметка про **{word}** и про их устройство в старых домах.\n"
        (tmp_path / folder / "notes.md").write_text(text, "utf-8")
    store.build(tmp_path / "a", tmp_path / "b")
    pages = [name for name in store.files() if name.startswith("sources/")]
    assert len(pages) == 2
    store.build(tmp_path / "b", tmp_path / "a")
    assert [name for name in store.files() if name.startswith("sources/")] == pages


def test_a_loop_of_links_ends(store: Store, notes: Path) -> None:
    (notes / "loop").symlink_to(notes)
    assert _failures(store, notes) == {}
    assert _sources(store) == ["good.md"]


def test_ignored_and_hidden_files_are_left_out(store: Store, notes: Path) -> None:
    (notes / ".hidden.md").write_text("# Hidden\n")
    (notes / "drafts").mkdir()
    (notes / "drafts" / "d.md").write_text("# Draft\n")
    (notes / "старое.md").write_text("# Старое\n", "utf-8")
    (notes / ".kbwikiignore").write_text("drafts/\nстар*.md\n", "utf-8")
    assert _failures(store, notes) == {}
    assert _sources(store) == ["good.md"]


def test_a_file_that_a_person_wrote_is_never_overwritten(store: Store, notes: Path) -> None:
    page = store.wiki / "concepts" / "линейное-внимание.md"
    page.parent.mkdir(parents=True)
    page.write_text("мои слова\n", "utf-8")
    report = store.build(notes)["export"]
    assert page.read_text("utf-8") == "мои слова\n"
    assert report.failures == (
        (
            "concepts/линейное-внимание.md",
            "a person changed this file; ours is in линейное-внимание.conflict.md",
        ),
    )
    assert "Линейное внимание" in page.with_name("линейное-внимание.conflict.md").read_text("utf-8")


def test_a_conflict_that_a_person_works_on_is_left_alone(store: Store, notes: Path) -> None:
    page = store.wiki / "concepts" / "линейное-внимание.md"
    page.parent.mkdir(parents=True)
    page.write_text("мои слова\n", "utf-8")
    store.build(notes)
    beside = page.with_name("линейное-внимание.conflict.md")
    ours = beside.read_text("utf-8")
    beside.write_text("слияние\n", "utf-8")
    store.build(notes)
    assert beside.read_text("utf-8") == "слияние\n"
    beside.write_text(ours, "utf-8")
    page.unlink()
    assert store.build(notes)["export"].failures == ()
    assert not beside.exists()


def test_an_edited_page_outlives_its_concept(store: Store, notes: Path) -> None:
    store.build(notes)
    page = store.wiki / "concepts" / "линейное-внимание.md"
    page.write_text(page.read_text("utf-8") + "\nмоя правка\n", "utf-8")
    (notes / "good.md").write_text("# Иное\n\nЗдесь **замок** стоит на горе давно.\n", "utf-8")
    report = store.build(notes)["export"]
    assert "моя правка" in page.read_text("utf-8")
    assert [item for item, _ in report.failures] == ["concepts/линейное-внимание.md"]


def test_a_database_that_is_away_is_one_clear_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    code = main(["status", "--db", f"postgresql:///nothing?host={tmp_path}&connect_timeout=1"])
    captured = capsys.readouterr()
    assert code == 1
    assert captured.out == ""
    assert captured.err.startswith("error: database: ")
    assert "Traceback" not in captured.err


def test_a_secret_in_the_url_is_in_no_message(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("KBWIKI_DATABASE_URL", "postgresql://me:hunter2@127.0.0.1:1/x")
    assert main(["status"]) == 1
    assert main(["config"]) == 0
    captured = capsys.readouterr()
    assert "hunter2" not in captured.err + captured.out


def test_a_full_disk_leaves_old_pages_whole(url: str, notes: Path, tmp_path: Path) -> None:
    """A limit on the size of files stands in for a full disk."""
    environment = {**os.environ, "KBWIKI_DATABASE_URL": url}
    stages = ["ingest notes", "extract", "resolve", "write", "link", "classify-edges"]
    for stage in stages:
        _kbwiki(stage.split(), tmp_path, environment)
    full = _kbwiki(["export"], tmp_path, environment, limit=300)
    assert full.returncode == 1, full.stderr
    assert full.stderr.startswith("error: ")
    assert "Traceback" not in full.stderr
    wiki = tmp_path / "wiki"
    assert [p for p in wiki.rglob("*") if p.is_file() and p.stat().st_size >= 300] == []
    assert list(wiki.rglob(".*.kbwiki-*")) == []
    assert _kbwiki(["export"], tmp_path, environment).returncode == 0
    assert (wiki / "concepts" / "линейное-внимание.md").exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="a plain user: the next test covers it directly")
def test_a_file_without_read_permission_is_named(url: str, notes: Path, tmp_path: Path) -> None:
    """Root reads everything, so the command runs as a plain user."""
    closed = notes / "closed.md"
    closed.write_text(GOOD)
    closed.chmod(0)
    code = (
        "import os, sys; from kbwiki.stages.files import *; "
        "os.setgid(65534); os.setuid(65534); p = Path(sys.argv[1]); "
        "read_file(FileItem(p, 'closed.md', 10, 0), 100)"
    )
    for folder in (tmp_path, notes):
        folder.chmod(0o755)
    done = subprocess.run(
        [sys.executable, "-c", code, str(closed)],
        capture_output=True, text=True, check=False, cwd="/",
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert "closed.md: permission denied. Check its permissions." in done.stderr


def _kbwiki(
    args: list[str], folder: Path, environment: dict[str, str], limit: int | None = None
) -> subprocess.CompletedProcess[str]:
    def restrict() -> None:
        if limit is not None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

    return subprocess.run(
        [sys.executable, "-m", "kbwiki", *args],
        cwd=folder, env=environment, capture_output=True, text=True, check=False,
        preexec_fn=restrict,
    )  # fmt: skip


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("# {words}\n\nТекст о **памяти** и о словах.\n", id="title"),
        pytest.param("---\ntitle: {words}\n---\nТекст о **памяти**.\n", id="front matter"),
        pytest.param(
            "# A\n\nТекст о **{letters}** и о памяти. The {letters} is a layer.\n", id="bold"
        ),
        pytest.param(
            "# A\n\n## {letters}\n\nSee [[{letters}]] (XYZ) and [[{letters}|память]].\n", id="link"
        ),
    ],
)
def test_names_without_measure_stop_no_build(store: Store, notes: Path, text: str) -> None:
    chance = random.Random(1)
    words = " ".join("".join(chance.choices("abcdefghij", k=9)) for _ in range(600))
    letters = "".join(chance.choices("abcdefghij", k=6_000))
    (notes / "long.md").write_text(text.format(words=words, letters=letters), "utf-8")
    reports = store.build(notes)
    assert {name: r.failures for name, r in reports.items() if r.failures} == {}
    titles = [row["title"] for row in store.database.dicts("list_sources")]
    assert all(len(title) <= 300 for title in titles)
    assert len([name for name in store.files() if name.startswith("sources/")]) == 2
