"""From candidates to concepts: an order-free function of what all sources hold.

Decides what is a concept, which names are one, what it is called and of what kind. Works on lemma
keys and counts only, so it knows nothing of the store, and the order of its input cannot matter.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from kbwiki.records import Alias, Candidate, ConceptKind, Lang
from kbwiki.text.lexicon import GENERIC_HEADS, KIND_HEADS
from kbwiki.text.mentions import Name
from kbwiki.text.normal import canonical_key, capitalise
from kbwiki.text.terms import bare_names, best_name, head_of, is_generic, untested_names
from kbwiki.text.words import WORD, is_rare, is_russian, lang_of, lemma, lemma_key

STRONG = (
    "title", "bold", "definition", "link", "acronym", "translation", "heading", "model", "person",
)  # fmt: skip
MIN_WEAK_SOURCES = 2
MIN_WEAK_MENTIONS = 4
MIN_IN_SOURCE = 2
"""A term that one source names this often is one of its subjects."""
MIN_PLAIN = 8
"""A common English word, or one that a bracket renames, must be named this often."""
MAX_RARE_SOURCES = 5
"""Sources after which an unmarked word is the field's everyday language."""
MIN_RARE = 5
"""Letters of a rare word; shorter ones are symbols and initials."""
UBIQUITY = 0.5
"""A single common word found in a larger share of the sources than this names nothing."""


@dataclass(frozen=True, slots=True)
class SourceCandidate:
    """A candidate and the key of the source that it comes from."""

    source_key: str
    candidate: Candidate


@dataclass(frozen=True, slots=True)
class NewConcept:
    """A concept as resolution makes it; ``lemma_keys`` are the keys under which text names it.

    ``definitions`` are (source key, start, end), best first; ``main_sources`` the keys of the
    sources whose title names it.
    """

    key: str
    title: str
    kind: ConceptKind
    lang: Lang
    aliases: tuple[Alias, ...]
    lemma_keys: tuple[str, ...]
    definitions: tuple[tuple[str, int, int], ...]
    main_sources: tuple[str, ...]
    names: tuple[Name, ...] = ()
    marked: bool = False
    """Whether an author set it off: a title, bold, a link, a definition, a bracket."""
    weak: bool = False
    """Whether it stands on being repeated alone, in several sources or often in one."""

    def stands(self, n_mentions: int, n_sources: int) -> bool:
        """Tell whether what matching found of it is enough to keep it."""
        if self.marked:
            return n_mentions > 0
        if self.weak:
            return n_mentions >= MIN_WEAK_MENTIONS and n_sources >= MIN_WEAK_SOURCES
        return n_mentions >= MIN_IN_SOURCE


@dataclass(slots=True)
class _Group:
    """All that the corpus says about one lemma key, or about several that are one."""

    keys: set[str] = field(default_factory=set)
    names: Counter[tuple[str, Lang]] = field(default_factory=Counter)
    headed: Counter[tuple[str, Lang]] = field(default_factory=Counter)
    signals: Counter[str] = field(default_factory=Counter)
    kinds: Counter[ConceptKind] = field(default_factory=Counter)
    sources: set[str] = field(default_factory=set)
    per_source: Counter[str] = field(default_factory=Counter)
    titled: set[str] = field(default_factory=set)
    aliases: dict[tuple[str, str], Alias] = field(default_factory=dict)
    definitions: list[tuple[str, int, int]] = field(default_factory=list)
    decided: tuple[str, Lang] | None = None
    """The title that a person chose by merging others into it."""

    @property
    def n_named(self) -> int:
        """How often prose names it."""
        return self.signals["noun"] + self.signals["name"]


@dataclass(frozen=True, slots=True)
class Decision:
    """That two names, by lemma key, are one concept or two.

    A person's word comes before all rules, and the first's title stays; else it is a likeness that
    resolution found, and the title is chosen as always.
    """

    first: str
    second: str
    same: bool
    by_person: bool = True


def resolve_candidates(
    found: Iterable[SourceCandidate], n_sources: int, decisions: Sequence[Decision] = ()
) -> list[NewConcept]:
    """Return the concepts of a corpus, in key order; a person's decisions come before all rules."""
    groups = _aggregate(found)
    merged = _merge(groups, decisions)
    kept = [g for g in merged if _is_concept(g, n_sources)]
    by_key: dict[str, _Group] = {}
    for group in sorted(kept, key=lambda g: min(g.keys)):
        key = canonical_key(_title(group)[0])
        by_key[key] = _joined([by_key[key], group]) if key in by_key else group
    concepts = [_concept(group) for group in by_key.values()]
    return sorted(_unique_aliases(concepts), key=lambda c: c.key)


def _aggregate(found: Iterable[SourceCandidate]) -> dict[str, _Group]:
    groups: dict[str, _Group] = defaultdict(_Group)
    for item in found:
        candidate = item.candidate
        group = groups[candidate.key]
        group.keys.add(candidate.key)
        group.names[candidate.name, candidate.lang] += sum(candidate.signals.values())
        group.signals.update(candidate.signals)
        named = (candidate.signals.get(name, 0) for name in ("noun", "name", "nested"))
        group.per_source[item.source_key] += sum(named)
        if candidate.kind:
            group.kinds[candidate.kind] += 1
        if candidate.signals.keys() - {"author"}:
            group.sources.add(item.source_key)
        if "title" in candidate.signals:
            group.titled.add(item.source_key)
            group.headed[candidate.name, candidate.lang] += 1
        for alias in candidate.aliases:
            _keep_alias(group, alias)
            group.signals[f"alias:{lemma_key(alias.name)}"] += 1
        if candidate.definition:
            group.definitions.append((item.source_key, *candidate.definition))
    return dict(groups)


def _keep_alias(group: _Group, alias: Alias) -> None:
    """Take an alias; of two spellings the one in small letters stays."""
    key = (canonical_key(alias.name), alias.kind)
    kept = group.aliases.get(key, alias)
    group.aliases[key] = max(kept, alias, key=lambda a: (a.name, a.lang))


def _merge(groups: dict[str, _Group], decisions: Sequence[Decision]) -> list[_Group]:
    """Return the groups after joining acronyms and translations with what they stand for.

    A short or translated name goes to the one long name that gives it most often; where two tie it
    is ambiguous and goes to none. Two names that head sources of their own in one language stay
    apart.
    """
    claims = _claims(groups)
    names = _Names(groups, claims, decisions)
    by_person = [d for d in decisions if d.by_person]
    given_up = {d.second for d in by_person if d.same}
    for decision in sorted(by_person, key=lambda d: (d.first, d.second)):
        if decision.same and decision.first in groups and decision.second in groups:
            if decision.first not in given_up:
                groups[decision.first].decided = _title(groups[decision.first])
            names.join(decision.first, decision.second)
    for short in sorted(claims):
        for long in _owners(short, claims[short], groups):
            if names.may_join(short, long):
                names.join(short, long)
    found = (d for d in decisions if not d.by_person and {d.first, d.second} <= groups.keys())
    for likeness in sorted(found, key=lambda d: (d.first, d.second)):
        if likeness.same and names.may_join(likeness.first, likeness.second):
            names.join(likeness.first, likeness.second)
    return [_joined(parts) for key, parts in sorted(names.members.items()) if parts]


class _Names:
    """Names while they are joined: which set each is in, and which must stay apart."""

    def __init__(
        self, groups: dict[str, _Group], claims: Iterable[str], decisions: Sequence[Decision]
    ) -> None:
        self._parent = {key: key for key in {*groups, *claims}}
        self._keys = {key: {key} for key in self._parent}
        self._apart = {frozenset((d.first, d.second)) for d in decisions if not d.same}
        self.members = {k: [groups[k]] if k in groups else [] for k in self._parent}
        for name in sorted(name for pair in self._apart for name in pair):
            if name in groups:
                groups[name].signals["person"] += 1

    def root(self, key: str) -> str:
        while self._parent[key] != key:
            self._parent[key] = self._parent[self._parent[key]]
            key = self._parent[key]
        return key

    def may_join(self, one: str, other: str) -> bool:
        a, b = self.root(one), self.root(other)
        parted = any(frozenset((x, y)) in self._apart for x in self._keys[a] for y in self._keys[b])
        return a != b and not parted and not _rivals(self.members[a], self.members[b])

    def join(self, one: str, other: str) -> None:
        a, b = sorted((self.root(one), self.root(other)))
        if a != b:
            self._parent[b] = a
            self.members[a] += self.members.pop(b)
            self._keys[a] |= self._keys.pop(b)


def _claims(groups: dict[str, _Group]) -> dict[str, Counter[str]]:
    """Return, by short or translated name, the names that give it and how often."""
    claims: dict[str, Counter[str]] = defaultdict(Counter)
    for key, group in groups.items():
        for signal, n in group.signals.items():
            if signal.startswith("alias:") and signal[6:] not in {"", key}:
                claims[signal[6:]][key] += n
        for bare in bare_names(key):
            if bare in groups and not any(groups[bare].signals[s] for s in STRONG):
                claims[bare][key] += group.n_named
        for bare in untested_names(key):
            if bare in groups:
                claims[key][bare] += 1 + group.n_named
    return claims


def _owners(short: str, claims: Counter[str], groups: dict[str, _Group]) -> list[str]:
    """Return the names to which a short or translated name belongs."""
    ranked = sorted(claims.items(), key=lambda item: (-item[1], item[0]))
    best = [key for key, n in ranked if n == ranked[0][1]]
    if len(best) == 1:
        return best
    titled = [key for key in best if groups[key].titled or groups[key].signals["bold"]]
    if len(titled) == 1:
        return titled
    is_word_for_word = len({len(key.split()) for key in best}) == 1 and " " in short
    return best if is_word_for_word else []


def _rivals(first: list[_Group], second: list[_Group]) -> bool:
    """Tell whether two sets of names each head a source of their own, in one language."""
    langs = [
        {lang for g in groups if g.titled for (_, lang) in g.names} for groups in (first, second)
    ]
    return bool(langs[0] & langs[1])


def _joined(parts: list[_Group]) -> _Group:
    if len(parts) == 1:
        return parts[0]
    out = _Group()
    for part in parts:
        out.keys |= part.keys
        out.names.update(part.names)
        out.headed.update(part.headed)
        out.signals.update(part.signals)
        out.kinds.update(part.kinds)
        out.sources |= part.sources
        out.per_source.update(part.per_source)
        out.titled |= part.titled
        for alias in part.aliases.values():
            _keep_alias(out, alias)
        out.definitions += part.definitions
        out.decided = out.decided or part.decided
    return out


def _is_concept(group: _Group, n_sources: int) -> bool:
    signals = group.signals
    is_plain = all(" " not in k for k in group.keys) and not signals["name"]
    if all(is_generic(k) for k in group.keys):
        return bool(signals["title"])
    if signals["model"] or signals["person"]:
        return True
    if signals["title"] and (group.n_named or signals["bold"] or signals["link"]):
        return True
    if is_plain and len(group.sources) > max(4, UBIQUITY * n_sources) and not signals["bold"]:
        return False
    return _is_marked(group, is_plain) or _is_salient(group) or _is_shared(group, is_plain)


def _is_marked(group: _Group, is_plain: bool) -> bool:
    """Tell whether an author set the name off: bold, link, definition, heading, bracket."""
    signals, n = group.signals, group.n_named
    is_renamed = bool(signals["acronym"] or signals["translation"])
    is_common = is_plain and _is_common(group)
    if is_plain and n < MIN_PLAIN and any(not is_russian(k) and not is_rare(k) for k in group.keys):
        return False
    return any(
        (
            signals["bold"] and (signals["definition"] or n >= 1 + is_plain or is_renamed),
            signals["link"] and n >= 1,
            signals["definition"] and n >= 2 and not is_common,
            signals["heading"] and n >= 1 and not is_common,
            is_renamed and n >= (MIN_PLAIN if is_common else 2),
        )
    )


def _is_salient(group: _Group) -> bool:
    """Tell whether one source repeats the name, and the name is a term rather than common words."""
    most = max(group.per_source.values(), default=0)
    if most < MIN_IN_SOURCE or not group.n_named:
        return False
    if all(" " not in name and is_russian(name) and name[:1].isupper() for name, _ in group.names):
        return False  # a surname
    return not all(_is_loose(key, most, len(group.sources)) for key in group.keys)


def _is_loose(key: str, n: int, n_sources: int) -> bool:
    """Tell whether a name is a common word, a number, or words hung on a head that says nothing.

    An English compound may have such a head (exchange rate) if it is named more than ``n`` = 2
    times; a Russian one is then a genitive («число токенов»), which is no fixed name.
    """
    words = key.split()
    if len(words) == 1:
        return n_sources > MAX_RARE_SOURCES or not is_rare(key) or len(key) < MIN_RARE
    if words[0][:1].isdigit() or words[0] in GENERIC_HEADS:
        return True
    if head_of(key) in GENERIC_HEADS and (is_russian(key) or n <= MIN_IN_SOURCE):
        return True
    return all(len(word) < 3 for word in words)


def _is_common(group: _Group) -> bool:
    return all(" " not in key and not is_rare(key) for key in group.keys)


def _is_shared(group: _Group, is_plain: bool) -> bool:
    """Tell whether several sources repeat the name."""
    key = min(group.keys, key=lambda k: (-len(k.split()), k))
    is_word = is_russian(key) and _is_common(group)
    if is_plain or is_word or head_of(key) in GENERIC_HEADS or key[:1].isdigit():
        return False
    return len(group.sources) >= MIN_WEAK_SOURCES and group.n_named >= MIN_WEAK_MENTIONS


def rank_key(concept: NewConcept, n_mentions: int) -> tuple[bool, int, str]:
    """Return the order of a source's concepts, first the surest: strong signs, then how often
    named.
    """
    return concept.weak, -n_mentions * (2 if concept.marked else 1), concept.key


def _title(group: _Group) -> tuple[str, Lang]:
    """Return the commonest name, in the language in which most of the names are."""
    if group.decided:
        return group.decided
    totals: Counter[Lang] = Counter()
    for (_, its), n in group.names.items():
        totals[its] += n
    lang: Lang = "ru" if totals["ru"] > totals["en"] else "en"
    headed = [(n, name) for (name, its), n in group.headed.items() if its == lang]
    names = headed or [(n, name) for (name, its), n in group.names.items() if its == lang]
    acronyms = {canonical_key(a.name) for a in group.aliases.values() if a.kind == "acronym"}
    whole = [(n, name) for n, name in names if canonical_key(name) not in acronyms] or names
    counts: Counter[tuple[str, Lang]] = Counter()
    for n, name in whole:
        counts[name, lang] += n
    name, _ = best_name(counts)
    return capitalise(name) if name[1:2].islower() or " " in name else name, lang


def _kind(group: _Group, title: str) -> ConceptKind:
    votes = Counter(group.kinds)
    others = (a.name for _, a in sorted(group.aliases.items()) if a.kind != "acronym")
    names = [title, *others, *(n for n, _ in sorted(group.names) if not n.isupper())]
    for name in names:
        words = [lemma(w) for w in WORD.findall(name)]
        ends = words[:1] + words[-1:] if lang_of(name) == "ru" else words[-1:]
        hinted = next((KIND_HEADS[w] for w in ends if w in KIND_HEADS), None)
        if hinted:
            votes[hinted] += 2
            break
    return min(votes, key=lambda kind: (-votes[kind], kind)) if votes else "concept"


def _concept(group: _Group) -> NewConcept:
    title, lang = _title(group)
    aliases: dict[str, Alias] = {}
    title_key = canonical_key(title)
    for (name, its), _ in sorted(group.names.items(), key=lambda item: (-item[1], item[0])):
        aliases.setdefault(canonical_key(name), Alias(name, "form", its))
    for _, alias in sorted(group.aliases.items()):
        is_given = alias.kind == "given"  # by a person, so it need not stand in the text
        if is_given or aliases.get(canonical_key(alias.name), alias).kind == "form":
            aliases[canonical_key(alias.name)] = alias
    aliases[title_key] = Alias(title, "form", lang)
    keys = group.keys | {lemma_key(a.name) for a in aliases.values()}
    return NewConcept(
        key=title_key,
        title=title,
        kind=_kind(group, title),
        lang=lang,
        aliases=tuple(alias for _, alias in sorted(aliases.items())),
        lemma_keys=tuple(sorted(keys - {""})),
        names=_names(group, title_key, keys - {""}),
        definitions=tuple(sorted(group.definitions)),
        main_sources=tuple(sorted(group.titled)),
        marked=any(group.signals[s] for s in STRONG),
        weak=not (any(group.signals[s] for s in STRONG) or _is_salient(group)),
    )


def _names(group: _Group, owner: str, keys: set[str]) -> tuple[Name, ...]:
    """Return how text may name the concept: a one-word name seen only with a capital needs one."""
    forms: dict[str, set[str]] = defaultdict(set)
    for name in (*(n for n, _ in group.names), *(a.name for a in group.aliases.values())):
        forms[lemma_key(name)].add(name)
    out: list[Name] = []
    for key in sorted(keys):
        seen = forms[key]
        single = " " not in key and bool(seen)
        capital = single and all(name[:1].isupper() for name in seen)
        acronym = min(seen) if single and all(n.isupper() and len(n) <= 5 for n in seen) else ""
        out.append(Name(key, owner, cased=capital, exact=acronym))
    return tuple(out)


def _unique_aliases(concepts: list[NewConcept]) -> list[NewConcept]:
    """Return the concepts with each lemma key owned by one: the one whose title it is, else the
    first.
    """
    owner: dict[str, str] = {}
    for concept in sorted(concepts, key=lambda c: c.key):
        owner[lemma_key(concept.title)] = concept.key
    for concept in sorted(concepts, key=lambda c: c.key):
        for key in concept.lemma_keys:
            owner.setdefault(key, concept.key)
    out: list[NewConcept] = []
    for concept in concepts:
        keys = tuple(k for k in concept.lemma_keys if owner[k] == concept.key)
        names = tuple(
            a for a in concept.aliases if owner.get(lemma_key(a.name)) in {concept.key, None}
        )
        kept = tuple(n for n in concept.names if n.key in keys)
        out.append(replace(concept, aliases=names, lemma_keys=keys, names=kept))
    return out
