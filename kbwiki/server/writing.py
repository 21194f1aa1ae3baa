"""What a writer and an admin may change; each change is in the audit."""

from contextlib import suppress
from pathlib import Path
from typing import Any, cast

from kbwiki import curate
from kbwiki.answers import answer_from, gather, is_filed, save_answer
from kbwiki.db import Database
from kbwiki.edges import drop_doubles, find_ends, set_edge
from kbwiki.errors import InputError, KbwikiError, NotFoundError
from kbwiki.memory import keep
from kbwiki.memory.keeper import find as find_memory
from kbwiki.memory.remember import Note, remember
from kbwiki.pages import find_page
from kbwiki.pipeline import run_stages, stage_named
from kbwiki.question import clean_question
from kbwiki.search import Query, search, usable_embedder
from kbwiki.server import forms
from kbwiki.server.changes import Change, in_short, once
from kbwiki.server.desk import MAX_CHARACTERS, Caller, Desk
from kbwiki.server.reading import edge_form, keeper_of, version_of
from kbwiki.stages.files import uri_of
from kbwiki.stages.stage import Services
from kbwiki.text.normal import canonical_key, clean_line, escape_markdown, slugify
from kbwiki.text.words import lang_of

ADDED = "added"
"""The folder, below the store's own, of texts that came over the wire."""
REBUILD = (
    "ingest", "extract", "resolve", "write", "link", "classify-edges", "embed", "answer", "export",
)  # fmt: skip
_TOLD = {"ingest", "extract", "write"}
AFTER = ("resolve", "write", "link", "classify-edges", "embed", "answer", "export")


class _Silent:
    """Progress that nobody sees."""

    def begin(self, stage: str, total: int | None) -> None:
        """Show nothing."""

    def advance(self, item: str, failed: bool) -> None:
        """Show nothing."""

    def end(self, report: object) -> None:
        """Show nothing."""


def rebuild(
    desk: Desk, database: Database, names: tuple[str, ...], paths: tuple[Path, ...] = ()
) -> list[str]:
    """Run stages, one rebuild at a time; return what could not be read or written."""
    with desk.building, desk.services(database) as services:
        services.paths = paths
        reports = run_stages([stage_named(name) for name in names], services, _Silent())
    # Without vectors a page is still written, and found by its words.
    return [f"{r.stage}: {why}" for r in reports if r.stage in _TOLD for _, why in r.failures]


def remember_tool(
    desk: Desk, database: Database, caller: Caller, args: forms.RememberArgs
) -> forms.Reply:
    """Remember; the key of memory itself makes a retry harmless."""
    keeper = keeper_of(desk, database, caller, args.session)
    note = Note(
        args.text,
        args.domain,
        args.topic,
        tuple(args.essence),
        args.edgeType,
        args.to,
        args.idempotency_key or args.key,
        args.visibility == "private",
        args.allowSecrets,
    )

    def change() -> Change:
        kept = remember(keeper, note)
        reply = forms.RememberReply(
            id=kept.id, neighbors=list(kept.neighbors), scores=list(kept.scores)
        )
        after = {"id": kept.id, "is_new": kept.is_new}
        return Change(f"memory {kept.id}", None, after, reply)

    quiet = args.model_copy(update={"text": in_short(args.text)})
    return once(database, caller, "remember", quiet, forms.RememberReply, change)


def forget_tool(
    desk: Desk, database: Database, caller: Caller, args: forms.ForgetArgs
) -> forms.Reply:
    """Forget a memory: a writer its own, an admin any."""
    keeper = keeper_of(desk, database, caller)

    def change() -> Change:
        find_memory(keeper, args.nodeId)
        rows = database.dicts("export_memories", {"me": ""})
        before = next(row for row in rows if row["id"] == args.nodeId)
        said = keep.forget(keeper, args.nodeId)
        told = cast(
            "dict[str, Any]", {k: str(v) if k.endswith("at") else v for k, v in before.items()}
        )
        return Change(f"memory {args.nodeId}", told, None, forms.SaidReply(said=said))

    return once(database, caller, "forget", args, forms.SaidReply, change)


def save_answer_tool(
    desk: Desk, database: Database, caller: Caller, args: forms.SaveAnswerArgs
) -> forms.Reply:
    """Answer a question and file the answer as a page of the wiki."""
    query = Query(clean_question(args.question))

    def change() -> Change:
        embedder = keeper_of(desk, database, caller).embedder
        if embedder and usable_embedder(database, embedder):
            embedder = None
        found = search(database, query, embedder)
        if not found.hits or not found.is_supported:
            raise InputError("wiki_save_answer: no passage answers this.", "Nothing was filed.")
        with desk.building, desk.services(database) as services:
            gathered = gather(database, query.question, found)
            answered = answer_from(services.engine, embedder, gathered)
            with database.transaction():
                was_filed = is_filed(database, query.question)
                slug = save_answer(database, query, answered)
        rebuild(desk, database, ("embed", "export"))
        told = {"slug": slug, "question": query.question}
        answer = " ".join(text for text, _ in answered.answer.statements)[:MAX_CHARACTERS]
        reply = forms.FiledReply(said=f"Filed as {slug}.", answer=answer)
        return Change(slug, told if was_filed else None, told, reply)

    return once(database, caller, "wiki_save_answer", args, forms.FiledReply, change)


def upsert_node(
    desk: Desk, database: Database, caller: Caller, args: forms.UpsertNodeArgs
) -> forms.Reply:
    """Add a concept, or say what it is: by a note, so that it has a source like any other."""
    title = clean_line(args.title)
    definition = clean_line(args.definition)
    if not _says(title) or not _says(definition):
        raise InputError("graph_upsert_node: a title and a definition are needed.", "Give both.")
    path = desk.home / ADDED / f"{slugify(title)}.md"
    aliases = [clean_line(alias) for alias in args.aliases if _says(alias)]

    def change() -> Change:
        note = _note_on(title, definition, aliases)
        # Whoever waits here compares with what the other wrote.
        with database.locked("graph_upsert_node"):
            _check_version(desk, database, title, args.expected_version)
            before = _take_in(desk, database, "graph_upsert_node", path, note, title)
        after = _at(desk, path, True)
        said = f"{title} is in the graph. It rests on a note of {caller.name}."
        old = {"path": path.name, "text": before} if before is not None else None
        return Change(title, old, after, forms.SaidReply(said=said))

    return once(database, caller, "graph_upsert_node", args, forms.SaidReply, change)


def _says(text: str) -> bool:
    """Tell whether a text has any letter or digit."""
    return any(map(str.isalnum, text))


def _note_on(title: str, definition: str, aliases: list[str]) -> str:
    """Return a note that defines a concept in one sentence."""
    name = f"**{escape_markdown(title)}**"
    if aliases:
        name += f" ({'; '.join(map(escape_markdown, aliases))})"
    if canonical_key(definition).startswith(canonical_key(title)):
        said = definition[len(title) :].lstrip()
    else:
        said = f"— это {definition}" if lang_of(definition) == "ru" else f"is {definition}"
    stop = "" if said[-1:] in ".!?…" else "."
    return f"# {escape_markdown(title)}\n\n{name} {said}{stop}\n"


def _check_version(desk: Desk, database: Database, title: str, expected: str | None) -> None:
    """Refuse a write that does not rest on what is there now."""
    if expected is None:
        return
    desk.shelf.look_again()
    try:
        found = find_page(database, title)
        page = desk.shelf.wiki(database).by_key.get((found["folder"], found["key"]))
    except NotFoundError:
        page = None
    now = version_of(page) if page else ""
    if now != expected:
        state = f"now {now}" if page else "not there"
        says = f"\n{forms.data(page.summary[:300])}" if page else ""
        raise InputError(
            f"{title}: it has changed since you read it; it is {state}.", f"Read it again.{says}"
        )


def write_note(path: Path, text: str) -> str | None:
    """Write a file; return what it held before, None if it was not there."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        before = path.read_text("utf-8") if path.exists() else None
        path.write_text(text, "utf-8")
    except OSError as error:
        what = (error.strerror or str(error)).lower()
        raise InputError(f"{path.name}: {what}.", "The server cannot write there.") from error
    return before


def _take_in(
    desk: Desk, database: Database, tool: str, path: Path, text: str | None, concept: str = ""
) -> str | None:
    """Write a note, unless it is there, and build what it changes; return what it held before.

    Where that fails, or makes no ``concept`` that was to be, nothing of it is left.
    """
    uri = uri_of(path, desk.home.parent)
    is_known = bool(database.dicts("find_uris", {"uris": [uri]}))
    before = None if text is None else write_note(path, text)
    try:
        failed = rebuild(desk, database, REBUILD, (path,))
        if failed:
            raise InputError(f"{tool}: {failed[0]}", "Nothing was kept.")
        if concept and not _is_concept(database, concept):
            raise InputError(
                f"{tool}: {concept} is no name that a text can be about.",
                "Nothing was kept. Give the name in words.",
            )
    except KbwikiError:
        if text is not None:
            _restore(path, before)
        with suppress(KbwikiError):
            if is_known:
                rebuild(desk, database, REBUILD, (path,))
            else:
                with desk.building, desk.services(database) as services:
                    curate.remove_sources(services, [uri], False)
                rebuild(desk, database, AFTER)
        raise
    return before


def _is_concept(database: Database, name: str) -> bool:
    try:
        return bool(find_page(database, name)["folder"] == "concepts")
    except NotFoundError:
        return False


def _restore(path: Path, before: str | None) -> None:
    if before is None:
        path.unlink(missing_ok=True)
    else:
        path.write_text(before, "utf-8")


def ingest_tool(
    desk: Desk, database: Database, caller: Caller, args: forms.IngestArgs
) -> forms.Reply:
    """Take in a text, or a file under an allowed folder, and build what it changes."""
    if bool(args.text.strip()) == bool(args.path):
        raise InputError("wiki_ingest: give either a text or a path.", "One of them.")

    def change() -> Change:
        text: str | None = None
        if args.path:
            path = _allowed(desk, args.path)
        else:
            title = clean_line(args.title) or clean_line(args.text)[:60]
            path = desk.home / ADDED / f"{slugify(title)}.md"
            has_title = args.text.lstrip().startswith(("#", "---\n"))
            heading = "" if has_title else f"# {escape_markdown(title)}\n\n"
            text = heading + args.text + "\n"
        after = _at(desk, path, not args.path)
        after["was_known"] = bool(database.dicts("find_uris", {"uris": [after["uri"]]}))
        before = _take_in(desk, database, "wiki_ingest", path, text)
        old = {"path": path.name, "text": before} if before is not None else None
        said = f"{path.name} was taken in, and the pages that it feeds are written."
        return Change(path.name, old, after, forms.SaidReply(said=said))

    quiet = args.model_copy(update={"text": in_short(args.text)})
    return once(database, caller, "wiki_ingest", quiet, forms.SaidReply, change)


def _at(desk: Desk, path: Path, is_ours: bool) -> dict[str, Any]:
    """Return where a file lies, and whether it is only here for the wire."""
    return {"path": str(path), "uri": uri_of(path, desk.home.parent), "is_ours": is_ours}


def _allowed(desk: Desk, name: str) -> Path:
    """Return a file under one of the allowed folders; links that lead out of it are refused."""
    for root in desk.roots:
        # A name that no file can have is an error of its own kind.
        with suppress(OSError, ValueError):
            path = (root / name).resolve()
            if path.is_relative_to(root.resolve()) and path.is_file():
                return path
    allowed = ", ".join(map(str, desk.roots)) or "none; see kbwiki serve --root"
    raise InputError(
        f"wiki_ingest: {name} is no file under an allowed folder.", f"Allowed: {allowed}."
    )


def upsert_edge(
    desk: Desk, database: Database, caller: Caller, args: forms.UpsertEdgeArgs
) -> forms.Reply:
    """Say how two concepts are linked; no classifier changes it."""

    def change() -> Change:
        with database.locked("graph_upsert_edge"):
            return say()

    def say() -> Change:
        before = _edge(database, args.head, args.tail)
        now = edge_form(before).version if before else ""
        if args.expected_version not in {None, now}:
            state = f"{before['head']} {before['type']} {before['tail']}" if before else "not there"
            raise InputError(
                f"the edge has changed since you read it; it is {state}.", "Look again."
            )
        old = _word_before(database, args.head, args.tail, before)
        set_edge(database, args.head, args.type, args.tail)
        return _edge_change(database, args.head, args.tail, old)

    return once(database, caller, "graph_upsert_edge", args, forms.EdgeReply, change)


def classify_edge(
    desk: Desk, database: Database, caller: Caller, args: forms.EndsArgs
) -> forms.Reply:
    """Take a person's word on an edge back and let the rules type it anew."""

    def change() -> Change:
        before = _edge(database, args.head, args.tail)
        if before is None:
            raise NotFoundError("nothing links these two.", "See wiki_graph.")
        if before["method"] == "human":
            set_edge(database, args.head, "auto", args.tail)
        rebuild(desk, database, ("link", "classify-edges"))
        return _edge_change(database, args.head, args.tail, _word(before))

    return once(database, caller, "graph_classify_edge", args, forms.EdgeReply, change)


def _edge(database: Database, head: str, tail: str) -> dict[str, Any] | None:
    first, second = find_ends(database, head, tail)
    rows = database.dicts("find_edge", {"one": first["id"], "other": second["id"]})
    return rows[0] if rows else None


def _word_before(
    database: Database, head: str, tail: str, before: dict[str, Any] | None
) -> dict[str, Any]:
    """Return what to go back to: a person may have said of two that no edge joins that none is."""
    if before:
        return _word(before)
    first, second = find_ends(database, head, tail)
    ends = {"head": first["id"], "tail": second["id"]}
    is_told = bool(database.value("count_edge_decisions", ends))
    return {"head": head, "tail": tail, "type": None, "human": is_told}


def _edge_change(database: Database, head: str, tail: str, old: dict[str, Any]) -> Change:
    after = _edge(database, head, tail)
    form = edge_form(after) if after and after["type"] else None
    said = f"{form.head} {form.type} {form.tail}." if form else f"{head} and {tail} are not linked."
    new = _word(after) if after else {"head": head, "tail": tail, "type": None}
    return Change(f"{head} - {tail}", old, new, forms.EdgeReply(edge=form, said=said))


def _word(row: dict[str, Any]) -> dict[str, Any]:
    return {
        "head": row["head"],
        "type": row["type"],
        "tail": row["tail"],
        "human": row["method"] == "human",
    }


def dedup_edges(
    desk: Desk, database: Database, caller: Caller, args: forms.WriteArgs
) -> forms.Reply:
    """Drop words on a pair of concepts that a later one replaced."""

    def change() -> Change:
        rows = drop_doubles(database, dry_run=False)
        told = {"dropped": [{**row, "decided_at": str(row["decided_at"])} for row in rows]}
        return Change("edges", told, {}, forms.SaidReply(said=f"{len(rows)} doubles are gone."))

    return once(database, caller, "graph_dedup_edges", args, forms.SaidReply, change)


def merge_nodes(
    desk: Desk, database: Database, caller: Caller, args: forms.MergeArgs
) -> forms.Reply:
    """Make two concepts one."""

    def change() -> Change:
        with desk.building, desk.services(database) as services:
            titles = _titles(services, args.first, args.second)
            curate.merge(services, args.first, args.second)
        rebuild(desk, database, AFTER)
        said = f"{titles[1]} is now a name of {titles[0]}."
        told = {"first": titles[0], "second": titles[1]}
        return Change(f"{titles[0]}, {titles[1]}", None, told, forms.SaidReply(said=said))

    return once(database, caller, "graph_merge_nodes", args, forms.SaidReply, change)


def _titles(services: Services, first: str, second: str) -> tuple[str, str]:
    one, other = find_ends(services.database, first, second)
    return one["title"], other["title"]
