"""Measure reading: long PDF files in a process each, and a folder of many small notes.

Prints rows, asserts nothing.
"""

import subprocess
import sys
import tempfile
from pathlib import Path

import pypdfium2
from bench import ROOT, kbwiki, knowledge_base, row

PAGES = ROOT / "tests" / "data" / "pdf" / "columns_ru.pdf"
NOTES = 2_000
PAPERS = 40
READ = """
import resource, sys, time
from pathlib import Path
from kbwiki.text.readers import read_document
raw, began = Path(sys.argv[1]).read_bytes(), time.perf_counter()
n = len(read_document("a.pdf", raw).pages)
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
print(n, time.perf_counter() - began, peak)
"""


def main() -> None:
    """Print every row."""
    with tempfile.TemporaryDirectory() as name:
        for n_pages, target in ((300, "< 20 s"), (1_000, "< 500 MB")):
            path = Path(name) / f"{n_pages}.pdf"
            _long(n_pages, path)
            done = subprocess.run(
                [sys.executable, "-c", READ, str(path)],
                capture_output=True, text=True, check=True, cwd=ROOT,
            )  # fmt: skip
            n, seconds, peak = map(float, done.stdout.split())
            row(f"a PDF of {n:.0f} pages is read", f"{seconds:.1f} s, {peak:.0f} MB", target)
    for jobs in ("1", "2"):
        with knowledge_base() as folder:
            papers = folder / "papers"
            papers.mkdir()
            for number in range(PAPERS):
                _long(20 + number, papers / f"{number}.pdf")
            kbwiki("status", folder=folder)
            seconds, _ = kbwiki("ingest", "papers", "--json", "--jobs", jobs, folder=folder)
            row(f"{PAPERS} papers are ingested, {jobs} at a time", f"{seconds:.1f} s", "")
    with knowledge_base() as folder:
        notes = folder / "notes"
        notes.mkdir()
        for number in range(NOTES):
            text = f"# Заметка {number}\n\n**Память {number}** — это способ хранить прошлое.\n"
            (notes / f"{number}.md").write_text(text, "utf-8")
        kbwiki("status", folder=folder)
        seconds, _ = kbwiki("ingest", "notes", "--json", folder=folder)
        row(f"{NOTES:,} small notes are ingested", f"{seconds:.1f} s", "< 15 s")


def _long(n_pages: int, path: Path) -> None:
    """Write a PDF that holds one page so often."""
    with pypdfium2.PdfDocument(PAGES) as source, pypdfium2.PdfDocument.new() as target:
        for _ in range(n_pages):
            target.import_pages(source)
        target.save(path)


if __name__ == "__main__":
    main()
