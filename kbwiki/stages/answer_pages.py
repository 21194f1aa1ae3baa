"""Pages of filed answers, as `render` takes them."""

from collections import defaultdict
from typing import Any

from kbwiki.db import Database
from kbwiki.stages.render import UNANSWERED, Page
from kbwiki.text.links import link
from kbwiki.text.normal import escape_markdown, shorten

Citations = dict[tuple[str, str], list[dict[str, Any]]]
_MAX_TITLE = 200


def answer_pages(database: Database, citations: Citations) -> list[Page]:
    """Return a page for each filed answer, and put its footnotes beside those of other pages."""
    cited: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in database.dicts("list_answer_citations"):
        cited[row["key"]].append(row)
    for key, rows in cited.items():
        citations["answers", key] = rows
    return [_page(row, cited[row["key"]]) for row in database.dicts("list_answer_pages")]


def _page(row: dict[str, Any], cited: list[dict[str, Any]]) -> Page:
    names = {c["ordinal"]: [(key, words) for key, words in c["names"]] for c in cited}
    linked: set[str] = set()
    lines = [
        _linked(text, [name for n in notes for name in names.get(n, [])], linked)
        + "".join(f"[^{n}]" for n in notes if n in names)
        for text, notes in row["statements"]
    ]
    concepts = dict.fromkeys(key for found in names.values() for key, _ in found)
    return Page(
        folder="answers",
        key=row["key"],
        slug=row["slug"],
        title=shorten(row["title"], _MAX_TITLE),
        lang=row["lang"],
        kind="answer",
        aliases=[],
        summary="",
        body="\n".join(f"- {line}" for line in lines),
        engine=row["engine"],
        front={"concepts": list(concepts)},
        missing=row["missing"] if lines else UNANSWERED,
    )


def _linked(text: str, names: list[tuple[str, str]], linked: set[str]) -> str:
    """Return a statement as Markdown: what its quotes name is linked, each concept once a page."""
    out: list[str] = []
    at = 0
    for key, words in names:
        start = text.find(words, at)
        if key in linked or start < 0:
            continue
        linked.add(key)
        out += [escape_markdown(text[at:start]), link("c", key, words)]
        at = start + len(words)
    return "".join([*out, escape_markdown(text[at:])])
