"""Mentions: where known names occur."""

import pytest

from kbwiki.text.mentions import Matcher, Name
from kbwiki.text.words import lemma_key, stream


def found(text: str, *names: Name) -> list[str]:
    words = stream(text)
    matches = Matcher(names).find(text, words.lemmas, words.starts, words.ends)
    return [text[m.start : m.end] for m in matches]


def name(words: str, **kinds: object) -> Name:
    return Name(lemma_key(words), words, **kinds)


@pytest.mark.parametrize(
    ("text", "words", "spans"),
    [
        pytest.param(
            "Fast weights and a fast weight.",
            "fast weight",
            ["Fast weights", "fast weight"],
            id="number",
        ),
        pytest.param(
            "О быстрых весах и быстром весе.",
            "быстрый вес",
            ["быстрых весах", "быстром весе"],
            id="case",
        ),
        pytest.param("The delta-rule.", "delta rule", ["delta-rule"], id="hyphen"),
        pytest.param("The delta. Rule one.", "delta rule", [], id="no match over a full stop"),
        pytest.param("memory", "working memory", [], id="no match of a part"),
    ],
)
def test_any_form_of_a_name_is_found(text: str, words: str, spans: list[str]) -> None:
    assert found(text, name(words)) == spans


def test_the_longest_name_wins() -> None:
    text = "Linear attention layers and attention."
    assert found(text, name("attention"), name("linear attention")) == [
        "Linear attention",
        "attention",
    ]


def test_a_cased_name_needs_a_capital() -> None:
    assert found("Hope is a model; we hope so.", name("Hope", cased=True)) == ["Hope"]


def test_an_acronym_is_spelt_as_it_is() -> None:
    assert found("The MAC and big mac and MACs.", name("MAC", exact="MAC")) == ["MAC", "MACs"]


def test_many_names_and_a_long_text_take_linear_time() -> None:
    names = [name(f"model x{i}") for i in range(2_000)]
    assert len(found("the model x5 is not model x7 " * 5_000, *names)) == 10_000
