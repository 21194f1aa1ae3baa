"""Measure agent memory: recall over many memories, and how much it finds on a set of chats.

Usage: bench_memory.py [DIR], where DIR may hold ``lihua`` (docs.jsonl, queries.jsonl). Prints rows,
asserts nothing.
"""

import json
import random
import re
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent.parent))

from bench import ROOT, row

from kbwiki import db, embedded
from kbwiki.config import load_settings
from kbwiki.embedders import Embedder, make_embedder
from kbwiki.evaluate.memory import read_questions, run_questions
from kbwiki.memory.keeper import Keeper, index_many, words_of
from kbwiki.memory.recall import recall
from kbwiki.memory.remember import Note, remember
from kbwiki.memory.transfer import Row, import_memories

MANY = 20_000
BATCH = 500


def main() -> None:
    """Print every row."""
    data = Path(sys.argv[1]) if len(sys.argv) > 1 else None
    with tempfile.TemporaryDirectory() as name:
        cluster = embedded.locate(Path(name))
        embedded.ensure(cluster, 30)
        database = db.connect(cluster.url())
        try:
            db.migrate(database)
            embedder = make_embedder("e5-small", load_settings(Path(name) / ".env").cache_dir)
            keeper = Keeper(database, embedder, "bench", is_admin=True)
            _many(keeper, embedder)
            database.connection.execute(
                "truncate kb.memory, kb.entry, kb.posting, kb.tally cascade"
            )
            _chats(keeper, data)
        finally:
            database.close()
            embedded.stop(cluster)


def _sentences() -> list[str]:
    texts = [path.read_text("utf-8") for path in sorted((ROOT / "corpus").rglob("*.md"))]
    found = re.split(r"(?<=[.!?])\s+|\n\n", "\n\n".join(texts))
    return [" ".join(s.split()) for s in found if len(s) > 40]


def _many(keeper: Keeper, embedder: Embedder) -> None:
    """Memories of two sentences each, in sessions of ten; their vectors are random."""
    draw = random.Random(1)
    sentences = _sentences()
    texts = [f"{' '.join(draw.sample(sentences, 2))} Case {n}." for n in range(MANY)]
    remember(keeper, Note("The first memory makes the background."))
    connection = keeper.database.connection
    began = time.perf_counter()
    for at in range(0, MANY, BATCH):
        _insert(keeper, embedder, texts[at : at + BATCH], at, draw)
    keeper.database.run("fold_tally")
    index_many(keeper)
    connection.execute("vacuum (analyze)")  # the server does it of itself within a minute or two
    row(f"{MANY:,} memories indexed", f"{time.perf_counter() - began:.0f} s")
    questions = [" ".join(draw.choice(sentences).split()[:10]) for _ in range(210)]
    questions = [q for q in questions if any(c.isalpha() for c in q)]
    spent: list[float] = []
    for question in questions:
        began = time.perf_counter()
        recall(keeper, question)
        spent.append(1000 * (time.perf_counter() - began))
    spent = sorted(spent[10:])
    row(f"recall over {MANY:,} memories, median", f"{spent[len(spent) // 2]:.0f} ms")
    row("  p95", f"{spent[int(len(spent) * 0.95)]:.0f} ms", "< 60 ms")


def _insert(
    keeper: Keeper, embedder: Embedder, texts: list[str], at: int, draw: random.Random
) -> None:
    database = keeper.database
    words = [words_of(text) for text in texts]
    ids: list[int] = []
    with database.transaction():
        for n, (text, word) in enumerate(zip(texts, words, strict=True), at):
            params = Row(text=text, session=f"s{n // 10}").model_dump(
                exclude={"edges", "edge_types"}
            )
            params |= {name: getattr(word, name) for name in word.__slots__}
            params |= {"agent": "bench"}
            ids.append(database.dicts("import_memory", params)[0]["id"])
        vectors = [
            json.dumps([round(draw.gauss(0, 1), 3) for _ in range(embedder.dim)]) for _ in texts
        ]
        shas, pools = [w.text_sha for w in words], [f"memory/{w.lang}" for w in words]
        model = {"model": embedder.name, "shas": shas, "pools": pools, "vectors": vectors}
        database.run("save_vectors", model)
        database.run("index_memories", {"ids": ids})


def _chats(keeper: Keeper, data: Path | None) -> None:
    if data is None or not (data / "lihua" / "docs.jsonl").exists():
        row("LiHua: recall@10", "no data given", ">= 91")
        return
    docs = _lines(data / "lihua" / "docs.jsonl")
    rows = [
        Row(
            key=d["id"],
            text=d["text"],
            session=d["id"],
            at=f"{d['id'][:4]}-{d['id'][4:6]}-{d['id'][6:8]}",
        )
        for d in docs
    ]
    began = time.perf_counter()
    import_memories(keeper, rows, allow_secrets=True)
    row(f"LiHua: {len(rows)} chats taken in", f"{time.perf_counter() - began:.0f} s")
    with tempfile.TemporaryDirectory() as name:
        file = Path(name) / "questions.jsonl"
        asked = [
            json.dumps({"id": q["id"], "question": q["text"], "expect": q["gold"]})
            for q in _lines(data / "lihua" / "queries.jsonl")
        ]
        file.write_text("\n".join(asked), "utf-8")
        questions = read_questions(file)
    ranked = list(run_questions(keeper, questions, 10, lambda: None))
    for k, target in ((1, ""), (5, ""), (10, ">= 91")):
        share = sum(r.recall(k) for r in ranked) / len(ranked)
        row(f"LiHua: recall@{k} of {len(ranked)} questions", f"{100 * share:.1f}", target)


def _lines(path: Path) -> list[dict[str, str]]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


if __name__ == "__main__":
    main()
