"""Pages: whole, cited, and shown as the sources have it."""

import re
from pathlib import Path

import pytest
from test_normal import shown

from kbwiki.engines.compose import compose
from kbwiki.engines.read import read_source
from kbwiki.records import Brief, Lang, Statement
from kbwiki.text.links import links_in, replace_links
from kbwiki.text.normal import clean_line
from kbwiki.text.readers import read_document

CORPUS = Path(__file__).parents[2] / "corpus"
DEMO = sorted(p for p in CORPUS.rglob("*") if p.suffix in {".md", ".txt", ".html", ".pdf"})
_FOOTNOTE = re.compile(r"\[\^\d+\]")


def statement(text: str, at: int = 0, source: str = "a", **more: object) -> Statement:
    lang: Lang = "en"
    facts = {"page": None, "heading": "", "rank": 0.9, "defines": False, **more}
    return Statement(1, source, source.upper(), at, at + len(text), text, lang, **facts)


def page(body: str) -> str:
    """Return the words that a reader of a body sees."""
    plain = replace_links(_FOOTNOTE.sub("", body), lambda _target, _key, words: words)
    return shown(plain).replace("<strong_open>", "").replace("<strong_close>", "")


def brief(*statements: Statement, kind: str = "concept", title: str = "Memory") -> Brief:
    return Brief(title, kind, "en", (), statements)


@pytest.mark.parametrize("path", DEMO, ids=lambda p: p.name)
def test_a_page_shows_the_words_of_its_source(path: Path) -> None:
    document = read_document(path.name, path.read_bytes())
    claims = read_source(document).claims
    said = [
        statement(c.text, c.start, heading=c.heading, mentions=((0, min(4, len(c.text)), "X"),))
        for c in claims
    ]
    article = compose(brief(*said, kind="source"), "local")
    assert article.citations
    text = page(article.body)
    for citation in article.citations:
        assert document.text[citation.start : citation.end] == citation.quote
        assert clean_line(citation.quote) in text
    assert [c.ordinal for c in article.citations] == list(range(1, len(article.citations) + 1))
    assert len(links_in(article.body)) == len(set(links_in(article.body)))


@pytest.mark.parametrize(
    "text",
    [
        "1. The memory of *a* network_name [x] is | large.",
        "# Memory holds `code` and <b> tags, and ~more~ \\ signs.",
        "- Memory costs $5 and $6 for each of the ten users.",
        "Память $M_t = M_{t-1} + v k^*$ растёт, и *это* важно для всех.",
        "> Memory &amp; attention are [[two]] of a kind, see [^3] there.",
    ],
)
@pytest.mark.parametrize("kind", ["concept", "source"])
def test_signs_of_markdown_are_shown_as_they_are(text: str, kind: str) -> None:
    article = compose(brief(statement(text), kind=kind), "local")
    assert text in page(article.body)


def test_a_concept_is_linked_once_and_the_page_s_own_never() -> None:
    one = statement(
        "Titans use memory for recall.", 0, mentions=((0, 6, "Titans"), (11, 17, "Memory"))
    )
    two = statement("Titans were published in the winter.", 50, mentions=((0, 6, "Titans"),))
    article = compose(brief(one, two), "local")
    assert [link for link in links_in(article.body) if link[0] == "c"] == [("c", "titans")]
    assert "**memory**" in article.body


def test_the_definition_leads_the_page() -> None:
    plain = statement("Memory grows with each of the tokens.", 0, "a")
    defining = statement("Memory is a store of associations.", 0, "b", defines=True)
    article = compose(brief(plain, defining), "local")
    assert article.summary == defining.text
    assert article.body.startswith("Memory is a store")


@pytest.mark.parametrize("kind", ["concept", "source"])
def test_what_is_said_twice_is_shown_once(kind: str) -> None:
    text = "Memory is a store of associations in weights."
    said = [statement(text, 0, "a"), statement(text, 90, "a"), statement(text, 0, "b")]
    article = compose(brief(*said, kind=kind), "local")
    assert article.body.count("store of associations") == 1


def test_no_statements_make_an_empty_page() -> None:
    article = compose(brief(), "local")
    assert (article.body, article.citations) == ("", ())
