"""Agent memory on a real store: what is kept, joined, found, forgotten and refused."""

import itertools
import json
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest
from conftest import Quiet, Store

from kbwiki import db
from kbwiki.config import load_settings
from kbwiki.embedders import Embedder, make_embedder
from kbwiki.errors import InputError, NotFoundError
from kbwiki.memory import keep
from kbwiki.memory.dates import find_days
from kbwiki.memory.guards import cleaned
from kbwiki.memory.keeper import Keeper
from kbwiki.memory.recall import recall
from kbwiki.memory.remember import Kept, Note, link_to_concepts, remember
from kbwiki.memory.transfer import export_memories, import_memories, read_rows
from kbwiki.pipeline import run_stages, stage_named

ORACLE = "ORA-12154 on port 5432: mended by the right tnsnames alias"
ALIAS = "The tnsnames alias was wrong because the listener had been renamed"
REPORT = "Пользователь просит отчёты в PDF, а не в DOCX"
DEPLOY = "Deploy to staging with the blue-green script, never by hand"
CERT = "Сертификат nginx обновляет скрипт certbot renew по воскресеньям"


@pytest.fixture(scope="session")
def e5(tmp_path_factory: pytest.TempPathFactory) -> Embedder:
    """The built-in model."""
    settings = load_settings(tmp_path_factory.mktemp("none") / ".env")
    return make_embedder("e5-small", settings.cache_dir)


Agent = Callable[..., Keeper]


@pytest.fixture
def agent(url: str, e5: Embedder) -> Iterator[Agent]:
    """A maker of agents, each with a connection of its own."""
    made: list[db.Database] = []

    def make(name: str = "ann", session: str = "", vectors: bool = True, **more: Any) -> Keeper:
        made.append(db.connect(url))
        return Keeper(made[-1], e5 if vectors else None, name, session=session, **more)

    yield make
    for database in made:
        database.close()


def say(keeper: Keeper, text: str, **more: Any) -> Kept:
    return remember(keeper, Note(text, **more))


def ids(keeper: Keeper, query: str, **more: Any) -> list[int]:
    return [node.id for node in recall(keeper, query, counts=False, **more).nodes]


def edges(keeper: Keeper, memory_id: int) -> set[tuple[str, bool, Any]]:
    rows = keeper.database.dicts("list_edges_of_memory", {"id": memory_id})
    return {(r["type"], r["forward"], r["memory_id"] or r["concept"] or r["domain"]) for r in rows}


def age(keeper: Keeper, memory_id: int, days: float) -> None:
    keeper.database.connection.execute(
        "update kb.memory set used_at = now() - make_interval(secs => %s) where id = %s",
        (days * 86400, memory_id),
    )


# --- recall -----------------------------------------------------------------------------------


@pytest.mark.parametrize("vectors", [True, False])
def test_what_was_said_is_found_in_either_language_and_nothing_else(
    agent: Agent, vectors: bool
) -> None:
    ann = agent(vectors=vectors)
    known = {text: say(ann, text).id for text in (ORACLE, REPORT, DEPLOY, CERT)}
    assert ids(ann, "which port does ORA-12154 concern?")[0] == known[ORACLE]
    assert ids(ann, "в каком виде нужны отчёты пользователю")[0] == known[REPORT]
    assert ids(ann, "Какая столица Австралии?") == []
    if vectors:
        assert ids(ann, "in which format does the user want reports?")[0] == known[REPORT]
        assert ids(ann, "как обновить сертификат TLS")[0] == known[CERT]
    found = recall(ann, "Как выкатить на staging с blue-green?", counts=False)
    assert found.nodes[0].id == known[DEPLOY]
    assert found.total == 4
    assert all(0 < node.score <= 1 for node in found.nodes)


def test_domain_and_topic_and_k_limit_what_is_found(agent: Agent) -> None:
    ann = agent()
    a = say(ann, "Redis timed out in production", domain="infra", topic="bug_fix").id
    b = say(ann, "Redis timed out on a laptop", domain="local", topic="question").id
    assert set(ids(ann, "redis timeout")) == {a, b}
    assert ids(ann, "redis timeout", domain="local") == [b]
    assert ids(ann, "redis timeout", topic="bug_fix") == [a]
    assert len(ids(ann, "redis timeout", k=1)) == 1


@pytest.mark.parametrize("query", ["", "   ", "?!", "\x00"])
def test_an_empty_query_is_refused(agent: Agent, query: str) -> None:
    with pytest.raises(InputError, match="the query is empty"):
        recall(agent(), query)


@pytest.mark.parametrize("k", [0, 101, -1])
def test_a_count_out_of_range_is_refused(agent: Agent, k: int) -> None:
    with pytest.raises(InputError, match=f"k is {k}"):
        recall(agent(), "redis", k=k)


@pytest.mark.parametrize("query", ["a & | ! (", "'; drop table kb.memory; --", "🙂 redis", "%_\\"])
def test_odd_queries_are_only_text(agent: Agent, query: str) -> None:
    ann = agent()
    say(ann, "Redis timed out in production")
    if any(c.isalnum() for c in query):
        recall(ann, query)
    assert keep.memory_status(ann).total == 1


def test_a_date_in_the_question_is_a_field(agent: Agent) -> None:
    ann = agent()
    rows = [
        {"text": "Alice brought the bread in the morning", "at": f"2026-04-{day:02}"}
        for day in range(1, 11)
    ]
    rows += [{"text": f"Алиса привезла хлеб, заказ {n}", "at": f"2026-05-{n:02}"} for n in (3, 8)]
    texts = [json.dumps({**row, "text": f"{row['text']}, round {n}"}) for n, row in enumerate(rows)]
    import_memories(ann, read_rows(texts))
    first = recall(ann, "Did Alice bring bread on 8 April 2026?", counts=False).nodes[0]
    assert first.at.date().isoformat() == "2026-04-08"
    first = recall(ann, "привезла ли Алиса хлеб 8 мая 2026", counts=False).nodes[0]
    assert first.at.date().isoformat() == "2026-05-08"


DAYS = [
    ("what of 2026-04-08?", "2026-04-08", "2026-04-08"),
    ("20260408_1030", "2026-04-08", "2026-04-08"),
    ("08.04.2026", "2026-04-08", "2026-04-08"),
    ("on April 8th, 2026", "2026-04-08", "2026-04-08"),
    ("8 апреля", "2026-04-08", "2026-04-08"),
    ("31 декабря", "2025-12-31", "2025-12-31"),
    ("в мае 2026 года", "2026-05-01", "2026-05-31"),
    ("вчера", "2026-06-14", "2026-06-14"),
    ("between 2026-04-01 and 2026-04-03", "2026-04-01", "2026-04-03"),
    ("it may be so, in March", None, None),
    ("31 февраля 2026", None, None),
    ("port 5432, arXiv 2501.00663", None, None),
]


@pytest.mark.parametrize(("question", "first", "last"), DAYS)
def test_days_are_read_in_both_languages(question: str, first: str | None, last: str) -> None:
    found = find_days(question, datetime(2026, 6, 15, tzinfo=UTC).date())
    days = tuple(moment.date().isoformat() for moment in found) if found else None
    assert days == ((first, last) if first else None)


def test_the_words_said_beside_a_memory_find_it_too(agent: Agent) -> None:
    ann = agent(session="talk", vectors=False)
    say(ann, "Which database does the billing service use?")
    b = say(ann, "It is Postgres fourteen")
    say(ann, "Thanks, and the invoices are in the archive bucket")
    other = agent("bob", session="other", vectors=False)
    say(other, "It is Postgres fifteen")
    found = ids(ann, "billing service postgres")
    assert b.id in found[:2]


# --- edges ------------------------------------------------------------------------------------


def test_a_cause_leads_to_one_memory_and_never_to_all_neighbours(agent: Agent) -> None:
    ann = agent(session="s1")
    first = say(ann, ORACLE, domain="infra").id
    say(ann, "Oracle listener restarted after the tnsnames alias changed", domain="infra")
    third = say(ann, "The tnsnames alias on port 5432 was wrong", edge_type="CAUSED_BY", to=first)
    causes = {e for e in edges(ann, third.id) if e[0] == "CAUSED_BY"}
    assert causes == {("CAUSED_BY", True, first)}
    fourth = say(ann, "ORA-12154 again on port 5432, the tnsnames alias", edge_type="CAUSED_BY")
    causes = {e for e in edges(ann, fourth.id) if e[0] == "CAUSED_BY" and e[1]}
    assert causes == {("CAUSED_BY", True, fourth.neighbors[0])}
    assert len(fourth.neighbors) > 1


def test_several_types_join_one_pair_each_in_its_direction(agent: Agent) -> None:
    ann = agent(session="s1")
    a = say(ann, ORACLE, essence=("oracle",)).id
    b = say(
        ann, ALIAS + ", ORA-12154", essence=("Oracle",), edge_type="CAUSED_BY", to=a, domain="infra"
    ).id
    assert {("CAUSED_BY", True, a), ("FOLLOWED_BY", True, a), ("REFERENCES", True, a)} <= edges(
        ann, b
    )
    assert ("BELONGS_TO", True, "infra") in edges(ann, b)
    back = {e for e in edges(ann, a) if e[1] and e[2] == b}
    assert back <= {("SIMILAR_TO", True, b)}


def test_similar_means_alike_and_goes_both_ways(agent: Agent) -> None:
    ann = agent()
    a = say(ann, "Redis timed out because maxclients was too low").id
    b = say(ann, "Redis timeouts: raise maxclients, it was too low for the workers")
    c = say(ann, REPORT)
    assert b.neighbors == (a,)
    assert {("SIMILAR_TO", True, a), ("SIMILAR_TO", False, a)} <= edges(ann, b.id)
    assert c.neighbors == ()
    assert all(0 < score <= 1 for score in b.scores)


def test_chains_of_two_agents_never_mix(agent: Agent) -> None:
    ann, bob = agent("ann"), agent("bob")
    said: dict[str, list[int]] = {"ann": [], "bob": []}
    for n in range(4):
        for keeper in (ann, bob):
            said[keeper.agent].append(say(keeper, f"{keeper.agent} did step {n} of a job").id)
    for mine in said.values():
        for before, after in itertools.pairwise(mine):
            follows = {e for e in edges(ann, after) if e[0] == "FOLLOWED_BY" and e[1]}
            assert follows == {("FOLLOWED_BY", True, before)}


def test_a_session_ends_after_half_an_hour_and_is_known_by_its_name(agent: Agent) -> None:
    ann = agent("ann")
    a = say(ann, "first thing of the morning").id
    ann.database.connection.execute("update kb.memory set said_at = now() - interval '31 minutes'")
    b = say(ann, "second thing, after lunch").id
    assert not {e for e in edges(ann, b) if e[0] == "FOLLOWED_BY"}
    named = agent("ann", session="tuesday")
    c = say(named, "a thing of the session tuesday").id
    ann.database.connection.execute("update kb.memory set said_at = now() - interval '3 days'")
    d = say(named, "another thing of the session tuesday").id
    assert ("FOLLOWED_BY", True, c) in edges(ann, d)
    assert a not in {e[2] for e in edges(ann, d) if e[0] == "FOLLOWED_BY"}


def test_memory_and_wiki_are_one_graph(agent: Agent, store: Store) -> None:
    ann = agent()
    a = say(ann, "Linear attention diverged until the learning rate fell").id
    b = say(ann, "Обучение линейного внимания разошлось на длинных рядах").id
    folder = store.root / "notes"
    folder.mkdir()
    (folder / "a.md").write_text(
        "# Linear attention\n\n**Linear attention** is a method that uses fast weights.\n", "utf-8"
    )
    (folder / "b.md").write_text(
        "# Линейное внимание\n\n**Линейное внимание** (linear attention) — это метод.\n", "utf-8"
    )
    store.build(folder, names=("ingest", "extract", "resolve"))
    assert link_to_concepts(store.database) >= 2
    assert link_to_concepts(store.database) == 0
    for memory_id in (a, b):
        assert ("REFERENCES", True, "linear-attention") in edges(ann, memory_id)
    c = say(ann, "Fast weights need linear attention to be stable").id
    assert ("REFERENCES", True, "linear-attention") in edges(ann, c)
    assert "[REFERENCES] Linear attention" in recall(ann, "learning rate diverged").garland


def test_the_garland_is_paths_of_typed_edges_that_do_not_return(agent: Agent) -> None:
    ann = agent(session="s1")
    a = say(ann, ORACLE).id
    b = say(ann, ALIAS, edge_type="CAUSED_BY", to=a).id
    c = say(ann, DEPLOY, edge_type="CAUSED_BY", to=b).id
    found = recall(ann, DEPLOY, k=1)
    assert [node.id for node in found.nodes] == [c]
    (path, *_) = found.paths
    assert [(s.type, s.forward, s.ref) for s in path.links] == [
        ("CAUSED_BY", True, str(b)),
        ("CAUSED_BY", True, str(a)),
    ]
    assert str(path) == f"{DEPLOY} -> [CAUSED_BY] {ALIAS} -> [CAUSED_BY] {ORACLE}"
    back = recall(ann, ORACLE, k=1).paths[0].links[0]
    assert (back.type, back.forward, back.ref) == ("CAUSED_BY", False, str(b))


def test_the_garland_is_bounded(agent: Agent) -> None:
    ann = agent(session="s1", vectors=False)
    for n in range(40):
        say(ann, f"Redis timed out in production, case {n}: " + "a long account of it. " * 30)
    found = recall(ann, "redis production", k=16)
    assert len(found.nodes) == 16
    assert len(found.garland) <= 4000
    assert len(found.paths) <= 16


# --- forgetting -------------------------------------------------------------------------------


def test_an_unused_memory_fades_and_is_archived_and_never_deleted(agent: Agent) -> None:
    ann = agent()
    a = say(ann, "Redis timed out in production").id
    pinned = say(ann, "Redis timed out in staging").id
    keep.pin(ann, pinned, True)
    for memory_id in (a, pinned):
        age(ann, memory_id, 101)  # 2 ** -(101 / 30) < 0.1
    assert ids(ann, "redis timed out") == [pinned]
    assert [row["id"] for row in keep.list_memories(ann, archived=True)] == [a]
    assert keep.memory_status(ann).archived == 1
    assert keep.memory_status(ann).total == 2
    keep.restore(ann, a)
    assert set(ids(ann, "redis timed out")) == {a, pinned}


def test_use_keeps_a_memory_and_decay_is_by_time_not_by_calls(agent: Agent) -> None:
    ann = agent()
    a = say(ann, "Redis timed out in production").id
    age(ann, a, 60)
    before = keep.why(ann, a)
    assert before["decay"] == pytest.approx(0.25, abs=0.01)
    for _ in range(5):
        ids(ann, "redis timed out")
        assert keep.why(ann, a)["decay"] == pytest.approx(0.25, abs=0.01)
    recall(ann, "redis timed out")
    after = keep.why(ann, a)
    assert (after["n_uses"], after["decay"]) == (1, pytest.approx(1.0, abs=0.01))
    assert after["importance"] > before["importance"]


def test_a_half_life_belongs_to_a_topic(agent: Agent) -> None:
    ann = agent()
    a = say(ann, "Redis timed out in production", topic="bug_fix").id
    b = say(ann, "Redis timed out in staging", topic="question").id
    keep.set_half_life(ann, "bug_fix", 365)
    keep.set_half_life(ann, "", 10)
    for memory_id in (a, b):
        age(ann, memory_id, 40)
    assert ids(ann, "redis timed out") == [a]
    assert keep.half_lives(ann) == {"": 10.0, "bug_fix": 365.0}
    keep.set_half_life(ann, "bug_fix", None)
    assert ids(ann, "redis timed out") == []
    for days in (0, -3, 1e9):
        with pytest.raises(InputError, match="half-life"):
            keep.set_half_life(ann, "", days)


def test_a_memory_that_is_used_again_and_again_is_found_still(agent: Agent) -> None:
    ann = agent()
    one, other = say(ann, ORACLE).id, say(ann, REPORT).id
    ann.database.connection.execute("update kb.memory set n_uses = 2000000000")
    assert ids(ann, "ORA-12154 on port 5432")[0] == one
    assert ids(ann, "отчёты в PDF")[0] == other
    assert keep.why(ann, one)["importance"] == 1


def test_what_is_used_and_referred_to_ranks_higher(agent: Agent) -> None:
    ann = agent(vectors=False)
    a = say(ann, "Redis timed out in production, case one").id
    b = say(ann, "Redis timed out in production, case two").id
    assert ids(ann, "redis timed out in production") == [a, b]
    ann.database.connection.execute("update kb.memory set n_uses = 30 where id = %s", (b,))
    assert ids(ann, "redis timed out in production") == [b, a]


def test_a_superseded_memory_stays_marked_and_last(agent: Agent) -> None:
    ann = agent(vectors=False)
    old = say(ann, "The deploy script of the shop is deploy.sh").id
    new = say(ann, "The deploy script of the shop is ship.py").id
    third = say(ann, "The shop has a script for backups").id
    keep.supersede(ann, old, new)
    found = recall(ann, "deploy script of the shop", counts=False).nodes
    assert [node.id for node in found][-1] == old
    assert found[-1].superseded_by == new
    assert found[0].id == new
    assert third in [node.id for node in found]
    with pytest.raises(InputError, match="superseded"):
        keep.supersede(ann, new, old)
    with pytest.raises(InputError, match="superseded"):
        keep.supersede(ann, third, third)
    keep.restore(ann, old)
    assert recall(ann, "deploy script of the shop", counts=False).nodes[-1].superseded_by is None


def test_forget_takes_the_memory_its_edges_and_its_words_beside_others(agent: Agent) -> None:
    ann = agent(session="s1", vectors=False)
    say(ann, "We talked of the harbour first")
    b = say(ann, "The zebrafish protocol is in folder nine", domain="lab").id
    c = say(ann, "Then lunch was ordered", edge_type="CAUSED_BY", to=b).id
    assert b in ids(ann, "zebrafish protocol")
    assert keep.forget(ann, b, dry_run=True).endswith("would be forgotten.")
    assert b in ids(ann, "zebrafish protocol")
    assert "zebrafish" in keep.forget(ann, b)
    assert ids(ann, "zebrafish protocol") == []
    assert b not in {e[2] for e in edges(ann, c)}
    with pytest.raises(NotFoundError):
        keep.forget(ann, b)
    d = say(ann, "A new thing").id
    assert d > c  # ids are never used again
    sql = "select count(*) from kb.entry where kind = 'memory' and record_id = %s"
    assert ann.database.connection.execute(sql, (b,)).fetchone() == (0,)


def test_only_an_admin_forgets_what_others_said(agent: Agent) -> None:
    ann, bob, boss = agent("ann"), agent("bob"), agent("boss", is_admin=True)
    a = say(ann, ORACLE).id
    with pytest.raises(InputError, match="ann's"):
        keep.forget(bob, a)
    keep.forget(boss, a)
    assert ids(ann, ORACLE) == []


# --- guards -----------------------------------------------------------------------------------


def test_the_same_text_twice_is_one_memory_that_counts_more(agent: Agent) -> None:
    ann, bob = agent("ann"), agent("bob")
    a = say(ann, "Ёлка стоит в зале — до января")
    b = say(bob, "елка стоит  в зале - до января")
    assert (a.is_new, b.is_new, a.id) == (True, False, b.id)
    assert keep.why(ann, a.id)["n_said"] == 2
    status = keep.memory_status(ann)
    assert (status.total, status.duplicates_refused) == (1, 1)


def test_an_echo_of_what_was_just_recalled_is_refused_with_its_id(agent: Agent) -> None:
    ann, bob = agent("ann", session="s1"), agent("bob", session="s2")
    text = "Deploy to staging with the blue-green script on Fridays, and never ever by hand at all"
    a = say(ann, text).id
    recall(ann, "how do we deploy to staging?")
    with pytest.raises(InputError, match=f"memory {a}"):
        say(ann, text + " please")
    assert keep.memory_status(ann).duplicates_refused == 1
    assert say(ann, "Deploying by hand broke staging twice last week").is_new
    assert say(bob, text + " please").is_new  # who did not recall it may say it


def test_a_key_makes_a_retry_harmless(agent: Agent) -> None:
    ann = agent()
    a = say(ann, ORACLE, key="k1")
    again = say(ann, ORACLE, key="k1")
    assert (again.id, again.is_new) == (a.id, False)
    assert keep.why(ann, a.id)["n_said"] == 1
    with pytest.raises(InputError, match=f"memory {a.id}"):
        say(ann, REPORT, key="k1")
    assert say(agent("bob"), DEPLOY, key="k1").is_new


SECRETS = [
    "the key is AKIAIOSFODNN7EXAMPLE",
    "export GEMINI_API_KEY=AIza" + "SyA1234567890abcdefghijklmnopqrstuv"[:35],
    "use ghp_" + "a1B2" * 9,
    "password: hunter2000",
    "пароль: qwerty123",
    "postgres://ann:s3cretpw@host/db",
    "Authorization: Bearer abc123def456ghi789jkl0",
    "-----BEGIN RSA PRIVATE KEY-----\nMIIE",
    "sk-proj-abcdefghijklmnop123456",
    "aws_secret_access_key=wJalrXUtnFEMI/K7MDENG",
    "PGPASSWORD=hunter2x",
    "SECRET_KEY = 'django-insecure-1x'",
    "token: 8f3a0b1c2d",
    "password hunter2hunter2",
    "пароль от базы Qwerty123!",
    "Пароль: ёлкаИголка",
    "mysql -pS3cretPass1 shop",
    "curl -u admin:Passw0rd99",
]
HARMLESS = [
    "port 5432 and ORA-12154",
    "the password prompt hangs on login",
    "пароль не подошёл, сменили в профиле",
    "commit deadbeef fixed it; see arXiv 2501.00663",
    "https://example.org/a:b@c",
    "token limit: 8192",
    "basic authentication is off for localhost",
    "the secret is to be patient",
    "max_tokens=8192000",
    "docker run -p 127.0.0.1:5432:5432 postgres",
    "password: required by the form",
    "токен доступа истёк вчера",
]


@pytest.mark.parametrize("text", SECRETS)
def test_what_looks_like_a_secret_is_refused_unless_allowed(agent: Agent, text: str) -> None:
    ann = agent(vectors=False)
    with pytest.raises(InputError, match="seems to hold") as error:
        say(ann, text)
    assert "--allow-secrets" in error.value.hint
    assert text.rsplit(maxsplit=1)[-1] not in str(error.value)
    assert say(ann, text, allow_secrets=True).is_new


@pytest.mark.parametrize("text", HARMLESS)
def test_what_is_no_secret_is_kept(agent: Agent, text: str) -> None:
    assert say(agent(vectors=False), text).is_new


CLEAN = {
    "порт 5432": "порт 5432",
    "ORA-12154 at 10:45 in 2026": "ORA-12154 at 10:45 in 2026",
    "arXiv 2501.00663": "arXiv 2501.00663",
    "deadbeef and cafe": "deadbeef and cafe",
    "order 1234567890123456789": "order 1234567890123456789",
    "id 123e4567-e89b-12d3-a456-426614174000 failed": "id failed",
    "at commit 0123456789abcdef0123456789abcdef01234567 it broke": "at commit it broke",
    "0123456789abcdef0123456789abcdef": "0123456789abcdef0123456789abcdef",
}


@pytest.mark.parametrize(("text", "wanted"), CLEAN.items())
def test_only_uuids_and_long_hashes_are_cleaned_away(text: str, wanted: str) -> None:
    assert cleaned(text) == wanted


def test_numbers_find_their_memory(agent: Agent) -> None:
    ann = agent()
    a = say(ann, "База отвечает на порт 5432 после перезапуска").id
    b = say(ann, "База отвечает на порт 5433 после перезапуска").id
    assert ids(ann, "порт 5433")[0] == b
    assert ids(ann, "порт 5432")[0] == a


@pytest.mark.parametrize("text", ["", " \n", "...", "\x00"])
def test_an_empty_text_is_refused(agent: Agent, text: str) -> None:
    with pytest.raises(InputError, match="empty"):
        say(agent(vectors=False), text)


def test_a_text_of_more_than_32_kb_is_refused(agent: Agent) -> None:
    ann = agent(vectors=False)
    with pytest.raises(InputError, match="32,768"):
        say(ann, "ж" * 16_385)
    assert say(ann, "слово " * 2_900).is_new


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"essence": ("a", "b", "c", "d")}, "more than three"),
        ({"domain": "d" * 201}, "201 characters"),
        ({"topic": "t" * 201}, "201 characters"),
    ],
)
def test_words_about_a_memory_are_bounded(agent: Agent, more: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        say(agent(vectors=False), "a text", **more)


def test_a_target_that_is_not_there_is_named(agent: Agent) -> None:
    ann = agent(vectors=False)
    with pytest.raises(NotFoundError, match="memory 999"):
        say(ann, ORACLE, edge_type="CAUSED_BY", to=999)
    assert keep.memory_status(ann).total == 0


def test_a_private_memory_is_its_owners_alone(agent: Agent) -> None:
    ann, bob = agent("ann", session="a"), agent("bob", session="b")
    secret = say(ann, "Ann's redis cluster timed out in production", is_private=True).id
    shared = say(ann, "The shared redis cluster timed out in production").id
    theirs = say(bob, "Redis in production timed out again for bob")
    assert set(ids(ann, "redis timed out in production")) == {secret, shared, theirs.id}
    found = recall(bob, "redis timed out in production")
    assert {node.id for node in found.nodes} == {shared, theirs.id}
    assert found.total == 2
    assert "Ann's" not in found.garland
    assert secret not in theirs.neighbors
    assert keep.memory_status(bob).total == 2
    assert secret not in [row["id"] for row in keep.list_memories(bob)]
    for look in (keep.why, keep.forget, keep.restore):
        with pytest.raises(NotFoundError):
            look(bob, secret)
    with pytest.raises(NotFoundError):
        say(bob, "something", edge_type="CAUSED_BY", to=secret)
    # A shared memory said next to a private one does not carry its words.
    assert shared not in ids(bob, "Ann's cluster") or secret not in ids(bob, "Ann's cluster")
    same = say(bob, "Ann's redis cluster timed out in production")
    assert same.id != secret


# --- many at once -----------------------------------------------------------------------------


def test_eight_agents_at_once_make_one_row_and_every_edge(
    url: str, agent: Agent, e5: Embedder
) -> None:
    boss = agent("boss", vectors=False)
    hub = say(boss, "The hub of it all").id
    failures: list[BaseException] = []

    def work(name: str) -> None:
        database = db.connect(url)
        keeper = Keeper(database, None, name)
        try:
            for n in range(25):
                say(keeper, "One fact that all agree on", edge_type="CAUSED_BY", to=hub)
                say(keeper, f"{name} notes detail {n}", edge_type="REFERENCES", to=hub)
        except BaseException as error:
            failures.append(error)
            raise
        finally:
            database.close()

    threads = [threading.Thread(target=work, args=(f"agent{n}",)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    with psycopg.connect(url) as connection:
        one = "select count(*), max(n_said) from kb.memory where text like 'One fact%'"
        assert connection.execute(one).fetchone() == (1, 200)
        every = (
            "select count(*) filter (where type = 'CAUSED_BY'),"
            " count(*) filter (where type = 'REFERENCES') from kb.memory_edge where tail_id = %s"
        )
        assert connection.execute(every, (hub,)).fetchone() == (1, 200)
        mixed = (
            "select count(*) from kb.memory_edge e join kb.memory a on a.id = e.head_id"
            " join kb.memory b on b.id = e.tail_id"
            " where e.type = 'FOLLOWED_BY' and a.agent <> b.agent"
        )
        assert connection.execute(mixed).fetchone() == (0,)


# --- found by attack ------------------------------------------------------------------------


def test_agents_that_share_a_sessions_name_keep_their_chains(agent: Agent) -> None:
    ann, bob = agent("ann", session="S"), agent("bob", session="S")
    a = say(ann, "ann reads the zebrafish protocol").id
    b = say(bob, "bob orders lunch").id
    c = say(ann, "ann writes the report").id
    assert not {e for e in edges(ann, b) if e[0] == "FOLLOWED_BY"}
    assert ("FOLLOWED_BY", True, a) in edges(ann, c)
    assert b not in ids(agent(vectors=False), "zebrafish protocol")


def test_a_rare_domain_is_found_among_many_memories_of_another(agent: Agent) -> None:
    ann = agent(vectors=False)
    rows = [{"text": f"kafka consumer lag {n}", "domain": "a"} for n in range(600)]
    rows.append(
        {"text": "a longer account of the day, in which kafka is named once", "domain": "b"}
    )
    rows.append({"text": "что-то о kafka и прочем", "domain": "b", "topic": "t"})
    import_memories(ann, read_rows(json.dumps(row) for row in rows))
    assert len(ids(ann, "kafka consumer", domain="b")) == 2
    assert len(ids(ann, "kafka consumer", topic="t")) == 1


def test_a_domain_is_found_where_another_has_more_than_is_read_of_a_word(agent: Agent) -> None:
    ann = agent(vectors=False)
    say(ann, "deploy", domain="b")
    ann.database.connection.execute(
        """
        with many as (
            insert into kb.memory
                (text, text_key, cleaned, text_sha, lang, agent, session, at, domain)
            select 'deploy deploy ' || n, 'deploy deploy ' || n, 'deploy deploy ' || n,
                   kb.sha('deploy deploy ' || n), 'en', 'ann', '', now(), 'a'
            from generate_series(1, 3500) n
            returning id
        )
        select kb.index_memories(array_agg(id)) from many
        """
    )
    ann.database.run("fold_tally")
    assert len(ids(ann, "deploy", domain="b")) == 1


OLD = ["1950-01-01", "2024-06-01T00:00:00Z"]


@pytest.mark.parametrize("used_at", OLD)
def test_a_very_old_memory_stops_nothing(agent: Agent, used_at: str) -> None:
    ann = agent(vectors=False)
    keep.set_half_life(ann, "", 0.01)
    import_memories(ann, read_rows([json.dumps({"text": "old redis news", "used_at": used_at})]))
    say(ann, "new redis news of today")
    assert len(ids(ann, "redis news")) == 1
    assert keep.memory_status(ann).archived == 1
    assert len(list(export_memories(ann.database))) == 2


BAD_VALUES = [
    {"at": "infinity"}, {"at": "99999-03-15"}, {"at": "0044-03-15 BC"}, {"at": "yesterday-ish"},
    {"used_at": "1850-01-01"}, {"n_said": 3_000_000_000}, {"edge_types": {"abc": "SIMILAR_TO"}},
    {"edges": [{"type": "SIMILAR_TO", "to": 1, "weight": 1e300}]}, {"n_uses": -1},
]  # fmt: skip


@pytest.mark.parametrize("more", BAD_VALUES, ids=str)
def test_values_that_no_store_can_hold_are_named_by_line(more: dict[str, Any]) -> None:
    with pytest.raises(InputError, match="line 2: "):
        read_rows(['{"text": "good"}', json.dumps({"text": "x", **more})])


def test_a_key_that_another_text_has_costs_its_own_row_alone(agent: Agent) -> None:
    ann = agent(vectors=False)
    rows = [{"text": "one", "key": "K"}, {"text": "two", "key": "K"}, {"text": "three"}]
    done = import_memories(ann, read_rows(json.dumps(row) for row in rows))
    assert (done.n_new, len(done.refused)) == (2, 1)
    assert "'K'" in done.refused[0]


@pytest.mark.parametrize(
    ("one", "other"),
    [("the exit code is 1", "the exit code is -1"), ("use tar -x here", "use tar -X here")],
)
def test_a_sign_and_an_option_tell_texts_apart(agent: Agent, one: str, other: str) -> None:
    ann = agent(vectors=False)
    assert say(ann, one).id != say(ann, other).id


def test_rows_without_a_session_were_said_beside_nothing(agent: Agent) -> None:
    ann = agent(vectors=False)
    rows = ["volcano dust", "income duty of May", "zz apples"]
    import_memories(ann, read_rows(json.dumps({"text": text}) for text in rows))
    assert len(ids(ann, "volcano")) == 1


def test_a_key_given_later_makes_retries_harmless_too(agent: Agent) -> None:
    ann = agent(vectors=False)
    a = say(ann, "retry me").id
    assert say(ann, "retry me", key="kx").id == a
    assert say(ann, "retry me", key="kx").id == a
    assert keep.why(ann, a)["n_said"] == 2
    with pytest.raises(InputError, match="is that of another text"):
        say(ann, "quite another thing", key="kx")
    assert say(ann, "no key", key="").is_new
    assert say(ann, "no key either", key="").is_new
    with pytest.raises(InputError, match="key has"):
        say(ann, "a long key", key="k" * 1000)


def test_vectors_are_made_anew_where_there_are_only_memories(
    agent: Agent, store: Store, e5: Embedder
) -> None:
    ann = agent()
    say(ann, REPORT)
    ann.database.run("delete_vectors")
    ann.database.run("delete_setting", {"name": "embedder"})
    services = store.services()
    services.make_embedder = lambda: e5
    run_stages([stage_named("embed")], services, Quiet())
    assert ids(ann, "in which format does the user want reports?")


# --- both ways --------------------------------------------------------------------------------


def test_an_export_comes_back_equal(agent: Agent, make_store: Callable[[], Store]) -> None:
    ann = agent(session="s1", vectors=False)
    a = say(ann, ORACLE, domain="infra", topic="bug_fix", essence=("oracle",), key="k1").id
    b = say(ann, ALIAS, edge_type="CAUSED_BY", to=a, is_private=True).id
    c = say(ann, REPORT, domain="отчёты").id
    keep.pin(ann, a, True)
    keep.supersede(ann, b, c)
    recall(ann, "port of ORA-12154")
    lines = list(export_memories(ann.database))
    other = Keeper(make_store().database, None, "bob")
    done = import_memories(other, read_rows(lines))
    assert (done.n_new, done.n_known, done.refused) == (3, 0, [])
    assert list(export_memories(other.database)) == lines
    done = import_memories(other, read_rows(lines))
    assert (done.n_new, done.n_known) == (0, 3)
    assert list(export_memories(other.database)) == lines


def test_vecmorys_rows_come_in_with_their_edges(agent: Agent) -> None:
    rows = [
        {
            "id": 7, "text": ORACLE, "cleaned_query": "x", "vec": [0.1] * 384, "domain": "infra",
            "topic": "bug_fix", "essence": "oracle, port", "popularity_counter": 4,
            "decay_score": 0.5, "importance_weight": 1.0, "neighbors": "[9, 11]",
            "edge_types": '{"9": "CAUSED_BY", "11": "FRIEND_OF"}',
        },
        {"id": 9, "text": ALIAS, "neighbors": [7], "edge_types": {"7": "SIMILAR_TO"}},
        {"id": 11, "text": REPORT, "domain": None, "essence": None, "neighbors": "", "zzz": 1},
    ]  # fmt: skip
    ann = agent(vectors=False)
    done = import_memories(ann, read_rows(json.dumps(row) for row in rows))
    assert (done.n_new, done.refused) == (3, [])
    known = {row["text"]: row["id"] for row in keep.list_memories(ann)}
    a, b, c = (known[text] for text in (ORACLE, ALIAS, REPORT))
    assert {
        ("CAUSED_BY", True, b),
        ("SIMILAR_TO", True, c),
        ("BELONGS_TO", True, "infra"),
    } <= edges(ann, a)
    assert ("SIMILAR_TO", True, a) in edges(ann, b)
    assert keep.why(ann, a)["n_uses"] == 4
    assert keep.why(ann, a)["essence"] == ["oracle", "port"]


BROKEN = {
    "no JSON": ("{oops", "line 2: no JSON."),
    "a list": ("[1]", "line 2: "),
    "no text": ('{"key": "x"}', "line 2: text: field required."),
    "a number for a text": ('{"text": 7}', "line 2: text: "),
    "an unknown edge": ('{"text": "x", "edges": [{"type": "LIKES", "to": 1}]}', "line 2: edges"),
}


@pytest.mark.parametrize(("line", "said"), BROKEN.values(), ids=BROKEN.keys())
def test_a_broken_line_is_named_and_nothing_is_taken(agent: Agent, line: str, said: str) -> None:
    with pytest.raises(InputError) as error:
        read_rows(['{"text": "good"}', line])
    assert error.value.message.startswith(said)


def test_rows_that_may_not_be_kept_are_told_and_the_others_stay(agent: Agent) -> None:
    ann = agent(vectors=False)
    rows = [{"text": "good one"}, {"text": "пароль: qwerty123", "key": "p"}, {"text": " "}]
    done = import_memories(ann, read_rows(json.dumps(row) for row in rows))
    assert done.n_new == 1
    assert [r.partition(":")[0] for r in done.refused] == ["'p'", "' '"]


def test_status_tells_what_there_is_of_whom(agent: Agent) -> None:
    ann, bob = agent("ann"), agent("bob")
    empty = keep.memory_status(ann)
    assert (empty.total, empty.avg_degree, empty.oldest) == (0, 0, None)
    a = say(ann, ORACLE, domain="infra").id
    say(bob, REPORT, domain="отчёты")
    say(bob, DEPLOY, edge_type="CAUSED_BY", to=a)
    status = keep.memory_status(ann)
    assert (status.total, status.with_neighbors) == (3, 3)
    assert status.by_domain == {"": 1, "infra": 1, "отчёты": 1}
    assert status.by_agent == {"ann": 1, "bob": 2}
    assert status.oldest is not None
    assert status.newest is not None
    assert timedelta(0) <= status.newest - status.oldest < timedelta(minutes=5)
