"""``kbwiki eval search`` and ``memory``: what is found, on questions of one's own."""

import json
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from kbwiki.cli.ask import embedder_for
from kbwiki.cli.console import out, print_json, print_table, progress
from kbwiki.cli.store import find_place, open_database
from kbwiki.errors import InputError
from kbwiki.evaluate.search import (
    DEPTH,
    Question,
    Ranked,
    compare,
    interval,
    measure,
    read_questions,
    run_questions,
)
from kbwiki.search import MODES, Mode

Results = dict[Mode, list[Ranked]]


def measure_search(
    file: Path,
    modes: Sequence[str],
    k: str,
    by_lang: bool,
    out_file: Path | None,
    db: str | None,
    as_json: bool,
) -> None:
    """Print a table of all questions and one for each kind and, if asked, each language."""
    ks = _ranks(k)
    wanted = [m for m in MODES if m in modes]
    place = find_place(db)
    with ExitStack() as stack:
        database = stack.enter_context(open_database(place))
        questions = read_questions(file, database)
        embedder = embedder_for(place, database, "hybrid")
        step = stack.enter_context(progress("questions", len(questions)))
        results: Results = {}
        for one in run_questions(database, questions, embedder, wanted, max(DEPTH, *ks), step):
            results.setdefault(one.mode, []).append(one)
    if not results:
        raise InputError(
            f"{file}: nothing was measured, for vectors need their model.", "See above."
        )
    if out_file:
        _save(out_file, results)
    groups = {"all": questions}
    for kind in sorted({q.kind for q in questions if q.kind}):
        groups[kind] = [q for q in questions if q.kind == kind]
    if by_lang:
        for lang in sorted({q.lang for q in questions}):
            groups[f"in {lang}"] = [q for q in questions if q.lang == lang]
    for name, group in groups.items():
        _print_group(name, group, results, ks, as_json)


def measure_memory(file: Path, k: str, db: str | None, as_json: bool) -> None:
    """Print how much of what questions expect is recalled; no use is counted."""
    from kbwiki.cli.memory import open_keeper
    from kbwiki.evaluate import memory

    ks = _ranks(k)
    questions = memory.read_questions(file)
    with open_keeper(db, None, create=False) as keeper, progress("questions", len(questions)) as on:
        ranked = list(memory.run_questions(keeper, questions, max(DEPTH, *ks), on))
    _print_group("memory", questions, {"hybrid": ranked}, ks, as_json)


def _ranks(k: str) -> list[int]:
    try:
        ks = sorted({int(part) for part in k.split(",")})
    except ValueError:
        ks = []
    if not ks or ks[0] < 1 or ks[-1] > 100:
        raise InputError(f"--k {k}: it is no list of ranks from 1 to 100.", "Such as 1,2,5,10.")
    return ks


def _print_group(
    name: str, group: Sequence[Question], results: Results, ks: Sequence[int], as_json: bool
) -> None:
    ids = {q.id for q in group}
    chosen = {mode: [r for r in ranked if r.question.id in ids] for mode, ranked in results.items()}
    tables = {mode: measure(ranked, ks) for mode, ranked in chosen.items()}
    at = min(ks, key=lambda k: abs(k - 5))
    gains = {
        mode: compare(chosen["hybrid"], ranked, lambda r: r.recall(at))
        for mode, ranked in chosen.items()
        if "hybrid" in chosen and mode != "hybrid"
    }
    around = {mode: interval([r.recall(at) for r in ranked]) for mode, ranked in chosen.items()}
    if as_json:
        for mode, table in tables.items():
            line: dict[str, object] = {"questions": name, "n": len(group), "mode": mode, **table}
            line[f"recall@{at} interval"] = around[mode][1:]
            if mode in gains:
                line[f"hybrid gains at {at}"] = gains[mode]
            print_json(line)
        return
    rows: list[list[object]] = []
    for mode, table in tables.items():
        shares = [f"{100 * v:.1f}" for key, v in table.items() if key != "ms"]
        low, high = (f"{100 * v:.1f}" for v in around[mode][1:])
        gain = ""
        if mode in gains:
            gain = "{:+.1f} ({:+.1f} to {:+.1f})".format(*(100 * v for v in gains[mode]))
        rows.append([mode, *shares, f"{table['ms']:.0f}", f"{low} to {high}", gain])
    columns = [*(c for c in next(iter(tables.values()))), f"R@{at} 95 %", f"hybrid gains at {at}"]
    short = [c.replace("recall@", "R@") for c in columns]
    print_table(["mode", *short], rows, f"{name}: {len(group)} questions")
    out.print("")


def _save(file: Path, results: Results) -> None:
    lines = [
        json.dumps(
            {"id": r.question.id, "mode": r.mode, "pages": r.slugs, "ms": round(r.ms, 1)},
            ensure_ascii=False,
        )
        for ranked in results.values()
        for r in ranked
    ]
    try:
        file.write_text("\n".join(lines) + "\n", "utf-8")
    except OSError as error:
        raise InputError(f"{file}: {(error.strerror or str(error)).lower()}.") from error
