"""What is wrong with a store and its wiki: a list of findings, each with what to do about it."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from kbwiki.db import Database
from kbwiki.stages.export import load_wiki
from kbwiki.stages.render import Wiki
from kbwiki.text.disagree import disputed_in
from kbwiki.text.links import links_in, paths_in, plain_text, statements_of, uncited_in
from kbwiki.text.normal import counted, slugify

HUB_SHARE = 0.4
"""A concept that meets more of all others than this says little by it."""
HUB_EDGES = 30


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong; a note is worth a look but no fault."""

    level: Literal["fault", "note"]
    rule: str
    where: str
    what: str


def lint(database: Database, stale: dict[str, int]) -> list[Finding]:
    """Return what is wrong, faults first; ``stale`` counts by stage what is out of date."""
    wiki = load_wiki(database)
    found = [
        *_stale(stale),
        *_failures(database),
        *_links(wiki),
        *_uncited(wiki),
        *_contradicted(wiki),
        *_edges(database),
        *_doubles(database),
        *_unanswered(database),
        *_lonely(wiki),
    ]
    return sorted(found, key=lambda f: (f.level, f.rule, f.where, f.what))


def _stale(stale: dict[str, int]) -> Iterator[Finding]:
    for stage, n in stale.items():
        if n:
            yield Finding(
                "fault", "stale", stage, counted(n, "item is", "items are") + " out of date"
            )


def _failures(database: Database) -> Iterator[Finding]:
    for row in database.dicts("list_failures"):
        yield Finding("fault", "failed", f"{row['stage']}: {row['item']}", row["reason"])


def _links(wiki: Wiki) -> Iterator[Finding]:
    for page in wiki.pages:
        for target, key in links_in(page.body):
            if ("concepts" if target == "c" else "sources", key) not in wiki.by_key:
                yield Finding("fault", "broken link", page.path, f"there is no page {key}")
    names = {page.path.removesuffix(".md") for page in wiki.pages}
    names |= {f"concepts/{slugify(title)}" for title in wiki.redirects}
    for page in wiki.pages:
        for name in paths_in(page.body):
            if name not in names:
                yield Finding("note", "broken link", page.path, f"a person's: there is no {name}")


def _uncited(wiki: Wiki) -> Iterator[Finding]:
    for page in wiki.pages:
        cited = {c["ordinal"] for c in wiki.citations.get((page.folder, page.key), ())}
        used = {n for _, numbers in statements_of(page.body) for n in numbers}
        for words, is_human in uncited_in(page.body):
            yield Finding("note" if is_human else "fault", "uncited", page.path, words[:80])
        for number in sorted(used ^ cited):
            yield Finding("fault", "footnote", page.path, f"[^{number}] is used or told, not both")


def _contradicted(wiki: Wiki) -> Iterator[Finding]:
    for page in wiki.pages:
        lines = disputed_in(page.body)
        if lines:
            what = counted(
                len(lines), "statement of its sources differs", "statements of its sources differ"
            )
            what += f": {plain_text(lines[0])[:80]}"
            yield Finding("note", "contradicted", page.path, what)


def _edges(database: Database) -> Iterator[Finding]:
    for row in database.dicts("list_bare_edges"):
        yield Finding("fault", "edge", f"{row['head']} - {row['tail']}", "it has no evidence")


def _doubles(database: Database) -> Iterator[Finding]:
    for row in database.dicts("list_likenesses"):
        if row["status"] == "doubtful":
            what = f"it may be {row['second_title']} ({row['reason']}); see `kbwiki merge list`"
            yield Finding("note", "double", row["first_title"], what)
    for row in database.dicts("list_homonyms"):
        what = f"it may be two: {row['reason']}; see `kbwiki merge list`"
        yield Finding("note", "homonym", row["title"], what)


def _unanswered(database: Database) -> Iterator[Finding]:
    for row in database.dicts("list_unanswered"):
        what = f"nothing in the wiki answers: {row['question'][:80]}"
        yield Finding("note", "unanswered", f"{row['slug']}.md", what)


def _lonely(wiki: Wiki) -> Iterator[Finding]:
    concepts = [page for page in wiki.pages if page.folder == "concepts"]
    degrees = Counter({page.key: len(wiki.edges[page.key]) for page in concepts})
    for page in concepts:
        degree = degrees[page.key]
        if not degree and not wiki.backlinks[page.folder, page.key]:
            yield Finding("note", "orphan", page.path, "nothing links to it")
        if degree > max(HUB_EDGES, HUB_SHARE * len(concepts)):
            yield Finding(
                "note", "hub", page.path, f"it meets {degree} of {len(concepts)} concepts"
            )
