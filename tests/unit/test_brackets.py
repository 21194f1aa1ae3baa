"""Names in brackets: acronyms and translations."""

import pytest

from kbwiki.engines.brackets import abbreviates, bracket_aliases, expansion
from kbwiki.text.terms import terms
from kbwiki.text.words import lang_of


def aliases(text: str) -> list[tuple[str, str, str]]:
    found = terms(text, 0, lang_of(text))
    return [(name, a.name, a.kind) for name, a in bracket_aliases(text, 0, len(text), found)]


@pytest.mark.parametrize(
    ("text", "alias"),
    [
        pytest.param(
            "We use retrieval-augmented generation (RAG) here.",
            ("retrieval-augmented generation", "RAG", "acronym"),
            id="acronym",
        ),
        pytest.param(
            "Fit by recursive least squares (RLS) at once.",
            ("recursive least squares", "RLS", "acronym"),
            id="acronym of a plural",
        ),
        pytest.param(
            "It keeps a key-value cache (KV cache) in memory.",
            ("key-value cache", "KV cache", "acronym"),
            id="acronym of a part",
        ),
        pytest.param(
            "An RNN (recurrent neural network) is a model.",
            ("recurrent neural network", "RNN", "acronym"),
            id="acronym first",
        ),
        pytest.param(
            "Сеть СППР (система поддержки принятия решений) помогает.",
            ("система поддержки принятия решений", "СППР", "acronym"),
            id="Russian acronym first",
        ),
        pytest.param(
            "Дело идёт по электрон-транспортной цепи (ЭТЦ) далее.",
            ("электрон-транспортная цепь", "ЭТЦ", "acronym"),
            id="Russian acronym, nominative",
        ),
        pytest.param(
            "Применяют градиентный спуск (gradient descent) всюду.",
            ("градиентный спуск", "gradient descent", "translation"),
            id="translation",
        ),
        pytest.param(
            "Это обучение в контексте (in-context learning) модели.",
            ("обучение в контексте", "in-context learning", "translation"),
            id="phrase with a preposition",
        ),
        pytest.param(
            "Идёт накопление предобуславливателей (preconditioners) сети.",
            ("предобуславливатель", "preconditioners", "translation"),
            id="translated tail",
        ),
        pytest.param(
            "обратное распространение ошибки (backpropagation) — это способ.",
            ("обратное распространение ошибки", "backpropagation", "translation"),
            id="a subject as a whole, in one word",
        ),
        pytest.param(
            "Сходимость градиентного спуска (gradient descent) является темой.",
            ("градиентный спуск", "gradient descent", "translation"),
            id="the tail of a subject",
        ),
        pytest.param(
            "Матрица весов (weights) — это таблица.",
            ("вес", "weights", "translation"),
            id="the tail of a subject, a plural",
        ),
        pytest.param(
            "Отличие ALiBi (attention with linear biases) от других мало.",
            ("attention with linear biases", "ALiBi", "acronym"),
            id="acronym with a small word left out",
        ),
        pytest.param(
            "Идёт внедрение СППР (систем поддержки принятия решений) всюду.",
            ("система поддержки принятия решений", "СППР", "acronym"),
            id="acronym first, in another case",
        ),
        pytest.param(
            "backpropagation of errors (обратное распространение) is a way.",
            ("backpropagation of errors", "обратное распространение", "translation"),
            id="an English subject as a whole",
        ),
        pytest.param(
            "Есть хеш-функция (англ. hash function) рядом.",
            ("хеш-функция", "hash function", "translation"),
            id="language named",
        ),
    ],
)
def test_a_bracket_renames_the_phrase_before_it(text: str, alias: tuple[str, str, str]) -> None:
    assert alias in aliases(text)


@pytest.mark.parametrize(
    "text",
    [
        "Ongaro published the work (2014) early.",
        "The results (see the table below) are good.",
        "Результаты (см. рис. 2) хороши.",
        "A product in WY (WY representation) is compact.",
        "An NN (neural Turing machine) is large.",
        "The US (unlike other states) votes.",
        "Here ИИ (и другие) не нужны.",
        "Это ПО (по отзывам) медленное.",
        "В БД (более двух таблиц) порядок.",
        "An OS (on server) runs.",
        "The API (a public interface) is old.",
        "A DB (described below) is small.",
        "The CPU (compared per unit) is fast.",
        "The model (a large one) is slow.",
    ],
)
def test_other_brackets_rename_nothing(text: str) -> None:
    assert aliases(text) == []


def test_an_acronym_must_start_words() -> None:
    assert expansion("RNN", "a recurrent neural network") == "recurrent neural network"
    assert expansion("XYZ", "a recurrent neural network") == ""


def test_words_and_initials_abbreviate() -> None:
    assert abbreviates("linear RNN", "linear recurrent neural network")
    assert not abbreviates("linear RNN", "linear attention")
