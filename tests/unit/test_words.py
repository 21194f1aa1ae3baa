"""Sentences, tokens, lemmas and tags of both languages."""

import random
from itertools import pairwise
from pathlib import Path

import pytest

from kbwiki.records import Lang
from kbwiki.text.markdown import read_markdown
from kbwiki.text.tagger import _model, tag_english
from kbwiki.text.words import (
    MAX_SENTENCE,
    is_rare,
    lang_of,
    lemma,
    lemma_key,
    mask_math,
    sentences,
    stream,
    tokens,
)

CORPUS = Path(__file__).parents[2] / "corpus"


@pytest.mark.parametrize(
    ("text", "lang"),
    [
        pytest.param("A plain sentence.", "en", id="latin letters are English"),
        pytest.param(
            "Модель Mamba быстрее, чем RWKV.", "ru", id="Russian with Latin names is Russian"
        ),
        pytest.param("The word мир means world and peace.", "en", id="one Russian word is English"),
        pytest.param("12 + 5 = 17", "en", id="no letters at all are English"),
    ],
)
def test_language_goes_by_script(text: str, lang: Lang) -> None:
    assert lang_of(text) == lang


@pytest.mark.parametrize(
    ("lang", "parts"),
    [
        pytest.param("en", ["It works, e.g. in RNNs.", "So it does."], id="e.g. ends nothing"),
        pytest.param(
            "en", ["See Fig. 3 for details.", "It helps."], id="Fig. before a number ends nothing"
        ),
        pytest.param(
            "en", ["Lee et al. (2020) found it.", "Others did not."], id="et al. ends nothing"
        ),
        pytest.param("en", ["The U.S. economy grew.", "Prices fell."], id="U.S. ends nothing"),
        pytest.param("en", ["Dr. Smith came.", "He left."], id="a title ends nothing"),
        pytest.param(
            "en", ["It costs 3.5 dollars.", "That is cheap."], id="a decimal point ends nothing"
        ),
        pytest.param("en", ["Is it so?", "Yes!", "Good."], id="other marks end a sentence"),
        pytest.param(
            "ru", ["Память, т. е. состояние, растёт.", "Это плохо."], id="т. е. ends nothing"
        ),
        pytest.param(
            "ru", ["Есть ключи, запросы и т. д. в слое.", "Их много."], id="и т. д. ends nothing"
        ),
        pytest.param("ru", ["Схема дана на рис. 2 слева.", "Она проста."], id="рис. ends nothing"),
        pytest.param("ru", ["А. С. Пушкин писал.", "Он поэт."], id="initials end nothing"),
        pytest.param("ru", ["Это было в 1999 г. в Москве.", "Потом нет."], id="г. ends nothing"),
        pytest.param("ru", ["Что это?", "Память!", "Да."], id="other marks end a Russian sentence"),
    ],
)
def test_a_paragraph_is_cut_into_sentences(lang: Lang, parts: list[str]) -> None:
    text = " ".join(parts)
    assert [text[a:b] for a, b in sentences(text, lang)] == parts


@pytest.mark.parametrize(
    "text", ["x" * 100_000, "слово " * 30_000, "深度学习" * 20_000, "a b. " * 20_000]
)
def test_a_text_without_sentences_is_cut_in_order_and_short(text: str) -> None:
    spans = sentences(text, lang_of(text))
    assert max(end - start for start, end in spans) <= MAX_SENTENCE
    assert all(before[1] <= after[0] for before, after in pairwise(spans))
    assert sum(len(text[a:b].replace(" ", "")) for a, b in spans) == len(text.replace(" ", ""))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        pytest.param("networks", "network", id="English plural"),
        pytest.param("RNNs", "RNN", id="plural of an acronym"),
        pytest.param("DeltaNets", "DeltaNet", id="plural of an unknown name"),
        pytest.param("Нейронной сетью", "нейронная сеть", id="Russian case"),
        pytest.param("быстрых весов", "быстрый вес", id="weights are no scales"),
        pytest.param("учёного", "ученый", id="yo is ye"),
        pytest.param("delta-rule", "delta rule", id="hyphen"),
    ],
)
def test_forms_of_one_name_have_one_lemma_key(one: str, other: str) -> None:
    assert lemma_key(one) == lemma_key(other)


def test_a_very_long_word_is_its_own_lemma() -> None:
    assert lemma("x" * 1000) == "x" * 1000
    assert lemma("ж" * 1000) == "ж" * 1000


def test_tokens_keep_compounds_whole_and_lie_where_they_say() -> None:
    text = "Hebb's fast-weight C++ rule, 3.5x (т.е. да)."
    found = tokens(text)
    assert all(text[t.start : t.end] == t.text for t in found)
    assert "fast-weight" in [t.text for t in found]


def test_stream_spans_lie_on_words() -> None:
    text = "Линейное внимание (linear attention) works."
    words = stream(text)
    assert [text[a:b] for a, b in zip(words.starts, words.ends, strict=True)] == [
        "Линейное",
        "внимание",
        "linear",
        "attention",
        "works",
    ]


def test_no_word_comes_from_a_formula() -> None:
    document = read_markdown("The matrix $W_{memory}$ and $$loss$$ are small.")
    masked = mask_math(document)
    assert len(masked) == len(document.text)
    assert "memory" not in masked
    assert "loss" not in masked
    assert "small" in stream(masked).lemmas


@pytest.mark.parametrize(
    ("word", "rare"),
    [("system", False), ("proteolysis", True), ("растение", False), ("фотоингибирование", True)],
)
def test_a_term_is_rarer_than_a_word(word: str, rare: bool) -> None:
    assert is_rare(word) is rare


def test_tags_are_those_of_the_model_s_own_search() -> None:
    for path in sorted((CORPUS / "en").glob("*.md"))[:4]:
        for line in path.read_text().splitlines():
            words = [t.text for t in tokens(line) if len(t.text) <= 24]
            if words:
                assert tag_english(words) == _model().tag_sent(words, taglevel=0)


def test_no_words_have_no_tags() -> None:
    assert tag_english([]) == []


@pytest.mark.parametrize("space", ["\u2009", "\u3000", "\u2028", "\u205f", "\u1680"])
def test_a_wide_space_after_an_initial_is_a_space(space: str) -> None:
    text = f"The loss is linear in B{space}. The rest is a text."
    spans = sentences(text, "en")
    assert [text[a:b] for a, b in spans][-1].endswith("The rest is a text.")


def test_no_mix_of_letters_marks_and_spaces_stops_the_segmenter() -> None:
    signs = "AbB .?!\n\"')(]1é—\u2009\u3000\u2028\u00a0\u0301中😀…。؟"
    chance = random.Random(1)
    for _ in range(2_000):
        text = "".join(chance.choices(signs, k=chance.randint(1, 40)))
        assert all(text[a:b].strip() for a, b in sentences(text, "en"))
