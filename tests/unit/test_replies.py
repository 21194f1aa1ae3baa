"""Replies as models write them, and the ones that must not be read."""

import json
from typing import Literal

import pytest
from pydantic import BaseModel, ConfigDict, Field, RootModel

from kbwiki.engines.replies import (
    BadReply,
    TruncatedReply,
    ask_in_words,
    closed,
    parse_reply,
    schema_of,
)
from kbwiki.prompts.extract import ExtractReply


class Concept(BaseModel):
    name: str
    note: str = ""
    kind: Literal["method", "model"] = "method"


class Found(BaseModel):
    title: str = Field("", description="The title of the source.", max_length=300)
    concepts: list[Concept]


def names(text: str) -> list[str]:
    return [concept.name for concept in parse_reply(text, Found).concepts]


WHOLE = '{"title": "Поиск", "concepts": [{"name": "RAG"}, {"name": "поиск по графу"}]}'


@pytest.mark.parametrize(
    "text",
    [
        WHOLE,
        f"```json\n{WHOLE}\n```",
        f"```\n{WHOLE}\n```\n",
        f"Here is what I found in [1] and {{x}}:\n\n{WHOLE}\n\nHope {{this}} helps!",
        f"Вот ответ: {WHOLE}",
        f"<think>The schema wants {{concepts}}</think>\n{WHOLE}",
        "\ufeff" + WHOLE,
        WHOLE.replace("]}", "],}").replace('"RAG"}', '"RAG",}'),
        WHOLE.replace('}, {"name"', '},\n\n  {\n"name"'),
        WHOLE.replace('"', "'"),
        WHOLE.replace('"}, {', '"} {'),
        WHOLE.replace('"Поиск",', '"Поиск"'),
        WHOLE.replace('"title"', "title"),
        WHOLE.replace("[{", "[ // the list\n{"),
        '{"mood": "a draft"}\n' + WHOLE,
        json.dumps(json.loads(WHOLE), ensure_ascii=True),
    ],
)
def test_a_whole_reply_is_read_whatever_stands_around_it(text: str) -> None:
    assert names(text) == ["RAG", "поиск по графу"]


@pytest.mark.parametrize(
    "said",
    [
        r"\alpha + \beta = \gamma",
        r"\frac{1}{2} \nu \nabla \neq \times \theta \tau \text{s} \rho \right) \bar{x} \forall",
        r"\sum_{i} \{a\} \_ \% \( \) \, \upsilon",
        r"норма \|x\|, где x \in \mathbb{R}",
    ],
)
def test_single_latex_backslashes_are_kept(said: str) -> None:
    assert names(f'{{"concepts": [{{"name": "{said}"}}]}}') == [said]


def test_doubled_backslashes_and_real_escapes_stay_what_they_are() -> None:
    said = '\\frac \\nu\nThe next line\tand a "quote" \\ slash / А 𝐀'
    assert names(json.dumps({"concepts": [{"name": said}]})) == [said]
    assert names(json.dumps({"concepts": [{"name": said}]}, ensure_ascii=False)) == [said]


def test_a_line_break_before_a_word_is_no_command() -> None:
    assert names(r'{"concepts": [{"name": "a\nThe b\nnot\tto\r\nd"}]}') == [
        "a\nThe b\nnot\tto\r\nd"
    ]


def test_raw_line_breaks_in_strings_are_kept() -> None:
    assert names('{"concepts": [{"name": "a\nb"}]}') == ["a\nb"]


@pytest.mark.parametrize(
    "said",
    [
        'he said "hi", then left',
        'called "RAG": a method',
        'a 5" pipe',
        'он сказал "да" и ушёл',
        '"quoted" at the start',
        'at the end "quoted"',
    ],
)
def test_unescaped_quotes_inside_a_string_are_kept(said: str) -> None:
    found = parse_reply(f'{{"concepts": [{{"name": "{said}", "note": "n"}}]}}', Found)
    assert [(c.name, c.note) for c in found.concepts] == [(said, "n")]


def test_half_of_a_surrogate_pair_does_not_reach_the_store() -> None:
    assert names(r'{"concepts": [{"name": "\ud835 \udc00 \ud835\udc00"}]}') == ["\ufffd \ufffd 𝐀"]


def test_unknown_fields_are_ignored() -> None:
    assert names('{"concepts": [{"name": "a", "score": 1}], "mood": {"x": []}}') == ["a"]


@pytest.mark.parametrize("text", ['{"concepts": []}', "[]", "```json\n[]\n```"])
def test_no_concepts_is_an_answer(text: str) -> None:
    assert names(text) == []


def test_five_hundred_concepts_are_an_answer() -> None:
    many = [{"name": f"понятие {i}", "note": f"note {i}"} for i in range(500)]
    assert len(names(json.dumps({"concepts": many}, ensure_ascii=False))) == 500
    sloppy = json.dumps({"concepts": many}, ensure_ascii=False)[:-2] + ",],}"
    assert len(names(sloppy)) == 500


def test_a_bare_list_is_the_one_required_field() -> None:
    assert names('[{"name": "a"}, {"name": "b"}]') == ["a", "b"]


def test_a_root_model_takes_a_list() -> None:
    assert parse_reply('["а", "b",]', RootModel[list[str]]).root == ["а", "b"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "empty"),
        ("  \n", "empty"),
        ("<think>hm</think>", "empty"),
        ("I am sorry, I cannot help with that.", "prose"),
        ("Извините, не могу.", "Извините, не могу."),
        ("null", "prose"),
        ('"concepts"', "prose"),
        ('{"concept": []}', "concepts: Field required"),
        ('{"concepts": [{"nmae": "a"}]}', "concepts.0.name: Field required"),
        ('{"concepts": [{"name": "a", "kind": "animal"}]}', "concepts.0.kind"),
        ('{"concepts": "none"}', "concepts: Input should be a valid list"),
        ('{"concepts": [{"name": null}]}', "concepts.0.name"),
        ('{"concepts": [{"name": "a"}}, {"name": "b"}]}', "brackets do not match"),
        ('{"concepts": [{"name": "a"},\n...\n{"name": "z"}]}', "leaves out"),
        ('{"concepts": [{"name": "a"}, …]}', "leaves out"),
    ],
)
def test_what_is_no_answer_says_why(text: str, said: str) -> None:
    with pytest.raises(BadReply, match=r"^reply: ") as caught:
        parse_reply(text, Found)
    assert said in caught.value.message
    assert not isinstance(caught.value, TruncatedReply)


def test_a_message_quotes_eighty_characters_at_most() -> None:
    with pytest.raises(BadReply) as caught:
        parse_reply("лишнее " * 5000, Found)
    assert len(caught.value.message) < 160


def test_many_faults_are_counted_not_listed() -> None:
    with pytest.raises(BadReply, match="and 6 more"):
        parse_reply(json.dumps({"concepts": [{}] * 9}), Found)


SLOPPY = (
    'Sure:\n```json\n{"title": "a "b", c", "concepts": [{"name": "\\alpha}]"}, '
    '{"name": "x, \\"y\\"", "note": "см. "п. 1": да",}, {"name": "z"}],}'
)


@pytest.mark.parametrize("text", [WHOLE, SLOPPY, json.dumps(json.loads(WHOLE)), "[" + WHOLE + "]"])
def test_no_beginning_of_a_reply_is_read_as_if_whole(text: str) -> None:
    for end in range(len(text)):
        with pytest.raises(BadReply):
            parse_reply(text[:end], Found)


def test_the_first_part_of_a_cut_list_is_not_taken_for_the_answer() -> None:
    class Lax(BaseModel):
        name: str = ""

    with pytest.raises(TruncatedReply):
        parse_reply('[{"name": "a"}, {"name": "b"', Lax)


class Strict(BaseModel):
    model_config = ConfigDict(title="Named")
    title: str
    pattern: Literal["only"]
    part: Concept | None = None


def test_a_schema_keeps_fields_named_like_its_own_words() -> None:
    schema = schema_of(Strict)
    assert set(schema["properties"]) == {"title", "pattern", "part"}
    assert schema["properties"]["pattern"] == {"enum": ["only"], "type": "string"}
    assert "default" not in json.dumps(schema)
    assert schema_of(Found)["properties"]["title"] == {
        "description": "The title of the source.",
        "type": "string",
    }


def test_a_closed_schema_requires_all_and_allows_nothing_else() -> None:
    schema = closed(schema_of(Strict))
    assert schema["required"] == ["title", "pattern", "part"]
    assert schema["additionalProperties"] is False
    assert schema["$defs"]["Concept"]["required"] == ["name", "note", "kind"]


def test_a_prompt_in_words_holds_the_schema() -> None:
    asked = ask_in_words("Прочти.", schema_of(Found))
    assert asked.startswith("Прочти.\n\n")
    assert '"concepts"' in asked


@pytest.mark.parametrize("text", ['{"error": "I cannot help"}', "{}", '{"claims": []}'])
def test_a_reply_without_what_was_asked_for_is_no_empty_reply(text: str) -> None:
    with pytest.raises(BadReply):
        parse_reply(text, ExtractReply)


def test_one_odd_field_spoils_nothing_else() -> None:
    text = (
        '{"title": null, "year": "circa 2020", "concepts": [{"name": "Сюрприз", "kind": "theorem", '
        '"definition": null}], "claims": null}'
    )
    reply = parse_reply(text, ExtractReply)
    assert (reply.title, reply.year, reply.claims) == ("", 2020, [])
    assert [(c.name, c.kind, c.definition) for c in reply.concepts] == [("Сюрприз", "concept", "")]
