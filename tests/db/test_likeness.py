"""Resolution beyond what texts join: sure pairs become one, doubtful ones wait or are asked."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from conftest import Store
from fakes.fake_gemini import FakeGemini, Request, Say, Step
from fakes.model import is_compared, reader

from kbwiki.cli import main
from kbwiki.curate import set_apart, unmerge
from kbwiki.embedders import Embedder
from kbwiki.errors import InputError

NOTES = {
    "en.md": "# Machine translation\n\n**Machine translation** is a task of language processing. "
    "Machine translation needs a **Lyapunov function** and the **knowledge graph** of texts. The "
    "Lyapunov function is measured against text. **Long-term memory** helps machine translation. "
    "A Lyapunov function is a number.\n",
    "ru.md": "# Машинный перевод\n\n**Машинный перевод** — это задача обработки языка. Машинному "
    "переводу нужны **функция Ляпунова** и **граф знаний**. Функция Ляпунова — это число. "
    "**Кратковременная память** мешает машинному переводу. Граф знаний — это связи.\n",
    "club.md": "# Tennessee Titans\n\n**Tennessee Titans** is a club of American football. The "
    "Tennessee Titans play in Nashville. **Money demand** is a want of cash. Money "
    "demand grows with prices.\n",
    "titans.md": "# Titans\n\n**Titans** is a model with a memory. Titans learns at test time.\n",
    "рынок.md": "# Рынок\n\n**Денежная масса** — это все деньги в обращении. Денежная масса "
    "растёт. Денежную массу считает банк.\n",
}


DOUBTFUL = frozenset(("Money demand", "Денежная масса"))


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    """Notes in two languages that no bracket joins."""
    folder = tmp_path / "notes"
    folder.mkdir()
    for name, text in NOTES.items():
        (folder / name).write_text(text, "utf-8")
    return folder


@pytest.fixture
def built(store: Store, notes: Path, embedder: Embedder) -> Store:
    """A store that can tell meaning."""
    store.make_embedder = lambda: embedder
    store.build(notes)
    return store


def _titles(store: Store) -> set[str]:
    return {row["title"] for row in store.database.dicts("list_titles")}


def _pairs(store: Store, status: str) -> set[frozenset[str]]:
    return {
        frozenset((row["first_title"], row["second_title"]))
        for row in store.database.dicts("list_likenesses")
        if row["status"] == status
    }


def test_two_languages_of_one_concept_share_a_page_and_opposites_do_not(built: Store) -> None:
    merged = _pairs(built, "merged")
    assert frozenset(("Machine translation", "Машинный перевод")) in merged
    assert frozenset(("Lyapunov function", "Функция Ляпунова")) in merged
    titles = _titles(built)
    for pair in merged:
        assert len(pair & titles) == 1
    assert {"Long-term memory", "Кратковременная память"} <= titles
    assert {"Titans", "Tennessee Titans"} <= titles
    assert DOUBTFUL in _pairs(built, "doubtful")
    [gone] = {"Lyapunov function", "Функция Ляпунова"} - titles
    name = gone.lower().replace(" ", "-")
    assert "redirect: true" in built.files()[f"concepts/{name}.md"].decode()


def test_what_was_joined_can_be_split_and_joined_again(built: Store) -> None:
    before = built.files()
    pair = frozenset(("Lyapunov function", "Функция Ляпунова"))
    [kept] = pair & _titles(built)
    [gone] = pair - {kept}
    unmerge(built.services(), kept, gone)
    assert pair <= _titles(built)
    built.build()
    assert pair <= _titles(built)  # and is not joined at the next run
    built.database.connection.execute("delete from kb.decision")
    built.build()
    assert built.files() == before


def test_a_person_settles_what_is_doubtful(built: Store) -> None:
    set_apart(built.services(), "Money demand", "Денежная масса")
    assert DOUBTFUL not in _pairs(built, "doubtful")
    assert _titles(built) >= DOUBTFUL
    with pytest.raises(InputError, match="are one concept"):
        set_apart(built.services(), "Lyapunov function", "Функция Ляпунова")


def test_the_queue_is_listed_with_reasons_and_settled_from_the_command_line(
    built: Store, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(built.root)
    monkeypatch.setenv("KBWIKI_DATABASE_URL", built.database.url)
    assert main(["merge", "list", "--json"]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    [row] = [r for r in rows if {r["first_title"], r["second_title"]} == DOUBTFUL]
    assert row["status"] == "doubtful"
    assert 0 < row["score"] < 1
    assert "vectors" in row["reason"]
    assert main(["lint"]) in {0, 1}
    assert "note double: " in capsys.readouterr().out
    assert main(["merge", "Money demand", "Денежная масса", "--apart"]) == 0
    capsys.readouterr()
    assert main(["merge", "list"]) == 0
    text = capsys.readouterr().out
    assert "is not" in text
    assert main(["merge", "Money demand", "Денежная масса"]) == 0
    capsys.readouterr()
    assert main(["merge", "list", "--json"]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [r["same"] for r in rows if r["status"] == "decided"] == [True]


def test_an_acronym_is_compared_by_what_it_stands_for(
    store: Store, tmp_path: Path, embedder: Embedder
) -> None:
    texts = {
        "en.md": "# RNN\n\nAn **RNN** (recurrent neural network) is a network with a state. "
        "The RNN stores numbers.\n",
        "ru.md": "# Рекуррентная сеть\n\n**Рекуррентная сеть** — это сеть с памятью. Рекуррентная "
        "сеть читает слова.\n",
    }
    for name, text in texts.items():
        (tmp_path / name).write_text(text, "utf-8")
    store.make_embedder = lambda: embedder
    for name in texts:
        store.build(tmp_path / name)
    print(_titles(store), _pairs(store, "doubtful"), _pairs(store, "merged"))
    assert frozenset(("RNN", "Рекуррентная сеть")) in _pairs(store, "doubtful")


def test_an_acronym_of_two_things_joins_neither(store: Store, tmp_path: Path) -> None:
    texts = {
        "a.md": "# Agents\n\n**RL** (reinforcement learning) is a method that trains. RL needs "
        "rewards. **Reinforcement learning** is old.\n",
        "b.md": "# Vectors\n\n**RL** (representation learning) is a method that learns. RL needs "
        "data. **Representation learning** is new.\n",
        "в.md": "# Завод\n\n**ПО** (производственное объединение) — это завод. **Производственное "
        "объединение** выпускает станки.\n",
        "г.md": "# Код\n\n**ПО** (программное обеспечение) — это код. **Программное "
        "обеспечение** решает задачи.\n",
    }
    for name, text in texts.items():
        (tmp_path / name).write_text(text, "utf-8")
    store.build(*(tmp_path / name for name in texts))
    assert {
        "Reinforcement learning", "Representation learning",
        "Производственное объединение", "Программное обеспечение",
    } <= _titles(store)  # fmt: skip


def test_it_works_without_an_embedder(store: Store, notes: Path) -> None:
    report = store.build(notes)["resolve"]
    assert report.n_failed == 0
    assert {"Lyapunov function", "Функция Ляпунова"} <= _titles(store)
    assert len({"Machine translation", "Машинный перевод"} & _titles(store)) == 1


def test_files_one_by_one_in_any_order_end_in_the_same_wiki(
    make_store: Callable[[], Store], notes: Path, embedder: Embedder
) -> None:
    wikis = []
    for names in (list(NOTES), list(reversed(NOTES))):
        store = make_store()
        store.make_embedder = lambda: embedder
        for name in names:
            store.build(notes / name)
        wikis.append(store.files())
    whole = make_store()
    whole.make_embedder = lambda: embedder
    whole.build(notes)
    assert wikis == [whole.files(), whole.files()]


class _Judge:
    """A model that reads with care and knows which names are one."""

    def __init__(self) -> None:
        self.same: bool | None = True

    def __call__(self, request: Request) -> Step:
        if not is_compared(request):
            return reader(request)
        lines = [line for line in request.prompt.splitlines() if line.startswith("[")]
        verdicts = [{"number": n, "same": self.same} for n in range(1, len(lines) + 1)]
        return Say(json.dumps({"verdicts": verdicts}))


@pytest.fixture
def judge(
    store: Store, notes: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[_Judge, FakeGemini]]:
    """A server whose model is asked about doubtful pairs; the notes are read already."""
    judge = _Judge()
    with FakeGemini(judge) as fake:
        monkeypatch.chdir(store.root)
        monkeypatch.setenv("KBWIKI_DATABASE_URL", store.database.url)
        monkeypatch.setenv("GEMINI_API_KEY", "secret")
        monkeypatch.setenv("KBWIKI_GEMINI_BASE_URL", fake.url)
        assert main(["ingest", str(notes)]) == 0
        assert main(["extract"]) == 0
        yield judge, fake


def _asked(fake: FakeGemini) -> int:
    return sum(is_compared(request) for request in fake.asked())


def test_an_engine_decides_what_is_doubtful_once(
    store: Store, judge: tuple[_Judge, FakeGemini]
) -> None:
    _, fake = judge
    assert main(["resolve"]) == 0
    assert not _pairs(store, "doubtful")
    assert len(DOUBTFUL & _titles(store)) == 1
    n_asked = _asked(fake)
    assert n_asked >= 1
    tasks = store.database.connection.execute("select task from kb.call").fetchall()
    assert ("same",) in tasks
    store.database.connection.execute("delete from kb.setting where name = 'resolve'")
    assert main(["resolve"]) == 0
    assert _asked(fake) == n_asked


def test_a_plan_counts_the_names_to_compare_and_those_of_which_an_answer_is_kept(
    store: Store, judge: tuple[_Judge, FakeGemini], capsys: pytest.CaptureFixture[str]
) -> None:
    _, fake = judge

    def planned() -> tuple[int, int]:
        capsys.readouterr()
        assert main(["plan", "--json"]) == 0
        rows = map(json.loads, capsys.readouterr().out.splitlines())
        return next((r["calls"], r["cached"]) for r in rows if r["stage"] == "resolve")

    before = planned()
    assert _asked(fake) == 0
    assert main(["resolve"]) == 0
    assert before == (_asked(fake), 0)
    store.database.connection.execute("delete from kb.setting where name = 'resolve'")
    assert planned() == (0, 0)
    store.database.connection.execute("delete from kb.setting where name = 'resolve'")
    store.database.connection.execute("delete from kb.verdict")
    assert planned() == (0, before[0])


def test_what_an_engine_cannot_tell_waits_for_a_person(
    store: Store, judge: tuple[_Judge, FakeGemini]
) -> None:
    model, fake = judge
    model.same = None
    assert main(["resolve"]) == 0
    assert DOUBTFUL in _pairs(store, "doubtful")
    n_asked = _asked(fake)
    assert main(["merge", "Money demand", "Денежная масса", "--dry-run"]) == 0
    assert _asked(fake) == n_asked


def test_a_limit_on_cost_stops_before_the_pairs_are_asked(
    store: Store, judge: tuple[_Judge, FakeGemini]
) -> None:
    _, fake = judge
    assert main(["resolve", "--max-cost", "0.0000001"]) == 3
    assert _asked(fake) == 0
    assert main(["resolve"]) == 0
    assert not _pairs(store, "doubtful")
