"""A model's quote is found word for word, or not at all."""

import pytest

from kbwiki.engines.quotes import find_quote

TEXT = (
    "MesaNet — это  сеть.\nОна использует «быстрые веса», как и\nTitans. The eﬃcient scan's done."
)


@pytest.mark.parametrize(
    ("quote", "found"),
    [
        ("Она использует «быстрые веса»", "Она использует «быстрые веса»"),
        ("MesaNet - это сеть.", "MesaNet — это  сеть."),
        ('использует "быстрые веса", как и Titans', "использует «быстрые веса», как и\nTitans"),
        ("  «The efficient scan’s done.»  ", "The eﬃcient scan's done."),
        ("efficient", "eﬃcient"),
    ],
)  # fmt: skip
def test_a_quote_is_found_whatever_its_spaces_and_marks(quote: str, found: str) -> None:
    span = find_quote(TEXT, quote)
    assert span is not None
    assert TEXT[slice(*span)] == found


@pytest.mark.parametrize(
    "quote", ["", "   ", "«»", "MesaNet это сеть", "Она применяет", "scan is done"]
)
def test_other_words_are_not_found(quote: str) -> None:
    assert find_quote(TEXT, quote) is None


def test_a_quote_outside_of_the_window_is_not_found() -> None:
    assert find_quote(TEXT, "Titans", 0, 20) is None
    assert find_quote(TEXT, "MesaNet", 5) is None
