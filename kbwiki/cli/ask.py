"""``kbwiki query``: passages that fit a question, and an answer made of them."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import typer
from rich.markup import escape
from rich.text import Text

from kbwiki.cli.console import notice, out, print_json
from kbwiki.cli.store import Place, find_place, open_database, open_embedder
from kbwiki.db import Database
from kbwiki.errors import ConfigError, InputError, KbwikiError
from kbwiki.records import Answer, Chain, Hit
from kbwiki.search import Found, Query, search, usable_embedder

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
        found = search(database, query, embedder)
        if not found.is_supported:
            found = replace(found, hits=[], between=[], shared=[])
        answer, slug = None, ""
        if found.hits and not show.hits_only:
            try:
                answer, slug = _answer(place, database, query, found, embedder, show.save)
            except KbwikiError as error:
                notice(f"no answer, passages only: {error}")
    if show.as_json:
        _print_lines(found, answer, slug)
    else:
        _print_found(found, answer, show.explain)
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
    from kbwiki.answers import answer_found, save_answer
    from kbwiki.cli.run import open_services
    from kbwiki.pipeline import run_stages, stage_named

    with open_services(place, database) as (services, _):
        answer = answer_found(services.engine, embedder, query.question, found)
        if not save or not answer.statements:
            if save:
                notice("nothing was filed: no passage answers the question")
            return answer, ""
        with database.transaction():
            slug = save_answer(database, query, found, answer)
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


def _print_found(found: Found, answer: Answer | None, explain: bool) -> None:
    if answer:
        _print_answer(answer)
    _print_chains("Paths between them", found.between)
    _print_chains("In common", found.shared)
    for number, hit in enumerate(found.hits, 1):
        _print_hit(number, hit, explain)
    if not found.hits:
        out.print("Nothing was found.")


def _print_answer(answer: Answer) -> None:
    for text, cites in answer.statements:
        out.print(f"{escape(text)} [dim]{escape(''.join(f'[{n}]' for n in cites))}[/dim]")
    if answer.missing:
        out.print(f"[bold]What the wiki does not say:[/bold] {escape(answer.missing)}")
    by = "no model wrote this" if answer.engine.startswith("local") else answer.engine
    out.print(f"[dim]({escape(by)})[/dim]\n")


def _print_chains(heading: str, chains: Sequence[Chain]) -> None:
    if chains:
        out.print(f"[bold]{heading}[/bold]")
        for chain in chains:
            out.print(f"- {escape(str(chain))}")
        out.print("")


def _print_hit(number: int, hit: Hit, explain: bool) -> None:
    where = f"{f', p. {hit.page}' if hit.page else ''}  {hit.score:.2f}"
    out.print(f"[bold]{number}. {escape(hit.title)}[/bold]{where}  [dim]{escape(hit.slug)}[/dim]")
    out.print(f"   {_bold(hit.snippet)}")
    if explain:
        out.print(f"   [dim]{escape(hit.why)}[/dim]")


def _print_lines(found: Found, answer: Answer | None, slug: str) -> None:
    """Print one object a line: the hits, then the answer, then what lies between two concepts."""
    names = ("kind", "slug", "title", "score", "parts", "why", "lang", "page", "snippet")
    for number, hit in enumerate(found.hits, 1):
        chain = _chain_json(hit.chain) if hit.chain else None
        print_json({"rank": number, **{n: getattr(hit, n) for n in names}, "chain": chain})
    if answer:
        statements = [{"text": text, "cites": cites} for text, cites in answer.statements]
        filed = {"filed": slug} if slug else {}
        about = {"missing": answer.missing, "engine": answer.engine}
        print_json({"answer": statements, **about, **filed})
    if found.named:
        named = [{"slug": f"concepts/{n.slug}", "title": n.title} for n in found.named]
        between, shared = (list(map(_chain_json, c)) for c in (found.between, found.shared))
        print_json({"named": named, "between": between, "shared": shared})


def _chain_json(chain: Chain) -> list[dict[str, str]]:
    start = {"slug": chain.slug, "title": chain.title}
    steps = [{"label": s.label, "slug": s.slug, "title": s.title} for s in chain.steps]
    return [start, *steps]


def _bold(snippet: str) -> Text:
    """Return a snippet whose matched words stand out; no mark-up, since words may end in ``\\``."""
    text = Text("   ")
    for n, part in enumerate(snippet.split("**")):
        text.append(part, "bold yellow" if n % 2 else "")
    return text
