"""What a stage is: a value with its name, what is stale, the work and the save."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from kbwiki.db import Database
from kbwiki.embedders import Embedder
from kbwiki.engines import Engine
from kbwiki.errors import ConfigError, ModelError
from kbwiki.stages.files import FileItem

if TYPE_CHECKING:
    from kbwiki.engines.asker import CallBook


@dataclass(frozen=True, slots=True)
class Partial:
    """A file of which less than 98 % came through: of its parts (pages, records), of its signs."""

    uri: str
    n_read: int
    n_parts: int
    n_kept: int
    n_signs: int
    notes: list[str]


@dataclass(frozen=True, slots=True)
class Intake:
    """How many files a run took in, by what became of them, and which came through in part only."""

    counts: dict[str, int]
    partial: tuple[Partial, ...]
    unread: dict[str, int] = field(default_factory=dict)
    """Files of kinds that nothing here reads, by suffix."""


@dataclass(slots=True)
class Services:
    """What stages work with; uris begin at ``root``."""

    database: Database
    engine: Engine
    make_embedder: Callable[[], Embedder]
    root: Path
    wiki: Path
    jobs: int
    paths: tuple[Path, ...] = ()
    fetched: tuple[FileItem, ...] = ()
    """What was fetched or given on standard input, to be ingested with ``paths``."""
    lang: Literal["auto", "en", "ru"] = "auto"
    max_file_bytes: int = 50_000_000
    prune: bool = False
    force: bool = False
    """Whether to take in what would be quarantined."""
    use_ocr: bool = False
    """Whether to read pages without letters off their pictures."""
    today: str = ""
    limit: int | None = None
    """The most edges that a run may ask a model about anew; None: all."""
    native_model: bool = False
    """Whether a server that can ask a model itself (AlloyDB) may do so."""
    book: "CallBook | None" = None
    """The ledger, for what a server asks by itself; None: there is none to keep."""
    memo: dict[str, Any] = field(default_factory=dict)
    """Counts that a stage keeps for its note; cleared by nobody, read by the same stage."""
    intake: "Intake | None" = None
    """What `ingest` says at its end."""
    _embedder: Embedder | None = None

    def embedder(self) -> Embedder:
        """Return the embedder, loaded at the first call.

        Raises ModelError: without vectors the stages after `embed` still do their work.
        """
        if self._embedder is None:
            try:
                self._embedder = self.make_embedder()
            except ConfigError as error:
                raise ModelError(error.message, error.hint) from error
        return self._embedder


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a stage did: items done, a line for people, and what failed as (item, reason)."""

    n_done: int = 0
    note: str = ""
    failures: tuple[tuple[str, str], ...] = ()


BATCH = 256
"""Items that a stage loads at a time, so that a large store does not have to fit in memory."""


def _nothing(services: Services, skip: list[str]) -> list[Any]:
    return []


def _no_save(services: Services, item: Any, result: Any) -> None:
    raise AssertionError(item)


def _no_work(services: Services, item: Any) -> Any:
    raise AssertionError(item)


def _all(services: Services, items: list[str]) -> list[str]:
    return items


@dataclass(frozen=True, slots=True)
class Stage:
    """One step of the line. Either ``pending``, ``work`` and ``save``, or ``run`` for a whole set.

    ``pending`` returns the next stale items, at most ``BATCH``, but those whose keys it is to skip.
    ``work`` may run in any thread and never touches the database; ``save`` runs in one transaction,
    again if another process was in its way. ``gone`` is asked when nothing is stale any more: which
    of these items, which failed in an earlier run and not in this one, need not be listed longer.
    """

    name: str
    key: Callable[[Any], str] = str
    pending: Callable[[Services, list[str]], list[Any]] = _nothing
    work: Callable[[Services, Any], Any] = _no_work
    save: Callable[[Services, Any, Any], None] = _no_save
    run: Callable[[Services], Outcome] | None = None
    drain: "Stage | None" = None
    """With ``run``: what it leaves to be worked on item by item before it runs again."""
    finish: Callable[[Services], str] | None = None
    """Settles what belongs to the whole set, after its last item; returns a line for people."""
    gone: Callable[[Services, list[str]], list[str]] = _all
