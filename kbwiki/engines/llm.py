"""The engine that asks a language model: prompts out, checked records back.

Whatever a model says is checked against the source: a quote that is not there is dropped, a link to
an unknown title becomes plain text, a statement without evidence is left out, and all are counted.
"""

import hashlib
import json
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache

from pydantic import BaseModel

from kbwiki.engines.asker import MAX_OUTPUT, Asker, CallBook
from kbwiki.engines.chat import Chat
from kbwiki.engines.quotes import find_quote
from kbwiki.engines.windows import Window, cut_windows, halves
from kbwiki.errors import ModelError
from kbwiki.prompts import fenced, fill, prompt_text
from kbwiki.prompts.answer import AnswerReply
from kbwiki.prompts.extract import ConceptReply, ExtractReply
from kbwiki.prompts.same import SameReply
from kbwiki.prompts.write import SectionReply, WriteReply
from kbwiki.records import (
    Alias,
    Answer,
    Article,
    Brief,
    Candidate,
    Citation,
    Claim,
    Document,
    Extraction,
    Lang,
    Pair,
    Passage,
    Statement,
)
from kbwiki.text.chunks import page_of
from kbwiki.text.links import link
from kbwiki.text.normal import canonical_key, clean_line, escape_markdown
from kbwiki.text.words import lang_of, lemma_key

VERSION = "1"
"""Goes up when the same reply becomes another record or page."""
WINDOW_TOKENS = 3000
MAX_EVIDENCE = 40
MIN_EVIDENCE = 3
MAX_TARGETS = 60
CLAIM_RANK = 0.8
RELATION_RANK = 0.6

_WIKILINK = re.compile(r"\[\[([^\[\]|]+)(?:\|([^\[\]]*))?\]\]")
_LANGUAGES = {"en": "English", "ru": "Russian"}


@cache
def _method_sha() -> str:
    """Return a short hash of all that decides what is read and written besides the model."""
    sizes = [WINDOW_TOKENS, MAX_EVIDENCE, MIN_EVIDENCE, MAX_TARGETS]
    sizes += [MAX_OUTPUT["extract"], MAX_OUTPUT["write"]]
    models: list[type[BaseModel]] = [ExtractReply, WriteReply]
    schemas = [json.dumps(model.model_json_schema(), sort_keys=True) for model in models]
    parts = [VERSION, prompt_text("extract"), prompt_text("write"), *map(str, sizes), *schemas]
    return hashlib.sha256("\x1f".join(parts).encode()).hexdigest()[:8]


@dataclass(frozen=True, slots=True)
class _Part:
    """What a model said of a window."""

    window: Window
    model: str
    reply: ExtractReply


class LlmEngine:
    """Reads and writes through a chat; safe to share between threads."""

    is_paid = True

    def __init__(self, chat: Chat, book: CallBook) -> None:
        self._asker = Asker(chat, book)
        self.model = chat.model
        self._drop = book.drop
        self.name = f"{chat.name}:{chat.model}:{_method_sha()}"

    def classify(self, prompt: str, item: str = "") -> str:
        """Return the model's lines on a pack of edges."""
        return self._asker.ask_lines("classify-edges", prompt, item)

    def close(self) -> None:
        """Give back the connections to the provider."""
        self._asker.close()

    def extract(self, document: Document, item: str = "") -> Extraction:
        """Return the candidates and claims of one source, window by window."""
        windows = cut_windows(document, WINDOW_TOKENS)
        parts: list[_Part] = []
        for number, window in enumerate(windows, 1):
            parts += self._read(document, window, f"{number}", str(len(windows)), item)
        return self._merged(document, parts)

    def _read(
        self, document: Document, window: Window, number: str, total: str, item: str
    ) -> list[_Part]:
        """Ask about a window; in halves where the reply did not fit."""
        prompt = extract_prompt(document, window, number, total)
        reply = self._asker.ask("extract", prompt, ExtractReply, item)
        if reply is not None:
            return [_Part(window, *reply)]
        pieces = halves(document, window)
        if not pieces:
            raise ModelError(f"{item}: the reply does not fit, even for the smallest part.")
        out: list[_Part] = []
        for at, piece in enumerate(pieces):
            out += self._read(document, piece, f"{number}.{at + 1}", total, item)
        return out

    def _merged(self, document: Document, parts: list[_Part]) -> Extraction:
        candidates: dict[str, Candidate] = {}
        claims: dict[tuple[int, int], tuple[str, float]] = {}
        for part in parts:
            for concept in part.reply.concepts:
                self._add_concept(document, part.window, concept, candidates, claims)
            for claim in part.reply.claims:
                self._add_claim(document, part.window, claim.quote, claim.text, CLAIM_RANK, claims)
        self._add_relations(document, parts, candidates, claims)
        title = document.title or next((p.reply.title for p in parts if p.reply.title), "")
        return Extraction(
            title=clean_line(title)[:300],
            lang=lang_of(document.text),
            summary=clean_line(parts[0].reply.summary) if parts else "",
            candidates=tuple(candidates[key] for key in sorted(candidates)),
            claims=_as_claims(document, claims),
            authors=self._authors(document, parts),
            year=self._year(document, parts),
            engine=", ".join(sorted({part.model for part in parts})),
        )

    def _authors(self, document: Document, parts: list[_Part]) -> tuple[str, ...]:
        """Return the authors that the first part to name any gives, as far as the text has them."""
        named = next((p.reply.authors for p in parts if p.reply.authors), [])
        kept: list[str] = []
        for author in dict.fromkeys(map(clean_line, named)):
            if find_quote(document.text, author):
                kept.append(author)
            else:
                self._drop("authors")
        return tuple(kept)

    def _year(self, document: Document, parts: list[_Part]) -> int | None:
        year = next((p.reply.year for p in parts if p.reply.year), None)
        return year if year and re.search(rf"\b{year}\b", document.text) else None

    def _add_relations(
        self,
        document: Document,
        parts: list[_Part],
        candidates: dict[str, Candidate],
        claims: dict[tuple[int, int], tuple[str, float]],
    ) -> None:
        """Take the sentences that relate two of the concepts; link looks for both in them."""
        names = {lemma_key(a.name) for c in candidates.values() for a in c.aliases} | set(
            candidates
        )
        for part in parts:
            for pair in part.reply.relations:
                if {lemma_key(clean_line(pair.head)), lemma_key(clean_line(pair.tail))} <= names:
                    self._add_claim(document, part.window, pair.quote, "", RELATION_RANK, claims)
                else:
                    self._drop("relations")

    def _add_concept(
        self,
        document: Document,
        window: Window,
        concept: ConceptReply,
        candidates: dict[str, Candidate],
        claims: dict[tuple[int, int], tuple[str, float]],
    ) -> None:
        name = clean_line(concept.name)
        key = lemma_key(name)
        if not key:
            return
        span = self._add_claim(document, window, concept.definition, "", CLAIM_RANK, claims)
        self._add_claim(document, window, concept.quote, "", CLAIM_RANK, claims)
        before = candidates.get(key)
        aliases = {a.name: a for a in (before.aliases if before else ())}
        for alias in map(clean_line, concept.aliases):
            if lemma_key(alias) not in {"", key}:
                aliases.setdefault(alias, _alias(alias))
        candidates[key] = Candidate(
            key=key,
            name=before.name if before else name,
            lang=lang_of(name),
            kind=before.kind if before else concept.kind,
            signals={"model": (before.signals["model"] if before else 0) + 1},
            aliases=tuple(aliases[a] for a in sorted(aliases)),
            definition=(before.definition if before else None) or span,
        )

    def _add_claim(
        self,
        document: Document,
        window: Window,
        quote: str,
        text: str,
        rank: float,
        claims: dict[tuple[int, int], tuple[str, float]],
    ) -> tuple[int, int] | None:
        if not quote.strip():
            return None
        span = find_quote(document.text, quote, window.start, window.end)
        if span is None:
            self._drop("quotes")
            return None
        known = claims.get(span, ("", 0.0))
        claims[span] = (known[0] or clean_line(text), max(known[1], rank))
        return span

    def same(self, pairs: Sequence[Pair], item: str = "") -> list[bool | None]:
        """Return the model's verdict on each pair; None where it gave none."""
        reply = self._asker.ask("same", same_prompt(pairs), SameReply, item)
        if reply is None and len(pairs) > 1:
            half = len(pairs) // 2
            return self.same(pairs[:half], item) + self.same(pairs[half:], item)
        verdicts = {v.number: v.same for v in reply[1].verdicts} if reply else {}
        return [verdicts.get(number) for number in range(1, len(pairs) + 1)]

    def answer(self, question: str, passages: Sequence[Passage]) -> Answer:
        """Return the model's answer; statements that cite no passage are left out."""
        lines = [f"[{n}] ({p.title}) {clean_line(p.text)}" for n, p in enumerate(passages, 1)]
        prompt = fill("answer", question=question, passages=fenced("\n".join(lines)))
        reply = self._asker.ask("answer", prompt, AnswerReply, question[:80])
        if reply is None and len(passages) > 1:
            return self.answer(question, passages[: len(passages) // 2])
        if reply is None:
            raise ModelError("answer: the reply does not fit.", "Ask a narrower question.")
        statements = []
        for statement in reply[1].statements:
            cites = tuple(n for n in dict.fromkeys(statement.cites) if 1 <= n <= len(passages))
            if cites and statement.text.strip():
                statements.append((clean_line(statement.text), cites))
            else:
                self._drop("statements")
        return Answer(tuple(statements), clean_line(reply[1].missing), reply[0])

    def write(self, brief: Brief, item: str = "") -> Article:
        """Return the page of one concept or source, each statement with its evidence."""
        brief, evidence = worded(brief)
        if not evidence:
            return Article(brief.title, brief.lang, "", "", (), self._asker.chat.model)
        while True:
            reply = self._asker.ask("write", write_prompt(brief, evidence), WriteReply, item)
            if reply is not None:
                return self._page(brief, evidence, *reply)
            evidence = less(evidence)
            if not evidence:
                raise ModelError(f"{item}: the reply does not fit, even for little evidence.")

    def _page(
        self, brief: Brief, evidence: list[Statement], model: str, reply: WriteReply
    ) -> Article:
        linked = dict.fromkeys(map(canonical_key, link_targets(brief, evidence)), False)
        cited: list[Statement] = []
        parts: list[str] = []
        for section in reply.sections:
            lines = self._lines(section, evidence, cited, linked)
            if lines and section.heading:
                parts.append(f"## {escape_markdown(clean_line(section.heading))}")
            if lines:
                parts.append(" ".join(lines))
        citations = tuple(
            Citation(n, s.source_id, s.start, s.end, s.text, s.page) for n, s in enumerate(cited, 1)
        )
        summary = clean_line(_WIKILINK.sub(lambda m: m.group(2) or m.group(1), reply.summary))
        return Article(brief.title, brief.lang, summary, "\n\n".join(parts), citations, model)

    def _lines(
        self,
        section: SectionReply,
        evidence: list[Statement],
        cited: list[Statement],
        linked: dict[str, bool],
    ) -> list[str]:
        out: list[str] = []
        for statement in section.statements:
            numbers = [n for n in dict.fromkeys(statement.cites) if 1 <= n <= len(evidence)]
            text = self._linked(clean_line(statement.text), linked)
            if not numbers or not text:
                self._drop("statements")
                continue
            marks = []
            for number in numbers:
                cited.append(evidence[number - 1])
                marks.append(f"[^{len(cited)}]")
            out.append(text + "".join(marks))
        return out

    def _linked(self, text: str, linked: dict[str, bool]) -> str:
        """Return text with a link at a page's first mention of each target of ``linked``."""
        out: list[str] = []
        at = 0
        for match in _WIKILINK.finditer(text):
            words = match.group(2) or match.group(1)
            key = canonical_key(match.group(1))
            out.append(escape_markdown(text[at : match.start()]))
            if linked.get(key) is False:
                linked[key] = True
                out.append(link("c", key, words))
            else:
                if key not in linked:
                    self._drop("links")
                out.append(escape_markdown(words))
            at = match.end()
        return "".join([*out, escape_markdown(text[at:])])


def _described(concept: tuple[str, str, str]) -> str:
    title, kind, definition = concept
    return f"{title} ({kind}): {clean_line(definition) or 'no definition'}"


def _language(brief: Brief, evidence: list[Statement]) -> Lang:
    """Return the language that the reader set, else that of most of the evidence."""
    n_ru = sum(statement.lang == "ru" for statement in evidence)
    if brief.is_lang_set or 2 * n_ru == len(evidence):
        return brief.lang
    return "ru" if 2 * n_ru > len(evidence) else "en"


def _alias(name: str) -> Alias:
    return Alias(name, "acronym" if name.isupper() else "translation", lang_of(name))


def extract_prompt(document: Document, window: Window, number: str, total: str) -> str:
    """Return the prompt that asks what a window holds."""
    title = clean_line(document.title) or "untitled"
    part = f"Source: {title}\n\n{document.text[window.start : window.end]}"
    return fill("extract", number=number, total=total, part=fenced(part))


def same_prompt(pairs: Sequence[Pair]) -> str:
    """Return the prompt that asks of each pair whether its two names are one."""
    lines = [
        f"[{n}] {_described(p.first)}\n    or {_described(p.second)}"
        for n, p in enumerate(pairs, 1)
    ]
    return fill("same", pairs=fenced("\n".join(lines)))


def write_prompt(brief: Brief, evidence: list[Statement]) -> str:
    """Return the prompt that asks for a page."""
    lines = [
        f"Subject: {clean_line(brief.title)}",
        f"Kind: {brief.kind}",
        f"Other names: {', '.join(map(clean_line, brief.aliases)) or 'none'}",
        "",
        "Pages that may be linked:",
        *(link_targets(brief, evidence) or ["none"]),
        "",
        "Evidence:",
    ]
    lines += [
        f"[{n}] ({clean_line(s.source_title)}) {clean_line(s.text)}" + _in_other_words(s)
        for n, s in enumerate(evidence, 1)
    ]
    return fill("write", language=_LANGUAGES[brief.lang], brief=fenced("\n".join(lines)))


def _in_other_words(statement: Statement) -> str:
    wording = clean_line(statement.wording)
    is_new = wording and canonical_key(wording) != canonical_key(statement.text)
    return f"\n    that is: {wording}" if is_new else ""


def worded(brief: Brief) -> tuple[Brief, list[Statement]]:
    """Return a brief in the language that its page will have, and the evidence for the prompt."""
    evidence = best_evidence(brief)
    return replace(brief, lang=_language(brief, evidence)), evidence


def less(evidence: list[Statement]) -> list[Statement]:
    """Return the evidence to ask with where the reply for all of it was cut; none if at the end."""
    return evidence[: len(evidence) // 2] if len(evidence) > MIN_EVIDENCE else []


def best_evidence(brief: Brief) -> list[Statement]:
    """Return the statements that a prompt holds, in the order of the sources."""
    ranked = sorted(brief.statements, key=lambda s: (not s.defines, -s.rank, s.source_key, s.start))
    return sorted(ranked[:MAX_EVIDENCE], key=lambda s: (s.source_key, s.start))


def link_targets(brief: Brief, evidence: list[Statement]) -> list[str]:
    """Return the titles of other pages that the evidence names, the most named first."""
    own = canonical_key(brief.title)
    counts = Counter(title for s in evidence for _, _, title in s.mentions)
    ranked = sorted(counts, key=lambda title: (-counts[title], title))
    return [title for title in ranked if canonical_key(title) != own][:MAX_TARGETS]


def _as_claims(
    document: Document, found: dict[tuple[int, int], tuple[str, float]]
) -> tuple[Claim, ...]:
    """Return claims in order; of two that overlap the better ranked stays."""
    kept: list[tuple[int, int]] = []
    for span in sorted(found, key=lambda s: (-found[s][1], s[0], -s[1])):
        if all(span[1] <= other[0] or other[1] <= span[0] for other in kept):
            kept.append(span)
    headings = [b for b in document.blocks if b.kind == "heading"]
    out: list[Claim] = []
    for start, end in sorted(kept):
        above = [b for b in headings if b.end <= start]
        out.append(
            Claim(
                ordinal=len(out),
                start=start,
                end=end,
                text=document.text[start:end],
                lang=lang_of(document.text[start:end]),
                page=page_of(document.pages, start),
                heading=document.text[above[-1].start : above[-1].end].strip() if above else "",
                rank=found[start, end][1],
                statement=found[start, end][0],
            )
        )
    return tuple(out)
