"""The glossary of standard terms, and what it says of two names."""

import csv
import zlib
from collections.abc import Sequence
from importlib import resources

import numpy as np
import pytest

from kbwiki.text.glossary import glossary
from kbwiki.text.sameness import Likeness, Named, find_likenesses
from kbwiki.text.words import lang_of, lemma_key


def _likeness(*names: str, alias: str = "") -> list[Likeness]:
    named = [
        Named(lemma_key(name), name, "concept", (name, *filter(None, [alias])), {})
        for name in names
    ]
    return find_likenesses(named, None, frozenset())


def test_each_row_translates_english_into_russian_and_no_name_has_two_sure_meanings() -> None:
    text = (resources.files("kbwiki") / "text" / "glossary.tsv").read_text("utf-8")
    rows = list(csv.DictReader(text.splitlines(), delimiter="\t"))
    assert len(rows) > 400
    meanings: dict[str, set[str]] = {}
    for row in rows:
        assert (lang_of(row["english"]), lang_of(row["russian"])) == ("en", "ru"), row
        assert row["sure"] in {"yes", "no", "word"}
        if row["sure"] == "yes":
            for name in (row["english"], row["russian"]):
                meanings.setdefault(lemma_key(name), set()).add(row["english"])
    assert [name for name, found in meanings.items() if len(found) > 1] == []
    assert len({(row["english"], row["russian"]) for row in rows}) == len(rows)
    assert len(glossary().unsure) == sum(row["sure"] == "no" for row in rows)
    assert glossary().meanings.keys() == meanings.keys()


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Дисперсия", "Variance"),
        ("Языковые модели", "Language model"),
        ("Двоичный поиск", "Бинарный поиск"),
        ("Data set", "Dataset"),
        ("Мета обучение", "Метаобучение"),
    ],
)
def test_two_names_of_one_thing_need_no_vectors(one: str, other: str) -> None:
    [likeness] = _likeness(one, other)
    assert likeness.is_sure


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Ядро", "Kernel"),
        ("Таблица страниц", "Page table"),
        ("Случайный граф", "Random graphs"),
        ("Analysis of time series", "Time-series analysis"),
        ("Анализ рядов для времени", "Анализ времени рядов"),
    ],
)
def test_a_word_of_many_things_waits_for_a_person(one: str, other: str) -> None:
    [likeness] = _likeness(one, other)
    assert not likeness.is_sure


@pytest.mark.parametrize(
    ("one", "other"),
    [("Дисперсия", "Covariance"), ("Матрица", "Inverse matrix"), ("GPT 12 3", "GPT 1 23")],
)
def test_other_terms_are_not_alike(one: str, other: str) -> None:
    assert _likeness(one, other) == []


def _embed(names: Sequence[str]) -> "np.typing.NDArray[np.float32]":
    """Return vectors that are one for computation of whatever kind, else by chance."""
    seeds = [zlib.crc32(("x" if n.endswith(("ion", "ие")) else n).encode()) for n in names]
    found = np.stack([np.random.default_rng(seed).standard_normal(16) for seed in seeds])
    return (found / np.linalg.norm(found, axis=1, keepdims=True)).astype("<f4")


@pytest.mark.parametrize(
    ("one", "other", "are_asked"),
    [
        ("Inter-chunk computation", "Intra-chunk computation", False),
        ("Параллельное сканирование", "Последовательное сканирование", False),
        ("Deterministic computation", "Случайное вычисление", False),
        ("Chunk computation", "Block computation", True),
        ("Простое сканирование", "Сложное сканирование", True),
    ],
)
def test_nobody_is_asked_about_opposites_however_near_they_lie(
    one: str, other: str, are_asked: bool
) -> None:
    named = [Named(lemma_key(n), n, "concept", (n,), {}) for n in (one, other)]
    assert bool(find_likenesses(named, _embed, frozenset())) == are_asked
