"""Measure search: on the data sets of a folder and the demo questions, and its speed on a large store.

Usage: bench_search.py [DIR], where DIR holds data sets: folders with ``docs.jsonl`` of {id, title, text} and
``queries.jsonl`` of {id, text, gold}. Prints rows, asserts nothing. What a set's questions expect is never read
before they are answered by the pipeline as it ships.
"""

import json
import os
import random
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

import psycopg

ROOT = Path(__file__).parent.parent.parent
SETS = {
    "musique-train-100": "R@5 >= 75",
    "hotpot-train-100": "R@5 >= 95",
    "xquad-ru-en": "R@1 >= 80",
    "xquad-ru-mixed": "R@10 >= 97",
    "lihua": "R@10 >= 91",
}
SIZES = (10_000, 100_000)
CONCEPTS = 20_000
N_QUERIES = 100
DIM = 384


def main() -> None:
    """Print every row."""
    print(f"\nsearch, {date.today()}, {os.cpu_count()} cores")  # noqa: DTZ011 - the reader's own day
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
    for size in SIZES:
        with _knowledge_base() as folder:
            _speed(folder, size, data)


def _cold(folder: Path) -> None:
    for mode in ("hybrid", "text"):
        question = "what does Titans use to train its memory in parallel"
        args = ("query", question, "--mode", mode, "--hits-only")
        seconds = statistics.median(_timed(*args, folder=folder) for _ in range(5))
        print(f"{f'kbwiki query --mode {mode} from a cold shell':58} {seconds:14.2f} s")


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


def _lines(path: Path) -> Iterator[dict[str, object]]:
    return map(json.loads, path.read_text("utf-8").splitlines())


def _speed(folder: Path, size: int, data: Path | None) -> None:
    """Fill a store of its own with real sentences in new orders; time the functions of search."""
    from kbwiki import db
    from kbwiki.question import clean_question
    from kbwiki.search import Query, search

    _run("init", folder=folder)
    _run("db", "migrate", folder=folder)
    url = _run("db", "url", folder=folder).strip()
    began = time.perf_counter()
    with psycopg.connect(url, autocommit=True) as connection:
        questions = _fill(connection, size, data)
    print(
        f"{f'a store of {size:,} chunks, {size // 5:,} concepts: made in':58} {time.perf_counter() - began:14.0f} s"
    )
    database = db.connect(url)
    embedder = _Random()
    for mode in ("text", "vector", "graph", "hybrid"):
        times = []
        for question in questions:
            query = Query(clean_question(question), mode=mode)  # type: ignore[arg-type]
            embedder.embed([query.question], "query")
            began = time.perf_counter()
            search(database, query, embedder)
            times.append(1000 * (time.perf_counter() - began))
        times = sorted(times[10:])
        p95 = times[int(0.95 * len(times))]
        target = {"text": "p95 <= 40", "vector": "p95 <= 20", "hybrid": "p95 <= 80"}.get(mode, "")
        said = f"{statistics.median(times):.0f} / {p95:.0f} ms"
        print(f"{f'  {mode}, median / p95, warm in process':58} {said:>16}   {target}", flush=True)
    database.close()


class _Random:
    """Vectors of no meaning, one a text; what a real one costs is measured by bench_embed.py."""

    name = "random"
    dim = DIM

    def __init__(self) -> None:
        import numpy as np

        self._made: dict[str, object] = {}
        self._draw = np.random.default_rng(0)

    def embed(self, texts, kind):  # type: ignore[no-untyped-def] # noqa: ANN001, ANN201
        """Return a vector for each text, the same at each call."""
        import numpy as np

        for text in texts:
            if text not in self._made:
                vector = self._draw.standard_normal(DIM).astype(np.float32)
                self._made[text] = vector / np.linalg.norm(vector)
        return np.array([self._made[text] for text in texts])


def _sentences(data: Path | None) -> list[str]:
    texts = [path.read_text("utf-8") for path in sorted((ROOT / "corpus").rglob("*.md"))]
    for name in ("musique-train-100", "hotpot-train-100"):
        if data is not None and (data / name / "docs.jsonl").exists():
            texts += [str(doc["text"]) for doc in _lines(data / name / "docs.jsonl")]
    found = [s.strip() for text in texts for s in re.split(r"(?<=[.!?])\s+", text)]
    return [s for s in found if 40 < len(s) < 400]


def _fill(
    connection: "psycopg.Connection[tuple[object, ...]]", size: int, data: Path | None
) -> list[str]:
    """Insert sources of five chunks, concepts, mentions, edges and vectors; return questions."""
    draw = random.Random(0)
    sentences = _sentences(data)
    words = sorted({w for s in sentences for w in re.findall(r"[A-Za-z]{5,}", s)})
    titles = [f"{draw.choice(words)} {draw.choice(words)} {n}" for n in range(size // 5)]
    copy = connection.cursor().copy
    connection.execute("set session_replication_role = replica")  # the index is made at the end
    with copy("copy kb.source (sha256, title, lang, text, structure, reader) from stdin") as rows:
        for n in range(size // 5):
            rows.write_row((f"{n:064}", f"Source {n}", "en", "", '{"pages": []}', "bench"))
    ids = [r[0] for r in connection.execute("select id from kb.source order by id")]
    with copy(
        "copy kb.source_page (source_id, key, title, slug, mentions_sha, input_sha) from stdin"
    ) as rows:
        for n, i in enumerate(ids):
            rows.write_row((i, f"source {n}", f"Source {n}", f"source-{n}", "", ""))
    with copy(
        "copy kb.chunk (source_id, ordinal, start_at, end_at, headings, lang, text, text_sha) from stdin"
    ) as rows:
        for n in range(size):
            text = " ".join([*draw.sample(sentences, 4), titles[draw.randrange(len(titles))]])
            lang = "ru" if sum("а" <= c <= "я" for c in text.lower()) > len(text) / 3 else "en"
            place = (
                ids[n // 5],
                n % 5,
                0,
                len(text),
                [],
                lang,
                text,
                f"{draw.getrandbits(256):064x}",
            )
            rows.write_row(place)
    with copy(
        "copy kb.concept (key, title, slug, kind, lang, definition, main_source_id, n_sources, n_mentions, "
        "input_sha, search_text, text_sha) from stdin"
    ) as rows:
        for n, title in enumerate(titles):
            text = f"{title}. {draw.choice(sentences)}"
            rows.write_row(
                (f"{title.lower()}", title, f"c-{n}", "concept", "en", text, ids[n], 5, 10, "", text,
                 f"{draw.getrandbits(256):064x}")
            )  # fmt: skip
    connection.execute(
        "insert into kb.alias (concept_id, key, name, lang, kind, lemmas) "
        "select id, key, title, 'en', 'form', lower(title) from kb.concept"
    )
    connection.execute(
        "insert into kb.mention (concept_id, source_id, chunk_id, start_at, end_at, linked, defines) "
        "select c.id, k.source_id, k.id, k.ordinal * 100 + x, k.ordinal * 100 + x + 5, false, false "
        "from kb.chunk k cross join generate_series(1, 8) x "
        "join kb.concept c on c.id = 1 + (power(abs(hashint8(k.id * 31 + x)) / 2147483648.0, 3) * %s)::bigint",
        (len(titles) - 2,),
    )
    connection.execute(
        "insert into kb.edge (head_id, tail_id, evidence_sha, n_sources, n_evidence, type, status, confidence, method) "
        "select distinct on (least(a.id, b.id), greatest(a.id, b.id)) a.id, b.id, '', 1, 1, 'uses', 'typed', 0.7, 'rule' "
        "from kb.concept a cross join generate_series(1, 10) x "
        "join kb.concept b on b.id = 1 + (power(abs(hashint8(a.id * 17 + x)) / 2147483648.0, 2) * %s)::bigint "
        "where a.id <> b.id",
        (len(titles) - 2,),
    )
    connection.execute("set session_replication_role = origin")
    began = time.perf_counter()
    for kind, concept, source, body in (
        ("chunk", "null::bigint", "source_id", "text"),
        ("concept", "id", "null::bigint", "search_text"),
    ):
        connection.execute(
            f"select kb.index_texts('{kind}', array_agg(id), array_agg(lang), array_agg({source}), "
            f"array_agg({concept}), array_agg({body}), array_agg(text_sha)) from kb.{kind}"
        )
    connection.execute("select kb.fold_tally()")
    print(
        f"{f'  {size:,} chunks indexed for words in':58} {time.perf_counter() - began:14.0f} s",
        flush=True,
    )
    began = time.perf_counter()
    import numpy as np

    vectors = np.random.default_rng(1).standard_normal((size + len(titles), DIM)).astype(np.float32)
    rows_of = connection.execute("select text_sha, pool from kb.entry").fetchall()
    with copy("copy kb.vector (model, text_sha, pool, v) from stdin") as rows:
        for (sha, pool), vector in zip(rows_of, vectors, strict=True):
            rows.write_row(("random", sha, pool, "[" + ",".join(f"{x:.4f}" for x in vector) + "]"))
    connection.execute("insert into kb.setting values ('embedder', 'random')")
    connection.execute("set maintenance_work_mem = '512MB'")
    connection.execute("vacuum analyze")
    made = connection.execute("select kb.index_vectors('random', 50000)").fetchone()
    seconds = time.perf_counter() - began
    print(f"{f'  vectors stored, {made} HNSW indexes made, in':58} {seconds:14.0f} s", flush=True)
    picked = draw.sample(titles, N_QUERIES)
    return [
        " ".join(draw.sample(draw.choice(sentences).split(), 6))
        + (f" {picked[n]}" if n % 2 else "")
        for n in range(N_QUERIES)
    ]


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
