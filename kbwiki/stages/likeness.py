"""Which concepts are one though no text joins their names: a part of resolve.

Vectors of names are kept in the store, so that a name is embedded once; what an engine said of a
pair is kept too, by how the pair was described, so that nothing is asked twice.
"""

import hashlib
import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from kbwiki.errors import ConfigError, ModelError
from kbwiki.records import Pair
from kbwiki.stages.stage import Services
from kbwiki.text.concepts import Decision, NewConcept
from kbwiki.text.sameness import EmbedNames, Likeness, Named, find_likenesses
from kbwiki.text.words import lemma_key

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float32]

PAIRS_PER_CALL = 20
MAX_NAMED = 12
"""A statement that names more concepts than this is a list: its names are no neighbours."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """A likeness and what came of it; ``pair`` is how it was described, ``sha`` its hash."""

    likeness: Likeness
    pair: Pair
    sha: str
    same: bool | None
    is_asked: bool


def judge(
    services: Services,
    concepts: Sequence[NewConcept],
    statements: Iterable[set[str]],
    definitions: Mapping[str, str],
    decisions: Sequence[Decision],
) -> list[Verdict]:
    """Return the pairs of concepts that are or may be one, with what is known of each.

    ``statements`` are the keys of the concepts that each names; ``definitions`` are by key.
    """
    near = _neighbours(statements)
    owner = {key: c.key for c in concepts for key in c.lemma_keys}
    settled = frozenset(
        frozenset((owner[d.first], owner[d.second]))
        for d in decisions
        if d.first in owner and d.second in owner
    )
    named = [
        Named(c.key, c.title, c.kind, tuple(a.name for a in c.aliases), near.get(c.key, Counter()))
        for c in concepts
    ]
    try:
        found = find_likenesses(named, _embed(services), settled)
    except (ConfigError, ModelError):  # the stage embed will tell what the matter is
        found = find_likenesses(named, None, settled)
    by_key = {c.key: c for c in concepts}
    pairs = [
        Pair(
            *(
                (by_key[k].title, by_key[k].kind, definitions.get(k, ""))
                for k in (x.first, x.second)
            )
        )
        for x in found
    ]
    shas = [_sha(pair, services.engine.name) for pair in pairs]
    known = {
        row["pair_sha"]: row["same"]
        for row in services.database.dicts("list_verdicts", {"shas": shas})
    }
    return [
        Verdict(
            x if x.is_sure or known.get(sha) is None else replace(x, band="engine"),
            pair,
            sha,
            True if x.is_sure else known.get(sha),
            x.is_sure or sha in known,
        )
        for x, pair, sha in zip(found, pairs, shas, strict=True)
    ]


def _neighbours(statements: Iterable[set[str]]) -> dict[str, Counter[str]]:
    near: dict[str, Counter[str]] = defaultdict(Counter)
    for keys in statements:
        if 1 < len(keys) <= MAX_NAMED:
            for key in keys:
                near[key].update(k for k in keys if k != key)
    return near


def _embed(services: Services) -> EmbedNames:
    """Return a way to embed names through the store; raise ModelError without an embedder."""
    embedder = services.embedder()
    database = services.database

    def embed(names: Sequence[str]) -> "Floats":
        import numpy as np

        params: dict[str, object] = {"model": embedder.name, "names": list(dict.fromkeys(names))}
        known = {
            row["name"]: np.frombuffer(row["v"], "<f4")
            for row in database.dicts("list_name_vectors", params)
        }
        new = sorted(set(names) - known.keys())
        if new:
            vectors = embedder.embed(new, "query").astype("<f4")
            rows = [
                {"model": embedder.name, "name": name, "v": vector.tobytes()}
                for name, vector in zip(new, vectors, strict=True)
            ]
            database.run_many("save_name_vector", rows)
            known.update(zip(new, vectors, strict=True))
        return np.stack([known[name] for name in names])

    return embed


def _sha(pair: Pair, engine: str) -> str:
    text = json.dumps([pair.first, pair.second, engine], ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()


def ask(services: Services, verdicts: Sequence[Verdict]) -> None:
    """Ask the engine about pairs, a few at a time, and keep each answer as it comes."""
    for start in range(0, len(verdicts), PAIRS_PER_CALL):
        batch = verdicts[start : start + PAIRS_PER_CALL]
        item = f"{batch[0].pair.first[0]} and {len(batch)} more"
        answers = services.engine.same([v.pair for v in batch], item)
        rows = [
            {"sha": v.sha, "engine": services.engine.name, "same": same}
            for v, same in zip(batch, answers, strict=True)
        ]
        services.database.run_many("save_verdict", rows)


def decisions_of(verdicts: Sequence[Verdict]) -> list[Decision]:
    """Return the pairs that are one as decisions, which a person's own outweigh."""
    return [
        Decision(lemma_key(v.pair.first[0]), lemma_key(v.pair.second[0]), True, by_person=False)
        for v in verdicts
        if v.same
    ]


def save(services: Services, verdicts: Sequence[Verdict], concepts: Sequence[NewConcept]) -> None:
    """Store what came of each pair; one that a third concept joined is no pair any more."""
    owner = {key: c for c in concepts for key in c.lemma_keys}
    rows: dict[tuple[str, str], dict[str, Any]] = {}
    for v in verdicts:
        ends = [owner.get(lemma_key(name)) for name, _, _ in (v.pair.first, v.pair.second)]
        first, second = ends
        if first is None or second is None:
            continue
        if v.same and first is second:
            names, keys = (v.pair.first[0], v.pair.second[0]), (v.likeness.first, v.likeness.second)
            status = "merged"
        elif first is not second:
            names, keys = (first.title, second.title), (first.key, second.key)
            status = "apart" if v.same is False else "doubtful"
        else:
            continue
        rows[min(keys), max(keys)] = {
            "first_key": keys[0],
            "second_key": keys[1],
            "first_title": names[0],
            "second_title": names[1],
            "band": v.likeness.band,
            "status": status,
            "score": v.likeness.score,
            "reason": v.likeness.reason,
        }
    services.database.run("delete_likenesses")
    services.database.run_many("save_likeness", [rows[keys] for keys in sorted(rows)])
