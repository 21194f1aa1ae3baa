"""Commands that read: status, show, list."""

from dataclasses import asdict

import typer
from rich.markdown import Markdown
from rich.markup import escape

from kbwiki.cli.console import err, out, print_json, print_table, size
from kbwiki.cli.run import open_services, run_stages
from kbwiki.cli.store import find_place, open_database
from kbwiki.errors import ModelError, NotFoundError
from kbwiki.lint import lint
from kbwiki.pages import find_page
from kbwiki.stages import link, resolve
from kbwiki.stages.export import load_wiki
from kbwiki.stages.stage import Services
from kbwiki.stages.write import written_as
from kbwiki.text.links import statements_of
from kbwiki.text.normal import counted
from kbwiki.verbs import STAGES


def show_status(db: str | None, as_json: bool) -> None:
    """Print counts, what is stale, what failed, and who wrote the pages."""
    place = find_place(db)
    with open_database(place) as database:
        [counts] = database.dicts("read_status")
        types = {row["type"]: row["n"] for row in database.dicts("count_edge_types")}
        with open_services(place, database) as (services, _):
            stale = _stale(services)
        failures = database.dicts("list_failures")
        unanswered = database.dicts("list_unanswered")
    if as_json:
        more = {"failures": failures, "unanswered": unanswered}
        print_json({**counts, "edges_by_type": types, "stale": stale, **more})
        return
    skip = {"database_bytes", "embedder", "engines", "postgres", "pgvector"}
    rows: list[list[object]] = [[name, n] for name, n in counts.items() if name not in skip]
    rows += [[f"  {name}", n] for name, n in types.items()]
    server = f"Postgres {counts['postgres']}, pgvector {counts['pgvector']}"
    rows += [
        ["engine", ", ".join(counts["engines"]) or "none yet"],
        ["embedder", counts["embedder"] or "no vectors yet"],
        ["database", f"{server}, {size(counts['database_bytes'])}"],
        ["stale", ", ".join(f"{n} for {stage}" for stage, n in stale.items() if n) or "nothing"],
    ]
    print_table(["store", ""], rows)
    for row in unanswered:
        err.print(f"[yellow]unanswered[/yellow] {escape(row['question'])} ({escape(row['slug'])})")
    for row in failures:
        reason = row["reason"].removeprefix(f"{row['item']}: ")
        what = f"{row['stage']}: {row['item']}: {reason} (tried {counted(row['n_tries'], 'time')})"
        word = "[yellow]quarantined[/yellow]" if row["is_quarantined"] else "[red]failed[/red]"
        err.print(f"{word} {escape(what)}")


def _stale(services: Services) -> dict[str, int]:
    """Return by stage how many items are out of date; one for a stage that runs as a whole."""
    database = services.database
    try:
        model = services.embedder().name
    except ModelError:
        model = ""
    params = {
        "engine": services.engine.name,
        "written_as": written_as(services),
        "model": model,
    }
    [row] = database.dicts("count_stale", params)
    whole = {
        "resolve": resolve.fingerprint(services),
        "link": database.value("fingerprint_link", {"version": link.VERSION}),
    }
    for stage, fingerprint in whole.items():
        row[stage] = int(database.value("read_setting", {"name": stage}) != fingerprint)
    return {stage: row[stage] for stage in STAGES if stage in row}


def show_page(slug: str, db: str | None, as_json: bool) -> None:
    """Print a page as its file would read."""
    place = find_place(db)
    with open_database(place) as database:
        found = find_page(database, slug)
        wiki = load_wiki(database)
    page = wiki.by_key.get((found["folder"], found["key"]))
    if page is None:
        raise NotFoundError(f"{slug}: its page is not written yet.", "Run `kbwiki write`.")
    text = wiki.render(page)
    if as_json:
        print_json(
            {
                "slug": f"{page.folder}/{page.slug}",
                "title": page.title,
                "kind": page.kind,
                "markdown": text,
            }
        )
    elif out.is_terminal:
        out.print(Markdown(text.split("---\n", 2)[2]))
    else:
        out.file.write(text)


def show_citations(slug: str, db: str | None, as_json: bool) -> None:
    """Print each statement of a page with its source, its place there, and the exact words."""
    with open_database(find_place(db)) as database:
        found = find_page(database, slug)
        wiki = load_wiki(database)
    page = wiki.by_key.get((found["folder"], found["key"]))
    cited = {} if page is None else {c["ordinal"]: c for c in wiki.citations[page.folder, page.key]}
    for text, ordinals in statements_of(page.body if page else ""):
        quotes = [cited[ordinal] for ordinal in ordinals if ordinal in cited]
        if as_json:
            print_json({"statement": text, "citations": quotes})
            continue
        out.print(escape(text))
        for quote in quotes:
            source = wiki.name_of("sources", quote["source_key"])
            pages = f", p. {quote['page']}" if quote["page"] else ""
            span = f"{quote['start_at']}–{quote['end_at']}"
            out.print(f"   [dim]{escape(source)}{pages}, {span}:[/dim]")
            out.print(f"   “{escape(quote['quote'])}”")


def show_list(kind: str | None, db: str | None, as_json: bool) -> None:
    """Print every page with its kind and how often it is mentioned."""
    place = find_place(db)
    with open_database(place) as database:
        rows = [row for row in database.dicts("list_slugs") if kind in {None, row["kind"]}]
    if as_json:
        for row in rows:
            print_json(row)
        return
    print_table(
        ["page", "title", "kind", "mentions"],
        [
            [f"{r['folder']}/{r['slug']}", r["title"], r["kind"], r["n_mentions"] or ""]
            for r in rows
        ],
    )


def show_lint(fix: bool, db: str | None, as_json: bool) -> None:
    """Print every finding; exit with 1 if one of them is a fault."""
    if fix:
        run_stages(list(STAGES)[1:], db=db, jobs=None, as_json=as_json)
    place = find_place(db)
    with open_database(place) as database, open_services(place, database) as (services, _):
        findings = lint(database, _stale(services))
    for finding in findings:
        if as_json:
            print_json(asdict(finding))
        else:
            out.print(
                f"{finding.level} {finding.rule}: {finding.where}: {finding.what}", markup=False
            )
    n_faults = sum(finding.level == "fault" for finding in findings)
    if not as_json:
        out.print(f"{counted(n_faults, 'fault')}, {counted(len(findings) - n_faults, 'note')}")
    if n_faults:
        raise typer.Exit(1)
