"""What the wiki may be trusted for: disagreements shown, only what changed redone, costs told."""

import re
import shutil
from pathlib import Path

import pytest
from conftest import NO_EMBED, ROOT, Quiet, Store

from kbwiki.curate import remove_sources
from kbwiki.engines.local import LocalEngine
from kbwiki.lint import lint
from kbwiki.pipeline import run_stages, stage_named
from kbwiki.records import Article, Brief, Document, Extraction

OLD = (
    "---\ndate: 2023-05-01\n---\n# Old survey\n\n**Deep Memory** is a network that keeps a state. "
    "Deep Memory has 400 million parameters. Deep Memory is trained on text.\n"
)
NEW = (
    "---\ndate: 2025-02-03\n---\n# Новый обзор\n\n**Deep Memory** — это сеть с памятью. "
    "Deep Memory имеет 760 миллионов параметров. Deep Memory обучена на книгах.\n"
)
PAGE = "concepts/deep-memory.md"


def _note(store: Store, name: str, text: str) -> Path:
    folder = store.root / "notes"
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(text, "utf-8")
    return folder


def test_sources_that_disagree_are_both_shown_with_their_dates(store: Store) -> None:
    store.build(_note(store, "old.md", OLD))
    before = store.files()
    assert "Disagreements" not in before[PAGE].decode()
    store.build(_note(store, "new.md", NEW))
    page = store.files()[PAGE].decode()
    section = re.split(r"^## (?:Disagreements|Разногласия)$", page, flags=re.MULTILINE)[1]
    lines = [line for line in section.split("<!--")[0].splitlines() if line.startswith("- ")]
    assert len(lines) == 2
    assert "(2025-02-03): Deep Memory имеет 760 миллионов параметров." in lines[0]
    assert "[[sources/новый-обзор|" in lines[0]
    assert "(2023-05-01): Deep Memory has 400 million parameters." in lines[1]
    assert all(re.search(r"\[\^\d+\]$", line) for line in lines)
    found = [f for f in lint(store.database, {}) if f.rule == "contradicted"]
    assert [(f.level, f.where) for f in found] == [("note", PAGE)]
    remove_sources(store.services(), ["notes/new.md"])
    store.build(names=("write", "link", "classify-edges", "export"))
    assert store.files() == before


def test_a_russian_page_says_it_in_russian(store: Store) -> None:
    text = (
        "# {}\n\n**Глубокая сеть** — это сеть. Глубокая сеть имеет {} слоёв. Она учится. Глубокая "
        "сеть {} кэш ключей.\n"
    )
    _note(store, "a.md", text.format("Первая", 12, "использует"))
    store.build(_note(store, "b.md", text.format("Вторая", 24, "не использует")))
    page = store.files()["concepts/глубокая-сеть.md"].decode().split("<!--")[0]
    section = page.partition("\n## Разногласия\n")[2]
    assert [line.partition(": ")[2].partition("[")[0] for line in section.splitlines() if line] == [
        "Глубокая сеть имеет 24 слоёв.", "Глубокая сеть имеет 12 слоёв.",
        "Глубокая сеть не использует кэш ключей.", "Глубокая сеть использует кэш ключей.",
    ]  # fmt: skip


class _Counting(LocalEngine):
    """The local engine, with a list of what it was asked for."""

    def __init__(self) -> None:
        self.read: list[str] = []
        self.wrote: list[str] = []

    def extract(self, document: Document, item: str = "") -> Extraction:
        self.read.append(item)
        return super().extract(document, item)

    def write(self, brief: Brief, item: str = "") -> Article:
        self.wrote.append(item)
        return super().write(brief, item)


def _count(store: Store, folder: Path) -> _Counting:
    engine = _Counting()
    services = store.services(folder)
    services.engine = engine
    run_stages([stage_named(name) for name in NO_EMBED], services, Quiet())
    return engine


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("en/kv-cache.md", "\nThe KV cache of one user is never shared with another one.\n"),
        ("ru/сюрприз.md", "\nСюрприз в этой заметке упомянут ещё один раз для проверки.\n"),
    ],
)
def test_editing_one_file_redoes_only_the_pages_that_it_feeds(
    store: Store, tmp_path: Path, name: str, words: str
) -> None:
    corpus = tmp_path / "corpus"
    shutil.copytree(ROOT / "corpus", corpus)
    whole = _count(store, corpus)
    n_sources = store.database.value("count_sources")
    assert len(whole.read) == n_sources
    before = store.files()
    assert _count(store, corpus).wrote == []
    note = corpus / name
    note.write_text(note.read_text("utf-8") + words, "utf-8")
    again = _count(store, corpus)
    assert len(again.read) == 1
    uri = f"corpus/{name}"
    rows = store.database.connection.execute(
        "select 'concepts/' || c.slug from kb.concept c join kb.mention m on m.concept_id = c.id "
        "join kb.source_uri u on u.source_id = m.source_id where u.uri = %s union "
        "select 'sources/' || p.slug from kb.source_page p join kb.source_uri u using (source_id) "
        "where u.uri = %s",
        (uri, uri),
    ).fetchall()
    fed = {row[0] for row in rows}
    assert set(again.wrote) <= fed
    assert 1 <= len(again.wrote) == len(set(again.wrote)) < len(whole.wrote) / 2
    changed = {n for n, content in store.files().items() if before.get(n) != content}
    texts = {n: store.files()[n].decode().split("<!--")[0] for n in changed if n.endswith(".md")}
    rewritten = {
        n.removesuffix(".md")
        for n, text in texts.items()
        if n != "index.md" and text != before.get(n, b"").decode().split("<!--")[0]
    }
    assert rewritten <= fed


def test_a_page_of_two_sources_keeps_what_the_other_says(store: Store) -> None:
    _note(store, "old.md", OLD)
    store.build(_note(store, "new.md", NEW))
    store.build(_note(store, "old.md", OLD.replace("trained on text", "trained on songs")))
    page = store.files()[PAGE].decode()
    assert "songs" in page
    assert "обучена на книгах" in page


def test_the_log_tells_what_a_build_cost(store: Store) -> None:
    store.build(_note(store, "old.md", OLD))
    log = (store.wiki / "log.md").read_text("utf-8")
    assert log.rstrip().endswith("- cost: no model was asked")
    insert = (
        "insert into kb.call (task, provider, model, item, status, prompt_sha, usd) values "
        "('write', 'gemini', 'm', 'x', %s, '', %s)"
    )
    for status, usd in (("ok", 0.25), ("failed", 0.125), ("cached", 0)):
        store.database.connection.execute(insert.encode(), (status, usd))
    store.build(_note(store, "new.md", NEW))
    first, second, *_ = (store.wiki / "log.md").read_text("utf-8").split("\n## ")[1:]
    assert first.rstrip().endswith("- cost: $0.3750, 2 calls")
    assert second.rstrip().endswith("- cost: no model was asked")
    store.build(_note(store, "new.md", NEW + "Deep Memory reads whole books at once.\n"))
    newest = (store.wiki / "log.md").read_text("utf-8").split("\n## ")[1]
    assert newest.rstrip().endswith("- cost: no model was asked")
