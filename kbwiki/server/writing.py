"""What a writer and an admin may change; each change is in the audit."""

from contextlib import suppress
from pathlib import Path
from typing import Any, cast

from kbwiki import curate
from kbwiki.answers import answer_from, gather, is_filed, save_answer
from kbwiki.db import Database
from kbwiki.edges import drop_doubles, find_ends, set_edge
from kbwiki.errors import InputError, NotFoundError
from kbwiki.memory import keep
from kbwiki.memory.keeper import find as find_memory
from kbwiki.memory.remember import Kept, Note, remember
from kbwiki.pages import find_page
from kbwiki.question import clean_question
from kbwiki.search import Query, search, usable_embedder
from kbwiki.server import forms
from kbwiki.server.changes import Change, Finished, Work, WriteDown, in_short, once
from kbwiki.server.desk import MAX_CHARACTERS, Caller, Desk
from kbwiki.server.notes import (
    ADDED,
    AFTER,
    make_pages,
    place_of,
    rebuild,
    take_in,
    uris_of,
    write_note,
)
from kbwiki.server.reading import edge_form, keeper_of, version_of
from kbwiki.stages.classify_edges import TYPING
from kbwiki.stages.resolve import STAGE as RESOLVE
from kbwiki.text.normal import canonical_key, clean_line, escape_markdown, slugify
from kbwiki.text.words import lang_of


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

    def change(write_down: WriteDown) -> None:
        def on_kept(kept: Kept) -> None:
            reply = forms.RememberReply(
                id=kept.id, neighbors=list(kept.neighbors), scores=list(kept.scores)
            )
            after = {"id": kept.id, "is_new": kept.is_new}
            write_down(Change(f"memory {kept.id}", None, after, reply))

        remember(keeper, note, on_kept)

    quiet = args.model_copy(update={"text": in_short(args.text)})
    return once(database, caller, "remember", quiet, forms.RememberReply, Work(change))


def forget_tool(
    desk: Desk, database: Database, caller: Caller, args: forms.ForgetArgs
) -> forms.Reply:
    """Forget a memory: a writer its own, an admin any."""
    keeper = keeper_of(desk, database, caller)

    def change(write_down: WriteDown) -> None:
        with database.transaction():
            text = str(find_memory(keeper, args.nodeId)["text"])
            [row] = database.dicts("export_memories", {"me": "", "id": args.nodeId})
            edges = database.dicts("list_edges_of_memory", {"id": args.nodeId})
            row["led_here"] = [edge for edge in edges if not edge["forward"]]
            keep.forget(keeper, args.nodeId)
            before = cast(
                "dict[str, Any]", {k: str(v) if k.endswith("at") else v for k, v in row.items()}
            )
            named = f"memory {args.nodeId}"
            reply = forms.SaidReply(said=f"{named} is forgotten.", about=text[:MAX_CHARACTERS])
            write_down(Change(named, before, None, reply))

    return once(database, caller, "forget", args, forms.SaidReply, Work(change))


def save_answer_tool(
    desk: Desk, database: Database, caller: Caller, args: forms.SaveAnswerArgs
) -> forms.Reply:
    """Answer a question and file the answer as a page of the wiki."""
    query = Query(clean_question(args.question))

    def change(write_down: WriteDown) -> None:
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
                told = {"slug": slug, "question": query.question}
                answer = " ".join(text for text, _ in answered.answer.statements)[:MAX_CHARACTERS]
                reply = forms.FiledReply(said=f"Filed as {slug}.", answer=answer)
                write_down(Change(slug, told if was_filed else None, told, reply))
        rebuild(desk, database, ("embed", "export"))

    return once(database, caller, "wiki_save_answer", args, forms.FiledReply, Work(change))


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

    def change(write_down: WriteDown) -> None:
        note = _note_on(title, definition, aliases)
        _check_version(desk, database, title, args.expected_version)
        _write(desk, database, "graph_upsert_node", title, path, note, write_down)

    def finish(number: int) -> Finished:
        make_pages(desk, database, "graph_upsert_node", number, title)
        said = f"{title} is in the graph. It rests on a note of {caller.name}."
        return Finished(forms.SaidReply(said=said))

    work = Work(change, finish)
    return once(database, caller, "graph_upsert_node", args, forms.SaidReply, work)


def _write(
    desk: Desk,
    database: Database,
    tool: str,
    target: str,
    path: Path,
    text: str,
    write_down: WriteDown,
) -> None:
    after = place_of(desk, path, True)

    def also(before: bytes) -> None:
        old = {"path": path.name, "text": before.decode("utf-8", "replace")} if before else None
        write_down(Change(target, old, after))

    write_note(desk, database, tool, path, text, also)


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
        says = page.summary[:300] if page else ""
        raise InputError(
            f"{title}: it has changed since you read it; it is {state}.", "Read it again.", says
        )


def ingest_tool(
    desk: Desk, database: Database, caller: Caller, args: forms.IngestArgs
) -> forms.Reply:
    """Take in a text, or a file under an allowed folder, and build what it changes."""
    if bool(args.text.strip()) == bool(args.path):
        raise InputError("wiki_ingest: give either a text or a path.", "One of them.")

    def change(write_down: WriteDown) -> None:
        if args.path:
            path = _allowed(desk, args.path)
            after = place_of(desk, path, False)
            after["was_known"] = bool(uris_of(database, after["uri"]))
            made = Change(path.name, None, after)
            take_in(desk, database, "wiki_ingest", path, lambda: write_down(made))
            return
        title = clean_line(args.title) or clean_line(args.text)[:60]
        path = desk.home / ADDED / f"{slugify(title)}.md"
        has_title = args.text.lstrip().startswith(("#", "---\n"))
        heading = "" if has_title else f"# {escape_markdown(title)}\n\n"
        text = heading + args.text + "\n"
        _write(desk, database, "wiki_ingest", path.name, path, text, write_down)

    def finish(number: int) -> Finished:
        make_pages(desk, database, "wiki_ingest", number)
        [row] = database.dicts("list_audit", {"id": number, "n": 1})
        said = f"{row['target']} was taken in, and the pages that it feeds are written."
        return Finished(forms.SaidReply(said=said))

    quiet = args.model_copy(update={"text": in_short(args.text)})
    work = Work(change, finish)
    return once(database, caller, "wiki_ingest", quiet, forms.SaidReply, work)


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

    def change(write_down: WriteDown) -> None:
        before = _edge(database, args.head, args.tail)
        now = edge_form(before).version if before else ""
        if args.expected_version not in {None, now}:
            state = f"{before['head']} {before['type']} {before['tail']}" if before else ""
            raise InputError(
                f"the edge has changed since you read it; it is {'now so' if before else 'gone'}.",
                "Look again.",
                state,
            )
        old = _word_before(database, args.head, args.tail, before)
        with database.locked(TYPING), database.transaction():
            set_edge(database, args.head, args.type, args.tail)
            reply, after = _edge_now(database, args.head, args.tail)
            write_down(Change(f"{args.head} - {args.tail}", old, after, reply))

    return once(database, caller, "graph_upsert_edge", args, forms.EdgeReply, Work(change))


def classify_edge(
    desk: Desk, database: Database, caller: Caller, args: forms.EndsArgs
) -> forms.Reply:
    """Take a person's word on an edge back and let the rules type it anew."""

    def change(write_down: WriteDown) -> None:
        before = _edge(database, args.head, args.tail)
        if before is None:
            raise NotFoundError("nothing links these two.", "See wiki_graph.")
        ends = {"head": args.head, "tail": args.tail, "type": None}
        with database.locked(TYPING), database.transaction():
            if before["method"] == "human":
                set_edge(database, args.head, "auto", args.tail)
            write_down(Change(f"{args.head} - {args.tail}", _word(before), ends))

    def finish(number: int) -> Finished:
        rebuild(desk, database, ("link", "classify-edges"))
        return Finished(*_edge_now(database, args.head, args.tail))

    work = Work(change, finish)
    return once(database, caller, "graph_classify_edge", args, forms.EdgeReply, work)


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


def _edge_now(database: Database, head: str, tail: str) -> tuple[forms.EdgeReply, dict[str, Any]]:
    """Return an edge as it is now: for the caller, and for the audit."""
    after = _edge(database, head, tail)
    form = edge_form(after) if after and after["type"] else None
    said = f"{form.head} {form.type} {form.tail}." if form else f"{head} and {tail} are not linked."
    now = _word(after) if after else {"head": head, "tail": tail, "type": None}
    return forms.EdgeReply(edge=form, said=said), now


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

    def change(write_down: WriteDown) -> None:
        with database.locked(TYPING), database.transaction():
            rows = drop_doubles(database, dry_run=False)
            told = {"dropped": [{**row, "decided_at": str(row["decided_at"])} for row in rows]}
            reply = forms.SaidReply(said=f"{len(rows)} doubles are gone.")
            write_down(Change("edges", told, {}, reply))

    return once(database, caller, "graph_dedup_edges", args, forms.SaidReply, Work(change))


def merge_nodes(
    desk: Desk, database: Database, caller: Caller, args: forms.MergeArgs
) -> forms.Reply:
    """Make two concepts one."""

    def change(write_down: WriteDown) -> None:
        with (
            desk.building, desk.services(database) as services,
            database.locked(RESOLVE.name), database.transaction(),
        ):  # fmt: skip
            first, second = find_ends(database, args.first, args.second)
            curate.merge(services, args.first, args.second)
            titles = {"first": first["title"], "second": second["title"]}
            write_down(Change(f"{first['title']}, {second['title']}", None, titles))

    def finish(number: int) -> Finished:
        rebuild(desk, database, AFTER)
        [row] = database.dicts("list_audit", {"id": number, "n": 1})
        names = f"{row['after']['second']} is now a name of {row['after']['first']}."
        return Finished(forms.SaidReply(said="The two are one.", about=names))

    work = Work(change, finish)
    return once(database, caller, "graph_merge_nodes", args, forms.SaidReply, work)
