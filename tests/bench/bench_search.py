"""Measure search: how well it finds, on the demo and on data sets, and how fast on a large store.

Usage: bench_search.py [DIR], where DIR holds data sets: folders with ``docs.jsonl`` of {id, title,
text} and ``queries.jsonl`` of {id, text, gold}, which the whole pipeline reads. Asserts nothing.
"""

import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date
from pathlib import Path
from typing import Any, cast

import psycopg
from large_store import RandomVectors, fill

from kbwiki import db
from kbwiki.config import load_settings
from kbwiki.embedders import make_embedder
from kbwiki.evaluate.search import interval, read_questions, run_questions
from kbwiki.question import clean_question
from kbwiki.search import MODES, Mode, Query, search

ROOT = Path(__file__).parent.parent.parent
SETS = {
    "musique-train-100": "R@5 >= 75",
    "hotpot-train-100": "R@5 >= 95",
    "xquad-ru-en": "R@1 >= 80",
    "xquad-ru-mixed": "R@10 >= 97",
    "lihua": "R@10 >= 91",
}
SIZES = (10_000, 100_000)
SPEED = {"text": "p95 <= 40 ms", "vector": "p95 <= 20 ms", "hybrid": "p95 <= 80 ms"}


def main() -> None:
    """Print every row."""
    print(f"\nsearch, {date.today()}, {os.cpu_count()} cores")
    data = Path(sys.argv[1]) if len(sys.argv) > 1 else None
    with _knowledge_base() as folder:
        (folder / "corpus").symlink_to(ROOT / "corpus")
        _run("build", "corpus", folder=folder)
        print("demo corpus")
        print(_run("eval", "search", "corpus/questions.jsonl", "--by-lang", folder=folder))
        _cold(folder)
    for name, target in SETS.items():
        if data is None or not (data / name / "docs.jsonl").exists():
            print(f"{name}: no data given ({target})")
            continue
        with _knowledge_base() as folder:
            _write_set(data / name, folder)
            _run("build", "corpus", folder=folder)
            print(f"{name}, target {target}")
            print(_run("eval", "search", "questions.jsonl", folder=folder))
            if name.startswith("xquad"):
                _graph_cost(folder)
            if name == "musique-train-100":
                _upkeep(folder)
    for size in SIZES:
        with _knowledge_base() as folder:
            _speed(folder, size, data)


def _cold(folder: Path) -> None:
    for mode in ("hybrid", "text"):
        question = "what does Titans use to train its memory in parallel"
        args = ("query", question, "--mode", mode, "--hits-only")
        seconds = statistics.median(_timed(*args, folder=folder) for _ in range(5))
        target = "< 1.5 s" if mode == "hybrid" else "< 0.6 s"
        _row(f"kbwiki query --mode {mode} from a cold shell", f"{seconds:.2f} s", target)


def _timed(*args: str, folder: Path) -> float:
    began = time.perf_counter()
    _run(*args, folder=folder)
    return time.perf_counter() - began


def _write_set(data: Path, folder: Path) -> None:
    corpus = folder / "corpus"
    corpus.mkdir()
    for doc in _lines(data / "docs.jsonl"):
        heading = f"# {doc['title']}\n\n" if doc["title"] else ""
        (corpus / _file_name(doc["id"])).write_text(f"{heading}{doc['text']}\n", "utf-8")
    with (folder / "questions.jsonl").open("w", encoding="utf-8") as out:
        for query in _lines(data / "queries.jsonl"):
            expect = [_file_name(gold) for gold in query["gold"]]
            row = {"id": query["id"], "question": query["text"], "expect": expect}
            out.write(json.dumps(row, ensure_ascii=False) + "\n")


def _file_name(name: object) -> str:
    return re.sub(r"[^\w.\-]", "_", str(name)) + ".md"


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    return map(json.loads, path.read_text("utf-8").splitlines())


def _graph_cost(folder: Path) -> None:
    """Compare hybrid with its words and vectors alone, on questions that need no hop."""
    database = db.connect(_run("db", "url", folder=folder).strip())
    embedder = make_embedder("e5-small", load_settings(folder / ".env").cache_dir)
    questions = read_questions(folder / "questions.jsonl", database)
    modes: tuple[Mode, Mode] = (cast(Mode, "no walk"), "hybrid")
    ranked = list(run_questions(database, questions, embedder, modes))
    for k in (1, 5):
        gains = [b.recall(k) - a.recall(k) for a, b in zip(ranked[::2], ranked[1::2], strict=True)]
        mean, low, high = (100 * x for x in interval(gains))
        value = f"{mean:+.1f} ({low:+.1f} to {high:+.1f})"
        _row(f"what the graph adds to R@{k}, one-hop questions", value, ">= -0.5")
    database.close()


def _speed(folder: Path, size: int, data: Path | None) -> None:
    """Fill a store with real sentences in new orders; time search in this process."""
    _run("init", folder=folder)
    _run("db", "migrate", folder=folder)
    url = _run("db", "url", folder=folder).strip()
    questions, seconds = fill(url, size, data)
    print(f"{size:,} chunks, {size // 5:,} concepts")
    for step, took in seconds.items():
        _row(f"  {step}", f"{took:.0f} s")
    time_modes(url, questions)


def time_modes(url: str, questions: list[str]) -> None:
    """Print the median and the 95th percentile of each mode, after ten questions to warm up."""
    database = db.connect(url)
    embedder = RandomVectors()
    for mode in MODES:
        times = []
        for question in questions:
            query = Query(clean_question(question), mode=mode)
            embedder.embed([query.question], "query")
            began = time.perf_counter()
            search(database, query, embedder)
            times.append(1000 * (time.perf_counter() - began))
        times = sorted(times[10:])
        p95 = times[int(0.95 * len(times))]
        value = f"{statistics.median(times):.0f} / {p95:.0f} ms"
        _row(f"  {mode}: median / p95, warm", value, SPEED.get(mode, ""))
    database.close()


def _upkeep(folder: Path) -> None:
    """Time ingest, and of it what keeps the index; the least of three, for others work here too."""
    _run("init", folder=folder)
    url = _run("db", "url", folder=folder).strip()
    whole, index = [], []
    for _ in range(3):
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("delete from kb.source")
            connection.execute("select kb.fold_tally()")
        began = time.perf_counter()
        _run("ingest", "corpus", folder=folder)
        whole.append(time.perf_counter() - began)
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("truncate kb.entry, kb.posting, kb.tally")
            began = time.perf_counter()
            connection.execute("select kb.index_chunks(null), kb.fold_tally()")
            index.append(time.perf_counter() - began)
    added = min(index) / (min(whole) - min(index))
    _row("ingest", f"{min(whole):.1f} s")
    _row("ingest: what the index of words adds", f"{100 * added:.0f} %", "< 15 %")


def _row(name: str, value: str, target: str = "") -> None:
    print(f"{name:58} {value:>16}   {target}", flush=True)


@contextmanager
def _knowledge_base() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        try:
            yield folder
        finally:
            _run("db", "stop", folder=folder)


def _run(*args: str, folder: Path) -> str:
    environment = {k: v for k, v in os.environ.items() if not k.startswith("KBWIKI_")}
    done = subprocess.run(
        [sys.executable, "-m", "kbwiki", *args],
        cwd=folder, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode not in {0, 1}:
        raise SystemExit(f"kbwiki {' '.join(args)}: {done.stderr}")
    return done.stdout


if __name__ == "__main__":
    main()
