"""Measure the default embedder; print a table, assert nothing.

usage: python tests/bench/bench_embed.py [FOLDER]

FOLDER holds docs.jsonl, one {"title", "text"} a line, whose passages are cut to 80 words; without
it the notes in corpus/ are taken. Every figure comes from a process of its own, so that neither
time nor memory of one is charged to another. Run it on a quiet machine.
"""

import importlib.util
import json
import platform
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median

REPO = Path(__file__).parents[2]
N_WORDS, N_PASSAGES, N_QUERIES, N_STARTS, N_COMPARED = 80, 300, 100, 5, 60
NOT_MEASURED = "not measured: install the st extra"


def main() -> None:
    """Print what was measured, line by line."""
    if len(sys.argv) > 1 and sys.argv[1] == "--part":
        print(json.dumps(PARTS[sys.argv[2]](Path(sys.argv[3]), Path(sys.argv[4]))))
        return
    source = Path(sys.argv[1]) if len(sys.argv) > 1 else REPO / "corpus"
    print(f"{platform.machine()}, Python {platform.python_version()}, texts of {source}\n")
    row = "{:<52} {:>12}  {}".format
    print(row("name", "value", "target"))
    with tempfile.TemporaryDirectory() as cache:
        for name, value, target in _rows(source, Path(cache)):
            print(row(name, value, target), flush=True)


def _rows(source: Path, cache: Path) -> Iterator[tuple[str, str, str]]:
    build = _part("build", source, cache)
    yield "build of the graph, s", f"{build['s']:.2f}", "a few"
    yield "build, peak RSS, MB", f"{build['rss_mb']:.0f}", "< 900, better < 500"
    starts = [_wall_s(cache, source) for _ in range(N_STARTS)]
    yield "first vector of a cold process, median s", f"{median(starts):.2f}", "< 0.8"
    query = _part("query", source, cache)
    yield "query vector, median ms", f"{query['ms']:.1f}", "< 25"
    use = _part("use", source, cache)
    yield f"passages of {N_WORDS} words a second, all cores", f"{use['rate']:.1f}", ">= 50"
    yield "the same a second of CPU time (for a busy machine)", f"{use['cpu_rate']:.1f}", ""
    yield "the same on one core", f"{_part('one_core', source, cache)['rate']:.1f}", ""
    yield "use, peak RSS, MB", f"{use['rss_mb']:.0f}", "< 900, better < 500"
    yield "512 tokens at a time, peak RSS, MB", f"{_part('long', source, cache)['rss_mb']:.0f}", ""
    mean, worst = NOT_MEASURED, NOT_MEASURED
    if importlib.util.find_spec("sentence_transformers"):
        cosine = _part("cosine", source, cache)
        mean, worst = f"{cosine['mean']:.4f}", f"{cosine['worst']:.4f}"
    yield "mean cosine to sentence-transformers", mean, ">= 0.995"
    yield "worst of them", worst, ""


def _part(name: str, source: Path, cache: Path) -> dict[str, float]:
    command = [sys.executable, __file__, "--part", name, str(source), str(cache)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    result: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return result


def _wall_s(cache: Path, source: Path) -> float:
    """Time a process from its start to its end; its only work is one vector."""
    start = time.perf_counter()
    _part("first", source, cache)
    return time.perf_counter() - start


def _build(_: Path, cache: Path) -> dict[str, float]:
    from kbwiki.e5graph import load_graph
    from kbwiki.e5weights import Weights, find_weights

    start = time.perf_counter()
    load_graph(Weights(find_weights()), cache, lambda _: None)
    return {"s": time.perf_counter() - start, "rss_mb": _peak_mb()}


def _first(_: Path, cache: Path) -> dict[str, float]:
    from kbwiki.embedders import make_embedder

    make_embedder("e5-small", cache).embed(["what is attention?"], "query")
    return {}


def _query(source: Path, cache: Path) -> dict[str, float]:
    from kbwiki.embedders import make_embedder

    embedder = make_embedder("e5-small", cache)
    queries = [" ".join(text.split()[:12]) for text in _passages(source)[:N_QUERIES]]
    embedder.embed(queries[:1], "query")
    return {
        "ms": 1000 * median(_seconds(lambda q=q: embedder.embed([q], "query")) for q in queries)
    }


def _use(source: Path, cache: Path, threads: int | None = None) -> dict[str, float]:
    from kbwiki.embedders import make_embedder

    embedder = make_embedder("e5-small", cache, threads)
    passages = _passages(source)
    embedder.embed(passages[:1], "passage")
    start_cpu = time.process_time()
    best = min(_seconds(lambda: embedder.embed(passages, "passage")) for _ in range(3))
    cpu_rate = 3 * len(passages) / (time.process_time() - start_cpu)
    return {"rate": len(passages) / best, "cpu_rate": cpu_rate, "rss_mb": _peak_mb()}


def _one_core(source: Path, cache: Path) -> dict[str, float]:
    return _use(source, cache, threads=1)


def _long(source: Path, cache: Path) -> dict[str, float]:
    from kbwiki.embedders import make_embedder

    make_embedder("e5-small", cache).embed([" ".join(_passages(source)[:60])], "passage")
    return {"rss_mb": _peak_mb()}


def _cosine(source: Path, cache: Path) -> dict[str, float]:
    sys.path.insert(0, str(REPO / "tests" / "st"))
    from e5_to_sentence_transformers import write_folder

    from kbwiki.e5weights import Weights, find_weights
    from kbwiki.embedders import make_embedder

    folder = cache / "multilingual-e5-small"
    write_folder(Weights(find_weights()), folder, {"query": "query: ", "passage": "passage: "})
    passages = _passages(source)[:N_COMPARED]
    ours = make_embedder("e5-small", cache).embed(passages, "passage")
    theirs = make_embedder(f"st:{folder}", cache).embed(passages, "passage")
    cosines = (ours * theirs).sum(axis=1)
    return {"mean": float(cosines.mean()), "worst": float(cosines.min())}


def _passages(source: Path) -> list[str]:
    if (source / "docs.jsonl").exists():
        lines = (source / "docs.jsonl").read_text().splitlines()
        texts = [f"{doc['title']}. {doc['text']}" for doc in map(json.loads, lines)]
    else:
        notes = [path.read_text() for path in sorted(source.rglob("*.md"))]
        texts = [text for note in notes for text in re.split(r"\n#+ ", note)]
    words = [text.split() for text in texts]
    passages = [" ".join(w[:N_WORDS]) for w in words if len(w) >= N_WORDS]
    step = max(1, len(passages) // N_PASSAGES)
    return passages[::step][:N_PASSAGES]


def _seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def _peak_mb() -> float:
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (1 << 20 if sys.platform == "darwin" else 1 << 10)


PARTS = {
    "build": _build,
    "first": _first,
    "query": _query,
    "use": _use,
    "one_core": _one_core,
    "long": _long,
    "cosine": _cosine,
}

if __name__ == "__main__":
    main()
