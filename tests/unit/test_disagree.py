"""Which statements of two sources differ, in numbers or outright, and which only seem to."""

import re
from dataclasses import replace

import pytest

from kbwiki.records import Statement
from kbwiki.text.disagree import disagreements
from kbwiki.text.words import lang_of


def _statement(text: str, source: str, name: str, dated: str = "") -> Statement:
    start = text.index(name)
    return Statement(
        source_id=1, source_key=source, source_title=source, start=0, end=len(text), text=text,
        lang=lang_of(text), page=None, heading="", rank=1.0, defines=False,
        mentions=((start, start + len(name), "Titans"),), dated=dated,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("Titans has 400 million parameters.", "Titans has 760 million parameters."),
        ("Titans was proposed in 2024.", "Titans was introduced by its authors in 2025."),
        ("Titans was proposed in 2024.", "Titans предложили в 2025 году."),
        ("Titans has 400 million parameters.", "Titans имеет 760 млн параметров."),
        ("Titans имеет 12 слоёв.", "Titans имеет 24 слоя."),
        ("Titans has an accuracy of 97.5% here.", "Titans has an accuracy of 91% here."),
        ("Titans достигает точности 97,5 % на тесте.", "Titans достигает точности 91 % на тесте."),
        ("Titans reads 2,000,000 tokens.", "Titans reads 16 thousand tokens."),
    ],
)  # fmt: skip
def test_two_numbers_for_one_thing(first: str, second: str) -> None:
    found = disagreements(
        "Titans", [_statement(first, "a", "Titans"), _statement(second, "b", "Titans")]
    )
    assert [[s.text for s in group] for group in found] == [[first, second]]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("Titans has 400 million parameters.", "Titans has 400M parameters in all."),
        ("Titans has 400 million parameters.", "Titans has 0.4 billion parameters."),
        ("Titans имеет 400 млн параметров.", "Titans has 400 million parameters."),
        ("Titans has 12 layers.", "Titans has 24 heads."),
        ("Titans has about 12 layers.", "Titans has 24 layers."),
        ("Titans имеет более 12 слоёв.", "Titans имеет 24 слоя."),
        ("Titans does not have 12 layers.", "Titans has 24 layers."),
        ("Titans has 12 or 24 layers.", "Titans has 36 layers."),
        ("Titans was proposed in 2024.", "Titans was tested on data of 2025."),
        ("Titans was proposed in 2024.", "Titans won a prize in 2025."),
        ("Titans proposed a gate in 2024.", "Titans introduced a memory in 2025."),
        ("Titans предложила вентиль в 2024 году.", "Titans создала память в 2025 году."),
        ("Titans reaches 97% on BABILong.", "Titans reaches 91% on the needle in a haystack."),
        ("Titans reads 16 thousand tokens in training.", "Titans answers of 2 million tokens."),
        ("Does Titans have 12 layers?", "Titans has 24 layers."),
        ("Titans uses a window of 12 tokens.", "Titans drops 24 tokens of noise."),
        ("Titans имеет 12 слоёв.", "Titans has a memory with 24 layers of its own for each head."),
        ("Titans scores 3.14159 points.", "Titans scores 3.14 points."),
    ],
)  # fmt: skip
def test_numbers_that_only_seem_to_differ(first: str, second: str) -> None:
    pair = [_statement(first, "a", "Titans"), _statement(second, "b", "Titans")]
    assert disagreements("Titans", pair) == []


def _named(text: str, source: str) -> Statement:
    """A statement that names both models, in either language."""
    keys = {"Титаны": "Titans", "Мамба": "Mamba", "Мамбы": "Mamba", "Титанов": "Titans"}
    spans = [
        (m.start(), m.end(), keys.get(m.group(), m.group()))
        for m in re.finditer(r"Titans|Mamba|Титаны|Титанов|Мамб[аы]", text)
    ]
    return replace(_statement(text, source, text[:1]), mentions=tuple(spans))


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("Titans uses a KV cache.", "Titans does not use a KV cache."),
        ("The Titans uses a KV cache.", "Titans doesn't use the KV cache."),
        ("Titans is a recurrent model.", "Titans is not a recurrent model."),
        ("Titans can read a book.", "Titans cannot read a book."),
        ("Titans is faster than Mamba.", "Titans is not faster than Mamba."),
        ("Titans is faster than Mamba.", "Mamba is faster than Titans."),
        ("Titans is more accurate than Mamba.", "Mamba is more accurate than the Titans."),
        ("Titans outperforms Mamba.", "Mamba outperforms Titans."),
        ("Титаны — это рекуррентная модель.", "Титаны — это не рекуррентная модель."),
        ("Титаны используют кэш ключей.", "Титаны не используют кэша ключей."),
        ("Титаны быстрее, чем Мамба.", "Мамба быстрее, чем Титаны."),
        ("Титаны быстрее Мамбы.", "Мамба быстрее Титанов."),
        ("Титаны обгоняют Мамба.", "Мамба обгоняет Титаны."),
    ],
)  # fmt: skip
def test_one_says_what_the_other_denies(first: str, second: str) -> None:
    pair = [_named(first, "a"), _named(second, "b")]
    assert [[s.text for s in group] for group in disagreements("Titans", pair)] == [[first, second]]
    same = [pair[0], replace(pair[0], source_key="b"), replace(pair[1], source_key="a")]
    assert disagreements("Titans", same) == []


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("Titans uses a KV cache.", "Titans does not use a cache."),
        ("Titans uses a KV cache.", "Titans does not only use a KV cache."),
        ("Titans is a model of memory.", "Titans is a model not of memory."),
        ("Titans is fast.", "If it is small, Titans is not fast."),
        ("Some Titans use a KV cache.", "Some Titans do not use a KV cache."),
        ("Titans usually uses a cache.", "Titans does not usually use a cache."),
        ("Is Titans a recurrent model?", "Titans is not a recurrent model."),
        ("Titans is faster than Mamba.", "Mamba is smaller than Titans."),
        ("Titans is faster than Mamba.", "Mamba is faster than Titans on short texts."),
        ("Titans is faster than Mamba.", "Mamba is as fast as Titans."),
        ("Titans is based on Mamba.", "Mamba is based on Titans."),
        ("Titans has no layer for Mamba.", "Mamba has no layer for Titans."),
        ("Титаны — это модель.", "Титаны — это не просто модель."),
        ("Титаны быстрее, чем Мамба.", "Мамба не быстрее, чем Титаны."),
        ("Титаны сегодня читают книги.", "Титаны тогда не читали книги."),
        ("Титаны похожи на Мамба.", "Мамба похожа на Титаны."),
    ],
)  # fmt: skip
def test_what_only_seems_to_contradict(first: str, second: str) -> None:
    assert disagreements("Titans", [_named(first, "a"), _named(second, "b")]) == []


def test_one_source_does_not_disagree_with_itself_and_another_subject_is_another_thing() -> None:
    one, other = "Titans has 12 layers.", "Titans has 24 layers."
    assert (
        disagreements("Titans", [_statement(one, "a", "Titans"), _statement(other, "a", "Titans")])
        == []
    )
    assert (
        disagreements("Mamba", [_statement(one, "a", "Titans"), _statement(other, "b", "Titans")])
        == []
    )


def test_the_newest_source_comes_first_and_none_is_left_out() -> None:
    found = disagreements(
        "Titans",
        [
            _statement("Titans has 12 layers.", "a", "Titans", "2023"),
            _statement("Titans has 24 layers.", "b", "Titans", "2025-02-01"),
            _statement("Titans имеет 36 слоёв.", "c", "Titans", "2024-05-05"),
            _statement("Titans has 24 layers.", "d", "Titans"),
        ],
    )
    assert [[s.source_key for s in group] for group in found] == [["b", "c", "a", "d"]]
