"""Edge types by cue rules: type, direction, negation, in both languages."""

import csv
from collections.abc import Sequence
from pathlib import Path

import pytest

from kbwiki import db

_FILE = Path(__file__).parent.parent / "data" / "edges_smoke.tsv"
CASES = list(csv.DictReader(_FILE.read_text("utf-8").splitlines(), delimiter="\t"))
PERSONS = {"Guy Blelloch", "Гай Блеллок", "Гаем Блеллоком"}


def _insert(database: db.Database, case: dict[str, str], number: int) -> None:
    """Lay one statement with its two mentions as the stages before `link` would."""
    run = database.connection.execute
    text = case["text"]
    source = run(
        "insert into kb.source (sha256, title, lang, text, structure, reader) "
        "values (%s, %s, %s, %s, '{}', 'test') returning id",
        (str(number), str(number), case["lang"], text),
    ).fetchone()
    assert source is not None
    run(
        "insert into kb.source_page values (%s, %s, %s, %s, %s, '')",
        (source[0], str(number), str(number), str(number), str(number)),
    )
    chunk = run(
        "insert into kb.chunk (source_id, ordinal, start_at, end_at, headings, lang, text, "
        "text_sha) values (%s, 0, 0, %s, '{}', %s, %s, '') returning id",
        (source[0], len(text), case["lang"], text),
    ).fetchone()
    claim = run(
        "insert into kb.claim (source_id, ordinal, start_at, end_at, text, lang, heading, rank) "
        "values (%s, 0, 0, %s, %s, %s, '', 1) returning id",
        (source[0], len(text), text, case["lang"]),
    ).fetchone()
    assert chunk is not None
    assert claim is not None
    for name in (case["first"], case["last"]):
        kind = "person" if name in PERSONS else "concept"
        concept = run(
            "insert into kb.concept (key, title, slug, kind, lang, definition, n_sources, "
            "n_mentions, input_sha, search_text, text_sha) "
            "values (%s, %s, %s, %s, 'en', '', 1, 1, '', '', '') returning id",
            (f"{name} {number}", name, f"{name} {number}", kind),
        ).fetchone()
        assert concept is not None
        at = text.index(name) if name == case["first"] else text.rindex(name)
        run(
            "insert into kb.mention values (%s, %s, %s, %s, %s, %s, false, false)",
            (concept[0], source[0], chunk[0], claim[0], at, at + len(name)),
        )


@pytest.fixture
def verdicts(database: db.Database) -> dict[str, tuple[str, str]]:
    """The (type or status, head) of each case, by its text."""
    for number, case in enumerate(CASES):
        _insert(database, case, number)
    with database.transaction():
        database.dicts("link_concepts", {"max_named": 12, "max_kept": 5})
        database.dicts("classify_by_rules", {"with_model": False})
    return {
        text: (edge_type, head)
        for text, edge_type, head in database.connection.execute(
            "select c.text, coalesce(e.type, e.status), h.title from kb.edge e "
            "join kb.edge_evidence v on v.edge_id = e.id join kb.claim c on c.id = v.claim_id "
            "join kb.concept h on h.id = e.head_id"
        )
    }


def test_each_cue_gives_its_type_and_direction(verdicts: dict[str, tuple[str, str]]) -> None:
    wrong = []
    for case in CASES:
        found = verdicts[case["text"]]
        wanted = (case["type"], found[1] if case["head"] == "*" else case["head"])
        if found != wanted:
            wrong.append((case["text"], found, wanted))
    assert wrong == []


def test_every_type_is_tried_in_both_languages() -> None:
    for lang in ("en", "ru"):
        assert {case["type"] for case in CASES if case["lang"] == lang} == {
            "is_a", "part_of", "based_on", "develops", "uses", "depends_on", "addresses",
            "evaluated_on", "compares_with", "related_to", "rejected",
        }  # fmt: skip


def test_a_type_that_a_person_gave_is_final(database: db.Database) -> None:
    _insert(database, CASES[0], 0)
    database.dicts("link_concepts", {"max_named": 12, "max_kept": 5})
    database.connection.execute(
        "insert into kb.edge_decision (head_key, tail_key, type) "
        "select h.key, t.key, 'is_a' from kb.edge e join kb.concept h on h.id = e.head_id "
        "join kb.concept t on t.id = e.tail_id"
    )
    database.dicts("classify_by_rules", {"with_model": False})
    row = database.connection.execute("select type, method from kb.edge").fetchone()
    assert row == ("is_a", "human")


def test_a_second_run_types_nothing(database: db.Database) -> None:
    _insert(database, CASES[0], 0)
    database.dicts("link_concepts", {"max_named": 12, "max_kept": 5})
    assert database.dicts("classify_by_rules", {"with_model": False}) == [
        {"n_typed": 1, "n_rejected": 0}
    ]
    assert database.dicts("classify_by_rules", {"with_model": False}) == [
        {"n_typed": 0, "n_rejected": 0}
    ]


def test_an_edge_without_evidence_goes(database: db.Database) -> None:
    _insert(database, CASES[0], 0)
    database.dicts("link_concepts", {"max_named": 12, "max_kept": 5})
    database.connection.execute("delete from kb.mention")
    [counts] = database.dicts("link_concepts", {"max_named": 12, "max_kept": 5})
    assert counts == {"n_edges": 0, "n_new": 0, "n_changed": 0, "n_gone": 1}


def test_a_statement_that_names_many_concepts_is_no_evidence(database: db.Database) -> None:
    _insert(database, CASES[0], 0)
    [counts] = database.dicts("link_concepts", {"max_named": 1, "max_kept": 5})
    assert counts["n_edges"] == 0


Row = tuple[str, str, str, dict[str, str]]
"""A sentence, its first and last name, and the kinds of names that have one."""


def _typed_all(database: db.Database, rows: Sequence[Row]) -> list[tuple[str, str]]:
    """The (type or status, head) of each sentence, all typed in one pass."""
    run = database.connection.execute
    for number, (text, first, last, kinds) in enumerate(rows):
        lang = "ru" if any("а" <= c <= "я" for c in text.lower()) else "en"
        _insert(database, {"text": text, "lang": lang, "first": first, "last": last}, number)
        for name, kind in kinds.items():
            run("update kb.concept set kind = %s where key = %s", (kind, f"{name} {number}"))
    database.dicts("link_concepts", {"max_named": 12, "max_kept": 5})
    database.dicts("classify_by_rules", {"with_model": False})
    found = run(
        "select p.key::int, coalesce(e.type, e.status), h.title from kb.edge e "
        "join kb.concept h on h.id = e.head_id join kb.edge_evidence v on v.edge_id = e.id "
        "join kb.claim c on c.id = v.claim_id join kb.source_page p on p.source_id = c.source_id"
    ).fetchall()
    by_number = {number: (kind, head) for number, kind, head in found}
    return [by_number[number] for number in range(len(rows))]


def _typed(database: db.Database, text: str, first: str, last: str) -> tuple[str, str]:
    """The (type or status, head) of one sentence."""
    [found] = _typed_all(database, [(text, first, last, {})])
    return found


@pytest.mark.parametrize(
    ("text", "first", "last"),
    [
        ("Внутренний цикл Titans является шагом спуска.", "Titans", "шагом спуска"),
        ("Внутренний цикл Titans использует импульс.", "Titans", "импульс"),
        ("Ошибка сети Хопфилда зависит от числа образов.", "сети Хопфилда", "числа образов"),
        ("The inner loop of Titans is a descent step.", "Titans", "descent step"),
        ("The loss in Titans depends on the momentum.", "Titans", "momentum"),
        ("Mamba заменяет скан алгоритмом, который основан на Titans.", "скан", "Titans"),
        ("RetNet is slow, but Mamba uses a scan.", "RetNet", "scan"),
    ],
)
def test_what_is_said_of_another_subject_is_not_said_of_it(
    database: db.Database, text: str, first: str, last: str
) -> None:
    assert _typed(database, text, first, last)[0] == "related_to"


@pytest.mark.parametrize(
    ("text", "first", "last", "wanted"),
    [
        ("Mamba does not really use attention.", "Mamba", "attention", "rejected"),
        ("Mamba isn't based on attention.", "Mamba", "attention", "rejected"),
        ("Mamba never, in any case, requires attention.", "Mamba", "attention", "rejected"),
        ("Mamba вовсе не использует внимание.", "Mamba", "внимание", "rejected"),
        ("Вместо внимания Mamba хранит состояние.", "внимания", "Mamba", "rejected"),
        ("Mamba not only uses attention.", "Mamba", "attention", "uses"),
        ("Mamba не только использует внимание.", "Mamba", "внимание", "uses"),
        ("Mamba, which is not new, uses attention.", "Mamba", "attention", "uses"),
        ("Mamba is impossible without attention.", "Mamba", "attention", "depends_on"),
        ("Mamba невозможна без внимания.", "Mamba", "внимания", "depends_on"),
    ],
)
def test_a_denial_blocks_the_cues_near_it(
    database: db.Database, text: str, first: str, last: str, wanted: str
) -> None:
    assert _typed(database, text, first, last)[0] == wanted


NO, UNSAID = "rejected", "related_to"

HELD_OR_NOT = [
    # A verb that says it is not done.
    ("Mamba fails to use attention.", "Mamba", "attention", NO),
    ("Mamba stopped using attention.", "Mamba", "attention", NO),
    ("Mamba refuses to use attention.", "Mamba", "attention", NO),
    ("Mamba lacks attention.", "Mamba", "attention", NO),
    ("Attention was removed from Mamba.", "Attention", "Mamba", NO),
    ("Mamba перестал использовать внимание.", "Mamba", "внимание", NO),
    ("Mamba отказалась от внимания.", "Mamba", "внимания", NO),
    ("Mamba лишена внимания.", "Mamba", "внимания", NO),
    ("Авторы отказались от внимания в Mamba.", "внимания", "Mamba", NO),
    # A subject that is nobody.
    ("No version of Mamba uses attention.", "Mamba", "attention", NO),
    ("Nobody has tested Mamba on BABILong.", "Mamba", "BABILong", NO),
    ("Никто не проверял Mamba на BABILong.", "Mamba", "BABILong", NO),
    # A clause that is said not to hold.
    ("It is not true that Mamba is based on RetNet.", "Mamba", "RetNet", NO),
    ("Nobody says that Mamba uses attention.", "Mamba", "attention", NO),
    ("The claim that Mamba uses attention is false.", "Mamba", "attention", NO),
    ("Неверно, что Mamba основана на RetNet.", "Mamba", "RetNet", NO),
    ("Нельзя считать, что Mamba использует внимание.", "Mamba", "внимание", NO),
    ("Mamba нельзя считать частью RetNet.", "Mamba", "RetNet", NO),
    ("Вряд ли Mamba основана на RetNet.", "Mamba", "RetNet", NO),
    ("Миф о том, что Mamba использует внимание, живуч.", "Mamba", "внимание", NO),
    # A denial of a denial says nothing for sure, unless it is an idiom.
    ("It is not true that Mamba does not use attention.", "Mamba", "attention", UNSAID),
    ("Неверно, что Mamba не использует внимание.", "Mamba", "внимание", UNSAID),
    ("Nobody doubts that Mamba uses attention.", "Mamba", "attention", "uses"),
    ("Никто не сомневается, что Mamba использует внимание.", "Mamba", "внимание", "uses"),
    ("It is no secret that Mamba uses a scan.", "Mamba", "scan", "uses"),
    ("Mamba uses not attention but a scan.", "Mamba", "scan", "uses"),
    ("Mamba uses not attention but a scan.", "Mamba", "attention", NO),
    ("Mamba использует не внимание, а скан.", "Mamba", "скан", "uses"),
    ("Mamba is no slower than RetNet.", "Mamba", "RetNet", "compares_with"),
    ("Mamba не хуже RetNet.", "Mamba", "RetNet", "compares_with"),
    ("Neither Mamba nor RetNet is new.", "Mamba", "RetNet", UNSAID),
    # A denial of another verb of the same subject.
    ("Mamba has no cache and uses a scan.", "Mamba", "scan", "uses"),
    ("Mamba never stalls because it uses a scan.", "Mamba", "scan", "uses"),
    ("Mamba does not store and use a scan.", "Mamba", "scan", NO),
    ("Mamba does not store pages but uses a scan.", "Mamba", "scan", "uses"),
    ("RetNet is not new, but Mamba uses a scan.", "RetNet", "scan", NO),
    ("Mamba не хранит страницы, зато использует скан.", "Mamba", "скан", "uses"),
    ("Mamba исключает ошибки и использует скан.", "Mamba", "скан", "uses"),
    ("Mamba не только хранит страницы, но и использует скан.", "Mamba", "скан", "uses"),
    ("Не Mamba основана на RetNet.", "Mamba", "RetNet", NO),
    ("Few doubt that Mamba uses a scan.", "Mamba", "scan", "uses"),
    ("Without doubt Mamba uses a scan.", "Mamba", "scan", "uses"),
    ("Без сомнения, Mamba использует скан.", "Mamba", "скан", "uses"),
    ("Mamba uses a scan; does RetNet?", "Mamba", "scan", "uses"),
    ("To avoid stalls, Mamba uses a scan.", "Mamba", "scan", "uses"),
    # Questions and conditions.
    ("Does Mamba use attention?", "Mamba", "attention", UNSAID),
    ("It is unclear whether Mamba uses attention.", "Mamba", "attention", UNSAID),
    ("If Mamba uses attention, it is slow.", "Mamba", "attention", UNSAID),
    ("Использует ли Mamba внимание?", "Mamba", "внимание", UNSAID),
    ("Mamba использует внимание?", "Mamba", "внимание", UNSAID),
    ("Неясно, основана ли Mamba на RetNet.", "Mamba", "RetNet", UNSAID),
    # To avoid a problem is to address it, a means is not used, else nobody knows.
    (
        "Replay avoids catastrophic forgetting.",
        "Replay",
        "catastrophic forgetting",
        "addresses",
    ),
    ("Mamba avoids Xyzzy.", "Mamba", "Xyzzy", UNSAID),
    ("Mamba избегает Xyzzy.", "Mamba", "Xyzzy", UNSAID),
    # Without it, it does not work.
    ("Without a scan Mamba does not work.", "scan", "Mamba", "depends_on"),
    ("Mamba does not work without a scan.", "Mamba", "scan", "depends_on"),
    ("Mamba cannot run without a scan.", "Mamba", "scan", "depends_on"),
    ("Без скана Mamba не работает.", "скана", "Mamba", "depends_on"),
    ("Mamba не может работать без скана.", "Mamba", "скана", "depends_on"),
    ("Mamba works without a scan.", "Mamba", "scan", NO),
    ("Mamba обходится без скана.", "Mamba", "скана", NO),
] + [
    (text, first, last, NO, {last: kind})
    for kind in ("method", "model", "data")
    for text, first, last in (
        ("Mamba avoids attention.", "Mamba", "attention"),
        ("Attention is avoided by Mamba.", "Mamba", "Attention"),
        ("Mamba избегает внимания.", "Mamba", "внимания"),
    )
]
"""Sentence, first and last name, and the type: NO, where it denies; UNSAID, where it says none."""

TURNED = [
    ("The scan that Mamba uses is fast.", "scan", "Mamba", "uses", "Mamba"),
    ("The scan, which the Mamba uses, is fast.", "scan", "Mamba", "uses", "Mamba"),
    ("The scan that uses Mamba is fast.", "scan", "Mamba", "uses", "scan"),
    ("RetNet, on which Mamba is based, is old.", "RetNet", "Mamba", "based_on", "Mamba"),
    ("RetNet, which is based on Mamba, is new.", "RetNet", "Mamba", "based_on", "RetNet"),
    ("A scan, without which Mamba does not run, is fast.", "scan", "Mamba", "depends_on",
     "Mamba"),
    ("The scan that Mamba does not use is fast.", "scan", "Mamba", NO, ""),
    ("Функция, которую использует Mamba, быстра.", "Функция", "Mamba", "uses", "Mamba"),
    ("Функция, которую Mamba использует, быстра.", "Функция", "Mamba", "uses", "Mamba"),
    ("Функция, которая использует Mamba, быстра.", "Функция", "Mamba", "uses", "Функция"),
    ("RetNet, на которой основана Mamba, стара.", "RetNet", "Mamba", "based_on", "Mamba"),
    ("RetNet, частью которой является Mamba, стара.", "RetNet", "Mamba", "part_of", "Mamba"),
    ("Функция, без которой Mamba не работает, быстра.", "Функция", "Mamba", "depends_on",
     "Mamba"),
    ("Функция, которую не использует Mamba, быстра.", "Функция", "Mamba", NO, ""),
    ("It is replaced by Mamba, which uses a scan.", "Mamba", "scan", "uses", "Mamba"),
    ("Его заменяет Mamba, которая использует скан.", "Mamba", "скан", "uses", "Mamba"),
    ("Mamba is a new variant of the cell that uses a scan.", "Mamba", "scan", "uses", "Mamba"),
    ("Mamba — это вариант ячейки, который использует скан.", "Mamba", "скан", "uses", "Mamba"),
    ("Mamba, as was shown in 2023, uses a scan.", "Mamba", "scan", "uses", "Mamba"),
    ("Mamba, как показано в обзоре, использует скан.", "Mamba", "скан", "uses", "Mamba"),
]  # fmt: skip
"""Sentences with relative clauses and insertions: the names, the type and the head, if any."""


def test_what_does_not_hold_or_is_not_said(database: db.Database) -> None:
    kinds = {"catastrophic forgetting": "task"}
    rows = [
        (text, first, last, more[0] if more else kinds if last in kinds else {})
        for text, first, last, _, *more in HELD_OR_NOT
    ]
    found = _typed_all(database, rows)
    cases = zip(HELD_OR_NOT, found, strict=True)
    assert [(case, kind) for case, (kind, _) in cases if kind != case[3]] == []


def test_a_relative_clause_is_read_the_plain_way_round(database: db.Database) -> None:
    found = _typed_all(database, [(text, first, last, {}) for text, first, last, *_ in TURNED])
    cases = zip(TURNED, found, strict=True)
    assert [
        (case, verdict) for case, verdict in cases if verdict != (case[3], case[4] or verdict[1])
    ] == []


@pytest.mark.parametrize(
    ("lang", "text", "wanted"),
    [
        ("en", "it uses them", "it use them"),
        ("en", "it is widely used by them", "it is wide use_p by them"),
        ("ru", "он применяется в ней", "он применя_p в ней"),
        ("ru", "он не применяет её", "он не применя_n ее_n"),
    ],
)
def test_the_same_verb_reads_by_its_voice(
    database: db.Database, lang: str, text: str, wanted: str
) -> None:
    row = database.connection.execute("select kb.reading(%s, kb.folded(%s))", (lang, text))
    assert row.fetchone() == (wanted,)


def test_a_source_on_one_that_links_to_the_subject_of_another_is_evidence(
    database: db.Database,
) -> None:
    _insert(database, {"text": "A and B.", "lang": "en", "first": "A", "last": "B"}, 0)
    _insert(database, {"text": "C and D.", "lang": "en", "first": "C", "last": "D"}, 1)
    run = database.connection.execute
    run("update kb.concept c set main_source_id = m.source_id from kb.mention m "
        "where m.concept_id = c.id and c.title in ('A', 'C')")  # fmt: skip
    run("update kb.mention m set concept_id = (select id from kb.concept where title = 'C'), "
        "linked = true from kb.concept b where b.id = m.concept_id and b.title = 'B'")  # fmt: skip
    run("delete from kb.mention m using kb.concept a where a.id = m.concept_id and a.title = 'A'")
    database.dicts("link_concepts", {"max_named": 12, "max_kept": 5})
    database.dicts("classify_by_rules", {"with_model": False})
    rows = run(
        "select h.title, e.type, t.title, v.kind, c.text from kb.edge e "
        "join kb.concept h on h.id = e.head_id join kb.concept t on t.id = e.tail_id "
        "join kb.edge_evidence v on v.edge_id = e.id join kb.claim c on c.id = v.claim_id "
        "where v.kind = 'link'"
    ).fetchall()
    assert rows == [("A", "related_to", "C", "link", "A and B.")]
