"""Links in article bodies."""

import pytest

from kbwiki.text.links import link, links_in, plain_text, replace_links


@pytest.mark.parametrize("key", ["plain", "a|b", "[x]", "100%", "%7C", "ключ"])
def test_any_key_comes_back(key: str) -> None:
    assert links_in(link("c", key, "words")) == [("c", key)]


@pytest.mark.parametrize(
    "words", ["a|b", "[x]", "snake_case", "5*x", "`code`", "$x$", "<b>", "a %% b"]
)
def test_words_that_a_link_cannot_hold_are_plain_text(words: str) -> None:
    body = link("c", "k", words)
    assert links_in(body) == []
    assert plain_text(body) == words


def test_links_are_replaced_by_target_and_words() -> None:
    body = f"A {link('c', 'k', 'слова')} and {link('s', 'p', 'page')}."
    assert replace_links(body, lambda target, key, words: f"<{target} {key} {words}>") == (
        "A <c k слова> and <s p page>."
    )


def test_plain_text_has_no_links_footnotes_or_bold() -> None:
    assert plain_text(f"**A** {link('c', 'k', 'b')} \\* c[^1]") == "A b * c"


def test_plain_text_leaves_formulas_as_they_are() -> None:
    links = link("c", "x$y", "b"), link("c", "z$", "c")
    body = r"**A** is $\{{a**b\}}$ \* {} $\|w\|_1$ and {}[^1]".format(*links)
    assert plain_text(body) == r"A is $\{a**b\}$ * b $\|w\|_1$ and c"
