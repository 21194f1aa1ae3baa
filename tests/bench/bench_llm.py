"""Measure reading and writing through a language model: prints rows of bench.py's table.

A server on this machine speaks Gemini's wire format and answers each call after 200 ms, so that
what remains is our own work and how well calls overlap.
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
sys.path.insert(0, str(ROOT / "tests"))

from fakes.fake_gemini import FakeGemini, Request, Step  # noqa: E402 - the path is set above
from fakes.model import MODEL, reader  # noqa: E402 - the path is set above

DOCUMENTS = 200
CONCURRENCY = 8
DELAY_S = 0.2
WORDS = ["linear attention", "fast weights", "associative scan", "delta rule", "state space"]
WORDS_RU = ["линейное внимание", "быстрые веса", "ассоциативное сканирование", "дельта-правило"]


def main() -> None:
    """Print every row."""
    _measure(0.0)  # the server thinks of its replies, and keeps them
    local, waiting = _measure(0.0), _measure(DELAY_S)
    for stage, (calls, seconds) in waiting.items():
        ideal_s, local_s = calls * DELAY_S / CONCURRENCY, local[stage][1]
        name = f"{stage}, {calls} calls of {DELAY_S:.1f} s, {CONCURRENCY} at a time"
        print(f"{name:58} {seconds:14.2f} s   <= {1.3 * ideal_s + local_s:.2f} s")
        print(f"{'  the local work in it: calls answered at once':58} {local_s:14.2f} s")
        print(f"{'  against calls x 0.2 s / 8':58} {seconds / ideal_s:14.2f} x", flush=True)


def _measure(delay_s: float) -> dict[str, tuple[int, float]]:
    """Return (calls, seconds) of each stage that asks a model."""
    with tempfile.TemporaryDirectory() as name, FakeGemini(_answer, delay_s) as fake:
        folder = Path(name)
        _write_notes(folder / "notes")
        settings = {
            "GEMINI_API_KEY": "none",
            "KBWIKI_ENGINE": "gemini",
            "KBWIKI_GEMINI_BASE_URL": fake.url,
            "KBWIKI_MODEL": MODEL,
            "KBWIKI_CONCURRENCY": str(CONCURRENCY),
        }
        out: dict[str, tuple[int, float]] = {}
        try:
            _run(folder, {"KBWIKI_ENGINE": "local"}, "ingest", "notes")
            for stage in ("extract", "resolve", "write"):
                before = len(fake.asked())
                seconds = _run(folder, settings, stage)
                if stage != "resolve":
                    out[stage] = (len(fake.asked()) - before, seconds)
        finally:
            _run(folder, {}, "db", "stop")
        return out


_replies: dict[str, Step] = {}


def _answer(request: Request) -> Step:
    """Answer as the careful reader, which thinks at the first measurement only."""
    if request.prompt not in _replies:
        _replies[request.prompt] = reader(request)
    return _replies[request.prompt]


def _write_notes(folder: Path) -> None:
    folder.mkdir()
    for at in range(DOCUMENTS):
        one, two = WORDS[at % 5], WORDS[(at + 1 + at // 5) % 5]
        text = f"{one.capitalize()} is a method that uses {two} in study {at}."
        if at % 2:
            one, two = WORDS_RU[at % 4], WORDS_RU[(at + 1 + at // 4) % 4]
            text = f"{one.capitalize()} — это метод, который использует {two} в опыте {at}."
        (folder / f"note-{at:03}.md").write_text(f"# Note {at}\n\n{text}\n", "utf-8")


def _run(folder: Path, settings: dict[str, str], *args: str) -> float:
    """Run a command; return the seconds of its stages."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith("KBWIKI_")}
    done = subprocess.run(
        [sys.executable, "-m", "kbwiki", *args, *(["--json"] if args[0] != "db" else [])],
        cwd=folder, env={**environment, **settings}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode:
        raise SystemExit(f"kbwiki {' '.join(args)}: {done.stderr}")
    lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    return sum(float(line.get("seconds", 0)) for line in lines)


if __name__ == "__main__":
    main()
