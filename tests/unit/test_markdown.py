"""Markdown: what becomes text, blocks and marks, and what front matter may look like."""

import time
from datetime import date

import pytest

from kbwiki.text.markdown import read_markdown


def blocks_of(text: str) -> list[tuple[str, str]]:
    document = read_markdown(text)
    return [(b.kind, document.text[b.start : b.end]) for b in document.blocks]


@pytest.mark.parametrize(
    ("source", "blocks"),
    [
        pytest.param(
            "Head\n====\n\ntext", [("heading", "Head"), ("paragraph", "text")], id="setext heading"
        ),
        pytest.param(
            "- [ ] one\n- [x] два", [("item", "one"), ("item", "два")], id="task boxes go"
        ),
        pytest.param(
            "> [!note] Title\n> body",
            [("quote", "Title"), ("quote", "body")],
            id="callout title stands alone",
        ),
        pytest.param("> [!tip]\n> тело", [("quote", "тело")], id="callout without a title"),
        pytest.param("a <b>c</b><br>d", [("paragraph", "a c d")], id="inline tags go"),
        pytest.param("<script>\nx=1\n</script>\n\nyes", [("paragraph", "yes")], id="scripts go"),
        pytest.param(
            "<div>a &amp; b</div>", [("paragraph", "a & b")], id="entities in HTML blocks are read"
        ),
        pytest.param("\\*a\\* 5 \\< 6", [("paragraph", "*a* 5 < 6")], id="escaped signs are signs"),
        pytest.param(
            "T[^1].\n\n[^1]: Note.", [("paragraph", "T."), ("paragraph", "Note.")], id="footnote"
        ),
        pytest.param("```py\nx = 1\n```", [("code", "x = 1")], id="fenced code"),
        pytest.param("$$\na=b\n$$", [("math", "$$a=b$$")], id="formula block"),
        pytest.param(
            "| a | b |\n|--|--|\n| `x\\|y` | $p$ |",
            [("table", "a | b"), ("table", "x|y | $p$")],
            id="table",
        ),
        pytest.param("a\\\nb", [("paragraph", "a b")], id="hard line breaks are spaces"),
        pytest.param(
            "# A\n\n## References\n\n- x\n\n## B\n\ny",
            [
                ("heading", "A"),
                ("references", "References"),
                ("references", "x"),
                ("heading", "B"),
                ("paragraph", "y"),
            ],
            id="references end with their section",
        ),
        pytest.param(
            "текст\n\n**Список литературы**\n\n1. Иванов",
            [("paragraph", "текст"), ("references", "Список литературы"), ("references", "Иванов")],
            id="a bold line opens references",
        ),
    ],
)
def test_structure_becomes_blocks(source: str, blocks: list[tuple[str, str]]) -> None:
    assert blocks_of(source) == blocks


@pytest.mark.parametrize(
    ("source", "text", "target"),
    [
        pytest.param("[[Page|label]]", "label", "Page", id="label is shown"),
        pytest.param("[[Page#Part]]", "Page", "Page#Part", id="section is not shown"),
        pytest.param("[[#Part]]", "Part", "#Part", id="own section is shown"),
        pytest.param("![[Заметка]]", "Заметка", "Заметка", id="embedded note is a link"),
        pytest.param("| [[a\\|b]] |\n|--|", "b", "a", id="escaped bar in a table"),
    ],
)
def test_wikilinks_show_words_and_keep_their_target(source: str, text: str, target: str) -> None:
    document = read_markdown(source)
    (mark,) = document.marks
    assert (mark.kind, document.text[mark.start : mark.end], mark.target) == (
        "wikilink",
        text,
        target,
    )


def test_an_embedded_picture_leaves_no_words() -> None:
    assert read_markdown("a ![[schema.png]] b").text == "a  b"


@pytest.mark.parametrize(
    ("front", "title", "authors", "year"),
    [
        pytest.param("title: A\nauthor: X", "A", ("X",), None, id="one author"),
        pytest.param(
            "title: a: b\nauthor: X", "a: b", ("X",), None, id="invalid YAML is read by line"
        ),
        pytest.param("\ttitle: A", "", (), None, id="a tab makes it unreadable"),
        pytest.param("- a\n- b", "", (), None, id="a list is left out"),
        pytest.param(
            "title: Hi\ndate: 2024-13-45", "Hi", (), None, id="an impossible date is left out"
        ),
        pytest.param(
            "название: Мир\nавторы: [А. Б., В. Г.]\nгод: 2020",
            "Мир",
            ("А. Б.", "В. Г."),
            2020,
            id="Russian",
        ),
        pytest.param(
            "author: Ann Lee and Bob Ray", "", ("Ann Lee", "Bob Ray"), None, id="authors by and"
        ),
        pytest.param(
            "автор: Анна Ли и Боб Рэй", "", ("Анна Ли", "Боб Рэй"), None, id="authors by и"
        ),
        pytest.param(
            "authors:\n  - name: Ann\n  - Bob", "", ("Ann", "Bob"), None, id="authors as mappings"
        ),
        pytest.param("title: null\nyear: about 1913", "", (), 1913, id="a year among words"),
        pytest.param("title: [a, b]", "", (), None, id="a title that is no text"),
        pytest.param("", "", (), None, id="empty front matter"),
    ],
)
def test_front_matter_never_fails(
    front: str, title: str, authors: tuple[str, ...], year: int | None
) -> None:
    document = read_markdown(f"---\n{front}\n---\nText.")
    assert (document.title, document.authors, document.year) == (title, authors, year)
    assert document.text == "Text."


@pytest.mark.parametrize("written", ["2024-05-06", "2024-05-06T10:00:00", "06.05.2024", "6.5.2024"])
def test_dates_are_read_in_both_orders(written: str) -> None:
    document = read_markdown(f"---\ndate: {written}\n---\nx")
    assert (document.dated, document.year) == (date(2024, 5, 6), 2024)


def test_faulty_front_matter_is_noted() -> None:
    assert "not valid YAML" in read_markdown("---\na: b: c\n---\nx").notes[0]


def test_front_matter_without_an_end_is_text() -> None:
    assert "title: A" in read_markdown("---\ntitle: A\n\ntext").text


def test_a_yaml_bomb_is_harmless() -> None:
    lines = ["a0: &a0 [x, x]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]" for i in range(1, 12)]
    document = read_markdown("\n".join(["---", *lines, "title: *a11", "author: *a11", "---", "x"]))
    assert document.title == ""


def test_deep_front_matter_is_noted() -> None:
    document = read_markdown(f"---\nauthor: Ann Lee\ntitle: {'[' * 3000}\n---\nText.")
    assert document.authors == ("Ann Lee",)
    assert document.text == "Text."
    assert "not valid YAML" in document.notes[0]


@pytest.mark.parametrize("unit", ["<!-- ", "<", "<a ", "<script "])
def test_html_that_is_never_closed_takes_linear_time(unit: str) -> None:
    began = time.process_time()
    read_markdown("<div>\n" + unit * (400_000 // len(unit)))
    assert time.process_time() - began < 5


def test_an_html_comment_without_an_end_hides_the_rest() -> None:
    assert read_markdown("<div>\nseen\n<!-- a <b> c").text == "seen"
    assert read_markdown("<div>\na < b").text == "a < b"
