"""``kbwiki query``: passages that fit a question, and an answer made of them."""

from collections.abc import Sequence

import typer
from rich.markup import escape

from kbwiki.cli.console import notice, out, print_json
from kbwiki.cli.run import open_services
from kbwiki.cli.store import Place, find_place, open_database, open_embedder
from kbwiki.db import Database
from kbwiki.embedders import Embedder
from kbwiki.errors import ConfigError, KbwikiError
from kbwiki.records import Answer, Chain, Hit, Passage
from kbwiki.search import Found, Query, search, usable_embedder


def ask(query: Query, hits_only: bool, explain: bool, db: str | None, as_json: bool) -> None:
    """Print an answer and the passages; exit with 4 where nothing was found."""
    place = find_place(db)
    with open_database(place) as database:
        found = search(database, query, embedder_for(place, database, query.mode))
        answer = None
        if found.hits and not hits_only:
            try:
                answer = _answer(place, database, query.question, found.hits)
            except KbwikiError as error:
                notice(f"no answer, passages only: {error}")
    if as_json:
        _print_lines(found, answer)
    else:
        _print_found(found, answer, explain)
    if not found.hits:
        raise typer.Exit(4)


def embedder_for(place: Place, database: Database, mode: str) -> Embedder | None:
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


def _answer(place: Place, database: Database, question: str, hits: Sequence[Hit]) -> Answer:
    passages = [Passage(hit.slug, hit.title, hit.text, hit.page) for hit in hits]
    with open_services(place, database) as (services, _):
        return services.engine.answer(question, passages)


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


def _print_lines(found: Found, answer: Answer | None) -> None:
    """Print one object a line: the hits, then the answer, then what lies between two concepts."""
    names = ("kind", "slug", "title", "score", "parts", "why", "lang", "page", "snippet")
    for number, hit in enumerate(found.hits, 1):
        chain = _chain_json(hit.chain) if hit.chain else None
        print_json({"rank": number, **{n: getattr(hit, n) for n in names}, "chain": chain})
    if answer:
        statements = [{"text": text, "cites": cites} for text, cites in answer.statements]
        print_json({"answer": statements, "missing": answer.missing, "engine": answer.engine})
    if found.named:
        named = [{"slug": f"concepts/{n.slug}", "title": n.title} for n in found.named]
        between, shared = (list(map(_chain_json, c)) for c in (found.between, found.shared))
        print_json({"named": named, "between": between, "shared": shared})


def _chain_json(chain: Chain) -> list[dict[str, str]]:
    start = {"slug": chain.slug, "title": chain.title}
    steps = [{"label": s.label, "slug": s.slug, "title": s.title} for s in chain.steps]
    return [start, *steps]


def _bold(snippet: str) -> str:
    parts = escape(snippet).split("**")
    return "".join(
        f"[bold yellow]{part}[/bold yellow]" if i % 2 else part for i, part in enumerate(parts)
    )
