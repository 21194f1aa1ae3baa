"""What `query` prints: an answer, what lies between concepts, the hits; as text or as JSON."""

from collections.abc import Sequence

from rich.markup import escape
from rich.text import Text

from kbwiki.cli.console import out, print_json
from kbwiki.records import Answer, Chain, Hit
from kbwiki.search import Found

WORDS = {
    "en": {
        "meant": "Did you mean",
        "missing": "What the wiki does not say",
        "no model": "no model wrote this",
        "paths": "Paths between them",
        "shared": "In common",
        "places": "Not all stand by their score; --explain tells why.",
    },
    "ru": {
        "meant": "Возможно, имелось в виду",
        "missing": "О чём вики не говорит",
        "no model": "составлено без модели",
        "paths": "Пути между ними",
        "shared": "Общее",
        "places": "Не все стоят по оценке; --explain объяснит места.",
    },
}
"""Labels, in the language of the question."""


def print_found(
    found: Found, answer: Answer | None, explain: bool, why_not: str, meant: Sequence[str]
) -> None:
    """Print what was found, or why nothing was, and the names that may have been meant."""
    words = WORDS[found.lang]
    if meant:
        out.print(f"[bold]{words['meant']}:[/bold] {escape(', '.join(meant))}")
    if answer:
        _print_answer(answer, words)
    shared = [str(chain) for chain in found.shared]
    _print_chains(words["paths"], [str(c) for c in found.between if str(c) not in shared])
    _print_chains(words["shared"], shared)
    for number, hit in enumerate(found.hits, 1):
        _print_hit(number, hit, explain)
    scores = [hit.score for hit in found.hits]
    if scores != sorted(scores, reverse=True) and not explain:
        out.print(f"[dim]({words['places']})[/dim]")
    if why_not:
        out.print(why_not)


def _print_answer(answer: Answer, words: dict[str, str]) -> None:
    for text, cites in answer.statements:
        out.print(f"{escape(text)} [dim]{escape(''.join(f'[{n}]' for n in cites))}[/dim]")
    if answer.missing:
        out.print(f"[bold]{words['missing']}:[/bold] {escape(answer.missing)}")
    by = words["no model"] if answer.engine.startswith("local") else answer.engine
    out.print(f"[dim]({escape(by)})[/dim]\n")


def _print_chains(heading: str, chains: Sequence[str]) -> None:
    if chains:
        out.print(f"[bold]{heading}[/bold]")
        for chain in chains:
            out.print(f"- {escape(chain)}")
        out.print("")


def _print_hit(number: int, hit: Hit, explain: bool) -> None:
    where = f"{f', p. {hit.page}' if hit.page else ''}  {hit.score:.2f}"
    out.print(f"[bold]{number}. {escape(hit.title)}[/bold]{where}  [dim]{escape(hit.slug)}[/dim]")
    out.print(f"   {_bold(hit.snippet)}")
    if explain:
        out.print(f"   [dim]{escape(hit.why)}[/dim]")


def print_lines(
    found: Found, answer: Answer | None, slug: str, why_not: str, meant: Sequence[str]
) -> None:
    """Print one object a line: the hits, the answer, what lies between two concepts, and last, if
    nothing was found, why.
    """
    names = ("kind", "slug", "title", "score", "place", "parts", "why", "lang", "page", "snippet")
    for number, hit in enumerate(found.hits, 1):
        chain = _chain_json(hit.chain) if hit.chain else None
        print_json({"rank": number, **{n: getattr(hit, n) for n in names}, "chain": chain})
    if answer:
        statements = [{"text": text, "cites": cites} for text, cites in answer.statements]
        filed = {"filed": slug} if slug else {}
        about = {"missing": answer.missing, "engine": answer.engine}
        print_json({"answer": statements, **about, **filed})
    if found.named or (meant and found.hits):
        named = [{"slug": f"concepts/{n.slug}", "title": n.title} for n in found.named]
        between, shared = (list(map(_chain_json, c)) for c in (found.between, found.shared))
        print_json({"named": named, "between": between, "shared": shared, "meant": meant})
    if why_not:
        print_json({"hits": [], "why": why_not, "meant": meant})


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
