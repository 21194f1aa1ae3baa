"""Memories as JSONL, both ways: our own rows, plain rows, and VecMory's exports."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, field_validator

from kbwiki.db import Database
from kbwiki.errors import InputError
from kbwiki.memory.guards import check_secrets, check_text
from kbwiki.memory.keeper import (
    Keeper,
    ensure_background,
    index_many,
    save_vectors,
    transact,
    word,
    words_of,
)
from kbwiki.memory.remember import EDGE_TYPES, check_essence, neighbours, save_edge, save_similar
from kbwiki.vectors import literal

BATCH = 64


def _in_range(moment: datetime) -> datetime:
    """Return a moment that databases and calendars can hold, UTC where it names no zone."""
    if not 1900 <= moment.year <= 2200:
        raise ValueError("a year between 1900 and 2200 is needed")
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


Moment = Annotated[datetime, AfterValidator(_in_range)]


class EdgeRow(BaseModel):
    """An edge of an exported memory: to another row's id, a concept's key or a domain."""

    model_config = ConfigDict(extra="ignore")
    type: Literal["SIMILAR_TO", "CAUSED_BY", "FOLLOWED_BY", "BELONGS_TO", "REFERENCES"]
    to: int | None = None
    concept: str | None = None
    domain: str | None = None
    weight: float = Field(default=1.0, ge=0, le=1000, allow_inf_nan=False)


class Row(BaseModel):
    """A line of a file: only ``text`` is needed; VecMory's fields are read too."""

    model_config = ConfigDict(extra="ignore")
    id: int | None = None
    key: str | None = None
    text: str
    domain: str = ""
    topic: str = ""
    essence: list[str] = Field(default_factory=list)
    agent: str = ""
    client: str = ""
    session: str = ""
    owner: str = ""
    at: Moment | None = None
    said_at: Moment | None = None
    used_at: Moment | None = None
    n_said: int = Field(default=1, ge=1, le=1_000_000_000)
    n_uses: int = Field(default=0, ge=0, le=1_000_000_000)
    is_pinned: bool = False
    superseded_by: int | None = None
    edges: list[EdgeRow] = Field(default_factory=list)
    popularity_counter: int = Field(default=0, ge=0, le=1_000_000_000)
    neighbors: list[int] = Field(default_factory=list)
    edge_types: dict[int, str] = Field(default_factory=dict)

    @field_validator("domain", "topic", "agent", "client", "session", "owner", mode="before")
    @classmethod
    def _none_is_empty(cls, value: object) -> object:
        return "" if value is None else value

    @field_validator("key", mode="before")
    @classmethod
    def _number_is_text(cls, value: object) -> object:
        return str(value) if isinstance(value, int | float) else value

    @field_validator("essence", mode="before")
    @classmethod
    def _comma_joined(cls, value: object) -> object:
        if isinstance(value, str):
            return [part.strip() for part in value.split(",") if part.strip()][:3]
        return value or []

    @field_validator("neighbors", "edge_types", mode="before")
    @classmethod
    def _json_in_text(cls, value: object) -> object:
        return json.loads(value) if isinstance(value, str) and value.strip() else value or []

    def links(self) -> list[EdgeRow]:
        """Return the edges: our own, and VecMory's, once for each pair and type."""
        types = self.edge_types
        theirs = dict.fromkeys([*self.neighbors, *types])
        named = [
            EdgeRow.model_validate(
                {"type": kind if (kind := types.get(to)) in EDGE_TYPES else "SIMILAR_TO", "to": to}
            )
            for to in theirs
        ]
        return [*self.edges, *named]


@dataclass(slots=True)
class Imported:
    """How an import went: rows kept anew, rows that were there, edges, and what was refused."""

    n_new: int = 0
    n_known: int = 0
    n_edges: int = 0
    refused: list[str] = field(default_factory=list)


def export_memories(database: Database, me: str = "") -> Iterator[str]:
    """Yield the memories that ``me`` may see, '' all of them, one JSON object a line, by id."""
    for row in database.dicts("export_memories", {"me": me, "id": None}):
        yield json.dumps(row, ensure_ascii=False, default=str) + "\n"


def read_rows(lines: Iterable[str]) -> list[Row]:
    """Return the rows of a file; raise InputError that names the first line which is none."""
    rows: list[Row] = []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            rows.append(Row.model_validate(json.loads(line)))
        except (ValueError, RecursionError) as error:
            what = "no JSON"
            if isinstance(error, ValidationError):
                first = error.errors()[0]
                what = f"{'.'.join(map(str, first['loc'])) or 'it'}: {first['msg'].lower()}"
            raise InputError(
                f"line {number}: {what}.", "A row is {key, text, domain, session, at}."
            ) from error
    return rows


def import_memories(
    keeper: Keeper,
    rows: Sequence[Row],
    on_step: Callable[[], None] = lambda: None,
    *,
    allow_secrets: bool = False,
    ids: dict[int, int] | None = None,
    keeps_ids: bool = False,
) -> Imported:
    """Keep rows, a batch at a time, then their edges; ``on_step`` is called once a row.

    ``ids`` are memories of the store that edges of the rows lead to, by their numbers there.

    Ids are mapped, texts that are there stay one memory. With ``keeps_ids`` a memory comes back
    under the number that it had here: no other has taken it. A row that may not be kept is told
    and left out; the others go on.
    """
    done = Imported()
    known = dict(ids or {})
    placed: list[tuple[int, Row]] = []
    ensure_background(keeper)
    for at in range(0, len(rows), BATCH):
        good = [row for row in rows[at : at + BATCH] if _is_good(row, done, allow_secrets)]
        placed += _import_batch(keeper, good, known, done, keeps_ids)
        for _ in range(len(rows[at : at + BATCH]) - len(good)):
            on_step()
    last: dict[str, int] = {}
    for at in range(0, len(placed), BATCH):
        some = placed[at : at + BATCH]
        done.n_edges += transact(keeper.database, partial(_import_edges, keeper, some, known, last))
        for _ in some:
            on_step()
    keeper.database.run("fold_tally")
    index_many(keeper)
    return done


def _is_good(row: Row, done: Imported, allow_secrets: bool) -> bool:
    try:
        check_text(row.text)
        if not allow_secrets:
            for told in (row.text, row.domain, row.topic, *row.essence):
                check_secrets(told)
        check_essence(row.essence)
        for told, what in ((row.domain, "domain"), (row.topic, "topic"), (row.key or "", "key")):
            word(told, what)
        word(row.session, "session")
    except InputError as error:
        done.refused.append(f"{row.key or row.id or row.text[:40]!r}: {error.message}")
        return False
    return True


def _import_batch(
    keeper: Keeper, rows: list[Row], ids: dict[int, int], done: Imported, keeps_ids: bool
) -> list[tuple[int, Row]]:
    words = [words_of(check_text(row.text)) for row in rows]
    vectors: list[str] = []
    if keeper.embedder is not None and rows:
        embedded = keeper.embedder.embed([w.cleaned for w in words], "passage")
        vectors = [literal(vector) for vector in embedded]
    database = keeper.database
    clashes: list[str] = []

    def keep() -> list[tuple[int, Row, bool]]:
        out: list[tuple[int, Row, bool]] = []
        clashes.clear()
        for row, word_ in zip(rows, words, strict=True):
            agent = row.agent or keeper.agent
            known = database.dicts("find_memory_key", {"agent": agent, "key": row.key})
            if row.key and known and known[0]["text_key"] != word_.text_key:
                clashes.append(f"{row.key!r}: the key is that of memory {known[0]['id']}.")
                continue
            params = row.model_dump(include=set(Row.model_fields) - {"edges", "edge_types"})
            params.update(
                as_id=row.id if keeps_ids else None,
                text_key=word_.text_key,
                text=check_text(row.text),
                cleaned=word_.cleaned,
                lang=word_.lang,
                lemmas=word_.lemmas,
                text_sha=word_.text_sha,
                essence=list(check_essence(row.essence)),
                agent=agent,
                key=row.key or None,
                # What names no session was said beside nothing.
                session=row.session or f"import:{word_.text_key}",
                n_uses=max(row.n_uses, row.popularity_counter),
            )
            saved = database.dicts("import_memory", params)[0]
            out.append((saved["id"], row, saved["is_new"]))
        if vectors:
            shas = [word_.text_sha for word_ in words]
            pools = [f"memory/{word_.lang}" for word_ in words]
            save_vectors(keeper, shas, pools, vectors)
        fresh = [memory_id for memory_id, _, is_new in out if is_new]
        beside = {
            r["id"] for memory_id in fresh for r in database.dicts("list_beside", {"id": memory_id})
        }
        if fresh:
            database.run("index_memories", {"ids": sorted({*fresh, *beside})})
        return out

    kept = transact(database, keep)
    done.refused += clashes
    for memory_id, row, is_new in kept:
        done.n_new += is_new
        done.n_known += not is_new
        if row.id is not None:
            ids[row.id] = memory_id
    return [(memory_id, row) for memory_id, row, _ in kept]


def _import_edges(
    keeper: Keeper, placed: list[tuple[int, Row]], ids: dict[int, int], last: dict[str, int]
) -> int:
    """Join memories that were imported; ``last`` holds the latest of each session so far."""
    database = keeper.database
    model = keeper.embedder.name if keeper.embedder else ""
    n_edges = 0
    for memory_id, row in placed:
        for edge in row.links():
            _import_edge(keeper, memory_id, edge, ids)
            n_edges += 1
        if row.domain:
            save_edge(keeper, memory_id, "BELONGS_TO", domain=word(row.domain, "domain"))
        if row.session and not row.edges:
            if row.session in last and last[row.session] != memory_id:
                save_edge(keeper, memory_id, "FOLLOWED_BY", last[row.session])
            last[row.session] = memory_id
        if not row.links():
            words = words_of(check_text(row.text))
            vector = database.value("read_vector", {"sha": words.text_sha, "model": model})
            near = neighbours(keeper, memory_id, words, vector, row.owner)
            save_similar(keeper, memory_id, near)
            n_edges += 2 * len(near)
        if row.superseded_by in ids:
            by = ids[row.superseded_by]
            database.run("supersede_memory", {"id": memory_id, "by": by})
        database.run("save_named_edges", {"id": memory_id, "after": 0})
    return n_edges


def restore_edges(database: Database, memory_id: int, rows: Sequence[Mapping[str, object]]) -> None:
    """Make the edges anew that led to a memory, from those memories that are still there.

    ``rows`` are those of ``list_edges_of_memory``.
    """
    for row in rows:
        params = {"head": row["memory_id"], "type": row["type"], "tail": memory_id}
        database.run("restore_memory_edge", {**params, "weight": row["weight"]})


def _import_edge(keeper: Keeper, memory_id: int, edge: EdgeRow, ids: dict[int, int]) -> None:
    if edge.domain:
        save_edge(keeper, memory_id, edge.type, weight=edge.weight, domain=edge.domain)
    elif edge.concept:
        concept = keeper.database.value("find_concept_key", {"key": edge.concept})
        if concept is not None:
            save_edge(keeper, memory_id, edge.type, weight=edge.weight, concept=concept)
    elif edge.to in ids and ids[edge.to] != memory_id:
        save_edge(keeper, memory_id, edge.type, ids[edge.to], edge.weight)
        if edge.type == "SIMILAR_TO":
            save_edge(keeper, ids[edge.to], edge.type, memory_id, edge.weight)
