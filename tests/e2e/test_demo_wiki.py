"""The demo: what corpus/ compiles to, checked by readers of its own."""

import re
import shutil
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from itertools import pairwise
from pathlib import Path

import pytest
import yaml
from conftest import ROOT, Demo, Store, copy_of

from kbwiki import db, embedded
from kbwiki.embedders import Embedder
from kbwiki.pipeline import Report

_WIKILINK = re.compile(r"\[\[([^\]|]+)(?:\|[^\]]*)?\]\]")
_FOOTNOTE = re.compile(r"^\[\^(\d+)\]: [“«](.+)[”»] — \[\[([^|]+)\|.*?(\d+)–(\d+)\.$", re.MULTILINE)


@pytest.fixture(scope="module")
def demo(
    cluster: embedded.Cluster, demo_corpus: Demo, embedder: Embedder
) -> Iterator[tuple[Store, dict[str, Report]]]:
    """A store with the demo corpus in it, exported to a folder of its own."""
    with (
        copy_of(cluster, demo_corpus.name) as name,
        closing(db.connect(cluster.url(name))) as database,
    ):
        store = Store(database, ROOT)
        store.wiki = demo_corpus.wiki
        store.make_embedder = lambda: embedder
        yield store, demo_corpus.reports


def _pages(store: Store) -> dict[str, str]:
    return {
        name: content.decode() for name, content in store.files().items() if name.endswith(".md")
    }


def _redirects(pages: dict[str, str]) -> set[str]:
    return {
        name.removesuffix(".md") for name, text in pages.items() if "\nredirect: true\n" in text
    }


def _front(text: str) -> dict[str, object]:
    front = yaml.safe_load(text.split("---\n")[1])
    assert isinstance(front, dict)
    return front


def test_every_note_is_read_and_nothing_fails(demo: tuple[Store, dict[str, Report]]) -> None:
    store, reports = demo
    assert {name: report.failures for name, report in reports.items()} == dict.fromkeys(reports, ())
    suffixes = Counter(p.suffix for p in (ROOT / "corpus").glob("??/**/*") if p.is_file())
    assert suffixes.keys() == {".md", ".html", ".txt", ".pdf"}
    assert store.database.value("count_sources") == suffixes.total() >= 26


def test_the_committed_wiki_is_what_the_demo_writes(demo: tuple[Store, dict[str, Report]]) -> None:
    committed = {
        path.relative_to(ROOT / "wiki").as_posix(): path.read_bytes()
        for path in sorted((ROOT / "wiki").rglob("*"))
        if path.is_file() and path.name != "log.md"
    }
    written = demo[0].files()
    changed = [name for name in written if committed.get(name) != written[name]]
    assert (changed, sorted(committed.keys() - written.keys())) == ([], []), "run `make demo`"


def test_the_graph_is_as_rich_as_promised(demo: tuple[Store, dict[str, Report]]) -> None:
    rows = {row["type"]: row["n"] for row in demo[0].database.dicts("count_edge_types")}
    rejected = rows.pop("rejected", 0)
    assert len([name for name in _pages(demo[0]) if name.startswith("concepts/")]) >= 72
    assert sum(rows.values()) >= 215
    assert rejected > 0
    assert rows.keys() == {
        "is_a", "part_of", "based_on", "develops", "uses", "depends_on", "addresses",
        "evaluated_on", "compares_with", "related_to",
    }  # fmt: skip


def test_every_link_leads_to_a_page_and_the_index_lists_all(
    demo: tuple[Store, dict[str, Report]],
) -> None:
    pages = _pages(demo[0])
    targets = {name.removesuffix(".md") for name in pages}
    broken = [
        (name, target)
        for name, text in pages.items()
        for target in _WIKILINK.findall(text)
        if target not in targets
    ]
    assert broken == []
    listed = set(_WIKILINK.findall(pages["index.md"]))
    assert listed == targets - {"index", "log"} - _redirects(pages)


def test_every_footnote_is_cited_once_and_every_statement_has_one(
    demo: tuple[Store, dict[str, Report]],
) -> None:
    for name, text in _pages(demo[0]).items():
        if name == "index.md":
            continue
        body = text.split("<!-- kbwiki: generated from here -->")[0]
        cited = re.findall(r"\[\^(\d+)\]", body)
        defined = re.findall(r"^\[\^(\d+)\]: ", text, re.MULTILINE)
        assert cited == defined == [str(n) for n in range(1, len(cited) + 1)], name
        statements = [line for line in body.splitlines() if line.startswith("- ")]
        assert all(re.search(r"\[\^\d+\]$", line) for line in statements), name


def test_every_quote_stands_at_its_span(demo: tuple[Store, dict[str, Report]]) -> None:
    store = demo[0]
    rows = store.database.connection.execute(
        "select p.slug, s.text from kb.source_page p join kb.source s on s.id = p.source_id"
    ).fetchall()
    texts = {f"sources/{slug}": text for slug, text in rows}
    n_quotes = 0
    for name, text in _pages(store).items():
        for _, quote, source, start, end in _FOOTNOTE.findall(text):
            n_quotes += 1
            assert source in texts, name
            shown = re.sub(r"\\(.)", r"\1", quote)
            there = texts[source][int(start) : int(end)]
            assert " ".join(there.replace("\\", "").split()) == " ".join(
                shown.replace("\\", "").split()
            ), name
    n_notes = sum(len(re.findall(r"^\[\^", t, re.MULTILINE)) for t in _pages(store).values())
    assert n_quotes == n_notes > 500


def test_every_page_says_in_its_front_matter_that_no_model_wrote_it(
    demo: tuple[Store, dict[str, Report]],
) -> None:
    for name, text in _pages(demo[0]).items():
        if name not in {"index.md", "log.md"} and "\nredirect: true\n" not in text:
            front = _front(text)
            assert str(front["engine"]).startswith("local"), name
            assert str(front["written_by"]).startswith("no model"), name
            assert front["lang"] in {"en", "ru"}, name


def test_concepts_in_both_languages_are_one_page(demo: tuple[Store, dict[str, Report]]) -> None:
    store = demo[0]
    for english, russian in (
        ("associative scan", "ассоциативное сканирование"),
        ("linear attention", "линейное внимание"),
        ("neural long-term memory", "нейронная долговременная память"),
    ):
        found = [
            store.database.dicts("find_page", {"slug": "", "keys": [key.replace("-", " ")]})[0]
            for key in (english, russian)
        ]
        assert found[0] == found[1]


def test_the_chain_from_linear_rnn_to_m3_is_in_the_graph(
    demo: tuple[Store, dict[str, Report]],
) -> None:
    edges = {
        frozenset((row[0], row[1]))
        for row in demo[0].database.connection.execute(
            "select h.id, t.id from kb.edge e join kb.concept h on h.id = e.head_id "
            "join kb.concept t on t.id = e.tail_id where e.status = 'typed'"
        )
    }
    names = ["linear rnn", "associative scan", "neural long term memory", "m3 optimizer"]
    ids = [
        demo[0]
        .database.connection.execute("select concept_id from kb.alias where key = %s", (name,))
        .fetchone()
        for name in names
    ]
    assert all(ids), list(zip(names, ids, strict=True))
    steps = [frozenset((a[0], b[0])) for a, b in pairwise(ids) if a and b]
    assert [step in edges for step in steps] == [True, True, True]


def test_exporting_to_an_empty_folder_again_gives_the_same_bytes(
    demo: tuple[Store, dict[str, Report]],
) -> None:
    store = demo[0]
    before = store.files()
    shutil.rmtree(store.wiki)
    store.build(names=("export",))
    assert store.files() == before


def test_the_mermaid_pictures_name_only_nodes_that_they_define(
    demo: tuple[Store, dict[str, Report]],
) -> None:
    for name, text in _pages(demo[0]).items():
        for picture in re.findall(r"```mermaid\n(.*?)```", text, re.DOTALL):
            defined = set(re.findall(r"^  (n\d+)\[", picture, re.MULTILINE))
            used = {
                n
                for line in picture.splitlines()
                if "|" in line
                for n in re.findall(r"\bn\d+\b", line)
            }
            assert used <= defined, name
            assert used, name


def test_no_page_path_is_too_long_for_a_file_system(demo: tuple[Store, dict[str, Report]]) -> None:
    assert max(len(Path(name).name.encode()) for name in _pages(demo[0])) <= 200
