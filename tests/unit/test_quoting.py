"""An answer without a model: which sentences of passages it quotes, and which words ask."""

import pytest
from simplemma.strategies.dictionaries.dictionary_factory import DefaultDictionaryFactory

from kbwiki.cli.words import words_last
from kbwiki.engines.quoting import quotable_in, quote_answer
from kbwiki.records import Passage
from kbwiki.text.asking import asked_words, content_words, has_content
from kbwiki.text.lexicon import ASKING, FUNCTION

SAID = {
    "en": "Arora et al. measured recall in small models, and Mamba fell behind in 2023.",
    "ru": "Арора и др. измерили вспоминание малых моделей, и Mamba отстала в 2023 году.",
}


@pytest.mark.parametrize(
    "line",
    [
        "Arora et al. Zoology: Measuring and Improving Recall in Language Models. 2023.",
        "Zoology: Measuring and Improving Recall in Language Models. arXiv:2312.04927",
        "Hinton, G. (1987). Using fast weights to deblur old memories.",
        "Proceedings of the Cognitive Science Society, pp. 177-186.",
        "[12] Recall in language models, a survey of measures, MIT Press.",
        "Хебб Д. Организация поведения. М.: Наука, 1949.",
        "Иванов и др. Вспоминание в языковых моделях: обзор. 2021. С. 14–29.",
    ],
)
def test_a_line_of_a_bibliography_is_not_quoted_wherever_it_stands(line: str) -> None:
    assert quotable_in(Passage("s", "t", line, quotable=((0, len(line)),))) == []


@pytest.mark.parametrize("lang", ["en", "ru"])
def test_a_sentence_that_names_authors_and_a_year_is_quoted(lang: str) -> None:
    text = SAID[lang]
    assert quotable_in(Passage("s", "t", text, quotable=((0, len(text)),))) == [text]


def test_only_what_a_reader_found_worth_citing_is_quoted() -> None:
    text = "Recall in Mamba\n\nMamba measures recall poorly in long texts."
    passage = Passage("s", "t", text, quotable=((17, len(text)),))
    assert quote_answer("recall in Mamba", [passage], "x").statements == ((text[17:], (1,)),)
    assert quotable_in(Passage("s", "t", text, quotable=())) == []


@pytest.mark.parametrize(
    ("question", "asked"),
    [
        ("Please tell me what MesaNet and Titans have in common", ["MesaNet", "Titans"]),
        ("compare Titans vs Mamba", ["Titans", "Mamba"]),
        ("Сравни, пожалуйста, Titans и правило Хебба", ["Titans", "правило", "Хебба"]),
        ("какая связь между ними", ["связь"]),
        ("what is the difference", ["difference"]),
        ("что такое IT", ["IT"]),
        ("что это такое?", []),
        ("WHO IS IT", []),
    ],
)
def test_words_that_put_a_question_are_not_what_it_asks_about(
    question: str, asked: list[str]
) -> None:
    assert [word.text for word in asked_words(question)] == asked
    assert bool(content_words(question)) == has_content(question) == bool(asked)


@pytest.mark.parametrize(
    ("args", "read"),
    [
        (["- a b", "--json"], ["--json", "--", "- a b"]),
        (["--source", "- a", "что"], ["--source", "- a", "что"]),
        (["-k3", "--mode=text", "---"], ["-k3", "--mode=text", "--", "---"]),
        (["--", "-k"], ["--", "-k"]),
        (["-", "--typo"], ["-", "--typo"]),
    ],
)
def test_what_can_be_no_option_is_words(args: list[str], read: list[str]) -> None:
    assert words_last(args, {"--source", "-k"}) == read


def test_no_form_of_a_word_without_meaning_is_taken_for_one_with() -> None:
    dictionary = DefaultDictionaryFactory().get_dictionary("en")
    forms = [form for form, of in dictionary.items() if of in ASKING | FUNCTION]
    assert len(forms) > 200
    assert not [form for form in forms if has_content(form) and not content_words(form)]
