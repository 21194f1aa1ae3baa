"""Pages as Markdown text: what `export` writes, as a pure function of what the store holds."""

import json
from collections import defaultdict
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from typing import Any

import jinja2

from kbwiki.records import CONCEPT_KINDS, Lang
from kbwiki.text.edits import HUMAN
from kbwiki.text.links import (
    Target,
    link,
    links_in,
    plain_text,
    replace_links,
    uncited_in,
)
from kbwiki.text.normal import canonical_key, clean_line, escape_markdown, slugify

MAX_BACKLINKS = 12
MAX_SEE_ALSO = 10
MAX_PICTURE = 9

_WORDS: dict[str, dict[str, str]] = {
    "en": {
        "relations": "Relations",
        "see_also": "See also",
        "backlinks": "Backlinks",
        "concepts": "Concepts",
        "page": "p. {}",
        "quote": "“{}”",
        "human": "Written by a person.",
        "missing": "What the wiki does not say",
        "unanswered": "Nothing in the wiki answers this now.",
    },
    "ru": {
        "relations": "Связи",
        "see_also": "См. также",
        "backlinks": "Ссылаются сюда",
        "concepts": "Понятия",
        "page": "с. {}",
        "quote": "«{}»",
        "human": "Написано человеком.",
        "missing": "О чём вики не говорит",
        "unanswered": "Сейчас в вики на это ответа нет.",
    },
}

UNANSWERED = "unanswered"
"""What is missing on the page of a question that nothing answers: all."""


@dataclass(frozen=True, slots=True)
class Page:
    """A page of the wiki as the store holds it; ``folder`` is concepts or sources."""

    folder: str
    key: str
    slug: str
    title: str
    lang: Lang
    kind: str
    aliases: list[str]
    summary: str
    body: str
    engine: str
    front: dict[str, Any] = field(default_factory=dict)
    machine: str = ""
    """The body without a person's words, its footnotes by place."""
    heading: str | None = None
    front_edits: dict[str, str | None] = field(default_factory=dict)
    tail: str = ""
    """These three are a person's: the heading, lines of front matter, what stands at the end."""
    missing: str = ""
    """What a filed answer does not say, or UNANSWERED."""

    @property
    def path(self) -> str:
        """Where the page lies below the wiki's folder."""
        return f"{self.folder}/{self.slug}.md"


@dataclass(frozen=True, slots=True)
class Edge:
    """A typed edge by the keys of its ends, with its labels."""

    head: str
    tail: str
    type: str
    symmetric: bool
    ordinal: int
    n_sources: int
    labels: dict[str, str]


class Wiki:
    """All pages and edges, and the links between them.

    In the middle of a build an edge may end, or a footnote point, where no page is written yet:
    such an edge is left out, and such a footnote names its source in plain words.
    """

    def __init__(
        self,
        pages: list[Page],
        edges: list[Edge],
        citations: dict[tuple[str, str], list[dict[str, Any]]],
        redirects: list[str],
    ) -> None:
        self.pages = sorted(pages, key=lambda p: (p.folder, p.key))
        self.by_key = {(page.folder, page.key): page for page in self.pages}
        self.citations = citations
        self.redirects = redirects
        self.edges: dict[str, list[Edge]] = defaultdict(list)
        edges = [e for e in edges if all(("concepts", k) in self.by_key for k in (e.head, e.tail))]
        for edge in sorted(edges, key=lambda e: (e.ordinal, e.head, e.tail)):
            self.edges[edge.head].append(edge)
            self.edges[edge.tail].append(edge)
        self.n_edges = len(edges)
        self.backlinks = self._backlinks()

    def files(self) -> dict[str, str]:
        """Return the text of every page by its path, the index included."""
        out = {page.path: self.render(page) for page in self.pages}
        out["index.md"] = self._index()
        by_name = {canonical_key(n): p for p in self.pages for n in p.aliases if p.kind != "source"}
        for title in sorted(self.redirects):
            page = by_name.get(canonical_key(title))
            if page and canonical_key(title) != page.key:
                out.setdefault(f"concepts/{slugify(title)}.md", self._redirect(title, page))
        return out

    def _redirect(self, title: str, page: Page) -> str:
        """Return the page of a title that was merged into another."""
        target = self._link(page.folder, page.key)
        front = json.dumps(title, ensure_ascii=False)
        heading = escape_markdown(title)
        return f"---\ntitle: {front}\nredirect: true\n---\n\n# {heading}\n\n→ {target}\n"

    def render(self, page: Page) -> str:
        """Return one page as Markdown."""
        words = _WORDS[page.lang]
        is_concept = page.folder == "concepts"
        mentioned = [
            k
            for k in dict.fromkeys(page.front.get("concepts", ()))
            if ("concepts", k) in self.by_key
        ]
        text = _template("page.md.j2").render(
            front=self._front(page),
            heading=page.heading or f"# {escape_markdown(page.title)}",
            body=replace_links(page.body, self._resolve),
            words=words,
            unanswered=words["unanswered"] if page.missing == UNANSWERED else "",
            missing="" if page.missing == UNANSWERED else escape_markdown(page.missing),
            relations=self._relations(page) if is_concept else [],
            picture=self._picture(page) if is_concept else "",
            concepts=[] if is_concept else [self._link("concepts", k) for k in sorted(mentioned)],
            see_also=self._see_also(page) if is_concept else [],
            backlinks=[
                (self._link(folder, key), sentence)
                for folder, key, sentence in self.backlinks[page.folder, page.key][:MAX_BACKLINKS]
            ],
            notes=self._notes(page),
            tail=page.tail,
        )
        return text.rstrip("\n") + "\n"

    def known_links(self, body: str) -> str:
        """Return a body in which a link to a page that is not there is plain words."""

        def one(target: Target, key: str, words: str) -> str:
            return link(target, key, words) if self._target(target, key) else escape_markdown(words)

        return replace_links(body, one)

    def paths_in(self, body: str) -> dict[str, str]:
        """Return the key of each page that a body links to, by its path without the ending."""
        pages = [page for where in links_in(body) if (page := self._target(*where))]
        return {page.path.removesuffix(".md"): page.key for page in pages}

    def _target(self, target: str, key: str) -> Page | None:
        return self.by_key.get(("concepts" if target == "c" else "sources", key))

    def _front(self, page: Page) -> list[str]:
        values: dict[str, Any] = {
            "title": page.title,
            "aliases": page.aliases,
            "kind": page.kind,
            "lang": page.lang,
            **{k: v for k, v in page.front.items() if k != "concepts"},
            "engine": page.engine,
            "written_by": "no model: every sentence is quoted from a source"
            if page.engine.startswith("local")
            else page.engine,
            "human_written": page.body.count(HUMAN) or None,
            "uncited": len(uncited_in(page.body)) or None,
        }
        lines: dict[str, str | None] = {
            name: f"{name}: {json.dumps(value, ensure_ascii=False, default=str)}\n"
            for name, value in values.items()
            if value not in (None, "", [])
        }
        lines |= page.front_edits
        return [line for line in lines.values() if line is not None]

    def _resolve(self, target: Target, key: str, words: str) -> str:
        page = self._target(target, key)
        return escape_markdown(words) if page is None else f"[[{page.folder}/{page.slug}|{words}]]"

    def name_of(self, folder: str, key: str) -> str:
        """Return the folder and slug of a page; the words of its key while it is not written."""
        page = self.by_key.get((folder, key))
        return f"{folder}/{page.slug}" if page else key.partition("|")[0]

    def _link(self, folder: str, key: str) -> str:
        page = self.by_key.get((folder, key))
        if page is None:
            return escape_markdown(self.name_of(folder, key))
        title = page.title.replace("[", "(").replace("]", ")").replace("|", "/")
        return f"[[{page.folder}/{page.slug}|{title}]]"

    def _relations(self, page: Page) -> list[tuple[str, list[str]]]:
        groups: dict[tuple[int, str], list[str]] = defaultdict(list)
        for edge in self.edges[page.key]:
            if edge.type == "related_to":
                continue
            forward = edge.head == page.key
            label = edge.labels[("label_" if forward else "inverse_") + page.lang]
            other = edge.tail if forward else edge.head
            groups[edge.ordinal * 2 + (not forward and not edge.symmetric), label].append(other)
        return [
            (label, [self._link("concepts", key) for key in sorted(others)])
            for (_, label), others in sorted(groups.items())
        ]

    def _see_also(self, page: Page) -> list[str]:
        near = [e for e in self.edges[page.key] if e.type == "related_to"]
        near.sort(key=lambda e: (-e.n_sources, e.head, e.tail))
        others = [e.tail if e.head == page.key else e.head for e in near[:MAX_SEE_ALSO]]
        return [self._link("concepts", key) for key in sorted(others)]

    def _picture(self, page: Page) -> str:
        """Return a Mermaid graph of the strongest typed edges around a concept."""
        edges = [e for e in self.edges[page.key] if e.type != "related_to"]
        edges.sort(key=lambda e: (-e.n_sources, e.ordinal, e.head, e.tail))
        edges = sorted(edges[:MAX_PICTURE], key=lambda e: (e.ordinal, e.head, e.tail))
        if not edges:
            return ""
        ids: dict[str, str] = {}
        for key in [page.key, *(k for e in edges for k in (e.head, e.tail))]:
            ids.setdefault(key, f"n{len(ids)}")
        lines = ["graph LR"]
        for key, name in ids.items():
            lines.append(f'  {name}["{_mermaid(self.by_key["concepts", key].title)}"]')
        for edge in edges:
            arrow = "---" if edge.symmetric else "-->"
            label = _mermaid(edge.labels[f"label_{page.lang}"])
            lines.append(f'  {ids[edge.head]} {arrow}|"{label}"| {ids[edge.tail]}')
        return "\n".join(lines)

    def _notes(self, page: Page) -> list[str]:
        words = _WORDS[page.lang]
        out: list[str] = []
        for cited in self.citations.get((page.folder, page.key), ()):
            place = [escape_markdown(cited["heading"])] if cited["heading"] else []
            if cited["page"]:
                place.append(words["page"].format(cited["page"]))
            place.append(f"{cited['start_at']}–{cited['end_at']}")
            quote = words["quote"].format(clean_line(escape_markdown(cited["quote"])))
            source = self._link("sources", cited["source_key"])
            out.append(f"[^{cited['ordinal']}]: {quote} — {source}, {', '.join(place)}.")
        if HUMAN in page.body:
            out.append(f"{HUMAN}: {words['human']}")
        return out

    def _backlinks(self) -> dict[tuple[str, str], list[tuple[str, str, str]]]:
        """Return, by page, (folder, key, sentence) of each page that links to it."""
        out: dict[tuple[str, str], list[tuple[str, str, str]]] = defaultdict(list)
        for page in self.pages:
            seen = {(page.folder, page.key)}
            for line in page.body.splitlines():
                for target, key in links_in(line):
                    to = ("concepts" if target == "c" else "sources", key)
                    if to in self.by_key and to not in seen and not line.startswith("#"):
                        seen.add(to)
                        out[to].append(
                            (page.folder, page.key, escape_markdown(_sentence(line, key)))
                        )
        return out

    def _index(self) -> str:
        concepts = [p for p in self.pages if p.folder == "concepts"]
        sources = [p for p in self.pages if p.folder == "sources"]
        by_kind = {kind: [p for p in concepts if p.kind == kind] for kind in CONCEPT_KINDS}
        by_letter: dict[str, list[Page]] = defaultdict(list)
        for page in concepts:
            first = page.key[:1].upper()
            by_letter[first if first.isalpha() else "#"].append(page)
        answers = [p for p in self.pages if p.folder == "answers"]
        engines = sorted({p.engine for p in self.pages if p.engine})
        text = _template("index.md.j2").render(
            n_concepts=len(concepts),
            n_sources=len(sources),
            n_edges=self.n_edges,
            engine=", ".join(engines) or "none",
            kinds=[
                (kind.capitalize(), [self._link(p.folder, p.key) for p in pages])
                for kind, pages in by_kind.items()
                if pages
            ],
            letters=[
                (letter, [(self._link(p.folder, p.key), _short(p.summary)) for p in pages])
                for letter, pages in sorted(by_letter.items())
            ],
            answers=[self._link(p.folder, p.key) for p in answers],
            sources=[(self._link(p.folder, p.key), str(p.front.get("uri", ""))) for p in sources],
        )
        return text.rstrip("\n") + "\n"


def _sentence(line: str, key: str) -> str:
    """Return the sentence of a line that holds the link, as plain text."""
    import re

    parts = re.split(r"(?<=\])\s+(?=\S)", line.removeprefix("- "))
    merged: list[str] = []
    for part in parts:
        if merged and not re.search(r"\[\^\d+\]$", merged[-1]):
            merged[-1] += " " + part
        else:
            merged.append(part)
    hit = next((m for m in merged if any(k == key for _, k in links_in(m))), merged[0])
    return clean_line(plain_text(hit))


def _short(text: str, limit: int = 160) -> str:
    text = clean_line(text)
    if len(text) > limit:
        text = text[:limit].rsplit(" ", 1)[0].rstrip(",;:—– ") + "…"
    return escape_markdown(text)


def _mermaid(text: str) -> str:
    return (
        text.replace('"', "'")
        .replace("[", "(")
        .replace("]", ")")
        .replace("|", "/")
        .replace("<", "‹")
    )


@cache
def _template(name: str) -> jinja2.Template:
    text = (resources.files("kbwiki") / "templates" / name).read_text("utf-8")
    environment = jinja2.Environment(
        trim_blocks=True, lstrip_blocks=True, undefined=jinja2.StrictUndefined, autoescape=False
    )
    return environment.from_string(text)
