"""``kbwiki query``: passages that fit a question, and an answer made of them."""

from collections.abc import Sequence

import typer
from rich.markup import escape

from kbwiki.cli.console import notice, out, print_json
from kbwiki.cli.run import open_services
from kbwiki.cli.store import Place, find_place, open_database, open_embedder
from kbwiki.db import Database
from kbwiki.errors import ConfigError, KbwikiError
from kbwiki.records import Answer, Hit, Passage
from kbwiki.search import clean_question, search, usable_embedder


def ask(question: str, k: int, hits_only: bool, db: str | None, as_json: bool) -> None:
    """Print an answer and the passages; exit with 4 where nothing was found."""
    question = clean_question(question)
    place = find_place(db)
    with open_database(place) as database:
        hits = _hits(place, database, question, k)
        answer = None
        if hits and not hits_only:
            try:
                answer = _answer(place, database, question, hits)
            except KbwikiError as error:
                notice(f"no answer, passages only: {error}")
    if answer and not as_json:
        _print_answer(answer)
    for number, hit in enumerate(hits, 1):
        _print_hit(number, hit, as_json)
    if as_json and answer:
        statements = [{"text": text, "cites": cites} for text, cites in answer.statements]
        print_json({"answer": statements, "missing": answer.missing, "engine": answer.engine})
    if not hits:
        if not as_json:
            out.print("Nothing was found.")
        raise typer.Exit(4)


def _hits(place: Place, database: Database, question: str, k: int) -> list[Hit]:
    try:
        embedder = open_embedder(place, notice)
        why_not = usable_embedder(database, embedder)
    except ConfigError as error:
        why_not = str(error)
    if why_not:
        notice(f"searching by words alone: {why_not}")
        return search(database, question, k, None)
    return search(database, question, k, embedder)


def _answer(place: Place, database: Database, question: str, hits: Sequence[Hit]) -> Answer:
    passages = [Passage(hit.slug, hit.title, hit.text, hit.page) for hit in hits]
    with open_services(place, database) as (services, _):
        return services.engine.answer(question, passages)


def _print_answer(answer: Answer) -> None:
    for text, cites in answer.statements:
        out.print(f"{escape(text)} [dim]{escape(''.join(f'[{n}]' for n in cites))}[/dim]")
    if answer.missing:
        out.print(f"[bold]What the wiki does not say:[/bold] {escape(answer.missing)}")
    by = "no model wrote this" if answer.engine.startswith("local") else answer.engine
    out.print(f"[dim]({escape(by)})[/dim]\n")


def _print_hit(number: int, hit: Hit, as_json: bool) -> None:
    if as_json:
        names = ("kind", "slug", "title", "score", "parts", "lang", "page", "snippet")
        print_json({"rank": number, **{name: getattr(hit, name) for name in names}})
        return
    where = f"{f', p. {hit.page}' if hit.page else ''}  {hit.score:.2f}"
    out.print(f"[bold]{number}. {escape(hit.title)}[/bold]{where}  [dim]{escape(hit.slug)}[/dim]")
    out.print(f"   {_bold(hit.snippet)}")


def _bold(snippet: str) -> str:
    parts = escape(snippet).split("**")
    return "".join(
        f"[bold yellow]{part}[/bold yellow]" if i % 2 else part for i, part in enumerate(parts)
    )
