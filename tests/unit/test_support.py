"""Whether a store speaks of a question, judged by what words and vectors say."""

from typing import Any

import pytest

from kbwiki.support import judge_support

SIZES = {"ru": 500, "en": 500}
QUESTIONS = {
    "en": "Which rule says that cells that fire together wire together?",
    "ru": "Какое правило говорит, что вместе возбуждённые клетки связываются?",
}


def rows(pool: str, *nearness: float) -> list[dict[str, Any]]:
    """Entries found by their vectors alone."""
    return [
        {"pool": pool, "nearness": near, "words": 0.0, "deviations": 2.0, "is_name": False}
        for near in nearness
    ]


def is_supported(lang: str, found: list[dict[str, Any]]) -> bool:
    """Tell whether what was found speaks for an answer in a large store of both languages."""
    return judge_support(QUESTIONS[lang], found, [], SIZES, by_words=False).is_supported


@pytest.mark.parametrize(("lang", "other"), [("en", "ru"), ("ru", "en")])
def test_a_text_in_the_other_language_is_judged_by_how_far_it_is_ahead(
    lang: str, other: str
) -> None:
    ours = rows(lang, 0.2, 0.2)
    assert is_supported(lang, ours + rows(other, 0.35, *[0.15] * 20))
    assert not is_supported(lang, ours + rows(other, 0.35, *[0.25] * 20))  # all are alike
    assert not is_supported(lang, ours + rows(other, 0.2, *[0.0] * 20))  # all are far
    assert not is_supported(lang, rows(lang, 0.35, *[0.15] * 20))  # a word would be shared
