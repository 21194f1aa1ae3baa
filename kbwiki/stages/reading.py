"""Bytes of files read into Documents and chunks: here, or, where that takes long, in processes.

Owns the processes. Each holds one file at a time, and its crash is that file's fault alone. It ends
with the program that started it, however that ends.
"""

import multiprocessing
import os
import re
import signal
import sys
import threading
import time
import traceback
import weakref
from contextlib import suppress
from dataclasses import dataclass, field, replace
from multiprocessing.connection import Connection, wait
from pathlib import Path, PurePosixPath
from queue import Empty, SimpleQueue
from typing import Any

from kbwiki.errors import InputError, KbwikiError
from kbwiki.records import Chunk, Document
from kbwiki.text.chunks import chunk_document
from kbwiki.text.normal import clean_line, shorten
from kbwiki.text.readers import read_document

MAX_TITLE = 300
PATIENCE_S = 1.0
"""Seconds of reading in this process after which others are started: they take half a second."""
LONG = 500_000
"""Bytes of a PDF from which on it is read in a process from the first."""
MAX_RESIDENT = 600_000_000
"""Bytes that a process may have held at its peak; a new one takes its place then."""


@dataclass(frozen=True, slots=True)
class Job:
    """The bytes of a file and how to read them; ``title`` counts more than what they say."""

    uri: str
    raw: bytes = field(repr=False)
    suffix: str = ""
    charset: str = ""
    title: str = ""
    force: bool = False
    use_ocr: bool = False


@dataclass(frozen=True, slots=True)
class Parsed:
    """What a job comes to; ``title`` is empty where only the file's name gives one."""

    document: Document
    chunks: tuple[Chunk, ...]
    title: str


def parse(job: Job) -> Parsed:
    """Return what the bytes of a file hold; InputError, ConfigError where they cannot be read."""
    document = read_document(job.uri, job.raw, job.force, job.suffix, job.charset, job.use_ocr)
    title = shorten(clean_line(job.title or document.title), MAX_TITLE)
    stem = PurePosixPath(job.uri).stem.replace("_", " ").replace("-", " ")
    document = replace(document, title=title or clean_line(stem))
    return Parsed(document, tuple(chunk_document(document)), title)


class Readers:
    """Reads jobs for several threads; once that has taken a while, each in a process."""

    def __init__(self, patience_s: float = PATIENCE_S, max_resident: int = MAX_RESIDENT) -> None:
        self._idle: SimpleQueue[_Process] = SimpleQueue()
        self._patience_s = patience_s
        self._max_resident = max_resident
        self._cores = threading.Semaphore(os.cpu_count() or 1)

    def read(self, job: Job) -> Parsed:
        """Return what ``parse`` returns or raise what it raises; InputError if the reader dies."""
        is_long = job.suffix == ".pdf" and (job.use_ocr or len(job.raw) > LONG)
        if self._patience_s > 0 and not is_long:
            began = time.thread_time()
            try:
                return parse(job)
            finally:
                self._patience_s -= time.thread_time() - began
        with self._cores:  # threads that wait for a model are many; their readers would be too
            process = self._free()
            answer, is_spent = process.ask(job)
            if is_spent:
                process.close()
            else:
                self._idle.put(process)
        if isinstance(answer, BaseException):
            raise answer
        return answer

    def _free(self) -> "_Process":
        with suppress(Empty):
            return self._idle.get_nowait()
        return _Process(self._max_resident)

    def close(self) -> None:
        """End the processes that wait for work."""
        with suppress(Empty):
            while True:
                self._idle.get_nowait().close()


class _Process:
    def __init__(self, max_resident: int) -> None:
        # A fork of a program with threads may hang; `spawn` begins with a clean one.
        context = multiprocessing.get_context("spawn")
        self._here, there = context.Pipe()
        self._process = context.Process(target=_serve, args=(there, max_resident), daemon=True)
        self._process.start()
        there.close()
        self.close = weakref.finalize(self, _end, self._here, self._process)

    def ask(self, job: Job) -> tuple[Parsed | BaseException, bool]:
        """Return what a job came to, and whether this process is to be asked no more."""
        try:
            self._here.send(job)
            answer, is_spent = self._here.recv()
        except (EOFError, OSError):
            self._process.join()
            code = self._process.exitcode or 0
            why = signal.strsignal(-code) if code < 0 else f"exit code {code}"
            return InputError(
                f"{job.uri}: its reader crashed: {why}.", "Save a clean copy, or leave it out."
            ), True
        return answer, is_spent


def _end(pipe: Connection, process: Any) -> None:
    pipe.close()  # it reads the end of its jobs
    process.join(1)
    if process.is_alive():
        process.kill()
        process.join()
    process.close()


def _serve(pipe: Connection, max_resident: int) -> None:
    """Answer jobs until there are no more, in a process of its own."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the program that asks decides what Ctrl-C means
    threading.Thread(target=_die_with_parent, daemon=True).start()
    with suppress(EOFError, OSError):
        while True:
            job = pipe.recv()
            try:
                answer: Parsed | BaseException = parse(job)
            except KbwikiError as error:
                answer = error
            except BaseException:  # noqa: BLE001 - a bug, or a library in Rust that panics: told
                answer = RuntimeError(traceback.format_exc())
            is_spent = _peak() > max_resident
            pipe.send((answer, is_spent))
            if is_spent:
                return


def _die_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os._exit(1)


def _peak() -> int:
    """Return the most bytes that this process has held; 0 where that is not told."""
    if sys.platform == "win32":
        return 0
    with suppress(OSError):  # on Linux getrusage counts what the parent held before exec too
        status = Path("/proc/self/status").read_text("ascii", "replace")
        held = re.search(r"^VmHWM:\s+(\d+) kB", status, re.MULTILINE)
        if held:
            return 1024 * int(held.group(1))
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else 1024 * peak
