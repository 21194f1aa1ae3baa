"""Bytes of files read into Documents and chunks: here, or, where that takes long, in processes.

Owns the processes. Each holds one file at a time, and its crash is that file's fault alone, as is
that it takes for ever: the kernel ends a process that spends more than the time of its file. It
ends with the program that started it, however that ends.
"""

import math
import multiprocessing
import os
import re
import signal
import sys
import threading
import time
import traceback
import warnings
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from multiprocessing.connection import Connection, wait
from pathlib import Path, PurePosixPath
from queue import Empty, SimpleQueue
from typing import Any

from kbwiki.errors import InputError, KbwikiError
from kbwiki.records import Chunk, Document
from kbwiki.text.chunks import chunk_document
from kbwiki.text.normal import clean_line, shorten
from kbwiki.text.readers import read_document, reader_kind

MAX_TITLE = 300
PATIENCE_S = 1.0
"""Seconds of reading in this process after which others are started: they take half a second."""
LIGHT = 100_000
"""Bytes up to which a text is read in this process, where nothing ends it: 5 s at worst."""
_PACKED = {".pdf", ".docx", ".pptx", ".xlsx", ".epub"}
"""Kinds of files that may hold any amount of work in few bytes."""
LEAST_S = 60.0
PER_MB_S = 30.0
DRAWN = 10
"""How many times as long reading may take where pages are drawn for OCR."""
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


def limit_of(job: Job) -> float:
    """Return the seconds of processor time that reading a file may take; infinite if forced.

    Several times what the slowest whole file of that size was seen to take.
    """
    if job.force:
        return math.inf
    return (LEAST_S + PER_MB_S * len(job.raw) / 1e6) * (DRAWN if job.use_ocr else 1)


class Readers:
    """Reads jobs for several threads; what may take long, and after a while all, in processes."""

    def __init__(
        self,
        patience_s: float = PATIENCE_S,
        max_resident: int = MAX_RESIDENT,
        limit: Callable[[Job], float] = limit_of,
    ) -> None:
        self._idle: SimpleQueue[_Process] = SimpleQueue()
        self._patience_s = patience_s
        self._max_resident = max_resident
        self._limit = limit
        self._cores = threading.Semaphore(os.cpu_count() or 1)

    def read(self, job: Job) -> Parsed:
        """Return what ``parse`` returns or raise what it raises; InputError if the reader dies."""
        is_light = len(job.raw) <= LIGHT and reader_kind(f"_{job.suffix}") not in _PACKED
        if self._patience_s > 0 and is_light:
            began = time.thread_time()
            try:
                return parse(job)
            finally:
                self._patience_s -= time.thread_time() - began
        with self._cores:  # threads that wait for a model are many; their readers would be too
            process = self._free()
            answer, is_spent = process.ask(job, self._limit(job))
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

    def ask(self, job: Job, limit_s: float) -> tuple[Parsed | BaseException, bool]:
        """Return what a job came to, and whether this process is to be asked no more."""
        try:
            self._here.send((job, limit_s))
            answer, is_spent = self._here.recv()
        except (EOFError, OSError):
            self._process.join()
            code = self._process.exitcode or 0
            if code == -signal.SIGPROF:
                return InputError(
                    f"{job.uri}: reading it took over {limit_s:.3g} s of processor time, and was "
                    "given up.",
                    "Save it anew or split it; `kbwiki ingest --force` gives it all the time.",
                ), True
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
    warnings.simplefilter("ignore")  # what libraries think of a file is no message to people
    threading.Thread(target=_die_with_parent, daemon=True).start()
    with suppress(EOFError, OSError):
        while True:
            job, limit_s = pipe.recv()
            try:
                with _limited(limit_s):
                    answer: Parsed | BaseException = parse(job)
            except KbwikiError as error:
                answer = error
            except BaseException:  # noqa: BLE001 - a bug, or a library in Rust that panics: told
                answer = RuntimeError(traceback.format_exc())
            is_spent = _peak() > max_resident
            pipe.send((answer, is_spent))
            if is_spent:
                return


@contextmanager
def _limited(seconds: float) -> Iterator[None]:
    """End this process by SIGPROF when it has spent so much processor time."""
    signal.signal(signal.SIGPROF, signal.SIG_DFL)  # no code of ours: that of a library may not stop
    if math.isfinite(seconds):
        signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


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
