"""`kbwiki edge`, `graph` in all formats, and `eval edges`, through the command line."""

import json
import threading
import xml.etree.ElementTree as ET
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from conftest import ROOT, Store

from kbwiki import db
from kbwiki.cli import main
from kbwiki.evaluate.edges import NONE, evaluate, half_of, read_cases, score
from kbwiki.text.words import lang_of

EDGES = ROOT / "tests" / "data" / "edges.tsv"
FRESH = ROOT / "tests" / "data" / "edges_fresh.tsv"
"""Written later, with many denials and turned clauses, before the rules had seen any of it."""
Run = Callable[..., tuple[int, str, str]]

NOTES = {
    "a.md": "# MesaNet\n\n**MesaNet** is a model that uses a **conjugate gradient solver**.\n\n"
    "**MesaNet** was compared with **Mamba** in a study.\n",
    "б.md": "# Заметка\n\n**Сеть Хопфилда** основана на **правиле Хебба**.\n\n"
    "**Правило Хебба** — это правило обучения.\n",
}


@pytest.fixture
def run(store: Store, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Run a command on a store with two notes, their edges typed."""
    folder = store.root / "notes"
    folder.mkdir()
    for name, text in NOTES.items():
        (folder / name).write_text(text, "utf-8")
    store.build(folder)
    monkeypatch.chdir(store.root)
    monkeypatch.setenv("KBWIKI_DATABASE_URL", store.database.url)

    def command(*args: str) -> tuple[int, str, str]:
        code = main(list(args))
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return command


def test_show_tells_type_readings_method_and_evidence(run: Run) -> None:
    code, out, _ = run("edge", "show", "conjugate gradient solver", "mesanet")
    assert code == 0
    assert "MesaNet -uses-> Conjugate gradient solver" in out
    assert "Conjugate gradient solver -used_in-> MesaNet" in out
    assert "typed by rule" in out
    assert "uses a conjugate gradient solver" in out
    _, out, _ = run("edge", "show", "правило Хебба", "Сеть Хопфилда", "--json")
    edge = json.loads(out)
    assert (edge["type"], edge["method"], edge["rule"]) == ("based_on", "rule", "ru based on")
    [evidence] = edge["evidence"]
    assert "основана на" in evidence["text"]
    assert evidence["end_at"] - evidence["start_at"] == len(evidence["text"])


def test_a_persons_word_is_final_and_used_in_is_the_other_reading(run: Run) -> None:
    assert run("edge", "set", "Mamba", "used_in", "MesaNet")[0] == 0
    for again in (("classify-edges",), ("link",), ("classify-edges", "--batch")):
        assert run(*again)[0] == 0
    edge = json.loads(run("edge", "show", "mamba", "mesanet", "--json")[1])
    assert (edge["head"], edge["type"], edge["tail"]) == ("MesaNet", "uses", "Mamba")
    assert (edge["method"], edge["confidence"]) == ("human", 1.0)
    assert run("edge", "set", "MesaNet", "none", "Mamba")[0] == 0
    assert "Mamba" not in run("graph", "mesanet", "--all")[1]
    assert run("edge", "set", "MesaNet", "auto", "Mamba")[0] == 0
    assert run("classify-edges")[0] == 0
    edge = json.loads(run("edge", "show", "mamba", "mesanet", "--json")[1])
    assert (edge["type"], edge["method"]) == ("compares_with", "rule")


def test_a_persons_word_outlives_a_rebuild_of_the_concepts(run: Run, store: Store) -> None:
    assert run("edge", "set", "Mamba", "is_a", "Правило Хебба")[0] == 0
    store.database.connection.execute("delete from kb.concept")
    store.database.connection.execute("delete from kb.setting where name in ('resolve', 'link')")
    for stage in ("resolve", "link", "classify-edges"):
        assert run(stage)[0] == 0
    edge = json.loads(run("edge", "show", "mamba", "правило хебба", "--json")[1])
    assert (edge["head"], edge["type"], edge["method"]) == ("Mamba", "is_a", "human")


def test_words_on_one_pair_under_two_names_are_deduplicated(run: Run) -> None:
    assert run("edge", "set", "Mamba", "is_a", "Правило Хебба")[0] == 0
    assert run("edge", "set", "MesaNet", "uses", "Правило Хебба")[0] == 0
    assert run("merge", "MesaNet", "Mamba")[0] == 0
    assert run("classify-edges")[0] == 0
    edge = json.loads(run("edge", "show", "mesanet", "правило хебба", "--json")[1])
    assert edge["type"] == "uses"
    _, out, _ = run("edge", "dedup", "--dry-run")
    assert "1 would go" in out
    _, out, _ = run("edge", "dedup")
    assert "1 gone" in out
    assert "0 gone" in run("edge", "dedup")[1]
    edge = json.loads(run("edge", "show", "mesanet", "правило хебба", "--json")[1])
    assert edge["type"] == "uses"


def test_the_sentence_whose_rule_fired_is_shown(run: Run, store: Store) -> None:
    (store.root / "notes" / "two.md").write_text(
        "# Обзор\n\n**Альфа-сеть** и **бета-слой** описаны ниже.\n\n"
        "**Альфа-сеть** почти всегда использует новый **бета-слой**.\n\n"
        "**Gamma filter** and **delta coder** are old.\n\n"
        "In all its forms the **gamma filter** is directly based on the old **delta coder**.\n",
        "utf-8",
    )
    store.build(store.root / "notes")
    for one, other, kind, cue in (
        ("Альфа-сеть", "бета-слой", "uses", "использует"),
        ("gamma filter", "delta coder", "based_on", "based on"),
    ):
        edge = json.loads(run("edge", "show", one, other, "--json")[1])
        assert edge["type"] == kind
        assert cue in edge["evidence"][0]["text"]
        [shown] = [json.loads(line) for line in run("graph", one, "--json")[1].splitlines()]
        assert cue in shown["evidence"]
        assert run("edge", "set", one, "is_a", other)[0] == 0
        [shown] = [json.loads(line) for line in run("graph", one, "--json")[1].splitlines()]
        assert cue not in shown["evidence"]


def test_an_edge_whose_word_is_taken_back_is_sure_of_nothing(run: Run) -> None:
    assert run("edge", "set", "Mamba", "is_a", "MesaNet")[0] == 0
    assert run("edge", "set", "Mamba", "auto", "MesaNet")[0] == 0
    code, out, _ = run("edge", "show", "Mamba", "MesaNet")
    assert code == 0
    assert "pending" in out
    assert "typed by nobody yet" in out
    assert "confidence" not in out
    edge = json.loads(run("edge", "show", "Mamba", "MesaNet", "--json")[1])
    assert (edge["type"], edge["confidence"], edge["method"]) == (None, None, None)


def test_a_word_waits_for_a_pass_and_not_for_a_model(run: Run, store: Store) -> None:
    with closing(db.connect(store.database.url)) as other:
        with other.locked("classify-edges"):  # somebody asks a model
            code, _, err = run("edge", "set", "Mamba", "is_a", "MesaNet")
            assert (code, err) == (0, "")
        free = threading.Timer(0.5, other.run, ("unlock_name", {"name": "type-edges"}))
        other.run("lock_name", {"name": "type-edges"})
        code, _, err = run("edge", "set", "Mamba", "uses", "nothing of the kind")
        assert (code, "no concept has this slug" in err) == (1, True)
        code, _, err = run("edge", "set", "Mamba", "usez", "MesaNet")
        assert (code, "there is no type usez" in err) == (1, True)
        free.start()
        code, _, err = run("edge", "set", "Mamba", "uses", "MesaNet")
        assert code == 0
        assert "another process types edges just now; waiting for it" in err
        free.join()


def test_a_word_on_an_edge_that_another_process_makes_just_then(run: Run, store: Store) -> None:
    waits = (
        "select count(*) from pg_stat_activity where wait_event_type = 'Lock' "
        "and datname = current_database()"
    )
    with closing(db.connect(store.database.url)) as other:
        codes: list[int] = []
        words = ("edge", "set", "Mamba", "is_a", "Правило Хебба")
        thread = threading.Thread(target=lambda: codes.append(run(*words)[0]))
        with other.transaction():
            other.connection.execute(
                "insert into kb.edge (head_id, tail_id, evidence_sha, n_sources, n_evidence) "
                "select h.id, t.id, '', 0, 0 from kb.concept h, kb.concept t "
                "where h.title = 'Mamba' and t.title = 'Правило Хебба'"
            )
            thread.start()
            while store.database.connection.execute(waits).fetchone() == (0,):
                assert thread.is_alive()
        thread.join()
    assert codes == [0]
    edge = json.loads(run("edge", "show", "Mamba", "Правило Хебба", "--json")[1])
    assert (edge["type"], edge["method"]) == ("is_a", "human")


@pytest.mark.parametrize(
    ("args", "message", "hint"),
    [
        (("set", "MesaNet", "used_inn", "Mamba"), "there is no type used_inn", "used_in"),
        (("set", "MesaNet", "uses", "Mamba3"), "no concept has this slug", "mamba"),
        (("set", "MesaNet", "uses", "mesanet"), "are one concept", "two ends"),
        (("show", "Mamba", "Правило Хебба"), "nothing links", "kbwiki graph"),
        (("set", "MesaNet", "auto", "Mamba"), "nobody gave a word", ""),
        (("set", "MesaNet", " ", "Mamba"), "no type is given", "used_in"),
        (("set", " ", "uses", "Mamba"), "the name of an end is empty", "kbwiki list"),
    ],
)
def test_bad_ends_and_types_are_told(
    run: Run, args: tuple[str, ...], message: str, hint: str
) -> None:
    code, _, err = run("edge", *args)
    assert code == 1
    assert message in err
    assert hint in err


def test_the_graph_is_written_for_other_programs(run: Run) -> None:
    _, out, _ = run("graph", "mesanet", "--format", "json")
    graph = json.loads(out)
    assert {edge["type"] for edge in graph["edges"]} == {"uses", "compares_with"}
    slugs = {node["id"] for node in graph["nodes"]}
    assert all({edge["head"], edge["tail"]} <= slugs for edge in graph["edges"])
    _, out, _ = run("graph", "mesanet", "--format", "graphml")
    root = ET.fromstring(out)
    space = "{http://graphml.graphdrawing.org/xmlns}"
    assert len(root.findall(f"{space}graph/{space}node")) == len(slugs)
    assert len(root.findall(f"{space}graph/{space}edge")) == len(graph["edges"])
    _, out, _ = run("graph", "правило хебба", "--format", "mermaid")
    assert out.startswith("graph LR\n")
    assert '-->|"based_on"|' in out
    _, out, _ = run("graph", "mesanet", "--format", "dot")
    assert '"mesanet" -> "conjugate-gradient-solver" [label="uses"];' in out


def test_the_graph_of_one_type_has_either_reading(run: Run) -> None:
    for name in ("uses", "used_in"):
        _, out, _ = run("graph", "mesanet", "--type", name, "--format", "json")
        assert [edge["type"] for edge in json.loads(out)["edges"]] == ["uses"]
    code, _, err = run("graph", "mesanet", "--type", "usess")
    assert code == 1
    assert "Did you mean uses?" in err


# --- The labelled sentences ---


def test_the_sentences_are_many_of_both_languages_and_of_all_types() -> None:
    cases = read_cases(EDGES)
    assert len(cases) >= 220
    assert len({case.text for case in cases}) == len(cases)
    by_lang = {lang: [c for c in cases if lang_of(c.text) == lang] for lang in ("en", "ru")}
    types = {"is_a", "part_of", "based_on", "develops", "uses", "used_in", "depends_on",
             "addresses", "evaluated_on", "compares_with", "related_to", NONE}  # fmt: skip
    for its in by_lang.values():
        assert len(its) >= 105
        assert {case.type for case in its} == types
    for half in ("tune", "unseen"):
        assert sum(half_of(case.text) == half for case in cases) >= 100


@pytest.mark.parametrize("file", [EDGES, FRESH])
def test_rules_alone_type_the_unseen_half(url: str, file: Path) -> None:
    results, symmetric = evaluate(url, read_cases(file, "unseen"))
    scores = score(results, symmetric)
    assert (scores.direction or 0) >= 0.92
    assert (scores.both or 0) >= 0.80
    assert scores.mirror == 1.0
    assert scores.n_denied_held == 0


def test_eval_edges_leaves_the_store_as_it_was(run: Run, store: Store) -> None:
    def rows() -> list[tuple[object, ...]]:
        return store.database.connection.execute(
            "select (select array_agg(nspname::text order by 1) from pg_namespace), "
            "(select array_agg(e::text order by id) from kb.edge e), "
            "(select count(*) from kb.source), (select last_value from kb.source_id_seq)"
        ).fetchall()

    before = rows()
    code, out, _ = run("eval", "edges", str(EDGES), "--json")
    assert code == 0
    tables = [json.loads(line) for line in out.splitlines()]
    assert [table["split"] for table in tables] == ["tune", "unseen", "all"]
    assert rows() == before
    assert "type + direction" in run("eval", "edges", str(EDGES))[1]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("text\thead\ttail\ttype\n\nA uses B.\tA\tB\tusez\n", "line 3: there is no type usez"),
        ("text\thead\ttail\ttype\nA uses B.\tA\tC\tuses\n", "line 2: the text does not hold"),
        ("text\thead\ttype\nA uses B.\tA\tuses\n", "line 1: there is no column tail"),
        ("text\thead\ttail\ttype\n\n\nA uses B.\tA\t\tuses\n", "line 4: the column tail is empty"),
        ("text\thead\ttail\ttype\nA\tuses B.\tA\tB\tuses\n", "line 2: it has more columns"),
        ("", "holds no row"),
    ],
)
def test_a_bad_file_is_told(run: Run, tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "bad.tsv").write_text(text, "utf-8")
    code, _, err = run("eval", "edges", str(tmp_path / "bad.tsv"))
    assert code == 1
    assert message in err


def test_files_of_other_programs_are_read(run: Run, tmp_path: Path) -> None:
    rows = (
        '"Alpha" uses Beta, an "old" one.\tAlpha\tBeta\tUses',
        "Бета\u2028применяется в Альфе.\tБета\tАльфе\tused in",
        '"Gamma is not a Delta.\tGamma\tDelta\tnone',
    )
    told = "\ufefftext\thead\ttail\ttype\r\n\r\n" + "\r\n".join(rows) + "\r\n\r\n"
    (tmp_path / "rows.tsv").write_text(told, "utf-8", newline="")
    cases = read_cases(tmp_path / "rows.tsv")
    assert [(case.head, case.tail) for case in cases] == [
        ("Alpha", "Beta"), ("Бета", "Альфе"), ("Gamma", "Delta"),
    ]  # fmt: skip
    assert cases[0].text == '"Alpha" uses Beta, an "old" one.'
    assert [case.where.rpartition(" ")[2] for case in cases] == ["3", "4", "5"]
    code, out, _ = run("eval", "edges", str(tmp_path / "rows.tsv"), "--json")
    assert code == 0
    tables = {row["split"]: row for row in map(json.loads, out.splitlines())}
    assert tables["all"]["both"] == 1.0


def test_a_half_without_rows_has_no_share(run: Run, tmp_path: Path) -> None:
    text = "Alpha uses Beta."
    (tmp_path / "one.tsv").write_text(
        f"text\thead\ttail\ttype\n{text}\tAlpha\tBeta\tuses\n", "utf-8"
    )
    empty = {"tune": "unseen", "unseen": "tune"}[half_of(text)]
    _, out, _ = run("eval", "edges", str(tmp_path / "one.tsv"), "--json")
    tables = {row["split"]: row for row in map(json.loads, out.splitlines())}
    assert (tables[empty]["n"], tables[empty]["both"]) == (0, None)
    [line] = [x for x in run("eval", "edges", str(tmp_path / "one.tsv"))[1].splitlines()
              if x.startswith(empty)]  # fmt: skip
    assert "%" not in line


def test_a_type_is_added_by_rows_alone(run: Run, store: Store, tmp_path: Path) -> None:
    connection = store.database.connection
    connection.execute(
        "insert into kb.edge_type (name, inverse, is_symmetric, ordinal, code, definition, "
        "label_en, label_ru, inverse_en, inverse_ru) values ('precedes', 'follows', false, 11, "
        "'T', 'A comes before B.', 'precedes', 'предшествует', 'follows', 'следует за')"
    )
    connection.execute(
        "insert into kb.edge_rule (name, type, lang, backward, weight, pattern) values "
        "('ru precedes', 'precedes', 'ru', false, 0.95, '@s~2 <предшествует>~2 @2')"
    )
    (store.root / "notes" / "new.md").write_text(
        "# Новая\n\n**Свёртка окна** всегда предшествует **сжатию кадра**.\n", "utf-8"
    )
    store.build(store.root / "notes")
    edge = json.loads(run("edge", "show", "свёртка окна", "сжатие кадра", "--json")[1])
    assert (edge["type"], edge["head"]) == ("precedes", "Свёртка окна")
    assert run("edge", "set", "MesaNet", "follows", "Mamba")[0] == 0
    options = connection.execute("select kb.answer_options('seed')").fetchone()
    assert options is not None
    assert "T1 = A precedes B: A comes before B." in options[0]


def test_the_demo_graph_has_every_type() -> None:
    pages = [p.read_text("utf-8") for p in (ROOT / "wiki" / "concepts").glob("*.md")]
    assert len(pages) >= 72
    said = "".join(pages)
    for label in ("is a", "part of", "based on", "develops", "uses", "used in", "depends on",
                  "addresses", "evaluated on", "compared with"):  # fmt: skip
        assert label in said
