"""Concepts: an order-free choice, measured on hand-labelled notes."""

import random
import subprocess
import sys
import tomllib
from collections import Counter, defaultdict
from functools import cache
from pathlib import Path

import pytest

from kbwiki.engines.read import read_source
from kbwiki.records import Alias, Candidate, Document
from kbwiki.text.concepts import NewConcept, SourceCandidate, rank_key, resolve_candidates
from kbwiki.text.mentions import Matcher
from kbwiki.text.readers import read_document
from kbwiki.text.words import lemma_key, mask_math, stream

NOTES = Path(__file__).parents[1] / "data" / "concepts"
CORPUS = Path(__file__).parents[2] / "corpus"
LABELS = tomllib.loads((NOTES / "labels.toml").read_text(encoding="utf-8"))
Ranked = dict[str, list[NewConcept]]


@cache
def notes() -> dict[str, Document]:
    return {name: read_document(name, (NOTES / name).read_bytes()) for name in LABELS}


@cache
def demo() -> dict[str, Document]:
    paths = [p for p in CORPUS.rglob("*") if p.suffix in {".md", ".txt", ".html", ".pdf"}]
    return {
        str(p.relative_to(CORPUS)): read_document(p.name, p.read_bytes()) for p in sorted(paths)
    }


def candidates(documents: dict[str, Document]) -> list[SourceCandidate]:
    return [
        SourceCandidate(name, candidate)
        for name, document in documents.items()
        for candidate in read_source(document).candidates
    ]


def ranked(documents: dict[str, Document]) -> Ranked:
    """Return the concepts of each source, best first, as the product finds them."""
    concepts = resolve_candidates(candidates(documents), len(documents))
    matcher = Matcher(name for concept in concepts for name in concept.names)
    counts: dict[str, Counter[str]] = {}
    places: dict[str, set[str]] = defaultdict(set)
    for name, document in documents.items():
        words = stream(mask_math(document))
        matches = matcher.find(document.text, words.lemmas, words.starts, words.ends)
        counts[name] = Counter(match.owner for match in matches)
        for key in counts[name]:
            places[key].add(name)
    total = sum(counts.values(), Counter[str]())
    kept = [c for c in concepts if c.stands(total[c.key], len(places[c.key]))]
    return {
        name: sorted((c for c in kept if n[c.key]), key=lambda c, n=n: rank_key(c, n[c.key]))
        for name, n in counts.items()
    }


def _labels(name: str, kind: str) -> list[set[str]]:
    return [{lemma_key(form) for form in label.split(" = ")} for label in LABELS[name][kind]]


def _scores(name: str, found: list[NewConcept]) -> tuple[float, float]:
    """Return the share of acceptable concepts among the first ten, and of key concepts found."""
    key, fine = _labels(name, "key"), _labels(name, "fine")
    forms = [{*c.lemma_keys, lemma_key(c.title)} for c in found]
    good = [any(label & own for label in (*key, *fine)) for own in forms[:10]]
    return sum(good) / len(good), sum(any(label & own for own in forms) for label in key) / len(key)


@cache
def together() -> Ranked:
    return ranked(notes())


@pytest.mark.parametrize("name", LABELS)
def test_a_note_alone_gives_its_own_concepts(name: str) -> None:
    precision, recall = _scores(name, ranked({name: notes()[name]})[name])
    assert precision >= 0.8
    assert recall >= 0.7


@pytest.mark.parametrize("name", LABELS)
def test_a_note_among_others_gives_its_own_concepts(name: str) -> None:
    precision, recall = _scores(name, together()[name])
    assert precision >= 0.8
    assert recall >= 0.7


def test_the_order_of_candidates_does_not_matter() -> None:
    found = candidates(notes()) + candidates(demo())
    expected = resolve_candidates(found, 40)
    for seed in range(4):
        shuffled = list(found)
        random.Random(seed).shuffle(shuffled)
        assert resolve_candidates(shuffled, 40) == expected


_HASHED = """
import hashlib, sys
sys.path.insert(0, sys.argv[1])
from test_concepts import candidates, demo
from kbwiki.text.concepts import resolve_candidates
print(hashlib.sha256(repr(resolve_candidates(candidates(demo()), 34)).encode()).hexdigest())
"""


def test_the_hash_seed_does_not_matter() -> None:
    command = [sys.executable, "-c", _HASHED, str(Path(__file__).parent)]
    digests = {
        subprocess.run(
            command, env={"PYTHONHASHSEED": seed}, capture_output=True, text=True, check=True
        ).stdout
        for seed in ("1", "2")
    }
    assert len(digests) == 1


@cache
def demo_concepts() -> dict[str, NewConcept]:
    return {c.key: c for found in ranked(demo()).values() for c in found}


def _demo(name: str) -> NewConcept | None:
    key = lemma_key(name)
    return next((c for c in demo_concepts().values() if key in c.lemma_keys), None)


def test_the_demo_has_many_concepts() -> None:
    assert len(demo_concepts()) >= 110


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("KV cache", "кэш ключей и значений"),
        ("delta rule", "дельта-правило"),
        ("state space model", "SSM"),
        ("fast weights", "быстрые веса"),
        ("needle in a haystack", "needle-in-a-haystack task"),
    ],
)
def test_names_of_one_thing_are_one_concept(one: str, other: str) -> None:
    found = _demo(one)
    assert found is not None
    assert _demo(other) == found


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("linear attention", "softmax attention"),
        ("DeltaNet", "Gated DeltaNet"),
        ("Mamba", "Mamba2"),
        ("parallel training", "chunkwise parallel training"),
    ],
)
def test_different_things_stay_apart(one: str, other: str) -> None:
    assert _demo(one) is None or _demo(one) != _demo(other)


@pytest.mark.parametrize(
    "name", ["method", "метод", "сообщение авторов", "In Titans", "ядро", "token"]
)
def test_words_of_any_paper_are_no_concepts(name: str) -> None:
    assert _demo(name) is None


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("BABILong", "data"),
        ("RetNet", "model"),
        ("delta rule", "method"),
        ("Дональд Хебб", "person"),
    ],
)
def test_kinds_follow_definitions(name: str, kind: str) -> None:
    found = _demo(name)
    assert found is not None
    assert found.kind == kind


def test_titles_are_capitalised_and_trimmed() -> None:
    for concept in demo_concepts().values():
        assert concept.title == concept.title.strip()
        assert concept.title[0].isupper() or not concept.title[1:].islower()


def test_an_acronym_joins_its_long_name() -> None:
    alias = Alias("FWP", "acronym", "en")
    long = Candidate(
        "fast weight programmer",
        "fast weight programmer",
        "en",
        None,
        {"noun": 2, "acronym": 1},
        (alias,),
    )
    short = Candidate("fwp", "FWP", "en", None, {"name": 3})
    found = [SourceCandidate("a", long), SourceCandidate("b", short)]
    (concept,) = resolve_candidates(found, 2)
    assert concept.title == "Fast weight programmer"
    assert "fwp" in concept.lemma_keys


def test_nothing_makes_no_concepts() -> None:
    assert resolve_candidates([], 0) == []
