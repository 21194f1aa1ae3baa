"""The command line, through its own entry point, on a real store."""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import psycopg
import pytest
from conftest import Store, copy_of

from kbwiki import __version__, config, db, embedded
from kbwiki.cli import main
from kbwiki.embedded import Cluster

Run = Callable[..., tuple[int, str, str]]

ENGLISH = """---
date: 2025-05-01
---
# Fast weights

**Fast weights** are weights that change while a sequence is read. Linear attention uses fast
weights as its memory. Jürgen Schmidhuber proposed fast weights in 1991.
"""
RUSSIAN = """# Линейное внимание

**Линейное внимание** (linear attention) — это внимание без функции softmax. Линейное внимание
основано на быстрых весах (fast weights). Линейное внимание не использует кэш ключей.
"""


def _write_notes(folder: Path) -> None:
    folder.mkdir()
    (folder / "fast-weights.md").write_text(ENGLISH, "utf-8")
    (folder / "внимание.md").write_text(RUSSIAN, "utf-8")


@pytest.fixture
def run(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Run:
    """Run a command in a folder with two notes; return its code, output and errors."""
    _write_notes(tmp_path / "papers")
    return _runner(url, tmp_path, monkeypatch, capsys)


def _runner(
    url: str, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Run:
    monkeypatch.chdir(folder)
    monkeypatch.setenv("KBWIKI_DATABASE_URL", url)

    def command(*args: str) -> tuple[int, str, str]:
        code = main(list(args))
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return command


def _objects(text: str) -> list[dict[str, object]]:
    return [json.loads(line) for line in text.splitlines()]


STAGES = ("ingest", "extract", "resolve", "write", "link", "classify-edges", "export")


@pytest.fixture(scope="module")
def whole(
    cluster: Cluster, template: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[str, Path]]:
    """The database and the folder of a store with the two notes, after every stage but embed."""
    folder = tmp_path_factory.mktemp("whole")
    _write_notes(folder / "papers")
    with copy_of(cluster, template) as name:
        with closing(db.connect(cluster.url(name))) as database:
            reports = Store(database, folder).build(folder / "papers")
        assert not any(report.n_failed for report in reports.values())
        yield name, folder


@pytest.fixture
def built(
    cluster: Cluster,
    whole: tuple[str, Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Iterator[Run]:
    """Run a command in a folder with two notes that went through every stage but embed."""
    name, folder = whole
    shutil.copytree(folder, tmp_path, dirs_exist_ok=True)
    with copy_of(cluster, name) as copy:
        yield _runner(cluster.url(copy), tmp_path, monkeypatch, capsys)


@pytest.mark.parametrize(
    ("gone", "removed"),
    [
        ("внимание.md", "removed concept: Линейное внимание"),
        ("fast-weights.md", "removed concept: Fast weights"),
    ],
)
def test_a_dry_prune_says_what_would_go_and_a_moved_file_is_not_among_it(
    built: Run, tmp_path: Path, gone: str, removed: str
) -> None:
    papers = tmp_path / "papers"
    other = next(path for path in papers.iterdir() if path.name != gone)
    (papers / "copy.md").write_bytes((papers / gone).read_bytes())
    built("ingest", "papers")
    # The bytes of one name are other ones now, of the other moved: what they were is gone.
    (papers / gone).unlink()
    (papers / "copy.md").write_text("# Память\n\nВ ней нет ничего из прежнего.\n", "utf-8")
    other.rename(papers / "новое имя.md")
    code, out, _ = built("ingest", "papers", "--prune", "--dry-run")
    assert code == 0
    assert re.findall("^vanished: .*", out, re.M) == [f"vanished: papers/{gone}"]
    assert removed in out.splitlines()
    assert out.endswith("dry run: nothing was changed\n")
    sources = {row["uri"] for row in _objects(built("sources", "--json")[1])}
    assert sources == {"papers/copy.md", f"papers/{gone}", f"papers/{other.name}"}
    assert '"vanished": ["papers/' in built("build", "papers", "--prune", "--dry-run", "--json")[1]
    assert "1 pruned" in built("ingest", "papers", "--prune")[1]
    sources = {row["uri"] for row in _objects(built("sources", "--json")[1])}
    assert sources == {"papers/copy.md", "papers/новое имя.md"}
    assert "no file has vanished" in built("ingest", "papers", "--prune", "--dry-run")[1]
    assert built("ingest", "papers", "--dry-run")[0] == 2


def test_each_stage_is_a_command_and_says_what_it_did(run: Run) -> None:
    for stage in STAGES:
        args = [stage, "papers"] if stage == "ingest" else [stage]
        code, out, _ = run(*args, "--json")
        assert code == 0
        first = _objects(out)[0]
        assert (first["stage"], first["failed"]) == (stage, 0)
        assert first["done"], stage
        code, out, _ = run(*args, "--json")
        assert _objects(out)[0]["done"] == 0, stage


def test_a_build_makes_a_knowledge_base_and_a_wiki(run: Run, tmp_path: Path) -> None:
    code, out, err = run("build", "papers")
    assert code == 0
    assert err == "" or err.startswith("building the int8 graph")  # once in each home
    assert (tmp_path / ".kbwiki" / ".gitignore").read_text() == "*\n"
    assert (tmp_path / "wiki" / "index.md").exists()
    assert "no model was asked" in out
    assert re.search(r"^embed +1 done", out, re.MULTILINE)


def test_status_tells_counts_staleness_and_failures(built: Run, tmp_path: Path) -> None:
    (tmp_path / "papers" / "empty.md").touch()
    code, out, err = built("ingest", "papers")
    assert code == 1
    assert "papers/empty.md: the file is empty. Nothing was stored." in err
    code, out, _ = built("status", "--json")
    [status] = _objects(out)
    assert code == 0
    assert (status["sources"], status["stale"]["extract"]) == (2, 0)
    assert status["stale"]["embed"] > 0
    assert status["engines"] == ["local-1"] or str(status["engines"][0]).startswith("local")
    assert [f["item"] for f in status["failures"]] == ["papers/empty.md"]
    code, out, err = built("status")
    assert "papers/empty.md" in err
    assert re.search(r"^sources +2", out, re.MULTILINE)


@pytest.mark.parametrize(
    ("question", "slug"),
    [
        ("what are fast weights", "sources/fast-weights"),
        ("что такое линейное внимание", "sources/линейное-внимание"),
    ],
)
def test_a_question_finds_its_source_by_words_alone(built: Run, question: str, slug: str) -> None:
    code, out, err = built("query", question, "--json")
    assert code == 0
    assert _objects(out)[0]["slug"] == slug
    assert "searching by words alone: the store has no vectors yet" in err


def test_a_question_in_one_language_finds_the_other_by_vectors(built: Run) -> None:
    assert built("embed")[0] == 0
    code, out, err = built("query", "внимание, у которого нет софтмакса", "--json")
    assert (code, err) == (0, "")
    slugs = [hit["slug"] for hit in _objects(out) if "rank" in hit]
    assert "sources/линейное-внимание" in slugs[:3]
    code, out, _ = built("query", "быстро меняющиеся веса", "--json")
    assert {row["slug"] for row in _objects(out) if "slug" in row} >= {
        "sources/fast-weights",
        "sources/линейное-внимание",
    }


@pytest.mark.parametrize("question", ["", "   ", "?!", "\x00", "«»"])
def test_a_question_without_a_word_is_refused(built: Run, question: str) -> None:
    code, out, err = built("query", question)
    assert (code, out) == (1, "")
    assert err.startswith("error: query: the question is empty.")


@pytest.mark.parametrize(
    "question", ["a & | ! (b", "'; drop schema kb; --", '"веса', "🙂 weights", "w" * 60_000]
)
def test_an_odd_question_is_no_error(built: Run, question: str) -> None:
    code, _, err = built("query", question)
    assert code in {0, 4}
    assert "error" not in err


def test_nothing_found_is_said_with_its_own_code(built: Run) -> None:
    code, out, _ = built("query", "zzyzx")
    assert (code, out) == (4, "Nothing was found.\n")


@pytest.mark.parametrize(
    "name",
    ["fast-weights", "Fast weights", "FAST_WEIGHTS", "concepts/fast-weights", "быстрые веса"],
)
def test_a_page_is_found_by_slug_title_and_alias(built: Run, name: str) -> None:
    code, out, _ = built("show", name)
    assert code == 0
    assert "# Fast weights" in out
    assert "**Fast weights** are weights that change while a sequence is read.[^1]" in out


def test_an_unknown_page_is_a_clear_error(built: Run) -> None:
    code, _, err = built("show", "нет такой")
    assert code == 1
    assert err == (
        "error: нет такой: no page has this slug, title or alias.\nhint: See `kbwiki list`.\n"
    )


def test_list_and_graph_print_what_the_store_holds(built: Run) -> None:
    code, out, _ = built("list", "--kind", "source")
    assert code == 0
    assert "sources/линейное-внимание" in out
    code, out, _ = built("graph", "linear attention", "--json")
    edges = {(e["head"], e["type"], e["tail"]) for e in _objects(out)}
    assert ("Линейное внимание", "based_on", "Fast weights") in edges or (
        "Linear attention", "based_on", "Fast weights",
    ) in edges, edges  # fmt: skip


def test_classify_edges_batch_prints_a_table(built: Run) -> None:
    code, out, _ = built("classify-edges", "--batch")
    assert code == 0
    assert "No model was asked" in out
    code, out, _ = built("classify-edges", "--batch", "--json")
    assert _objects(out)[-1]["pending"] == 0


def test_another_model_is_refused_and_text_search_goes_on(
    built: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert built("embed")[0] == 0
    monkeypatch.setenv("KBWIKI_EMBEDDER", "e5-small-q4")
    code, _, err = built("embed")
    assert code == 1
    assert "run `kbwiki embed --replace`" in err.replace("Run", "run")
    code, out, err = built("query", "fast weights", "--json")
    assert code == 0
    assert _objects(out)
    assert "words alone" in err
    code, out, _ = built("embed", "--replace", "--dry-run")
    assert (code, "would be dropped" in out) == (0, True)
    assert built("embed", "--replace")[0] == 0
    code, _, err = built("query", "fast weights")
    assert (code, err) == (0, "")


def test_a_command_without_a_knowledge_base_says_how_to_make_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("KBWIKI_DATABASE_URL", raising=False)
    assert main(["status"]) == 1
    err = capsys.readouterr().err
    assert "no knowledge base here or above." in err
    assert "kbwiki build FOLDER" in err


def test_the_knowledge_base_is_found_from_a_folder_below(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / ".kbwiki").mkdir()
    (tmp_path / "a" / "b").mkdir(parents=True)
    assert config.find_home(tmp_path / "a" / "b") == tmp_path / ".kbwiki"


def test_config_shows_origin_and_masks_secrets(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KBWIKI_JOBS", "3")
    code, out, _ = run("config", "--json")
    rows = {str(row["name"]): row for row in _objects(out)}
    assert code == 0
    assert (rows["KBWIKI_JOBS"]["value"], rows["KBWIKI_JOBS"]["origin"]) == ("3", "environment")
    assert rows["KBWIKI_DATABASE_URL"]["value"] == "**********"
    assert rows["KBWIKI_ENGINE"]["origin"] == "default"
    assert len(rows) <= 20


@pytest.mark.parametrize(("name", "value"), [("JOBS", "many"), ("JOBS", "-1"), ("LANG", "fr")])
def test_a_wrong_setting_is_named(
    run: Run, monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    monkeypatch.setenv(f"KBWIKI_{name}", value)
    code, _, err = run("status")
    assert code == 1
    assert err.startswith(f"error: KBWIKI_{name}: ")


def test_an_unknown_engine_is_named(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KBWIKI_ENGINE", "oracle")
    code, _, err = run("extract")
    assert code == 1
    assert err.startswith("error: KBWIKI_ENGINE: Input should be 'auto', 'local'")


def test_usage_errors_and_the_version_have_their_codes(run: Run) -> None:
    assert run("no-such-command")[0] == 2
    assert run("query")[0] == 2
    assert run("--version")[1] == f"kbwiki {__version__}\n"


def test_json_output_is_nothing_but_json(run: Run) -> None:
    code, out, _ = run("build", "papers", "missing.md", "--json")
    assert code == 1
    objects = _objects(out)
    assert objects[0]["stage"] == "ingest"
    reason = "missing.md: no such file or directory. Check the path."
    assert objects[0]["failures"] == [
        {"item": "missing.md", "reason": reason, "quarantined": False}
    ]


def test_a_pipe_that_closes_early_is_no_error(built: Run, tmp_path: Path) -> None:
    command = f"'{sys.executable}' -m kbwiki list | head -1"
    done = subprocess.run(
        ["bash", "-c", command], cwd=tmp_path, env=dict(os.environ), capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert "Traceback" not in done.stderr


def test_embedded_store_from_init_to_backup_and_restore(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("KBWIKI_DATABASE_URL", raising=False)
    for name in ("one", "два два"):
        (tmp_path / name).mkdir()
    (tmp_path / "note.md").write_text(ENGLISH, "utf-8")
    backup = tmp_path / "store.dump"

    def kbwiki(folder: str, *args: str) -> tuple[int, str]:
        monkeypatch.chdir(tmp_path / folder)
        code = main(list(args))
        captured = capsys.readouterr()
        return code, captured.out + captured.err

    try:
        assert kbwiki("one", "init") == (
            0,
            f"{tmp_path / 'one'}: ready. Next: kbwiki build FOLDER\n",
        )
        assert kbwiki("one", "db", "start") == (0, "up\n")
        assert kbwiki("one", "ingest", "../note.md")[0] == 0
        assert kbwiki("one", "db", "backup", str(backup))[0] == 0
        assert kbwiki("два два", "db", "restore", str(backup), "--dry-run")[0] == 0
        assert kbwiki("два два", "db", "restore", str(backup)) == (0, "restored: 1 source\n")
        code, text = kbwiki("два два", "db", "restore", str(backup))
        assert (code, "Add --force" in text) == (1, True)
        assert kbwiki("два два", "db", "restore", str(backup), "--force")[0] == 0
        assert kbwiki("два два", "extract")[0] == 0
        target = kbwiki("два два", "db", "url")[1].strip()
        with psycopg.connect(target) as newer:
            newer.execute("create table kb.of_a_newer_program (id int)")
            newer.execute("drop function ai_shim.as_real")  # as an older program would lay it
        assert kbwiki("два два", "db", "restore", str(backup), "--force")[0] == 0
        with psycopg.connect(target) as restored:
            restored.execute("select ai_shim.as_real('0.5')")
        foreign = tmp_path / "foreign.dump"
        dump = [embedded.binary("pg_dump"), "--format=custom", f"--file={foreign}"]
        subprocess.run([*dump, target.replace("/kbwiki?", "/postgres?")], check=True)
        code, text = kbwiki("два два", "db", "restore", str(foreign), "--force")
        assert (code, "no store of kbwiki" in text) == (1, True)
        cut = tmp_path / "cut.dump"
        cut.write_bytes(backup.read_bytes()[:-2000])
        code, text = kbwiki("два два", "db", "restore", str(cut), "--force")
        assert (code, "Traceback" in text) == (1, False)
        assert '"sources": 1' in kbwiki("два два", "status", "--json")[1]
        assert "running" in kbwiki("one", "db", "status")[1]
        assert kbwiki("one", "db", "migrate") == (0, "the schema is up to date\n")
        assert kbwiki("one", "db", "url")[1].startswith("postgresql://")
        code, text = kbwiki("one", "db", "restore", str(tmp_path / "note.md"))
        assert (code, "Traceback" in text) == (1, False)
    finally:
        for name in ("one", "два два"):
            kbwiki(name, "db", "stop")
    assert kbwiki("one", "db", "stop") == (0, "it was not running\n")


@pytest.mark.parametrize(
    ("question", "sentence"),
    [
        ("Who proposed fast weights?", "Jürgen Schmidhuber proposed fast weights in 1991. [1]"),
        ("на чём основано линейное внимание", "Линейное внимание основано на быстрых весах"),
    ],
)
def test_an_answer_without_a_model_quotes_and_says_so(
    built: Run, question: str, sentence: str
) -> None:
    code, out, _ = built("query", question)
    assert code == 0
    assert out.startswith(sentence)
    assert ("(no model wrote this)" if question.isascii() else "(составлено без модели)") in out
    assert built("query", question, "--hits-only")[1].startswith("1. ")


def test_citations_show_each_statement_with_its_exact_words(built: Run) -> None:
    code, out, _ = built("show", "fast weights", "--citations", "--json")
    rows = _objects(out)
    assert code == 0
    first = rows[0]
    assert first["statement"] == "Fast weights are weights that change while a sequence is read."
    quotes = first["citations"]
    assert isinstance(quotes, list)
    assert [q["quote"] for q in quotes] == [first["statement"]]
    code, out, _ = built("show", "линейное внимание", "--citations")
    assert "“Линейное внимание (linear attention) — это внимание без функции softmax.”" in out
    assert "sources/линейное-внимание" in out


def test_settings_of_the_knowledge_base_hold_in_every_folder_below(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / ".kbwiki").mkdir()
    (tmp_path / ".env").write_text("KBWIKI_LANG=ru\n", "utf-8")
    for folder in (tmp_path, tmp_path / "papers"):
        monkeypatch.chdir(folder)
        rows = {str(row["name"]): row for row in _objects(run("config", "--json")[1])}
        assert (rows["KBWIKI_LANG"]["value"], rows["KBWIKI_LANG"]["origin"]) == ("ru", ".env")


@pytest.mark.parametrize(
    "url", ["postgres:/me:hunter2@host/x", "postgresql://me:hunt@er2@host.invalid/x"]
)
def test_a_url_that_is_wrong_is_not_repeated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], url: str
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["status", "--db", url]) == 1
    err = capsys.readouterr().err
    assert err.startswith("error: database: ")
    assert not any(word in err for word in ("hunter2", "hunt@", "er2"))


def test_an_embedder_that_is_not_installed_leaves_words_to_search(
    built: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KBWIKI_EMBEDDER", "gemini:nothing")
    code, _, err = built("query", "fast weights", "--hits-only")
    assert code == 0
    assert "searching by words alone" in err
    assert built("status")[0] == 0


def test_slugs_are_whole_where_a_program_reads_them(built: Run) -> None:
    code, out, _ = built("list")
    assert code == 0
    assert "…" not in out


@pytest.mark.parametrize("question", ["what is it", "the", "как", "и", "to be or not to be"])
def test_a_question_of_small_words_alone_is_no_error(built: Run, question: str) -> None:
    code, _, err = built("query", question)
    assert code in {0, 4}
    assert "error" not in err


def test_a_name_that_is_no_utf8_is_an_unknown_page(built: Run) -> None:
    code, _, err = built("show", "\udcff")
    assert code == 1
    assert "no page has this slug" in err


@pytest.mark.parametrize("folder", [".", "..", "/", ".kbwiki", ".kbwiki/wiki"])
def test_a_wiki_folder_that_holds_other_things_is_refused(
    built: Run, monkeypatch: pytest.MonkeyPatch, folder: str
) -> None:
    monkeypatch.setenv("KBWIKI_WIKI_DIR", folder)
    code, _, err = built("export")
    assert code == 1
    assert err.startswith("error: KBWIKI_WIKI_DIR: ")


def test_without_vectors_the_wiki_is_still_written(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KBWIKI_EMBEDDER", "gemini:nothing")
    code, _, err = run("build", "papers")
    assert code == 1
    assert "embed" in err
    assert (tmp_path / "wiki" / "index.md").exists()


def test_a_settings_file_that_is_no_utf8_is_named(run: Run, tmp_path: Path) -> None:
    (tmp_path / ".env").write_bytes(b"\xff\xfe")
    code, _, err = run("status")
    assert (code, "it is no UTF-8 text" in err) == (1, True)


def test_a_backup_into_a_folder_is_refused_and_leaves_nothing(run: Run, tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    code, _, err = run("db", "backup", "there")
    assert (code, err.splitlines()[0]) == (1, "error: there: it is a folder.")
    assert not (tmp_path / "there.new").exists()


def test_pages_have_the_same_names_in_every_locale(built: Run, tmp_path: Path) -> None:
    environment = {**os.environ, "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    code = "import sys; from kbwiki.cli import main; sys.exit(main())"
    done = subprocess.run(
        [sys.executable, "-c", code, "export"], cwd=tmp_path, env=environment,
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    assert "0 added, 0 changed, 0 removed" in done.stdout
