"""Measure speed and memory: prints a table, asserts nothing.

Usage: bench.py [DIR], where DIR holds data sets: folders with a ``docs.jsonl`` of {id, title,
text}. Rows whose data are not given say so. Times are medians; compare within one run.
"""

import json
import os
import re
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
PASSAGES = "musique-train-100"
LARGE = 10_000


def row(name: str, value: str, target: str = "") -> None:
    """Print one line of the table."""
    print(f"{name:58} {value:>16}   {target}", flush=True)


def kbwiki(*args: str, folder: Path) -> tuple[float, list[dict[str, object]]]:
    """Run a command in a folder; return its seconds and its JSON lines."""
    began = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-m", "kbwiki", *args],
        cwd=folder, capture_output=True, text=True, check=False, env=_environment(),
    )  # fmt: skip
    seconds = time.perf_counter() - began
    if done.returncode not in {0, 1}:
        raise SystemExit(f"kbwiki {' '.join(args)}: {done.stderr}")
    lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    return seconds, lines


def _environment() -> dict[str, str]:
    return {k: v for k, v in os.environ.items() if not k.startswith("KBWIKI_")}


def median(times: int, call: Callable[[], float]) -> float:
    """Return the median of several calls."""
    return statistics.median(call() for _ in range(times))


@contextmanager
def knowledge_base() -> Iterator[Path]:
    """Yield an empty folder; its server is stopped in the end."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        try:
            yield folder
        finally:
            kbwiki("db", "stop", folder=folder)


def main() -> None:
    """Print every row."""
    data = Path(sys.argv[1]) if len(sys.argv) > 1 else None
    print(f"{os.cpu_count()} cores, Python {sys.version.split()[0]}")
    row("kbwiki --help", f"{median(7, lambda: kbwiki('--help', folder=ROOT)[0]):.2f} s", "< 0.3 s")
    _demo()
    _edges("edges.tsv")
    _edges("edges_fresh.tsv")
    _edges("edges_untouched.tsv", "all")
    _same()
    _passages(data)
    subprocess.run(
        [sys.executable, str(Path(__file__).parent / "bench_embed.py"),
         *([str(data / PASSAGES)] if data else [])],
        check=False, env=_environment(),
    )  # fmt: skip
    for name in ("bench_llm.py", "bench_ingest.py", "bench_serve.py"):
        subprocess.run(
            [sys.executable, str(Path(__file__).parent / name)], check=False, env=_environment()
        )
    subprocess.run(
        [sys.executable, str(Path(__file__).parent / "bench_memory.py"),
         *([str(data)] if data else [])],
        check=False, env=_environment(),
    )  # fmt: skip
    subprocess.run(
        [sys.executable, str(Path(__file__).parent / "bench_search.py"),
         *([str(data)] if data else [])],
        check=False, env=_environment(),
    )  # fmt: skip


def _demo() -> None:
    with knowledge_base() as folder:
        (folder / "corpus").symlink_to(ROOT / "corpus")
        first, stages = kbwiki("build", "corpus", "--json", folder=folder)
        row("make demo: the build of corpus/", f"{first:.1f} s", "< 90 s")
        for stage in stages:
            row(f"  {stage['stage']}", f"{stage['seconds']:.2f} s")
        again = median(3, lambda: kbwiki("build", "corpus", "--json", folder=folder)[0])
        row("a second build with nothing changed", f"{again:.2f} s", "< 2 s")
        question = "what does Titans use to train its memory in parallel"
        row(
            "kbwiki query from a cold shell",
            f"{median(5, lambda: kbwiki('query', question, folder=folder)[0]):.2f} s",
        )
        peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
        row("peak memory of the demo's build", f"{peak:.0f} MB", "< 900 MB")


def _edges(name: str, split: str = "unseen") -> None:
    """Rules alone on those of the labelled sentences that nobody looked at to write them."""
    with knowledge_base() as folder:
        kbwiki("init", folder=folder)
        file = str(ROOT / "tests" / "data" / name)
        _, lines = kbwiki("eval", "edges", file, "--json", folder=folder)
    [unseen] = [line for line in lines if line["split"] == split]
    row(f"{name} by rules alone, {split} ({unseen['n']} sentences)", "")
    targets = {"type": "", "direction": ">= 92 %", "both": ">= 80 %", "mirror": "", "coverage": ""}
    for share, target in targets.items():
        label = "type + direction" if share == "both" else share
        row(f"  {label}", f"{float(str(unseen[share])):.1%}", target)
    held = f"{unseen['n_denied_held']} of {unseen['n_denied']}"
    row("  denied edges typed as if they held", held, "none")


def _same() -> None:
    """Print how well names are told apart, and how long it takes."""
    for file in ("same.tsv", "same_new.tsv", "same_blind.tsv", "same_fresh.tsv"):
        path = ROOT / "tests" / "data" / file
        seconds, lines = kbwiki("eval", "same", str(path), "--json", folder=ROOT)
        _same_rows(file, lines)
    row("kbwiki eval same from a cold shell", f"{seconds:.1f} s")


def _same_rows(file: str, lines: list[dict[str, object]]) -> None:
    for table in lines:
        if "bands" not in table:
            continue
        name = f"{file}, {table['split']} ({table['pairs']} pairs)"
        bands = table["bands"]
        assert isinstance(bands, dict)
        for band, found in bands.items():
            row(f"{name}: {band}", f"{_percent(found['precision'])} precise")
            row("  recall so far", _percent(found["recall"]))
        row("  duplicates that nobody is asked about", _percent(table["duplicates"]), "< 2 %")
        row("  duplicates that wait for a person", _percent(table["queued"]))
        row("  false merges", _percent(table["false_merges"]), "< 1 %")


def _percent(share: object) -> str:
    return f"{share:.1%}" if isinstance(share, float) else "-"


def _passages(data: Path | None) -> None:
    name = "all stages but embed"
    if data is None or not (data / PASSAGES / "docs.jsonl").exists():
        row(f"{name}, 1,890 short passages", "no data given", "< 60 s")
        row(f"{name}, {LARGE:,} short passages", "no data given", "linear")
        return
    docs = [
        json.loads(line)
        for line in (data / PASSAGES / "docs.jsonl").read_text("utf-8").splitlines()
    ]
    small = _stages(docs)
    row(f"{name}, {len(docs):,} short passages", f"{sum(small.values()):.1f} s", "< 60 s")
    for stage, seconds in small.items():
        row(f"  {stage}", f"{seconds:.1f} s")
    large = _stages(_many(docs, LARGE))
    ratio = sum(large.values()) / sum(small.values()) / (LARGE / len(docs))
    row(f"{name}, {LARGE:,} short passages", f"{sum(large.values()):.1f} s", "linear")
    row("  against linear growth", f"{ratio:.2f} x", "about 1")
    for stage, seconds in large.items():
        row(f"  {stage}", f"{seconds:.1f} s")


def _many(docs: list[dict[str, str]], n: int) -> list[dict[str, str]]:
    """Return n documents: the given ones, then with their sentences turned and titles numbered."""
    out = list(docs)
    for at in range(len(docs), n):
        doc, turn = docs[at % len(docs)], at // len(docs)
        parts = re.split(r"(?<=[.!?])\s+", doc["text"])
        cut = turn % max(1, len(parts))
        text = " ".join(parts[cut:] + parts[:cut])
        out.append({"id": f"{doc['id']}-{turn}", "title": f"{doc['title']} {turn}", "text": text})
    return out


def _stages(docs: list[dict[str, str]]) -> dict[str, float]:
    with knowledge_base() as folder:
        notes = folder / "notes"
        notes.mkdir()
        for doc in docs:
            name = re.sub(r"[^\w.-]", "_", str(doc["id"]))
            (notes / f"{name}.md").write_text(f"# {doc['title']}\n\n{doc['text']}\n", "utf-8")
        out: dict[str, float] = {}
        for stage in ("ingest", "extract", "resolve", "write", "link", "classify-edges", "export"):
            args = [stage, "notes"] if stage == "ingest" else [stage]
            _, lines = kbwiki(*args, "--json", folder=folder)
            out[stage] = sum(float(str(line["seconds"])) for line in lines if "seconds" in line)
        return out


if __name__ == "__main__":
    main()
