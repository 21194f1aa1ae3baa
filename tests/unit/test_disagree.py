"""Which numbers of two sources differ, and which only seem to."""

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
