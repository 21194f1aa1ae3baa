"""The three-way merge of a page's body, and the parts of a page."""

from random import Random

import pytest

from kbwiki.text.edits import (
    changed_entries,
    merge,
    pieces_of,
    split_page,
    to_numbers,
    to_stable,
)

BASE = "Lead.[^1]\n\n## One\n\n- A is b.[^2] C is d.[^3]\n- E is f.[^4]"


@pytest.mark.parametrize(
    ("ours", "theirs", "expected"),
    [
        (BASE, BASE, BASE),
        (BASE.replace("E is f", "E is g"), BASE, BASE.replace("E is f", "E is g")),
        (
            BASE,
            BASE.replace("A is b.", "A is x."),
            BASE.replace("A is b.[^2]", "A is x.[^2][^human]"),
        ),
        (  # each changed another statement of one line
            BASE.replace("C is d", "C is z"),
            BASE.replace("A is b.", "A is x."),
            BASE.replace("A is b.[^2]", "A is x.[^2][^human]").replace("C is d", "C is z"),
        ),
        (  # both changed one statement: the person's words win
            BASE.replace("E is f", "E is machine's"),
            BASE.replace("E is f", "Е — это ф"),
            BASE.replace("E is f.[^4]", "Е — это ф.[^4][^human]"),
        ),
        (  # what a person took out stays out, even if we rewrote it
            BASE.replace("E is f", "E is g"),
            BASE.replace("\n- E is f.[^4]", ""),
            BASE.replace("\n- E is f.[^4]", ""),
        ),
        (  # a new section stays where it was put, a new statement of ours comes too
            BASE + "\n- G is h.[^5]",
            BASE.replace("## One", "## Мои заметки\n\nМоя мысль.\n\n## One"),
            BASE.replace("## One", "## Мои заметки\n\nМоя мысль.[^human]\n\n## One")
            + "\n- G is h.[^5]",
        ),
        (  # both added at the end: neither is lost
            BASE + "\n- G is h.[^5]",
            BASE + "\n\nПриписка.",
            BASE + "\n- G is h.[^5]\n\nПриписка.[^human]",
        ),
        ("", BASE + "\n\nMine.", "Mine.[^human]"),
    ],
)  # fmt: skip
def test_a_persons_words_win_and_nothing_else_is_lost(
    ours: str, theirs: str, expected: str
) -> None:
    assert merge(BASE, ours, theirs).strip() == expected


@pytest.mark.parametrize(
    "body", ["", "a", "a\n\nb[^1]", "x[^1][^2] y[^3]\nz", "\n\n", "- a.[^1]  b"]
)
def test_pieces_give_the_body_again(body: str) -> None:
    assert "".join(pieces_of(body)) == body


def _rewritten(random: Random, body: str, words: str) -> tuple[str, list[str]]:
    """Return a body with a few statements replaced, taken out and put in, and the new ones."""
    lines = body.split("\n")
    new: list[str] = []
    for n in range(random.randint(0, 4)):
        at = random.randrange(len(lines) + 1)
        text = f"{words} {n}: {random.random()}."
        action = random.choice(["put in", "replace", "take out"])
        if action != "take out":
            new.append(text)
        lines[at : at + (action != "put in")] = [] if action == "take out" else [f"- {text}"]
    return "\n".join(lines), [text for text in new if any(text in line for line in lines)]


@pytest.mark.parametrize("seed", range(200))
def test_nothing_that_a_person_wrote_is_ever_lost(seed: int) -> None:
    random = Random(seed)
    base = "\n".join(f"- Statement {n} says a thing.[^{n}]" for n in range(1, 9))
    ours, _ = _rewritten(random, base, "The machine says")
    theirs, new = _rewritten(random, base, "Человек говорит")
    merged = merge(base, ours, theirs)
    for words in new:
        assert f"{words}[^human]" in merged
    again = merge(base, ours, theirs)
    assert again == merged
    taken_out = set(base.split("\n")) - set(theirs.split("\n"))
    assert not taken_out & set(merged.split("\n"))
    if theirs == base:
        assert merged == ours
    if ours == base:
        assert merged.replace("[^human]", "") == theirs


def test_footnotes_by_place_come_back_by_number() -> None:
    stable = to_stable("A.[^2] B.[^1] C.[^9] D.[^mine]", ["x-1-2", "y-3-4"])
    assert stable == "A.[^@y-3-4] B.[^@x-1-2] C.[^9] D.[^mine]"
    body, order = to_numbers(stable.replace("[^9]", "[^@gone-1-2]"), {"x-1-2": 7, "y-3-4": 5})
    assert body == "A.[^1] B.[^2] C. D.[^mine]"
    assert order == [5, 7]


PAGE = """---
title: "T"
tags:
  - a
  - b
note: x
---

# T

Body.[^1]

<!-- kbwiki: generated from here -->

[^1]: q

<!-- kbwiki: generated to here -->

tail
"""


def test_a_page_is_cut_at_its_seams_on_any_system() -> None:
    for text in (PAGE, PAGE.replace("\n", "\r\n"), "\ufeff" + PAGE):
        parts = split_page(text)
        assert parts is not None
        assert (parts.heading, parts.body, parts.tail) == ("# T", "Body.[^1]", "tail")
        assert parts.front == {
            "title": 'title: "T"\n', "tags": "tags:\n  - a\n  - b\n", "note": "note: x\n",
        }  # fmt: skip


def test_front_matter_keeps_what_a_person_put_between_the_keys() -> None:
    lines = "# моя пометка\ntags:\n- a\n\n- б: 1\nnote: |\n  x: 1\n# ещё\nдата: 2026\nnote: y\n"
    parts = split_page(PAGE.replace('title: "T"\n', lines + 'title: "T"\n'))
    assert parts is not None
    assert sorted("".join(parts.front.values())) == sorted(
        lines + 'title: "T"\ntags:\n  - a\n  - b\nnote: x\n'
    )
    assert parts.front["# моя пометка"] == "# моя пометка\n"
    assert parts.front["tags"].startswith("tags:\n- a\n\n- б: 1\n")


@pytest.mark.parametrize("fence", ["```", "~~~", "````"])
def test_a_block_of_code_is_kept_as_it_was_written(fence: str) -> None:
    code = f"{fence}py\nx = [^1]  # слово\n\ny = 2\n{fence}"
    base, ours = "A one.[^@a]", "A one.[^@a]\n\nA two.[^@b]"
    theirs = f"A one.[^@a]\n\n{code}\n\nMine."
    assert to_stable(f"Слово.[^1]\n{code}\nЕщё.[^1]", ["p"]) == f"Слово.[^@p]\n{code}\nЕщё.[^@p]"
    merged = merge(base, ours, theirs)
    assert code in merged
    assert "Mine.[^human]" in merged
    assert "A two.[^@b]" in merged
    assert "".join(pieces_of(theirs)) == theirs


@pytest.mark.parametrize(
    "lost", ["<!-- kbwiki: generated from here -->", "<!-- kbwiki: generated to here -->", "---\n"]
)
def test_a_page_that_lost_a_seam_is_no_page(lost: str) -> None:
    assert split_page(PAGE.replace(lost, "")) is None


def test_what_a_person_did_to_front_matter() -> None:
    base = {"a": "a: 1\n", "b": "b: 2\n"}
    assert changed_entries(base, {"a": "a: 9\n", "c": "c: 3\n"}) == {
        "a": "a: 9\n", "b": None, "c": "c: 3\n",
    }  # fmt: skip
    assert changed_entries(base, base) == {}
