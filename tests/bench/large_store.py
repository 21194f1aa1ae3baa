"""Fill a store with many chunks and concepts made of real sentences, and vectors of no meaning."""

import json
import random
import re
import time
from pathlib import Path
from typing import Any

import numpy as np
import psycopg

ROOT = Path(__file__).parent.parent.parent
DIM = 384
MODEL = "random"
N_QUERIES = 110
_PER_SOURCE = 5
_SQL = Path(__file__).with_suffix(".sql")
_SOURCE = "sha256, title, lang, text, structure, reader"
_CHUNK = "source_id, ordinal, start_at, end_at, headings, lang, text, text_sha"
_CONCEPT = (
    "key, title, slug, kind, lang, definition, main_source_id, n_sources, n_mentions, input_sha, "
    "search_text, text_sha"
)


class RandomVectors:
    """An embedder of vectors without meaning; what a real one costs bench_embed.py measures."""

    name = MODEL
    dim = DIM

    def __init__(self) -> None:
        self._made: dict[str, Any] = {}
        self._draw = np.random.default_rng(0)

    def embed(self, texts: Any, kind: str) -> Any:
        """Return a vector for each text, the same at each call."""
        for text in texts:
            if text not in self._made:
                vector = self._draw.standard_normal(DIM).astype(np.float32)
                self._made[text] = vector / np.linalg.norm(vector)
        return np.array([self._made[text] for text in texts])


def fill(url: str, size: int, data: Path | None) -> tuple[list[str], dict[str, float]]:
    """Make ``size`` chunks and a fifth as many concepts; return questions, and seconds by step."""
    draw = random.Random(0)
    sentences = _sentences(data)
    words = sorted({w for s in sentences for w in re.findall(r"[A-Za-z]{5,}", s)})
    titles = [f"{draw.choice(words)} {draw.choice(words)} {n}" for n in range(size // _PER_SOURCE)]
    seconds: dict[str, float] = {}
    with psycopg.connect(url, autocommit=True) as connection:
        began = time.perf_counter()
        connection.execute("set session_replication_role = replica")  # the index is made below
        _rows(connection, draw, sentences, titles, size)
        connection.execute(_SQL.read_bytes())
        connection.execute("set session_replication_role = origin")
        seconds["rows written"] = time.perf_counter() - began
        began = time.perf_counter()
        connection.execute("select kb.index_chunks(null)")
        connection.execute(
            "select kb.index_texts('concept', array_agg(id), array_agg(lang), "
            "array_agg(null::bigint), array_agg(id), array_agg(search_text), array_agg(text_sha)) "
            "from kb.concept"
        )
        connection.execute("select kb.fold_tally()")
        seconds["indexed for words"] = time.perf_counter() - began
        began = time.perf_counter()
        _vectors(connection)
        connection.execute("vacuum analyze")
        connection.execute("set maintenance_work_mem = '1GB'")
        connection.execute("select kb.index_vectors(%s, 50000)", (MODEL,))
        seconds["vectors stored and indexed"] = time.perf_counter() - began
    picked = draw.sample(titles, N_QUERIES)
    questions = [
        " ".join(draw.sample(draw.choice(sentences).split(), 6)) + (f" {title}" if n % 2 else "")
        for n, title in enumerate(picked)
    ]
    return questions, seconds


def _sentences(data: Path | None) -> list[str]:
    texts = [path.read_text("utf-8") for path in sorted((ROOT / "corpus").rglob("*.md"))]
    for name in ("musique-train-100", "hotpot-train-100"):
        if data is not None and (data / name / "docs.jsonl").exists():
            lines = (data / name / "docs.jsonl").read_text("utf-8").splitlines()
            texts += [json.loads(line)["text"] for line in lines]
    found = [s.strip() for text in texts for s in re.split(r"(?<=[.!?])\s+", text)]
    return [s for s in found if 40 < len(s) < 400]


def _rows(
    connection: "psycopg.Connection[Any]",
    draw: random.Random,
    sentences: list[str],
    titles: list[str],
    size: int,
) -> None:
    def sha() -> str:
        return f"{draw.getrandbits(256):064x}"

    copy = connection.cursor().copy
    with copy(f"copy kb.source ({_SOURCE}) from stdin".encode()) as rows:
        for n in range(len(titles)):
            rows.write_row((f"{n:064}", f"Source {n}", "en", "", '{"pages": []}', "bench"))
    ids = [row[0] for row in connection.execute("select id from kb.source order by id")]
    pages = b"copy kb.source_page (source_id, key, title, slug, mentions_sha, input_sha) from stdin"
    with copy(pages) as rows:
        for n, source_id in enumerate(ids):
            rows.write_row((source_id, f"source {n}", f"Source {n}", f"source-{n}", "", ""))
    with copy(f"copy kb.chunk ({_CHUNK}) from stdin".encode()) as rows:
        for n in range(size):
            text = " ".join([*draw.sample(sentences, 4), draw.choice(titles)])
            n_cyrillic = sum("а" <= c <= "я" for c in text.lower())
            lang = "ru" if n_cyrillic > len(text) / 3 else "en"
            place = (ids[n // _PER_SOURCE], n % _PER_SOURCE, 0, len(text), [], lang)
            rows.write_row((*place, text, sha()))
    with copy(f"copy kb.concept ({_CONCEPT}) from stdin".encode()) as rows:
        for n, title in enumerate(titles):
            text = f"{title}. {draw.choice(sentences)}"
            head = (title.lower(), title, f"c-{n}", "concept", "en", text, ids[n])
            rows.write_row((*head, 5, 10, "", text, sha()))


def _vectors(connection: "psycopg.Connection[Any]") -> None:
    texts = connection.execute("select text_sha, pool from kb.entry").fetchall()
    draw = np.random.default_rng(1)
    copy = connection.cursor().copy
    with copy(b"copy kb.vector (model, text_sha, pool, v) from stdin") as rows:
        for sha, pool in texts:
            numbers = ",".join(f"{x:.4f}" for x in draw.standard_normal(DIM))
            rows.write_row((MODEL, sha, pool, f"[{numbers}]"))
    connection.execute("insert into kb.setting values ('embedder', %s)", (MODEL,))
