"""Characters: what is cleaned, keys, slugs, and Markdown that shows a text unchanged."""

import gc
import tracemalloc

import pytest
from markdown_it import MarkdownIt
from mdit_py_plugins.dollarmath import dollarmath_plugin

from kbwiki.text.links import plain_text, replace_links
from kbwiki.text.normal import (
    MAX_SLUG_BYTES,
    assign_slugs,
    canonical_key,
    clean_line,
    clean_text,
    escape_markdown,
    shorten,
    slugify,
)


def shown(markdown: str) -> str:
    """Return the words that a reader of the Markdown sees; a tag where it makes structure."""
    parser = MarkdownIt("commonmark").enable(["table", "strikethrough"])
    parser.use(dollarmath_plugin, allow_digits=False)
    out: list[str] = []
    for block in parser.parse(markdown):
        if block.type.endswith("_open") and block.type != "paragraph_open":
            out.append(f"<{block.type}>")
        for token in block.children or ():
            is_math = token.type.startswith("math")
            out.append(f"${token.content}$" if is_math else token.content or f"<{token.type}>")
    return "".join(out)


@pytest.mark.parametrize(
    ("raw", "clean"),
    [
        pytest.param("a\r\nb\rc", "a\nb\nc", id="line ends become newlines"),
        pytest.param("a\x00b\x07", "ab", id="control characters go"),
        pytest.param("\ufeffтекст", "текст", id="a byte order mark goes"),
        pytest.param("и\u0306", "й", id="letters are composed"),
        pytest.param("инфор\u00adмация", "информация", id="soft hyphens go"),
        pytest.param("a\u00a0b", "a b", id="hard spaces become spaces"),
    ],
)
def test_text_is_cleaned_at_the_door(raw: str, clean: str) -> None:
    assert clean_text(raw) == clean


@pytest.mark.parametrize(
    ("one", "other"),
    [
        pytest.param("Delta-Rule", "delta rule", id="hyphens and capitals do not count"),
        pytest.param("Учёный", "учeный".replace("e", "е"), id="yo is ye"),
        pytest.param("Newton–Schulz", "newton schulz", id="dashes do not count"),
        pytest.param("ﬁlter", "filter", id="ligatures do not count"),
        pytest.param("snake_case", "snake case", id="underscores are spaces"),
    ],
)
def test_spellings_of_one_name_share_a_key(one: str, other: str) -> None:
    assert canonical_key(one) == canonical_key(other)


@pytest.mark.parametrize(
    "name", ["a/b", "con", ".hidden", "x" * 400, "ж" * 400, "a:b|c", "", "..", "a#b^c"]
)
def test_a_slug_is_a_safe_file_name(name: str) -> None:
    slug = slugify(name)
    assert slug
    assert len(slug.encode()) <= MAX_SLUG_BYTES
    assert not set(slug) & set('<>:"/\\|?*#^[]')
    assert not slug.startswith(".")


def test_slugs_do_not_depend_on_order_and_differ() -> None:
    names = {"b": "Память", "a": "память", "c": "Other"}
    assert assign_slugs(names) == assign_slugs(dict(reversed(names.items())))
    assert len(set(assign_slugs(names).values())) == 3


@pytest.mark.parametrize(
    "text",
    [
        "a * b * c",
        "*x*",
        "snake_case_name",
        "__init__",
        "[link](u)",
        "[[w]]",
        "a | b",
        "| a |",
        "<b>x</b>",
        "<!-- x -->",
        "# head",
        "#",
        "1. item",
        "1) item",
        "2020. год",
        "1.",
        "- dash",
        "-",
        "+ plus",
        "> quote",
        "`code`",
        "``x",
        "\\alpha",
        "a\\",
        "costs $5 and $6",
        "$100 to $200",
        "$",
        "$$",
        "a ~~b~~ c",
        "&amp; &lt; & co",
        "http://a.b/c_d_e",
        "===",
        "---",
        "***",
        "~~~",
        "```",
        "![x](y)",
        "^[fn]",
        "[^1]",
        "[^1]: y",
        "[a]: http://x",
        "=",
        "5 $a",
        "x < y > z",
        "<http://a.b>",
        "$x_1*y$ and *z*",
        "E = $mc^2$. Тогда $E_0$",
        "$p|q$",
        "вес $w_{ij}$ и _курсив_",
        "a $x$ $y$ b",
    ],
)
def test_escaped_text_is_shown_unchanged(text: str) -> None:
    assert shown(escape_markdown(text)) == text


@pytest.mark.parametrize(
    "text",
    [
        "a * b",
        "1. x",
        "a %% b",
        r"**$\{a**b\}_1$ x",
        "costs $5",
        "[x] | y",
        "&amp;",
        "# h",
        "C#",
        "a_b",
    ],
)
def test_plain_text_undoes_the_escapes(text: str) -> None:
    assert plain_text(escape_markdown(text)) == text


def test_a_line_has_no_breaks_and_single_spaces() -> None:
    assert clean_line("  a\n\n b\t c ") == "a b c"


@pytest.mark.parametrize(
    ("text", "safe"),
    [
        pytest.param("$<img src=x>$", r"$\lt img src=x>$", id="no tag"),
        pytest.param("$[[c:b|evil]]$", "$[ [c:b|evil] ]$", id="no link"),
        pytest.param("$[[[x]]]$", "$[ [ [x] ] ]$", id="no link in three brackets"),
        pytest.param("$x[^1]$", "$x[ ^1]$", id="no footnote"),
        pytest.param("$5 %% x$", "$5 % % x$", id="no comment"),
        pytest.param("$a < b$", r"$a \lt b$", id="less"),
        pytest.param("$1$ $$a<$$", r"$1$ $$a\lt{}$$", id="less at the end"),
        pytest.param(r"$a \\<b$", r"$a \\\lt b$", id="less after a line break"),
    ],
)
def test_a_formula_stays_a_formula_and_is_no_markup(text: str, safe: str) -> None:
    assert escape_markdown(text) == safe
    assert shown(safe).startswith("$")
    assert replace_links(safe, lambda *_: "evil") == safe
    assert plain_text(safe) == safe


def test_no_comment_of_obsidian_begins() -> None:
    assert "%%" not in escape_markdown("a %%b%% c %%% d")
    assert shown(escape_markdown("a %%b%% c %%% d")) == "a %%b%% c %%% d"
    assert escape_markdown("5% of 100 %") == "5% of 100 %"


@pytest.mark.parametrize(
    ("line", "limit", "short"),
    [("one two", 7, "one two"), ("one two three", 9, "one two"), ("x" * 9, 4, "xxxx")],
)
def test_a_line_is_cut_at_a_word(line: str, limit: int, short: str) -> None:
    assert shorten(line, limit) == short


@pytest.mark.parametrize("unit", ["Ёлка-сосна ", "Linear_RNN "])
def test_keys_of_whole_texts_are_not_kept_in_memory(unit: str) -> None:
    gc.collect()
    tracemalloc.start()
    try:
        for n in range(200):
            assert canonical_key(f"{n} {unit * 1000}").endswith(canonical_key(unit))
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert kept < 1_000_000
