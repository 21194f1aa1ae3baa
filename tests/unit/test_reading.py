"""Reading in processes: what comes back is the same; a reader that dies takes one file along."""

import math
import multiprocessing
import os
import signal
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pypdfium2
import pytest

from kbwiki.errors import InputError, QuarantineError
from kbwiki.stages.reading import Job, Readers, limit_of, parse

DATA = Path(__file__).parents[1] / "data" / "pdf"
CORPUS = Path(__file__).parents[2] / "corpus"
FILES = [
    CORPUS / "en" / "titans.md",
    CORPUS / "en" / "retrieval-augmented-generation.html",
    CORPUS / "ru" / "дельта-правило.pdf",
    DATA / "scans_within.pdf",
]


def _job(path: Path, **more: Any) -> Job:
    return Job(path.name, path.read_bytes(), path.suffix, **more)


@pytest.fixture
def readers() -> Iterator[Readers]:
    """Readers that start a process at once."""
    readers = Readers(patience_s=0)
    yield readers
    readers.close()
    assert multiprocessing.active_children() == []


def test_a_process_reads_what_this_one_reads(readers: Readers) -> None:
    for path in FILES:
        assert readers.read(_job(path)) == parse(_job(path))
    [process] = multiprocessing.active_children()
    assert process.pid != os.getpid()


def test_what_this_process_held_does_not_count_against_its_readers() -> None:
    held = bytearray(400_000_000)
    readers = Readers(patience_s=0, max_resident=len(held))
    try:
        readers.read(_job(FILES[0]))
        assert len(multiprocessing.active_children()) == 1
    finally:
        readers.close()


def test_little_text_is_read_without_a_process_and_what_may_take_long_is_not() -> None:
    readers = Readers()
    assert readers.read(_job(FILES[0])).title == "Titans"
    assert multiprocessing.active_children() == []
    try:
        readers.read(Job("a.md", b"# A\n\n" + b"A word. " * 13_000, ".md"))
        assert len(multiprocessing.active_children()) == 1
    finally:
        readers.close()


def test_faults_cross_with_their_kind_and_hint(readers: Readers) -> None:
    with pytest.raises(InputError, match="encrypted") as caught:
        readers.read(_job(DATA / "encrypted.pdf"))
    assert "without" in caught.value.hint
    wall = Job("a.html", b"<title>404 Not Found</title><h1>404 Not Found</h1>", ".html")
    with pytest.raises(QuarantineError, match="error page") as caught:
        readers.read(wall)
    assert "--force" in caught.value.hint
    assert readers.read(Job("a.html", wall.raw, ".html", force=True)).title == "404 Not Found"


def test_a_reader_that_crashes_takes_one_file_along(readers: Readers, tmp_path: Path) -> None:
    with (
        pypdfium2.PdfDocument(DATA / "columns_ru.pdf") as source,
        pypdfium2.PdfDocument.new() as target,
    ):
        for _ in range(2_000):
            target.import_pages(source)
        target.save(tmp_path / "long.pdf")
    caught: list[BaseException] = []

    def read() -> None:
        try:
            readers.read(_job(tmp_path / "long.pdf"))
        except InputError as error:
            caught.append(error)

    thread = threading.Thread(target=read)
    thread.start()
    while not (children := multiprocessing.active_children()):
        assert thread.is_alive()
    assert children[0].pid
    os.kill(children[0].pid, signal.SIGKILL)
    thread.join()
    assert str(caught[0]).startswith("long.pdf: its reader crashed: Killed")
    assert readers.read(_job(FILES[0])).title == "Titans"


def test_a_reader_that_has_grown_is_replaced() -> None:
    readers = Readers(patience_s=0, max_resident=1)
    for _ in range(2):
        assert readers.read(_job(FILES[0])).title == "Titans"
        assert multiprocessing.active_children() == []


def test_a_file_that_takes_too_long_is_given_up_alone() -> None:
    def limit(job: Job) -> float:
        return 0.001 if job.uri == "slow.pdf" else 600.0

    readers = Readers(limit=limit)
    slow = Job("slow.pdf", (DATA / "columns_ru.pdf").read_bytes(), ".pdf")
    try:
        with pytest.raises(InputError, match=r"slow.pdf: .* over 0.001 s of processor time") as why:
            readers.read(slow)
        assert "--force" in why.value.hint
        assert readers.read(_job(DATA / "columns_ru.pdf")) == parse(_job(DATA / "columns_ru.pdf"))
    finally:
        readers.close()


def test_the_time_grows_with_the_file_and_force_lifts_it() -> None:
    small, large = (Job("a.md", b" " * n, ".md") for n in (1, 10_000_000))
    assert 60 <= limit_of(small) < 61
    assert limit_of(large) == pytest.approx(360)
    assert limit_of(replace(large, use_ocr=True)) == pytest.approx(3_600)
    assert limit_of(replace(small, force=True)) == math.inf
