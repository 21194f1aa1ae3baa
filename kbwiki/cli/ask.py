"""``kbwiki query``: passages that fit a question, and an answer made of them."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import typer
from rich.markup import escape

from kbwiki.ask import ask as ask_store
from kbwiki.cli.console import notice, out
from kbwiki.cli.found import print_found, print_lines
from kbwiki.cli.store import Place, find_place, open_database, open_embedder
from kbwiki.db import Database
from kbwiki.errors import ConfigError, InputError, KbwikiError
from kbwiki.records import Answer
from kbwiki.search import Found, Query, usable_embedder

if TYPE_CHECKING:
    from kbwiki.embedders import Embedder
    from kbwiki.pipeline import Report


@dataclass(frozen=True, slots=True)
class Show:
    """What a person wants to see of a query, and whether its answer is to be filed."""

    hits_only: bool = False
    explain: bool = False
    save: bool = False
    as_json: bool = False


def ask(query: Query, show: Show, db: str | None) -> None:
    """Print an answer and the passages; exit with 4 where nothing was found."""
    if show.save and show.hits_only:
        raise InputError("query: --hits-only makes no answer to --save.", "Leave one of them out.")
    place = find_place(db)
    with open_database(place) as database:
        embedder = embedder_for(place, database, query.mode)
        asked = ask_store(database, query, embedder)
        found, meant, why_not = asked.found, asked.meant, asked.why_not
        answer, slug = None, ""
        if found.hits and not show.hits_only:
            try:
                answer, slug = _answer(place, database, query, found, embedder, show.save)
            except KbwikiError as error:
                notice(f"no answer, passages only: {error}")
    if show.as_json:
        print_lines(found, answer, slug, why_not, meant)
    else:
        print_found(found, answer, show.explain, why_not, meant)
        if slug:
            out.print(f"filed as {escape(slug)}")
    if not found.hits:
        raise typer.Exit(4)
    if show.save and not slug:
        raise typer.Exit(1)


def embedder_for(place: Place, database: Database, mode: str) -> "Embedder | None":
    """Return the embedder of the store's vectors, or None, after telling why, if it has none."""
    if mode == "text":
        return None
    try:
        embedder = open_embedder(place, notice)
        why_not = usable_embedder(database, embedder)
    except ConfigError as error:
        why_not = str(error)
    if why_not and mode == "vector":
        raise ConfigError(f"query: {why_not}.", "Or search by words: --mode text.")
    if why_not:
        notice(f"searching by words alone: {why_not}")
        return None
    return embedder


def _answer(
    place: Place,
    database: Database,
    query: Query,
    found: Found,
    embedder: "Embedder | None",
    save: bool,
) -> tuple[Answer, str]:
    """Return an answer and, if it was filed, the slug of its page, which is exported at once."""
    from kbwiki.answers import answer_from, gather, save_answer
    from kbwiki.cli.run import open_services
    from kbwiki.pipeline import run_stages, stage_named

    gathered = gather(database, query.question, found)
    with open_services(place, database) as (services, _):
        answered = answer_from(services.engine, embedder, gathered)
        answer = answered.by_hits()
        if not save or not answer.statements:
            if save:
                notice("nothing was filed: no passage answers the question")
            return answer, ""
        with database.transaction():
            slug = save_answer(database, query, answered)
        run_stages([stage_named("embed"), stage_named("export")], services, Unseen())
        return answer, slug


class Unseen:
    """Progress of what is done on the side: only failures are told."""

    def begin(self, stage: str, total: int | None) -> None:
        """Show nothing."""

    def advance(self, item: str, failed: bool) -> None:
        """Show nothing."""

    def end(self, report: "Report") -> None:
        """Tell what failed."""
        for item, reason in report.failures:
            notice(f"{report.stage}: {item}: {reason}")
