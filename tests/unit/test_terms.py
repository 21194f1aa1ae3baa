"""Names in sentences: noun phrases of both languages in their dictionary form."""

import pytest

from kbwiki.records import Lang
from kbwiki.text.terms import best_name, is_generic, singular, terms


def names(text: str, lang: Lang) -> list[str]:
    return [t.name for t in terms(text, 0, lang)]


@pytest.mark.parametrize(
    ("text", "lang", "name"),
    [
        pytest.param("It uses a state space model.", "en", "state space model", id="compound"),
        pytest.param(
            "The Bank of England raised rates.", "en", "Bank of England", id="name with of"
        ),
        pytest.param(
            "It spread in the Great Depression.",
            "en",
            "Great Depression",
            id="plain word in a name",
        ),
        pytest.param(
            "The other exchange rates fell.", "en", "exchange rates", id="article and other cut off"
        ),
        pytest.param(
            "We compare FlashAttention with it.", "en", "FlashAttention", id="inner capitals"
        ),
        pytest.param("Он использует нейронную сеть.", "ru", "нейронная сеть", id="case undone"),
        pytest.param("Она хранит быстрые веса.", "ru", "быстрый вес", id="weights are no scales"),
        pytest.param(
            "Это метод сопряжённых градиентов.",
            "ru",
            "метод сопряжённых градиентов",
            id="genitive tail",
        ),
        pytest.param(
            "Кривая забывания крута.", "ru", "Кривая забывания", id="a noun like an adjective"
        ),
        pytest.param("Применим правило Хебба.", "ru", "правило Хебба", id="surname in the tail"),
        pytest.param(
            "По закону Гутенберга — Рихтера.", "ru", "закон Гутенберга — Рихтера", id="two surnames"
        ),
        pytest.param("Сравним линейные RNN.", "ru", "линейные RNN", id="Latin head"),
        pytest.param("Возьмём softmax-внимание.", "ru", "softmax-внимание", id="mixed compound"),
    ],
)
def test_a_phrase_is_found_in_its_dictionary_form(text: str, lang: Lang, name: str) -> None:
    assert name in names(text, lang)


@pytest.mark.parametrize(
    ("text", "lang", "name"),
    [
        pytest.param(
            "In Titans the memory is deep.", "en", "In Titans", id="a preposition opens no name"
        ),
        pytest.param(
            "The model outperforms the others.", "en", "model outperforms", id="a verb is no noun"
        ),
        pytest.param(
            "Google Research developed REALM.",
            "en",
            "Google Research developed REALM",
            id="a verb joins no names",
        ),
        pytest.param("Этот метод хорош.", "ru", "этот метод", id="a pronoun opens no name"),
        pytest.param("x" * 200 + " is long.", "en", "x" * 200, id="data is no word"),
    ],
)
def test_what_is_no_name_is_left_out(text: str, lang: Lang, name: str) -> None:
    assert name not in names(text, lang)


@pytest.mark.parametrize(
    ("name", "one"),
    [
        ("induction heads", "induction head"),
        ("linear RNNs", "linear RNN"),
        ("Titans", "Titans"),
        ("self-modifying Titans", "self-modifying Titans"),
        ("bias", "bias"),
        ("loss", "loss"),
        ("gradient analysis", "gradient analysis"),
    ],
)
def test_singular_drops_only_a_plural_s(name: str, one: str) -> None:
    assert singular(name) == one


def test_a_plural_stays_where_no_singular_was_seen() -> None:
    assert best_name({("least squares", "en"): 3}) == ("least squares", "en")
    assert best_name({("models", "en"): 5, ("model", "en"): 1}) == ("model", "en")


@pytest.mark.parametrize(
    ("key", "generic"),
    [
        ("method", True),
        ("new method", True),
        ("метод", True),
        ("conjugate gradient", False),
        ("метод ланцош", False),
    ],
)
def test_a_plain_head_names_nothing(key: str, generic: bool) -> None:
    assert is_generic(key) is generic


@pytest.mark.parametrize("lang", ["en", "ru"])
def test_spans_lie_on_the_words_and_shift(lang: Lang) -> None:
    text = {"en": "The fast weights of a network.", "ru": "Быстрые веса сети растут."}[lang]
    for term in terms(text, 100, lang):
        assert 100 <= term.start < term.end <= 100 + len(text)
