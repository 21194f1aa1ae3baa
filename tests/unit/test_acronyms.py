"""What an acronym spells."""

import pytest

from kbwiki.text.acronyms import spells


@pytest.mark.parametrize(
    ("short", "long"),
    [
        ("RNN", "recurrent neural network"),
        ("ALiBi", "Attention with Linear Biases"),
        ("NoPE", "no positional encoding"),
        ("RetNet", "retentive network"),
        ("СППР", "система поддержки принятия решений"),
        ("RAG", "retrieval-augmented generation"),
        ("ЭТЦ", "электрон-транспортная цепь"),
    ],
)
def test_an_acronym_spells_the_beginnings_of_words(short: str, long: str) -> None:
    assert spells(short, long)


@pytest.mark.parametrize(
    ("short", "long"),
    [
        ("NN", "neural Turing machine"),
        ("RNN", "RNN model"),
        ("LLM", "an LLM"),
        ("ПО", "по отзывам"),
        ("RNN", "recurrent"),
        ("", "no letters"),
        ("АБВ", ""),
    ],
)
def test_other_words_are_not_spelt(short: str, long: str) -> None:
    assert not spells(short, long)
