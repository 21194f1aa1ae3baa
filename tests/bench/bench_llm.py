"""Measure reading and writing through a language model: prints rows of bench.py's table.

A server on this machine speaks Gemini's wire format and answers each call after 200 ms, so that
what remains is our own work and how well calls overlap.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
sys.path.insert(0, str(ROOT / "tests"))

from fakes.fake_gemini import FakeGemini  # noqa: E402
from fakes.model import MODEL, reader  # noqa: E402

DOCUMENTS = 200
CONCURRENCY = 8
DELAY_S = 0.2
WORDS = ["linear attention", "fast weights", "associative scan", "delta rule", "state space"]
WORDS_RU = ["линейное внимание", "быстрые веса", "ассоциативное сканирование", "дельта-правило"]


def main() -> None:
    """Print every row."""
    with tempfile.TemporaryDirectory() as name, FakeGemini(reader, DELAY_S) as fake:
        folder = Path(name)
        _write_notes(folder / "notes")
        settings = {
            "GEMINI_API_KEY": "none",
            "KBWIKI_ENGINE": "gemini",
            "KBWIKI_GEMINI_BASE_URL": fake.url,
            "KBWIKI_MODEL": MODEL,
            "KBWIKI_CONCURRENCY": str(CONCURRENCY),
        }
        try:
            _run(folder, {"KBWIKI_ENGINE": "local"}, "ingest", "notes")
            for stage in ("extract", "resolve", "write"):
                before = len(fake.asked())
                wall_s, stage_s = _run(folder, settings, stage)
                calls = len(fake.asked()) - before
                if calls:
                    _print(stage, calls, wall_s, stage_s)
        finally:
            _run(folder, {}, "db", "stop")


def _write_notes(folder: Path) -> None:
    folder.mkdir()
    for at in range(DOCUMENTS):
        one, two = WORDS[at % 5], WORDS[(at + 1 + at // 5) % 5]
        text = f"{one.capitalize()} is a method that uses {two} in study {at}."
        if at % 2:
            one, two = WORDS_RU[at % 4], WORDS_RU[(at + 1 + at // 4) % 4]
            text = f"{one.capitalize()} — это метод, который использует {two} в опыте {at}."
        (folder / f"note-{at:03}.md").write_text(f"# Note {at}\n\n{text}\n", "utf-8")


def _run(folder: Path, settings: dict[str, str], *args: str) -> tuple[float, float]:
    """Run a command; return the seconds of the whole process, and of its stage if it has one."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith("KBWIKI_")}
    began = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-m", "kbwiki", *args, *(["--json"] if args[0] != "db" else [])],
        cwd=folder, env={**environment, **settings}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    wall_s = time.perf_counter() - began
    if done.returncode:
        raise SystemExit(f"kbwiki {' '.join(args)}: {done.stderr}")
    lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    return wall_s, sum(float(line.get("seconds", 0)) for line in lines)


def _print(stage: str, calls: int, wall_s: float, stage_s: float) -> None:
    ideal_s = calls * DELAY_S / CONCURRENCY
    name = f"{stage} with a model, {calls} calls of {DELAY_S:.1f} s, {CONCURRENCY} at a time"
    print(f"{name:58} {stage_s:14.2f} s", flush=True)
    print(f"{'  against calls x 0.2 s / 8':58} {stage_s / ideal_s:14.2f} x   <= 1.3 x")
    print(f"{'  start and end of the command':58} {wall_s - stage_s:14.2f} s", flush=True)


if __name__ == "__main__":
    main()
