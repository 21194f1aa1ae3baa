"""resolve: candidates of all sources become Concepts, with titles, slugs, aliases and Mentions.

An order-free function of the whole store, run as one transaction; only what differs is written.
"""

import hashlib
import json
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import PurePosixPath
from typing import Any

from kbwiki.errors import ModelError
from kbwiki.records import Alias, Candidate
from kbwiki.stages import likeness, splits
from kbwiki.stages.stage import Outcome, Services, Stage
from kbwiki.text.concepts import Decision, NewConcept, SourceCandidate, resolve_candidates
from kbwiki.text.mentions import Match, Matcher
from kbwiki.text.normal import assign_slugs, canonical_key, clean_line, counted, short_hash
from kbwiki.text.words import lang_of, lemma_key

VERSION = "resolve-8"
MAX_ROUNDS = 4
"""Times that an engine is asked: what it joins may bring up new pairs."""
MAX_URI = 300


@dataclass(frozen=True, slots=True)
class ReadSource:
    """A source as extract left it; ``key`` names its page and orders it among others."""

    id: int
    key: str
    uri: str
    title: str
    fingerprint: str
    aliases: list[str]
    lang: str
    text: str
    lemmas: list[str]
    starts: list[int]
    ends: list[int]
    links: list[tuple[int, int]]
    claims: list[dict[str, Any]]
    chunks: list[dict[str, Any]]


@dataclass(slots=True)
class Found:
    """The mentions of one source, by its key: (match, claim index or None, linked, defines)."""

    source: ReadSource
    mentions: list[tuple[Match, int | None, bool, bool]] = field(default_factory=list)


def fingerprint(services: Services) -> str:
    """Return what decides the concepts: sources, decisions, and who tells names apart."""
    try:
        model = services.embedder().name
    except ModelError:
        model = "no vectors"
    judge = services.engine.name if services.engine.is_paid else "nobody"
    version = f"{VERSION} {model} {judge}"
    return str(services.database.value("fingerprint_resolve", {"version": version}))


def run(services: Services, may_ask: bool = True) -> Outcome:
    """Resolve anew if any extraction, name, place of a source or decision changed.

    An engine that costs money is asked about doubtful pairs between transactions, and then all is
    resolved with its answers; without ``may_ask`` that is left to the next run.
    """
    database = services.database
    if database.value("read_setting", {"name": "resolve"}) == fingerprint(services):
        return Outcome(note=_note(services))
    for n_left in reversed(range(MAX_ROUNDS)):
        with database.transaction():
            database.run("keep_up_splits")
            now = fingerprint(services)
            resolved = _resolve(services)
            unasked = [v for v in resolved.verdicts if not v.is_asked]
            must_ask = bool(unasked and services.engine.is_paid)
            if not must_ask or not may_ask or not n_left:
                _save(services, resolved)
                value = f"{now} unasked" if must_ask and not may_ask else now
                database.run("save_setting", {"name": "resolve", "value": value})
                break
        likeness.ask(services, unasked)
    return Outcome(n_done=len(resolved.concepts), note=_note(services))


@dataclass(frozen=True, slots=True)
class _Resolved:
    """The concepts, where they are named, and the pairs that were or may be one."""

    concepts: list[NewConcept]
    found: dict[str, Found]
    verdicts: list[likeness.Verdict]
    homonyms: list[tuple[NewConcept, list[str]]]


def _resolve(services: Services) -> _Resolved:
    sources = _load_sources(services)
    decisions = services.database.rows("list_decisions", Decision)
    candidates = list(_load_candidates(services, sources))
    parted = splits.load(services.database, {s.id: key for key, s in sources.items()})
    candidates = splits.rename(candidates, parted, len(sources), decisions)
    decisions += splits.decisions_of(parted)
    concepts = resolve_candidates(candidates, len(sources), decisions)
    concepts, found = match_concepts(concepts, sources, parted)
    definitions = {c.key: _definition(c, found) for c in concepts}
    verdicts = likeness.judge(services, concepts, _statements(found), definitions, decisions)
    same = likeness.decisions_of(verdicts)
    if same:
        concepts = resolve_candidates(candidates, len(sources), [*decisions, *same])
        concepts, found = match_concepts(concepts, sources, parted)
    named = {key: {m.owner for m, *_ in f.mentions} for key, f in found.items()}
    kinds = {
        (x.source_key, x.candidate.key): x.candidate.kind for x in candidates if x.candidate.kind
    }
    homonyms = splits.find_homonyms(concepts, sources, named, kinds, parted)
    return _Resolved(concepts, found, verdicts, homonyms)


def _statements(found: dict[str, Found]) -> Iterator[set[str]]:
    """Yield the keys of the concepts that each claim names."""
    for source in found.values():
        named: dict[int, set[str]] = defaultdict(set)
        for match, at, *_ in source.mentions:
            if at is not None:
                named[at].add(match.owner)
        yield from named.values()


def _save(services: Services, resolved: _Resolved) -> None:
    _save_concepts(services, resolved.concepts, resolved.found)
    _save_pages(services, resolved.found)
    _save_mentions(services, resolved.found)
    likeness.save(services, resolved.verdicts, resolved.concepts)
    uris = {key: f.source.uri for key, f in resolved.found.items()}
    splits.save(services.database, resolved.homonyms, uris)


def _note(services: Services) -> str:
    counts = services.database.dicts("count_concepts")[0]
    doubtful = f", {counted(counts['n_doubtful'], 'doubtful pair')}" if counts["n_doubtful"] else ""
    if counts["n_homonyms"]:
        doubtful += f", {counts['n_homonyms']} that may be two"
    return (
        f"{counted(counts['n_concepts'], 'concept')}, {counted(counts['n_mentions'], 'mention')}"
        + doubtful
    )


def _load_sources(services: Services) -> dict[str, ReadSource]:
    database = services.database
    claims: dict[int, list[dict[str, Any]]] = defaultdict(list)
    for row in database.dicts("list_claims"):
        claims[row["source_id"]].append(row)
    chunks: dict[int, list[dict[str, Any]]] = defaultdict(list)
    for row in database.dicts("list_chunk_spans"):
        chunks[row["source_id"]].append(row)
    out: dict[str, ReadSource] = {}
    for row in database.dicts("list_extractions"):
        stem = PurePosixPath(row["uri"]).stem
        title = clean_line(row["title"]) or clean_line(stem) or row["uri"]
        key = f"{canonical_key(title)}|{_short(row['uri'])}"
        out[key] = ReadSource(
            id=row["source_id"],
            key=key,
            uri=row["uri"],
            title=title,
            fingerprint=row["fingerprint"],
            aliases=row["aliases"],
            lang=row["lang"],
            text=row["text"],
            lemmas=row["lemmas"].split(" ") if row["lemmas"] else [],
            starts=row["starts"],
            ends=row["ends"],
            links=list(zip(row["link_starts"], row["link_ends"], strict=True)),
            claims=claims[row["source_id"]],
            chunks=chunks[row["source_id"]],
        )
    return out


def _short(uri: str) -> str:
    """Return a uri, or where it is too long for an index, its end and a hash of the whole."""
    return uri if len(uri) <= MAX_URI else f"{short_hash(uri)}{uri[-MAX_URI:]}"


def _load_candidates(
    services: Services, sources: dict[str, ReadSource]
) -> Iterable[SourceCandidate]:
    keys = {source.id: key for key, source in sources.items()}
    titles = {key: lemma_key(source.title) for key, source in sources.items()}
    for row in services.database.dicts("list_candidates"):
        if row["source_id"] not in keys:
            continue
        span = (row["definition_start"], row["definition_end"])
        source_key = keys[row["source_id"]]
        is_title = row["key"] == titles[source_key]
        yield SourceCandidate(
            source_key,
            Candidate(
                key=row["key"],
                name=row["name"],
                lang=row["lang"],
                kind=row["kind"],
                signals=row["signals"],
                aliases=tuple(
                    Alias(name, kind, lang) for name, kind, lang in row["aliases"]["names"]
                )
                + (_given_aliases(sources[source_key]) if is_title else ()),
                definition=None if span[0] is None else span,
            ),
        )


def _given_aliases(source: ReadSource) -> tuple[Alias, ...]:
    """Return the names that a note's front matter gives to what its title names."""
    names = (clean_line(name) for name in source.aliases)
    own = lemma_key(source.title)
    return tuple(
        Alias(name, "given", lang_of(name)) for name in names if lemma_key(name) not in {"", own}
    )


def match_concepts(
    concepts: list[NewConcept], sources: dict[str, ReadSource], parted: Sequence[splits.Split]
) -> tuple[list[NewConcept], dict[str, Found]]:
    """Find every mention; a concept that only stood inside longer names is dropped."""
    found = _find(concepts, sources, parted)
    counts: dict[str, int] = defaultdict(int)
    places: dict[str, set[str]] = defaultdict(set)
    for key, source in found.items():
        for match, *_ in source.mentions:
            counts[match.owner] += 1
            places[match.owner].add(key)
    kept = [c for c in concepts if c.stands(counts[c.key], len(places[c.key]))]
    return kept, (found if len(kept) == len(concepts) else _find(kept, sources, parted))


def _find(
    concepts: list[NewConcept], sources: dict[str, ReadSource], parted: Sequence[splits.Split]
) -> dict[str, Found]:
    names = [name for concept in concepts for name in concept.names]
    matcher = Matcher([*names, *splits.left_names(concepts, parted)])
    meant = splits.owners(concepts, parted)
    defined = {(d[0], d[1], d[2], c.key) for c in concepts for d in c.definitions}
    out: dict[str, Found] = {}
    for key, source in sorted(sources.items()):
        found = Found(source)
        starts = [claim["start_at"] for claim in source.claims]
        link_starts = [start for start, _ in source.links]
        others = meant.get(key, {})
        matches = matcher.find(source.text, source.lemmas, source.starts, source.ends)
        if others:
            matches = [replace(m, owner=others.get(m.owner, m.owner)) for m in matches]
        for match in matches:
            at = bisect_right(starts, match.start) - 1
            claim = (
                source.claims[at] if at >= 0 and match.end <= source.claims[at]["end_at"] else None
            )
            link = bisect_left(link_starts, match.end) - 1
            linked = link >= 0 and source.links[link][1] > match.start
            defines = claim is not None and (
                (key, claim["start_at"], claim["end_at"], match.owner) in defined
            )
            found.mentions.append((match, at if claim else None, linked, defines))
        out[key] = found
    return out


def _digest(value: object) -> str:
    return hashlib.sha256(
        json.dumps(value, ensure_ascii=False, sort_keys=True).encode()
    ).hexdigest()


def _claim_facts(found: Found, titles: dict[str, str]) -> dict[int, list[Any]]:
    """Return, by claim index, all that an article takes from the claim."""
    named: dict[int, list[tuple[int, int, str, bool]]] = defaultdict(list)
    for match, at, _, defines in found.mentions:
        if at is not None:
            begin = found.source.claims[at]["start_at"]
            named[at].append((match.start - begin, match.end - begin, titles[match.owner], defines))
    out: dict[int, list[Any]] = {}
    for at, claim in enumerate(found.source.claims):
        facts = [
            claim[name]
            for name in ("start_at", "end_at", "text", "lang", "page", "heading", "rank", "wording")
        ]
        # The id too: citations hang on it, so a source that went and came back is cited anew.
        out[at] = [found.source.id, found.source.key, found.source.title, *facts, named[at]]
    return out


def _save_concepts(services: Services, concepts: list[NewConcept], found: dict[str, Found]) -> None:
    database = services.database
    titles = {c.key: c.title for c in concepts}
    slugs = assign_slugs(titles)
    inputs: dict[str, list[Any]] = defaultdict(list)
    counts: dict[str, int] = defaultdict(int)
    places: dict[str, set[str]] = defaultdict(set)
    for key, source in sorted(found.items()):
        facts = _claim_facts(source, titles)
        for match, at, _, _ in source.mentions:
            counts[match.owner] += 1
            places[match.owner].add(key)
            if at is not None and (
                not inputs[match.owner] or inputs[match.owner][-1] is not facts[at]
            ):
                inputs[match.owner].append(facts[at])
    rows = []
    for c in concepts:
        names = sorted((a.name, a.lang, a.kind) for a in c.aliases)
        definition = _definition(c, found)
        main = min(c.main_sources, key=lambda k: (found[k].source.lang != c.lang, k), default=None)
        rows.append(
            {
                "key": c.key,
                "title": c.title,
                "slug": slugs[c.key],
                "kind": c.kind,
                "lang": c.lang,
                "definition": definition,
                "main_source_id": found[main].source.id if main else None,
                "n_sources": len(places[c.key]),
                "n_mentions": counts[c.key],
                "input_sha": _digest(
                    [c.title, c.kind, c.lang, names, c.main_sources, inputs[c.key]]
                ),
                "search_text": concept_text(c.title, names, definition),
            }
        )
    database.run("delete_concepts_but", {"keys": [c.key for c in concepts]})
    database.run_many("save_concept", rows)
    database.run("delete_aliases")
    database.run_many(
        "save_alias",
        [
            {
                "concept": c.key,
                "key": canonical_key(a.name),
                "name": a.name,
                "lang": a.lang,
                "kind": a.kind,
                "lemmas": lemma_key(a.name),
            }
            for c in concepts
            for a in c.aliases
        ],
    )


def concept_text(title: str, names: Sequence[tuple[str, str, str]], definition: str) -> str:
    """Return the text of a concept that is embedded: title, other names, definition."""
    others = [name for name, _, _ in names if name != title]
    return f"{title} ({', '.join(others)}). {definition}" if others else f"{title}. {definition}"


def _definition(concept: NewConcept, found: dict[str, Found]) -> str:
    """Return the defining sentence: of a source that it heads, in its language, else the first."""
    best: tuple[tuple[bool, bool, str, int], str] | None = None
    for key, start, end in concept.definitions:
        source = found[key].source
        rank = (key not in concept.main_sources, source.lang != concept.lang, key, start)
        if best is None or rank < best[0]:
            best = (rank, clean_line(source.text[start:end]))
    return best[1] if best else ""


def _save_pages(services: Services, found: dict[str, Found]) -> None:
    titles = {key: f.source.title for key, f in found.items()}
    slugs = assign_slugs(titles)
    owners = {m.owner for f in found.values() for m, *_ in f.mentions}
    concept_titles = {
        row["key"]: row["title"]
        for row in services.database.dicts("list_titles")
        if row["key"] in owners
    }
    services.database.run_many(
        "save_page",
        [
            {
                "source_id": f.source.id,
                "key": key,
                "title": f.source.title,
                "slug": slugs[key],
                "input_sha": _digest(
                    [
                        key,
                        f.source.title,
                        f.source.lang,
                        list(_claim_facts(f, concept_titles).values()),
                    ]
                ),
            }
            for key, f in sorted(found.items())
        ],
    )


def _save_mentions(services: Services, found: dict[str, Found]) -> None:
    """Replace the mentions of the sources in which they differ from what is stored."""
    database = services.database
    stored = {row["source_id"]: row["mentions_sha"] for row in database.dicts("list_mention_shas")}
    ids = {row["key"]: row["id"] for row in database.dicts("list_titles")}
    for _, f in sorted(found.items()):
        source = f.source
        facts = [
            [ids[m.owner], m.start, m.end, at, linked, defines]
            for m, at, linked, defines in f.mentions
        ]
        sha = _digest([source.fingerprint, facts])
        if stored.get(source.id) == sha:
            continue
        database.run("delete_mentions", {"source_id": source.id})
        chunk_starts = [c["start_at"] for c in source.chunks]
        database.run(
            "save_mentions",
            {
                "source_id": source.id,
                "concepts": [ids[m.owner] for m, *_ in f.mentions],
                "chunks": [
                    source.chunks[max(0, bisect_right(chunk_starts, m.start) - 1)]["id"]
                    for m, *_ in f.mentions
                ],
                "claims": [
                    source.claims[at]["id"] if at is not None else None for _, at, *_ in f.mentions
                ],
                "starts": [m.start for m, *_ in f.mentions],
                "ends": [m.end for m, *_ in f.mentions],
                "linked": [linked for *_, linked, _ in f.mentions],
                "defines": [defines for *_, defines in f.mentions],
            },
        )
        database.run("save_mentions_sha", {"source_id": source.id, "sha": sha})


STAGE = Stage(name="resolve", run=run)
