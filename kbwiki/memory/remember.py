"""remember: keep what an agent learnt, once, joined to what it follows, resembles and names."""

import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Literal

from kbwiki.db import Database
from kbwiki.errors import InputError
from kbwiki.memory.guards import check_secrets, check_text, is_echo
from kbwiki.memory.keeper import (
    MAX_QUERY,
    Keeper,
    Words,
    embed,
    ensure_background,
    find,
    index_many,
    save_vectors,
    transact,
    word,
    words_of,
)
from kbwiki.text.normal import canonical_key

EdgeType = Literal["SIMILAR_TO", "CAUSED_BY", "FOLLOWED_BY", "BELONGS_TO", "REFERENCES"]
EDGE_TYPES: tuple[EdgeType, ...] = (
    "SIMILAR_TO",
    "CAUSED_BY",
    "FOLLOWED_BY",
    "BELONGS_TO",
    "REFERENCES",
)
MAX_SIMILAR = 5
MAX_KIN = 5
SIMILAR_WORDS, SIMILAR_MARGIN = 0.5, 5.0
"""What makes two memories alike: the share of longer words, or how far the cosine stands out."""
INDEX_EVERY = 1000
_LOOKED_AT = 20
SESSION_GAP_MIN = 30
ECHO_MIN = 30
"""Minutes for which what a session recalled is still in its ears."""


@dataclass(frozen=True, slots=True)
class Note:
    """What is to be kept. ``to`` is the memory to which ``edge_type`` leads."""

    text: str
    domain: str = ""
    topic: str = ""
    essence: tuple[str, ...] = ()
    edge_type: EdgeType = "SIMILAR_TO"
    to: int | None = None
    key: str | None = None
    is_private: bool = False
    allow_secrets: bool = False
    at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Kept:
    """A memory and its neighbours, the nearest first, with scores in [0, 1]."""

    id: int
    neighbors: tuple[int, ...]
    scores: tuple[float, ...]
    is_new: bool


def remember(
    keeper: Keeper, note: Note, on_kept: Callable[[Kept], None] = lambda kept: None
) -> Kept:
    """Keep a note, or count it once more if its text is there.

    ``on_kept`` is called in the transaction that keeps it; again, if another was in its way.

    Raises InputError for a text that is empty, too long, secret, or an echo of what the session
    just recalled, and for a key that another text has; NotFoundError for an unknown ``to``.
    """
    text = check_text(note.text)
    essence = check_essence(note.essence)
    domain, topic = word(note.domain, "domain"), word(note.topic, "topic")
    note = replace(note, key=word(note.key or "", "key") or None)
    word(keeper.session, "session")
    if not note.allow_secrets:
        for told in (text, domain, topic, *note.essence):
            check_secrets(told)
    if note.to is not None:
        find(keeper, note.to)
    words = words_of(text)
    ensure_background(keeper)
    vector = embed(keeper, words.cleaned, "passage")

    def keep() -> Kept | int:
        session = _session(keeper)
        keeper.database.run("lock_session", {"session": f"{keeper.agent}\x1f{session}"})
        known = _known_key(keeper, note, words)
        if known is not None:
            kept = _kept(keeper, note, known, words, vector, is_new=False)
            on_kept(kept)
            return kept
        echoed = _echoed(keeper, text)
        if echoed is not None:
            return echoed
        row = keeper.database.dicts(
            "save_memory",
            {
                "owner": keeper.agent if note.is_private else "",
                "text_key": words.text_key,
                "key": note.key,
                "text": text,
                "cleaned": words.cleaned,
                "lang": words.lang,
                "domain": domain,
                "topic": topic,
                "essence": list(essence),
                "agent": keeper.agent,
                "client": keeper.client,
                "session": session,
                "at": note.at,
                "lemmas": words.lemmas,
                "text_sha": words.text_sha,
            },
        )[0]
        if row["is_new"]:
            _settle(keeper, row["id"], words, vector)
        kept = _kept(keeper, note, row["id"], words, vector, row["is_new"])
        if row["is_new"]:
            _join(keeper, note, row["id"], session, essence, domain, kept)
        _join_named(keeper, note, row["id"], kept)
        on_kept(kept)
        return kept

    done = transact(keeper.database, keep)
    if isinstance(done, int):
        keeper.database.run("save_refusal", {"agent": keeper.agent, "memory_id": done})
        raise InputError(
            f"remember: this session has just recalled the same: memory {done}.",
            "Say what is new, or pin it: `kbwiki memory pin`.",
        )
    return done


def check_essence(essence: Sequence[str]) -> tuple[str, ...]:
    """Return up to three key words in their canonical form; raise InputError for more."""
    keys = tuple(dict.fromkeys(filter(None, (canonical_key(word(e, "essence")) for e in essence))))
    if len(keys) > 3:
        raise InputError("remember: essence has more than three words.", "Name one to three.")
    return keys


def _session(keeper: Keeper) -> str:
    """Return the session: as given, else the one that the agent and client began lately."""
    if keeper.session:
        return keeper.session
    who = {"agent": keeper.agent, "client": keeper.client}
    keeper.database.run("lock_session", {"session": f"{keeper.agent}\x1f{keeper.client}"})
    found = keeper.database.value("find_session", {**who, "gap": SESSION_GAP_MIN})
    return str(found) if found else f"auto:{uuid.uuid4().hex}"


def _known_key(keeper: Keeper, note: Note, words: Words) -> int | None:
    """Return the memory that was kept under the same key; a retry is no second memory."""
    if note.key is None:
        return None
    rows = keeper.database.dicts("find_memory_key", {"agent": keeper.agent, "key": note.key})
    if not rows:
        return None
    if rows[0]["text_key"] != words.text_key:
        raise InputError(
            f"remember: the key {note.key!r} is that of another text: memory {rows[0]['id']}.",
            "Take a new key for a new text.",
        )
    return int(rows[0]["id"])


def _echoed(keeper: Keeper, text: str) -> int | None:
    params = {"session": keeper.ear, "minutes": ECHO_MIN}
    rows = keeper.database.dicts("list_recalled", params)
    return next((row["id"] for row in rows if is_echo(text, row["text"])), None)


def _settle(keeper: Keeper, memory_id: int, words: Words, vector: str | None) -> None:
    """Make a new memory findable, and those beside it by its words."""
    beside = [row["id"] for row in keeper.database.dicts("list_beside", {"id": memory_id})]
    keeper.database.run("index_memories", {"ids": [memory_id, *beside]})
    if vector is not None:
        save_vectors(keeper, [words.text_sha], [f"memory/{words.lang}"], [vector])
    if memory_id % INDEX_EVERY == 0:
        index_many(keeper)


def _kept(
    keeper: Keeper, note: Note, memory_id: int, words: Words, vector: str | None, is_new: bool
) -> Kept:
    # A shared memory is not joined to one that only its agent may see.
    me = keeper.agent if note.is_private else ""
    near = neighbours(keeper, memory_id, words, vector, me)
    return Kept(memory_id, tuple(near), tuple(round(s, 4) for s in near.values()), is_new)


def neighbours(
    keeper: Keeper, memory_id: int, words: Words, vector: str | None, me: str
) -> dict[int, float]:
    """Return the memories that are like one, the nearest first, with their scores in [0, 1]."""
    rows = keeper.database.dicts(
        "find_memories",
        {
            "question": words.cleaned[:MAX_QUERY],
            "vector": vector,
            "model": keeper.embedder.name if keeper.embedder else "",
            "me": me,
            "domain": "",
            "topic": "",
            "first_at": None,
            "last_at": None,
            "archived": False,
            "floor_words": 0.1,
            "floor_margin": SIMILAR_MARGIN,
            "n": _LOOKED_AT,
        },
    )
    # The index also holds what was said beside a memory; alike is what itself says alike.
    mine = _long_words(words.lemmas)
    alike = [
        (row["id"], row["score"])
        for row in rows
        if row["id"] != memory_id
        and (row["margin"] >= SIMILAR_MARGIN or _share(mine, row["lemmas"]) >= SIMILAR_WORDS)
    ]
    return dict(alike[:MAX_SIMILAR])


def _long_words(lemmas: str) -> set[str]:
    return {word for word in lemmas.split() if len(word) > 3}


def _share(mine: set[str], lemmas: str) -> float:
    """Return the share of words that two texts have in common (Jaccard)."""
    theirs = _long_words(lemmas)
    return len(mine & theirs) / max(1, len(mine | theirs))


def save_similar(keeper: Keeper, memory_id: int, near: dict[int, float]) -> None:
    """Join a memory with those that are like it, both ways."""
    for other, score in sorted(near.items()):
        save_edge(keeper, memory_id, "SIMILAR_TO", other, score)
        save_edge(keeper, other, "SIMILAR_TO", memory_id, score)


def _join(
    keeper: Keeper,
    note: Note,
    memory_id: int,
    session: str,
    essence: tuple[str, ...],
    domain: str,
    kept: Kept,
) -> None:
    """Make the edges that a new memory has by itself."""
    database = keeper.database
    owner = keeper.agent if note.is_private else ""
    save_similar(keeper, memory_id, dict(zip(kept.neighbors, kept.scores, strict=True)))
    previous = database.value(
        "find_previous",
        {"session": session, "agent": keeper.agent, "owner": owner, "id": memory_id},
    )
    if previous is not None:
        save_edge(keeper, memory_id, "FOLLOWED_BY", previous)
    if domain:
        save_edge(keeper, memory_id, "BELONGS_TO", domain=domain)
    if essence:
        params = {"essence": list(essence), "id": memory_id, "owner": owner, "n": MAX_KIN}
        for row in database.dicts("list_essence_kin", params):
            save_edge(keeper, memory_id, "REFERENCES", row["id"])
    database.run("save_named_edges", {"id": memory_id, "after": 0})


def _join_named(keeper: Keeper, note: Note, memory_id: int, kept: Kept) -> None:
    """Make the edge that the note names: to the memory named, else, for a cause, to the best."""
    to = note.to
    if to is None and note.edge_type in {"CAUSED_BY", "REFERENCES"}:
        to = next(iter(kept.neighbors), None)
    if to is None or to == memory_id:
        return
    save_edge(keeper, memory_id, note.edge_type, to)
    if note.edge_type == "SIMILAR_TO":
        save_edge(keeper, to, "SIMILAR_TO", memory_id)


def save_edge(
    keeper: Keeper,
    head: int,
    kind: str,
    tail: int | None = None,
    weight: float = 1.0,
    concept: int | None = None,
    domain: str | None = None,
) -> None:
    """Make an edge unless it is there."""
    keeper.database.run(
        "save_memory_edge",
        {
            "head": head,
            "type": kind,
            "tail": tail,
            "concept": concept,
            "domain": domain,
            "weight": weight,
        },
    )


def link_to_concepts(database: Database) -> int:
    """Join all memories to the concepts they name that came since the last time; return how many.

    Called after the concepts were resolved; cheap where there is no memory or nothing new.
    """
    last = database.value("last_concept")
    known = int(database.value("read_setting", {"name": "memory_concepts"}) or 0)
    if last <= known or not database.value("has_memories"):
        return 0
    with database.transaction():
        n = database.run("save_named_edges", {"id": None, "after": known})
        database.run("save_setting", {"name": "memory_concepts", "value": str(last)})
    return n
