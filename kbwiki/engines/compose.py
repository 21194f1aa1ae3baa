"""Writing without a model: a page made of the sources' own sentences, each with its citation.

Definition first, then statements grouped by source. A body is Markdown in which a link names its
target by key, ``[[c:KEY|words]]`` for a concept and ``[[s:KEY|words]]`` for a source; `export`
knows where their pages are.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable

from kbwiki.records import Article, Brief, Citation, Statement
from kbwiki.text.links import link
from kbwiki.text.normal import canonical_key, clean_line, escape_markdown
from kbwiki.text.words import stream

MAX_PER_SOURCE = 5
MAX_STATEMENTS = 20
MAX_PER_SECTION = 4
MIN_RANK = 0.5
_DENIES = re.compile(r"\b(?:not|never|no longer|не|нельзя)\b", re.IGNORECASE)
SAME_SHARE = 0.7
"""Two sentences that share more of their words than this say the same."""


def compose(brief: Brief, engine: str) -> Article:
    """Return the page of a brief: about a concept, or, where ``main_source_key`` is its title, a
    source.
    """
    page = _Page(brief)
    if brief.kind == "source":
        _compose_source(brief, page)
    else:
        _compose_concept(brief, page)
    return Article(
        title=brief.title,
        lang=brief.lang,
        summary=page.summary,
        body="\n\n".join(page.parts).strip(),
        citations=tuple(page.citations),
        engine=engine,
    )


class _Page:
    """A page while it grows: its parts, its footnotes, and what is linked already."""

    def __init__(self, brief: Brief) -> None:
        self.brief = brief
        self.parts: list[str] = []
        self.citations: list[Citation] = []
        self.linked = {canonical_key(brief.title)}
        self.summary = ""
        self.named = False

    def cite(self, statement: Statement) -> str:
        """Return a statement as Markdown: names linked once, a footnote at its end."""
        ordinal = len(self.citations) + 1
        self.citations.append(
            Citation(
                ordinal,
                statement.source_id,
                statement.start,
                statement.end,
                statement.text,
                statement.page,
            )
        )
        return f"{self._linked(statement)}[^{ordinal}]"

    def _linked(self, statement: Statement) -> str:
        out: list[str] = []
        at = 0
        for start, end, title in sorted(statement.mentions):
            key = canonical_key(title)
            words = statement.text[start:end]
            if start < at:
                continue
            if key == canonical_key(self.brief.title) and not self.named:
                self.named = True
                words = f"**{escape_markdown(words)}**"
            elif key not in self.linked:
                self.linked.add(key)
                words = link("c", key, words)
            else:
                continue
            out += [escape_markdown(statement.text[at:start]), words]
            at = end
        return clean_line("".join([*out, escape_markdown(statement.text[at:])]))


def _compose_concept(brief: Brief, page: _Page) -> None:
    usable = [s for s in brief.statements if s.rank >= MIN_RANK] or list(brief.statements[:3])
    lead = _lead(brief, usable)
    if lead is None:
        return
    page.summary = clean_line(lead.text)
    page.parts.append(page.cite(lead))
    chosen = _choose(brief, lead, usable)
    for key in _source_order(brief, lead, chosen):
        mine = [s for s in chosen if s.source_key == key]
        page.parts.append("## " + link("s", key, mine[0].source_title))
        page.parts.append("\n".join(f"- {line}" for line in _lines(mine, page)))


def _lead(brief: Brief, usable: list[Statement]) -> Statement | None:
    """Return the defining statement: from its main source, in the page's language."""

    def rank(s: Statement) -> tuple[object, ...]:
        return (
            bool(_DENIES.search(s.text[:80])),
            not s.defines,
            s.lang != brief.lang,
            s.source_key != brief.main_source_key,
            -_score(brief, s),
            s.source_key,
            s.start,
        )

    return min(usable, key=rank, default=None)


def _score(brief: Brief, statement: Statement) -> float:
    """Return how well a statement serves the page: it stands alone and names it early."""
    key = canonical_key(brief.title)
    first = min(
        (m[0] for m in statement.mentions if canonical_key(m[2]) == key),
        default=len(statement.text),
    )
    early = 1 - first / max(1, len(statement.text))
    return statement.rank + 0.5 * early + 0.2 * statement.defines


def _choose(brief: Brief, lead: Statement, usable: list[Statement]) -> list[Statement]:
    """Return the best statements but the lead, without repetitions, in the order of the sources."""
    ranked = sorted(usable, key=lambda s: (-_score(brief, s), s.source_key, s.start))
    chosen: list[Statement] = []
    seen = [_words(lead)]
    per_source: Counter[str] = Counter()
    for statement in ranked:
        words = _words(statement)
        if per_source[statement.source_key] >= MAX_PER_SOURCE or _repeats(words, seen):
            continue
        seen.append(words)
        per_source[statement.source_key] += 1
        chosen.append(statement)
        if len(chosen) == MAX_STATEMENTS:
            break
    return sorted(chosen, key=lambda s: (s.source_key, s.start))


def _words(statement: Statement) -> set[str]:
    return {w for w in stream(statement.text).lemmas if len(w) > 2}


def _repeats(words: set[str], seen: Iterable[set[str]]) -> bool:
    return any(len(words & other) > SAME_SHARE * min(len(words), len(other)) for other in seen)


def _source_order(brief: Brief, lead: Statement, chosen: list[Statement]) -> list[str]:
    langs = {s.source_key: s.lang for s in chosen}
    counts = Counter(s.source_key for s in chosen)
    return sorted(
        langs,
        key=lambda k: (
            k != brief.main_source_key,
            k != lead.source_key,
            langs[k] != brief.lang,
            -counts[k],
            k,
        ),
    )


def _lines(statements: list[Statement], page: _Page) -> list[str]:
    """Return one line a statement; those that follow each other in the source share one."""
    lines: list[str] = []
    end = -10
    for statement in statements:
        text = page.cite(statement)
        if 0 <= statement.start - end <= 1 and lines:
            lines[-1] += " " + text
        else:
            lines.append(text)
        end = statement.end
    return lines


def _compose_source(brief: Brief, page: _Page) -> None:
    good = [s for s in brief.statements if s.rank >= MIN_RANK] or list(brief.statements[:5])
    usable = list({clean_line(s.text): s for s in reversed(good)}.values())[::-1]
    if not usable:
        return
    lead = [s for s in usable if s.heading == usable[0].heading][:2]
    page.summary = clean_line(" ".join(s.text for s in lead))
    page.parts.append(" ".join(_lines(lead, page)))
    sections: dict[str, list[Statement]] = defaultdict(list)
    for statement in usable:
        if statement not in lead:
            sections[statement.heading].append(statement)
    for heading, statements in sections.items():
        best = sorted(statements, key=lambda s: (-s.rank, -len(s.mentions), s.start))[
            :MAX_PER_SECTION
        ]
        if heading and canonical_key(heading) != canonical_key(brief.title):
            page.parts.append(f"## {escape_markdown(heading)}")
        page.parts.append(
            "\n".join(f"- {line}" for line in _lines(sorted(best, key=lambda s: s.start), page))
        )
