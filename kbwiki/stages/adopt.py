"""A person's words on exported pages: taken in from the files, and laid over every later page.

A part of export. What a person changed is kept as the body it was made of and the body they left;
a page is then the new body with the same changes made to it.
"""

import hashlib
import os
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from kbwiki.db import Database
from kbwiki.stages.render import Page, Wiki
from kbwiki.stages.wiki_files import bytes_of, others
from kbwiki.text.edits import (
    HUMAN,
    Parts,
    changed_entries,
    merge,
    rename_places,
    split_page,
    to_numbers,
    to_stable,
)
from kbwiki.text.links import rename_links, restore_links
from kbwiki.text.normal import escape_markdown, short_hash

Citations = dict[tuple[str, str], list[dict[str, Any]]]
SHOWN = 3
"""Copies of pages that are named."""
_CITED = ("source_key", "start_at", "end_at", "quote", "page", "heading")


@dataclass(frozen=True, slots=True)
class Edits:
    """The edits of a store by page, and which of their citations still hold."""

    rows: dict[tuple[str, str], dict[str, Any]]
    cites: Citations


def load_edits(database: Database) -> Edits:
    """Return what people wrote, by the page on which it stands now."""
    rows: dict[tuple[str, str], dict[str, Any]] = {}
    for row in database.dicts("list_edits"):
        where = (row["folder"], row["place"])
        rows[where if where not in rows else (row["folder"], row["key"])] = row
    pages = {(row["folder"], row["key"]): where for where, row in rows.items()}
    cites: Citations = {}
    for cited in database.dicts("list_edit_citations"):
        cites.setdefault(pages[cited["folder"], cited["key"]], []).append(cited)
    return Edits(rows, cites)


def place_of(cited: Mapping[str, Any]) -> str:
    """Return a name for where a quote stands that outlasts its number."""
    return f"{short_hash(cited['source_key'])}-{cited['start_at']}-{cited['end_at']}"


def lay_over(page: Page, citations: Citations, edits: Edits) -> Page:
    """Return a page with its person's words; its citations are numbered anew."""
    where = (page.folder, page.key)
    ours = citations.get(where, [])
    machine = to_stable(page.body, [place_of(c) for c in ours])
    edit = edits.rows.get(where)
    if edit is None:
        return replace(page, machine=machine)
    known = [*ours, *edits.cites.get(where, [])]
    numbers: dict[str, int] = {}
    for number, cited in enumerate(known):
        at = numbers.setdefault(place_of(cited), number)
        numbers.setdefault(cited.get("place", ""), at)  # where its source was when it was cited
    body, order = to_numbers(merge(edit["base"], machine, edit["theirs"]), numbers)
    citations[where] = [{**known[n], "ordinal": at} for at, n in enumerate(order, 1)]
    return replace(
        page,
        body=body,
        machine=machine,
        heading=edit["heading"],
        front_edits=edit["front"],
        tail=edit["tail"],
    )


def follow(database: Database) -> None:
    """Let a person's words follow the files that have another name or title now.

    Words on the page of a file go to its new page, unless a person wrote there too; what words
    anywhere cite and link is named anew.
    """
    found = database.dicts("list_moved_sources")
    if not found:
        return
    edits = database.dicts("list_edits")
    names = {row["old"]: row["new"] for row in found}
    edited = {row["key"] for row in edits if row["folder"] == "sources"}
    taken = edited - names.keys()
    pages: dict[str, dict[str, Any]] = {}
    for row in sorted(found, key=lambda r: r["old"] not in edited):
        if row["new"] not in taken:
            taken.add(row["new"])
            pages[row["old"]] = row
    paths = [row["path"] for row in database.dicts("list_page_base_shas")]
    bases = database.dicts("list_page_bases", {"paths": paths})
    with database.transaction():
        changed = [(row, new) for row in edits if (new := _renamed(row, names, pages)) != row]
        database.run_many("delete_edit", [row for row, _ in changed])
        database.run_many("save_edit", [new for _, new in changed])
        database.run_many("save_page_base", [_renamed(row, names, pages) for row in bases])


def _renamed(
    row: dict[str, Any], names: dict[str, str], pages: dict[str, dict[str, Any]]
) -> dict[str, Any]:
    """Return a row of kb.article_edit or kb.page_base with other keys of sources in it.

    Of two pages that would be one, ``pages`` has the one whose words go to it.
    """
    out = dict(row)
    hashes = {short_hash(old): short_hash(new) for old, new in names.items()}
    for column in {"base", "theirs", "machine"} & row.keys():
        out[column] = rename_places(rename_links(row[column], names), hashes)
    if row["folder"] == "sources" and row["key"] in pages:
        out["key"] = pages[row["key"]]["new"]
        if "theirs" in row:
            out["path"] = f"sources/{pages[row['key']]['slug']}.md"
    if "links" in row:
        out["links"] = {
            path: names.get(key, key) if path.startswith("sources/") else key
            for path, key in row["links"].items()
        }
    items = []
    for cited in row["cites"]["items"]:
        new = {**cited, "source_key": names.get(cited["source_key"], cited["source_key"])}
        items.append({**new, "place": place_of(new)} if "place" in cited else new)
    out["cites"] = {"items": items}
    return out


def take_in(
    database: Database, folder: Path, manifest: dict[str, str], copies: Mapping[str, str]
) -> tuple[dict[str, str], list[str]]:
    """Take in the pages that a person changed since the last export.

    Returns the manifest in which what was taken in counts as ours, and the pages' names. A page
    whose base is not known, whose generated part was changed, or that has lost a seam is left.
    What was written on a page under a new name, and its own is free, is taken in for it: ``copies``
    are the texts of pages under names that are not ours.
    """
    ours = sorted(name for name in manifest if name.startswith(("concepts/", "sources/")))
    edited = {
        name: raw
        for name in ours
        if (raw := bytes_of(folder / name)) is not None
        and hashlib.sha256(raw).hexdigest() != manifest[name]
    }
    away = [name for name in ours if copies and not os.path.lexists(folder / name)]
    if not edited and not away:
        return manifest, []
    edits = load_edits(database)
    taken: dict[str, str] = {}
    with database.transaction():
        paths = [path for name in (*edited, *away) for path in (name, beside(name))]
        bases = {row["path"]: row for row in database.dicts("list_page_bases", {"paths": paths})}
        edited |= _renamed_pages(away, bases, copies)
        for name, raw in sorted(edited.items()):
            # A page may be made of ours that lay beside it: so a person settles a conflict.
            rows = (
                _edit({**base, "path": name}, raw, edits.rows.get((base["folder"], base["key"])))
                for path in (name, beside(name))
                if (base := bases.get(path)) and base["sha"] == manifest.get(path)
            )
            row = next(filter(None, rows), None)
            if row is not None:
                before = edits.rows.get((row["folder"], row["key"]))
                if before and before["key"] != row["key"]:
                    database.run("delete_edit", before)
                is_undone = row["theirs"] == row["base"] and not (row["front"] or row["tail"])
                is_undone = is_undone and row["heading"] is None
                database.run("delete_edit" if is_undone else "save_edit", row)
                taken[name] = hashlib.sha256(raw).hexdigest()
    return {**manifest, **taken}, sorted(taken)


def _renamed_pages(
    away: Iterable[str], bases: Mapping[str, dict[str, Any]], copies: Mapping[str, str]
) -> dict[str, bytes]:
    """Return what a person wrote on pages that they renamed, by the pages' own names.

    Such a copy has the heading, and to the letter what is made anew each time, of one page alone.
    """
    found = [(name, parts) for name, text in copies.items() if (parts := split_page(text))]
    out: dict[str, bytes] = {}
    for name in away:
        base = bases.get(name)
        ours = split_page(base["text"]) if base else None
        if base is None or ours is None:
            continue
        like = [
            copy
            for copy, parts in found
            if parts.heading == ours.heading and _ours_in(parts) == _ours_in(ours)
        ]
        if len(like) == 1 and copies[like[0]] != base["text"]:
            out[name] = copies[like[0]].encode()
    return out


def copies_in(folder: Path, known: Collection[str]) -> dict[str, str]:
    """Return the texts of pages of ours that stand under names that are not known."""
    out: dict[str, str] = {}
    for name, path in others(folder, known):
        text = (bytes_of(path) or b"").decode("utf-8", "replace").replace("\r\n", "\n")
        if split_page(text):
            out[name] = text
    return out


def told_of_copies(copies: Mapping[str, str], wiki: Wiki) -> str:
    """Return a line on pages under names that a person gave them, or nothing."""
    pages = {
        (page.heading or f"# {escape_markdown(page.title)}", f'kind: "{page.kind}"\n'): page.path
        for page in wiki.pages
    }
    told = []
    for copy, text in sorted(copies.items()):
        parts = split_page(text)
        page = pages.get((parts.heading, parts.front.get("kind", ""))) if parts else None
        told.append(f"{copy} is another name of {page}" if page else f"{copy} is a page no more")
    if not told:
        return ""
    shown = ", ".join(told[:SHOWN]) + (", ..." if len(told) > SHOWN else "")
    return f"; {shown}: what is written there is not taken in; move it to the page, and delete it"


def beside(name: str) -> str:
    """Return the path at which our version of a page lies if a person's cannot be merged."""
    return name.removesuffix(".md") + ".conflict.md"


def _edit(base: dict[str, Any], raw: bytes, before: dict[str, Any] | None) -> dict[str, Any] | None:
    """Return a row of kb.article_edit, or None for a page that cannot be read as one."""
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError:
        return None
    theirs, ours = split_page(text), split_page(base["text"])
    if theirs is None or ours is None or _ours_in(theirs) != _ours_in(ours):
        return None
    cites: list[dict[str, Any]] = base["cites"]["items"]
    was = before or {"front": {}, "heading": None, "cites": {"items": []}}
    known = {place_of(c): {**c, "place": place_of(c)} for c in (*was["cites"]["items"], *cites)}
    return {
        "folder": base["folder"],
        "key": base["key"],
        "path": base["path"],
        "base": base["machine"],
        "theirs": _as_body(theirs, cites, base["links"]),
        "heading": theirs.heading if theirs.heading != ours.heading else was["heading"],
        "front": {**was["front"], **changed_entries(ours.front, theirs.front)},
        "tail": theirs.tail,
        "cites": {"items": [known[place] for place in sorted(known)]},
    }


def _ours_in(parts: Parts) -> list[str]:
    """Return the lines between the seams but the footnote of a person's words, which comes and goes
    with them.
    """
    lines = (line.rstrip() for line in parts.generated.splitlines())
    return [line for line in lines if line and not line.startswith(f"{HUMAN}:")]


def _as_body(parts: Parts, cites: list[dict[str, Any]], links: dict[str, str]) -> str:
    body = restore_links(parts.body.replace(HUMAN, ""), links)
    return to_stable(body, [place_of(c) for c in cites])


def orphans(wiki: Wiki, edits: Edits) -> frozenset[str]:
    """Return the paths of pages that hold a person's words and have nothing to stand on now."""
    gone = edits.rows.keys() - wiki.by_key.keys()
    return frozenset(edits.rows[where]["path"] for where in gone)


def save_bases(
    database: Database, wiki: Wiki, files: Mapping[str, str], kept: Iterable[str]
) -> None:
    """Remember what was written of each page that now lies in the wiki as it was rendered."""
    shas = {row["path"]: row["sha"] for row in database.dicts("list_page_base_shas")}
    here = set(kept)
    rows = []
    for page in wiki.pages:
        sha = hashlib.sha256(files[page.path].encode()).hexdigest()
        path = page.path if page.path in here else beside(page.path)
        if path not in here or shas.get(path) == sha:
            continue
        cited = wiki.citations.get((page.folder, page.key), [])
        rows.append(
            {
                "path": path,
                "folder": page.folder,
                "key": page.key,
                "sha": sha,
                "text": files[page.path],
                "machine": wiki.known_links(page.machine),
                "cites": {"items": [{name: c[name] for name in _CITED} for c in cited]},
                "links": wiki.paths_in(page.body),
            }
        )
    with database.transaction():
        paths = [path for page in wiki.pages for path in (page.path, beside(page.path))]
        database.run("delete_page_bases_but", {"paths": paths})
        database.run_many("save_page_base", rows)
