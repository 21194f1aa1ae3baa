"""Reading without a model: the candidates and claims of one source.

Signs of a concept are counted, not judged: which candidate is a concept is for `resolve`, which
sees the whole corpus.
"""

import re
from bisect import bisect_left
from collections import Counter, defaultdict
from dataclasses import dataclass, field

from kbwiki.engines.brackets import bracket_aliases
from kbwiki.records import (
    Alias,
    Block,
    Candidate,
    Claim,
    ConceptKind,
    Document,
    Extraction,
    Lang,
)
from kbwiki.text.chunks import page_of
from kbwiki.text.lexicon import AGENT_VERBS, ANAPHORA, HEADING_STOP, KIND_HEADS, PARTITIVES
from kbwiki.text.normal import canonical_key, clean_line
from kbwiki.text.terms import Term, best_name, is_generic, terms
from kbwiki.text.words import (
    FORMULA,
    WORD,
    is_given_name,
    lang_of,
    lemma,
    lemma_key,
    mask_math,
    sentences,
    stream,
)

_PROSE = {"paragraph", "item", "quote"}
_MAX_NAME_WORDS = 6
_MAX_NAME = 100
"""Characters; what is longer is no name, and too long for a key of the store's indices."""
_TITLE_WEIGHT = 1000
"""A source that a concept heads says how it is spelt."""
_JOINED = re.compile(
    r"\s(?:and|or|vs|и|или|против)\s|^(?:why|how|what|from|when|where|on|toward)\b|[:;,?!]"
    r"|^(?:как|зачем|почему|что|от|когда|о|об|к)\s",
    re.IGNORECASE,
)
_ENDED = re.compile(r"[.!?…][\"'»”’)\]]*$")
_IS_A = re.compile(
    r"\s*(?:\([^()]{1,120}\)\s*)?(?:,[^,]{1,60},)?\s*"
    r"(?:(?:is|are|was|were|refers to|denotes|means)\s+(?:a|an|the|any|one|two|three|a kind of)"
    r"\b\s*"
    r"|(?:—|–|-)\s+(?:это\b\s*)?|\bявля\w+\s+|\bпредставля\w+ собой\s+|\bназыва\w+\s+)",
    re.IGNORECASE,
)
_APPOSITION = re.compile(r"\s*,\s+(?:the|an?)\s+(?=[a-z])")
_LEAD = re.compile(r"(?:the|a|an|in [^,]{3,40},|под)\s+", re.IGNORECASE)


@dataclass(slots=True)
class _Draft:
    """A candidate while its source is read."""

    names: Counter[tuple[str, Lang]] = field(default_factory=Counter)
    signals: Counter[str] = field(default_factory=Counter)
    kinds: Counter[ConceptKind] = field(default_factory=Counter)
    aliases: dict[tuple[str, str], Alias] = field(default_factory=dict)
    definition: tuple[int, int] | None = None


@dataclass(slots=True)
class _Reading:
    """A source while it is read; ``text`` is its text without formulas, offset by offset."""

    document: Document
    text: str
    drafts: dict[str, _Draft] = field(default_factory=lambda: defaultdict(_Draft))
    claims: list[Claim] = field(default_factory=list)
    heading: str = ""
    code_starts: list[int] = field(default_factory=list)
    code_ends: list[int] = field(default_factory=list)

    def is_code(self, term: Term) -> bool:
        """Tell whether a term touches words that are set as code."""
        at = bisect_left(self.code_starts, term.end) - 1
        return at >= 0 and self.code_ends[at] > term.start


def read_source(document: Document) -> Extraction:
    """Return what the grammar finds in a source: claims in order, candidates by key."""
    reading = _Reading(document, mask_math(document))
    for mark in document.marks:
        if mark.kind == "code":
            reading.code_starts.append(mark.start)
            reading.code_ends.append(mark.end)
    title = document.title
    if title:
        _sign(reading.drafts, title, "title")
    for author in document.authors:
        _sign(reading.drafts, author, "author", kind="person")
    for block in document.blocks:
        if block.kind == "heading":
            reading.heading = clean_line(document.text[block.start : block.end])
            if canonical_key(reading.heading) not in HEADING_STOP and reading.heading != title:
                _sign(reading.drafts, reading.heading, "heading")
        elif block.kind in _PROSE:
            _read_block(reading, block)
    _read_marks(document, reading.drafts)
    if title:
        _title_words(reading)
    return Extraction(
        title=title,
        lang=lang_of(document.text),
        summary=_summary(reading.claims),
        candidates=tuple(_finish(key, draft) for key, draft in sorted(reading.drafts.items())),
        claims=tuple(reading.claims),
    )


def _sign(
    drafts: dict[str, _Draft], name: str, signal: str, kind: ConceptKind | None = None
) -> None:
    """Count a strong sign for a name as it stands, if it is short enough to be one."""
    name = re.sub(r"\s*\([^()]*\)", "", clean_line(name)).strip(" .,:;!?\"'«»“”*_()")
    name = re.sub(r"^(?:the|a|an)\s+", "", name, flags=re.IGNORECASE)
    words = WORD.findall(name)
    if (
        not _fits(name)
        or _JOINED.search(name)
        or not 1 <= len(words) <= _MAX_NAME_WORDS
        or "$" in name
        or len(name) < 2
    ):
        return
    key = lemma_key(name)
    if not key or key.replace(" ", "").isdigit() or (signal != "title" and is_generic(key)):
        return
    draft = drafts[key]
    draft.signals[signal] += 1
    draft.names[name, lang_of(name)] += _TITLE_WEIGHT if signal == "title" else 1
    if kind:
        draft.kinds[kind] += 1


def _fits(name: str) -> bool:
    """Tell whether a name and its key are short enough for one."""
    return len(name) <= _MAX_NAME and len(lemma_key(name)) <= _MAX_NAME


def _read_block(reading: _Reading, block: Block) -> None:
    body = reading.text[block.start : block.end]
    lang = lang_of(body)
    for start, end in sentences(body, lang):
        _read_sentence(reading, block.start + start, block.start + end, lang)


def _read_sentence(reading: _Reading, start: int, end: int, lang: Lang) -> None:
    text, drafts = reading.text, reading.drafts
    found = [
        t
        for t in terms(text[start:end], start, lang)
        if len(t.name) <= _MAX_NAME and len(t.key) <= _MAX_NAME and not reading.is_code(t)
    ]
    for term in found:
        draft = drafts[term.key]
        draft.signals["nested" if term.nested else "name" if term.proper else "noun"] += 1
        draft.names[term.name, lang_of(term.name)] += 1
    _definition(text, start, end, found, drafts)
    _agents(text, found, drafts)
    for name, alias in bracket_aliases(text, start, end, found):
        _add_alias(drafts, name, alias)
    rank = _rank(text[start:end], found, start)
    if rank > 0:
        whole = reading.document.text[start:end]
        reading.claims.append(
            Claim(
                ordinal=len(reading.claims),
                start=start,
                end=end,
                text=whole,
                lang=lang_of(whole),
                page=page_of(reading.document.pages, start),
                heading=reading.heading,
                rank=rank,
            )
        )


def _title_words(reading: _Reading) -> None:
    """Count a title as named where prose uses each of its words, if not in a row."""
    key = lemma_key(reading.document.title)
    draft = reading.drafts.get(key)
    if draft is None or draft.signals["noun"] + draft.signals["name"] or not draft.signals["title"]:
        return
    blocks = (b for b in reading.document.blocks if b.kind in _PROSE)
    used = {w for b in blocks for w in stream(reading.text[b.start : b.end]).lemmas}
    if all(len(word) < 4 or word in used for word in key.split()):
        draft.signals["noun"] += 1


def _add_alias(drafts: dict[str, _Draft], name: str, alias: Alias) -> None:
    if not _fits(name) or not _fits(alias.name):
        return
    draft = drafts[lemma_key(name)]
    draft.names[name, lang_of(name)] += 1
    draft.signals[alias.kind] += 1
    draft.aliases.setdefault((canonical_key(alias.name), alias.kind), alias)


def _definition(
    text: str, start: int, end: int, found: list[Term], drafts: dict[str, _Draft]
) -> None:
    """Note the sentence as a definition where its first term is followed by "is a" or «— это»."""
    if not found:
        return
    lead = _LEAD.match(text, start)
    first = found[0]
    if first.start not in {start, lead.end() if lead else start}:
        return
    subject_end = first.end
    is_a = _IS_A.match(text, subject_end, end) or _APPOSITION.match(text, subject_end, end)
    if not is_a:
        return
    draft = drafts[first.key]
    draft.signals["definition"] += 1
    if draft.definition is None:
        draft.definition = (start, end)
    genus = next(
        (t for t in found[1:] if t.start >= is_a.end() and t.key.split()[-1] not in PARTITIVES),
        None,
    )
    kind = kind_of(genus.key) if genus and genus.start - is_a.end() < 60 else None
    if kind:
        draft.kinds[kind] += 2


def kind_of(key: str) -> ConceptKind | None:
    """Return the kind that a name's head word hints at, the last head that is known winning."""
    words = key.split()
    for word in (*reversed(words[-1:]), *words[:1], *reversed(words[1:-1])):
        if word in KIND_HEADS:
            return KIND_HEADS[word]
    return None


def _agents(text: str, found: list[Term], drafts: dict[str, _Draft]) -> None:
    """Take two-word names around a verb of making for persons."""
    for term in found:
        if not term.proper or len(term.key.split()) != 2 or kind_of(term.key):
            continue
        if is_given_name(term.name.split()[0]):
            drafts[term.key].kinds["person"] += 1
            continue
        after = WORD.findall(text[term.end : term.end + 60])[:6]
        if any(lemma(w) in AGENT_VERBS for w in after[:4]) and all(
            w[:1].isupper() for w in term.name.split()
        ):
            drafts[term.key].kinds["person"] += 1


def _read_marks(document: Document, drafts: dict[str, _Draft]) -> None:
    inside = [b for b in document.blocks if b.kind in _PROSE]
    at = 0
    for mark in document.marks:
        while at < len(inside) and inside[at].end < mark.end:
            at += 1
        if at == len(inside) or mark.start < inside[at].start:
            continue
        name = document.text[mark.start : mark.end]
        if mark.kind == "bold":
            _sign(drafts, name, "bold")
        elif mark.kind == "wikilink":
            target = mark.target.split("#")[0].rsplit("/", 1)[-1]
            _sign(drafts, target, "link")
            if lemma_key(name) != lemma_key(target):
                _link_alias(drafts, target, name)


def _link_alias(drafts: dict[str, _Draft], target: str, name: str) -> None:
    """Take the words of a wikilink for another name of its target, across languages only."""
    if lang_of(target) == lang_of(name) or len(WORD.findall(name)) > _MAX_NAME_WORDS:
        return
    target, name = (re.sub(r"\s*\([^()]*\)", "", n) for n in (target, name))
    if lemma_key(target) and not _JOINED.search(target):
        _add_alias(drafts, target, Alias(clean_line(name), "link", lang_of(name)))


def _rank(text: str, found: list[Term], start: int) -> float:
    """Return how well a sentence stands alone, in [0, 1]; 0 means that it is no statement."""
    words = WORD.findall(text)
    enough = 3 if sum(t.proper for t in found) > 1 else 5
    formulas = re.findall(f"{FORMULA}+", text)
    if (
        not enough <= len(words) + len(formulas) <= 70
        or not _ENDED.search(text)
        or text.endswith(("?", ":"))
    ):
        return 0.0
    head = text.lstrip("\"'«“(*")[:1]
    if not (head.isupper() or head.isdigit()) or not found:
        return 0.0
    rank = 0.6
    if words[0].casefold() in ANAPHORA:
        rank -= 0.4
    if found[0].start - start < 6:
        rank += 0.2
    if 8 <= len(words) <= 40:
        rank += 0.2
    if len(formulas) > 1:
        rank -= 0.2
    return round(max(0.05, min(1.0, rank)), 2)


def _summary(claims: list[Claim]) -> str:
    good = [c for c in claims if c.rank >= 0.6][:2]
    return " ".join(c.text for c in good)


def _finish(key: str, draft: _Draft) -> Candidate:
    name, lang = best_name(draft.names)
    kinds = sorted(draft.kinds.items(), key=lambda item: (-item[1], item[0]))
    return Candidate(
        key=key,
        name=name,
        lang=lang,
        kind=kinds[0][0] if kinds else None,
        signals=dict(sorted(draft.signals.items())),
        aliases=tuple(alias for _, alias in sorted(draft.aliases.items())),
        definition=draft.definition,
    )
