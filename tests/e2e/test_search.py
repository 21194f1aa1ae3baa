"""Search and answers on the demo corpus, in both languages, through the command line."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from conftest import ROOT, Demo, Store, copy_of

from kbwiki import db, embedded
from kbwiki.cli import main
from kbwiki.embedders import Embedder

Run = Callable[..., tuple[int, str, str]]
MODES = ("text", "vector", "graph", "hybrid")


@pytest.fixture(scope="module")
def demo_url(cluster: embedded.Cluster, demo_corpus: Demo, embedder: Embedder) -> Iterator[str]:
    """The URL of a store with the demo corpus in it, vectors and all."""
    with copy_of(cluster, demo_corpus.name) as name:
        with closing(db.connect(cluster.url(name))) as database:
            store = Store(database, ROOT)
            store.make_embedder = lambda: embedder
            reports = store.build(names=("embed",))
        assert not any(report.n_failed for report in reports.values())
        yield cluster.url(name)


@pytest.fixture
def run(
    demo_url: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Run:
    """Run a command on the demo store in an empty folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("KBWIKI_DATABASE_URL", demo_url)

    def command(*args: str) -> tuple[int, str, str]:
        code = main(list(args))
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return command


def _lines(text: str) -> list[dict[str, object]]:
    return [json.loads(line) for line in text.splitlines()]


def _hits(run: Run, *args: str) -> list[dict[str, object]]:
    code, out, err = run("query", *args, "--json", "--hits-only")
    assert (code, err) == (0, "")
    return [line for line in _lines(out) if "rank" in line]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    ("question", "slugs"),
    [
        ("what is an associative scan", {"sources/associative-scan", "concepts/associative-scan"}),
        (
            "что такое катастрофическое забывание",
            {"sources/катастрофическое-забывание", "concepts/катастрофическое-забывание"},
        ),
    ],
)
def test_each_mode_finds_what_a_term_is(
    run: Run, mode: str, question: str, slugs: set[str]
) -> None:
    hits = _hits(run, question, "--mode", mode, "-k", "5")
    assert slugs & {hit["slug"] for hit in hits[:2]}
    assert all(0 < float(str(hit["score"])) <= 1 for hit in hits)


@pytest.mark.parametrize(
    ("question", "slug"),
    [
        ("How many patterns can a Hopfield network store?", "sources/сети-хопфилда"),
        ("Как генерация с поиском подбирает отрывки?", "sources/retrieval-augmented-generation"),
    ],
)
def test_a_question_finds_sources_in_the_other_language(run: Run, question: str, slug: str) -> None:
    assert slug in {hit["slug"] for hit in _hits(run, question, "-k", "6")}


def test_explain_names_the_parts_of_the_score_and_the_chain_with_its_edge_types(run: Run) -> None:
    question = "how does a linear RNN lead over the associative scan to the M3 optimizer"
    code, out, _ = run("query", question, "--explain", "--hits-only")
    assert code == 0
    chain = (
        "Linear RNN -[uses]-> Associative scan -[used_in]-> Нейронная долговременная память "
        "-[basis_of]-> M3 optimizer"
    )
    assert f"- {chain}" in out.split("1. ")[0]
    of_optimizer = out[out.index("M3 optimizer  ") :].splitlines()[2]
    assert "words 0." in of_optimizer
    assert of_optimizer.endswith(f"by {chain}")


def test_the_chain_is_the_same_in_json_and_from_a_russian_question(run: Run) -> None:
    question = "как линейная RNN через ассоциативное сканирование ведёт к оптимизатору M3"
    code, out, _ = run("query", question, "--json", "--hits-only")
    assert code == 0
    about = _lines(out)[-1]
    named = [one["title"] for one in about["named"]]
    assert named == ["Linear RNN", "Associative scan", "M3 optimizer"]
    first = about["between"][0]
    assert [step.get("label") for step in first] == [None, "uses", "used_in", "basis_of"]


@pytest.mark.parametrize(
    "question",
    ["what do MesaNet and Titans have in common", "что общего у MesaNet и Titans"],
)
def test_a_question_about_two_concepts_returns_what_lies_between(run: Run, question: str) -> None:
    code, out, _ = run("query", question, "--json", "--hits-only", "-k", "5")
    *hits, about = _lines(out)
    middles = {chain[1]["title"] for chain in about["shared"]}
    assert {"Linear RNN", "Test-time training"} <= middles
    assert {"concepts/linear-rnn", "concepts/test-time-training"} & {h["slug"] for h in hits}
    assert code == 0


def test_hits_can_be_limited(run: Run) -> None:
    question = "associative scan"
    assert {hit["lang"] for hit in _hits(run, question, "--lang", "ru")} == {"ru"}
    kinds = {hit["kind"] for hit in _hits(run, question, "--type", "concept", "--type", "article")}
    assert kinds <= {"concept", "article"}
    of_source = _hits(run, question, "--source", "linear-rnn.md", "--type", "source")
    assert {hit["slug"] for hit in of_source} == {"sources/linear-rnn"}
    recent = _hits(run, question, "--since", "2026-03-01", "--type", "source")
    slugs = {hit["slug"] for hit in recent}
    assert "sources/associative-scan" in slugs
    assert not {"sources/linear-rnn", "sources/ассоциативное-сканирование"} & slugs  # of 2025


def test_by_words_alone_an_english_question_loads_no_dictionary(demo_url: str) -> None:
    """They take half of the time from a cold shell."""
    command = [sys.executable, "-X", "importtime", "-m", "kbwiki", "query", "--mode", "text"]
    done = subprocess.run(
        [*command, "--hits-only", "what does Titans use to train its memory in parallel"],
        env={**os.environ, "KBWIKI_DATABASE_URL": demo_url},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert "Titans" in done.stdout
    assert "kbwiki.search" in done.stderr
    assert not re.search("simplemma|HanTa|pymorphy3", done.stderr)


def test_an_unknown_source_is_told(run: Run) -> None:
    code, out, err = run("query", "scan", "--source", "no-such-file")
    assert (code, out) == (1, "")
    assert "query: no source fits 'no-such-file'." in err


@pytest.mark.parametrize(
    "question",
    [
        "zzyzx blorp quux frobnicate",
        "абырвалг глокая куздра",
        "how tall is the Eiffel tower",
        "what to feed a hamster",
        "купить билет на поезд до Казани",
        "рецепт блинов на молоке",
    ],
)
def test_no_passage_no_answer(run: Run, question: str) -> None:
    """Something is always nearest by its vector; that is no answer."""
    code, out, _ = run("query", question)
    assert (code, out) == (4, f"{_said(question)}\n")


def test_what_is_told_in_the_other_language_alone_is_found(run: Run) -> None:
    """No word is shared; one text is much nearer than all others of its language."""
    question = "Which rule says that neurons that fire together wire together?"
    code, out, err = run("query", question, "--json", "--hits-only")
    assert (code, err) == (0, "")
    assert "sources/правило-хебба" in {json.loads(line)["slug"] for line in out.splitlines()}


def _said(question: str) -> str:
    return "Nothing was found." if question.isascii() else "Ничего не нашлось."


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    "question",
    ["what", "what is it?", "the of and", "tell me please", "что", "и", "как", "что это такое?"],
)
def test_a_question_of_stop_words_finds_nothing_and_says_why(
    run: Run, question: str, mode: str
) -> None:
    code, out, _ = run("query", question, "--mode", mode)
    why = "holds no word" if question.isascii() else "в вопросе нет слова"
    assert code == 4
    assert why in out
    code, out, _ = run("query", question, "--mode", mode, "--json")
    [line] = _lines(out)
    assert (code, line["hits"]) == (4, [])
    assert why in str(line["why"])


@pytest.mark.parametrize(
    ("question", "name"),
    [
        ("what is MesaNte", "MesaNet"),
        ("how does the asociatve scna work", "Associative scan"),
        ("что такое катастрофическое забывние", "Катастрофическое забывание"),
        ("что такое Титанс", "Titans"),
    ],
)
def test_a_misspelt_name_of_a_concept_is_suggested(run: Run, question: str, name: str) -> None:
    _, out, _ = run("query", question, "--hits-only")
    label = "Did you mean: " if question.isascii() else "Возможно, имелось в виду: "
    assert out.startswith(label)
    assert name in out.splitlines()[0]
    assert name in _lines(run("query", question, "--hits-only", "--json")[1])[-1]["meant"]


@pytest.mark.parametrize("question", ["what is MesaNet", "что такое правило Хебба", "zzyzx blorp"])
def test_nothing_is_suggested_for_names_that_are_right_or_like_none(
    run: Run, question: str
) -> None:
    assert "mean" not in run("query", question)[1]
    assert "имелось" not in run("query", question)[1]


@pytest.mark.parametrize(
    ("question", "slug"),
    [
        (
            "How does elastic weight consolidation protect old knowledge?",
            "sources/катастрофическое-забывание",
        ),
        ("Как генерация с поиском подбирает отрывки?", "sources/retrieval-augmented-generation"),
    ],
)
def test_a_question_in_the_other_language_is_answered_with_citations(
    run: Run, question: str, slug: str
) -> None:
    code, out, _ = run("query", question, "--json")
    [answer] = [line for line in _lines(out) if "answer" in line]
    hits = [line for line in _lines(out) if "rank" in line]
    assert code == 0
    assert answer["answer"]
    for statement in answer["answer"]:
        assert all(1 <= n <= len(hits) for n in statement["cites"])
    assert slug in {hit["slug"] for hit in hits}


@pytest.mark.parametrize(
    "question",
    [
        "a & | ! (b <-> c):*", '"associative scan', "'; drop schema kb cascade; --", "🙂 scan 🚀",
        "a\x00ssociative scan", "сканирование & | ! \\", "%s %(x)s {} $1", "слово " * 10_000,
        "the of and", "и в на что", "-k", "<->", "w" * 60_000,
    ],
)  # fmt: skip
@pytest.mark.parametrize("mode", MODES)
def test_an_odd_question_is_answered_or_refused_clearly(run: Run, question: str, mode: str) -> None:
    code, out, err = run("query", "--mode", mode, "--json", "--", question)
    assert code in {0, 1, 4}
    assert "Traceback" not in out + err
    if code == 1:
        assert err.startswith("error: query:")
    assert run("status", "--json")[0] == 0


def test_eval_measures_all_modes_side_by_side(run: Run, tmp_path: Path) -> None:
    rows = [
        ("a", "what are fast weights", [["fast-weights.md", "Fast weights"]]),
        ("b", "что такое сюрприз", ["ru/сюрприз.md", "concepts/titans"]),
    ]
    lines = "".join(
        json.dumps({"id": name, "question": question, "expect": expect}) + "\n"
        for name, question, expect in rows
    )
    (tmp_path / "q.jsonl").write_text(lines, "utf-8")
    args = ("eval", "search", "q.jsonl", "--by-lang", "--k", "1,5", "--out", "ranked.jsonl")
    code, out, _ = run(*args, "--json")
    tables = {(line["questions"], line["mode"]): line for line in _lines(out)}
    assert code == 0
    assert {mode for _, mode in tables} == set(MODES)
    assert {name for name, _ in tables} == {"all", "in en", "in ru"}
    hybrid = tables["in en", "hybrid"]
    assert (hybrid["recall@1"], hybrid["all@5"], hybrid["nDCG@10"], hybrid["MRR"]) == (1, 1, 1, 1)
    assert tables["in ru", "hybrid"]["recall@1"] == 0.5
    assert len(tables["all", "text"]["hybrid gains at 5"]) == 3
    ranked = _lines((tmp_path / "ranked.jsonl").read_text("utf-8"))
    assert len(ranked) == 8
    code, out, _ = run(*args)
    assert code == 0
    assert "all: 2 questions" in out


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("{", "line 1: it is no question"),
        ('{"question": "x", "expect": []}', "line 1: it expects nothing"),
        ('{"question": "x", "expect": ["nowhere.md"]}', "the store has no page for 'nowhere.md'"),
        ("", "it holds no question"),
        (
            '{"id": "a", "question": "x y", "expect": "miras.md"}\n'
            '{"id": "a", "question": "z", "expect": "miras.md"}',
            "line 2: line 1 has the id 'a' too",
        ),
    ],
)
def test_a_bad_questions_file_is_told(run: Run, tmp_path: Path, line: str, said: str) -> None:
    (tmp_path / "q.jsonl").write_text(line + "\n", "utf-8")
    code, _, err = run("eval", "search", "q.jsonl")
    assert code == 1
    assert said in err


def test_a_page_is_expected_once_by_whatever_names(demo_url: str, tmp_path: Path) -> None:
    from kbwiki.evaluate.search import Ranked, read_questions

    rows = [
        ["miras.md", "ru/miras.md", "corpus/ru/miras.md", "sources/miras"],
        ["Линейная RNN", "линейные RNN", "линейной RNN", "linear RNNs", "concepts/linear-rnn"],
        [["Titans", "titans.md"], "Titans"],
    ]
    lines = [json.dumps({"question": f"q {n}", "expect": row}) for n, row in enumerate(rows)]
    (tmp_path / "q.jsonl").write_text("\n".join(lines), "utf-8")
    with closing(db.connect(demo_url)) as database:
        first, second, third = read_questions(tmp_path / "q.jsonl", database)
    assert first.expect == (frozenset({"sources/miras"}),)
    assert second.expect == (frozenset({"concepts/linear-rnn"}),)
    ranked = [
        Ranked(third, "hybrid", slugs, 1.0)
        for slugs in (("concepts/titans",), ("concepts/titans", "sources/titans"))
    ]
    assert [(one.recall(2), round(one.ndcg(), 2)) for one in ranked] == [(0.5, 0.61), (1.0, 1.0)]


def test_the_questions_of_the_demo_name_pages_that_exist(demo_url: str) -> None:
    from kbwiki.evaluate.search import read_questions

    database = db.connect(demo_url)
    questions = read_questions(ROOT / "corpus" / "questions.jsonl", database)
    database.close()
    assert len(questions) >= 60
    assert {q.kind for q in questions} == {
        "definition", "exact", "abstract", "chain", "crosslingual",
    }  # fmt: skip
    assert {q.lang for q in questions} == {"en", "ru"}


@pytest.mark.parametrize("question", ["phi", "softmax phi", "what is lambda", "что такое beta"])
def test_formulas_in_a_passage_are_printed_as_they_are(run: Run, question: str) -> None:
    code, out, err = run("query", question, "--hits-only")
    assert (code, err) == (0, "")
    assert "1. " in out


def test_hits_alone_are_no_answer_to_save(run: Run) -> None:
    code, out, err = run("query", "what are fast weights", "--save", "--hits-only")
    assert (code, out) == (1, "")
    assert "--hits-only makes no answer to --save" in err


def test_eval_reads_files_of_other_programs(run: Run, tmp_path: Path) -> None:
    row = {"id": "a", "question": "что такое сюрприз", "expect": "ru/сюрприз.md"}
    text = json.dumps(row, ensure_ascii=False).replace("такое", "такое\u2028")
    (tmp_path / "q.jsonl").write_text(f"\ufeff\r\n{text}\r\n \n", "utf-8")
    code, out, err = run("eval", "search", "q.jsonl", "--json")
    assert (code, err) == (0, "")
    assert {line["n"] for line in _lines(out)} == {1}


def test_eval_of_vectors_alone_without_their_model_says_so(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = {"id": "a", "question": "what are fast weights", "expect": ["fast-weights.md"]}
    (tmp_path / "q.jsonl").write_text(json.dumps(row), "utf-8")
    monkeypatch.setenv("KBWIKI_EMBEDDER", "e5-small-q4")
    code, out, err = run("eval", "search", "q.jsonl", "--mode", "vector")
    assert (code, out) == (1, "")
    assert "nothing was measured" in err


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    "words",
    [
        "Knead the dough slowly and let it rest near the window while the oven warms. The market "
        "opens on Saturday morning with cheese, honey and bread; children run between the rows. ",
        "Осенью в деревне собирают картофель, варят варенье и чинят крыши перед зимой. Кот спит на "
        "подоконнике, дождь стучит по стеклу, а поезд опоздал на два часа. ",
    ],
)
def test_a_long_text_on_something_else_finds_nothing_in_any_mode(
    run: Run, mode: str, words: str
) -> None:
    code, out, _ = run("query", words * (50_000 // len(words)), "--mode", mode)
    assert (code, out) == (4, f"{_said(words)}\n")


@pytest.mark.parametrize(
    "question", ["what do MesaNet and Titans have in common", "что общего у MesaNet и Titans"]
)
@pytest.mark.parametrize("lang", ["ru", "en"])
def test_hits_are_in_the_language_that_was_asked_for(run: Run, question: str, lang: str) -> None:
    for mode in MODES:
        hits = _hits(run, question, "--lang", lang, "--mode", mode, "-k", "20")
        assert {hit["lang"] for hit in hits} == {lang}, mode


@pytest.mark.parametrize(
    ("question", "words"),
    [
        ("compare Titans vs Mamba for me, please", {"compare", "vs", "me", "please"}),
        ("what do MesaNet and Titans have in common", {"common"}),
        ("what is the difference between Mamba and RetNet", {"difference"}),
        ("path from linear RNN to M3 optimizer", {"path"}),
        ("сравни Titans и Mamba, пожалуйста", {"сравни", "пожалуйста"}),
        ("что общего у MesaNet и Titans", {"общего"}),
        ("какая связь между Titans и правилом Хебба", {"связь"}),
    ],
)
def test_what_is_found_or_only_puts_the_question_is_not_missing(
    run: Run, question: str, words: set[str]
) -> None:
    for k in ("1", "3", "8"):
        [answer] = [
            x for x in _lines(run("query", question, "--json", "-k", k)[1]) if "answer" in x
        ]
        assert answer["missing"] == "", (k, words)


@pytest.mark.parametrize(
    ("question", "missing"),
    [
        (
            "what is the difference between MesaNet and photosynthesis",
            "What the wiki does not say: no passage speaks of photosynthesis.",
        ),
        (
            "как Titans связана с фотосинтезом",
            "О чём вики не говорит: ни один отрывок не говорит о словах: фотосинтезом.",
        ),
    ],
)
def test_what_is_missing_is_said_in_the_language_of_the_question(
    run: Run, question: str, missing: str
) -> None:
    for k in ("1", "8"):
        assert missing in run("query", question, "-k", k)[1].splitlines(), k


@pytest.mark.parametrize(
    "question",
    [
        "Zoology Arora",
        "Prefix Sums and Their Applications",
        "Хебб Организация поведения литература",
    ],
)
def test_an_answer_quotes_no_heading_and_no_bibliography(run: Run, question: str) -> None:
    line_of_list = r"arXiv|et al\.|\. (19|20)\d\d\.$|^Литература|^References"
    code, out, _ = run("query", question, "--json", "-k", "3")
    assert code == 0
    [answer] = [line for line in _lines(out) if "answer" in line]
    for statement in answer["answer"]:
        assert not re.search(line_of_list, statement["text"]), statement


@pytest.mark.parametrize("question", ["Mesa layer", "матричное состояние", "AdamW"])
def test_a_concept_without_a_definition_shows_a_sentence_on_it(run: Run, question: str) -> None:
    hits = _hits(run, question, "--type", "concept", "-k", "20")
    for hit in hits:
        words = re.sub(r"\W+", " ", str(hit["snippet"])).split()
        assert len(words) > 4, hit


@pytest.mark.parametrize(
    "question", ["what do MesaNet and Titans have in common", "что такое правило Хебба"]
)
def test_each_place_is_explained_and_no_chain_goes_in_a_loop(run: Run, question: str) -> None:
    hits = _hits(run, question, "-k", "20")
    by_score = [float(str(hit["score"])) for hit in hits if not hit["place"]]
    assert by_score == sorted(by_score, reverse=True)
    for hit in hits:
        assert str(hit["why"]).startswith(str(hit["place"]))
        titles = [step["title"].casefold() for step in hit["chain"] or []]
        assert len(titles) == len(set(titles)), titles
    text = run("query", question, "--hits-only", "-k", "20")[1]
    assert ("--explain" in text) == any(hit["place"] for hit in hits)


def test_in_a_mode_whose_scores_are_of_one_language_the_lists_take_turns(run: Run) -> None:
    hits = _hits(run, "ассоциативное сканирование", "--mode", "vector", "-k", "8")
    places = [str(hit["place"]).split(",")[0] for hit in hits]
    assert {"no. 1 in ru", "no. 1 in en"} <= set(places)


@pytest.mark.parametrize("question", ["MesaNet and Titans", "MesaNet и Titans"])
def test_what_is_in_common_is_told_once(run: Run, question: str) -> None:
    lines = run("query", question)[1].splitlines()
    chains = [line for line in lines if line.startswith("- MesaNet -[")]
    assert len(chains) == len(set(chains)) > 2


@pytest.mark.parametrize(
    "question", ["--- what is MesaNet", "- что такое MesaNet?", "-что это, MesaNet"]
)
def test_a_question_may_begin_with_dashes(run: Run, question: str) -> None:
    code, out, err = run("query", question, "--hits-only", "-k", "2")
    assert (code, err) == (0, "")
    assert "MesaNet" in out
    assert run("recall", question)[2] == ""


def test_dashes_alone_are_no_question_and_an_unknown_option_is_told(run: Run) -> None:
    assert "the question is empty" in run("query", "---")[2]
    assert run("query", "--jsn", "MesaNet")[0] == 2


@pytest.mark.parametrize("question", ["zzyzx blorp", "абырвалг куздра"])
def test_json_of_nothing_is_a_document_that_says_so(run: Run, question: str) -> None:
    for args in ([], ["--hits-only"]):
        code, out, _ = run("query", question, "--json", *args)
        assert (code, _lines(out)) == (4, [{"hits": [], "why": _said(question), "meant": []}])
