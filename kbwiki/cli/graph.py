"""``kbwiki graph``: the typed edges around a concept, for people and for other programs."""

import json
import xml.etree.ElementTree as ET
from collections.abc import Sequence
from typing import Any

from rich.markup import escape

from kbwiki.cli.console import out, print_json
from kbwiki.cli.store import find_place, open_database
from kbwiki.edges import edge_types
from kbwiki.errors import NotFoundError
from kbwiki.pages import find_page
from kbwiki.text.normal import counted

_GRAPHML = "http://graphml.graphdrawing.org/xmlns"


def show_graph(
    slug: str,
    depth: int,
    every: bool,
    types: Sequence[str],
    form: str,
    db: str | None,
    as_json: bool,
) -> None:
    """Write typed edges around a concept: text, mermaid, json, graphml or dot."""
    with open_database(find_place(db)) as database:
        found = find_page(database, slug)
        if found["folder"] != "concepts":
            raise NotFoundError(
                f"{slug}: this is a source, not a concept.", "See `kbwiki list --kind model`."
            )
        known = edge_types(database)
        wanted = sorted({known.read(name)[0] for name in types}) or None
        params = {
            "key": found["key"],
            "depth": depth,
            "all": every or "related_to" in (wanted or ()),
            "types": wanted,
        }
        edges = database.dicts("list_graph", params)
        [start] = database.dicts("find_concept", {"slug": found["slug"], "keys": []})
    if as_json:
        for edge in edges:
            print_json(edge)
    elif form == "text":
        _print_text(edges)
    else:
        nodes = _nodes(edges) or [{"id": found["slug"], "title": start["title"], "kind": ""}]
        out.file.write(_WRITERS[form](nodes, edges))


def _print_text(edges: list[dict[str, Any]]) -> None:
    for edge in edges:
        arrow = "--" if edge["symmetric"] else "->"
        head, tail = (f"[bold]{escape(edge[end])}[/bold]" for end in ("head", "tail"))
        support = f"[dim]{edge['confidence']:.2f}, {counted(edge['n_sources'], 'source')}[/dim]"
        out.print(f"{head} -{edge['type']}{arrow} {tail}  {support}")
        out.print(f"   [dim]{escape(edge['evidence'] or '')}[/dim]")
    if not edges:
        out.print("No typed edge yet. Try --all.")


def _nodes(edges: list[dict[str, Any]]) -> list[dict[str, str]]:
    found = {
        edge[f"{end}_slug"]: {
            "id": edge[f"{end}_slug"],
            "title": edge[end],
            "kind": edge[f"{end}_kind"],
        }
        for edge in edges
        for end in ("head", "tail")
    }
    return [found[slug] for slug in sorted(found)]


def _mermaid(nodes: list[dict[str, str]], edges: list[dict[str, Any]]) -> str:
    ids = {node["id"]: f"n{at}" for at, node in enumerate(nodes)}
    lines = ["graph LR"]
    lines += [f'  {ids[node["id"]]}["{_mermaid_text(node["title"])}"]' for node in nodes]
    for edge in edges:
        arrow = "---" if edge["symmetric"] else "-->"
        lines.append(
            f'  {ids[edge["head_slug"]]} {arrow}|"{edge["type"]}"| {ids[edge["tail_slug"]]}'
        )
    return "\n".join(lines) + "\n"


def _mermaid_text(text: str) -> str:
    """Return a text that no sign in it can end: Mermaid reads entities with # for &."""
    return "".join(c if c.isalnum() or c in " -–—.,()'" else f"#{ord(c)};" for c in text)


def _dot(nodes: list[dict[str, str]], edges: list[dict[str, Any]]) -> str:
    lines = ["digraph kbwiki {"]
    lines += [f"  {_quoted(n['id'])} [label={_quoted(n['title'])}];" for n in nodes]
    for edge in edges:
        both = ", dir=none" if edge["symmetric"] else ""
        lines.append(
            f"  {_quoted(edge['head_slug'])} -> {_quoted(edge['tail_slug'])} "
            f"[label={_quoted(edge['type'])}{both}];"
        )
    return "\n".join([*lines, "}"]) + "\n"


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", " ")
    return f'"{escaped}"'


def _json(nodes: list[dict[str, str]], edges: list[dict[str, Any]]) -> str:
    rows = [
        {
            "head": edge["head_slug"],
            "type": edge["type"],
            "tail": edge["tail_slug"],
            "symmetric": edge["symmetric"],
            "confidence": round(edge["confidence"], 4),
            "method": edge["method"],
            "sources": edge["n_sources"],
            "evidence": edge["evidence"],
        }
        for edge in edges
    ]
    return json.dumps({"nodes": nodes, "edges": rows}, ensure_ascii=False, indent=1) + "\n"


def _graphml(nodes: list[dict[str, str]], edges: list[dict[str, Any]]) -> str:
    """Return GraphML, which Gephi, yEd and networkx read."""
    ET.register_namespace("", _GRAPHML)
    root = ET.Element(f"{{{_GRAPHML}}}graphml")
    keys = {"title": "node", "kind": "node", "type": "edge", "confidence": "edge"}
    for name, owner in keys.items():
        kind = "double" if name == "confidence" else "string"
        attributes = {"id": name, "for": owner, "attr.name": name, "attr.type": kind}
        ET.SubElement(root, f"{{{_GRAPHML}}}key", attributes)
    graph = ET.SubElement(root, f"{{{_GRAPHML}}}graph", {"edgedefault": "directed"})
    for node in nodes:
        item = ET.SubElement(graph, f"{{{_GRAPHML}}}node", {"id": node["id"]})
        _data(item, title=node["title"], kind=node["kind"])
    for edge in edges:
        ends = {"source": edge["head_slug"], "target": edge["tail_slug"]}
        if edge["symmetric"]:
            ends["directed"] = "false"
        item = ET.SubElement(graph, f"{{{_GRAPHML}}}edge", ends)
        _data(item, type=edge["type"], confidence=f"{edge['confidence']:.4f}")
    ET.indent(root)
    return ET.tostring(root, encoding="unicode", xml_declaration=False) + "\n"


def _data(item: ET.Element, **values: str) -> None:
    for name, value in values.items():
        # What XML cannot hold at all, such as a form feed in a PDF's title, is dropped.
        text = "".join(c for c in value if c.isprintable())
        ET.SubElement(item, f"{{{_GRAPHML}}}data", {"key": name}).text = text


_WRITERS = {
    "mermaid": _mermaid,
    "dot": _dot,
    "json": _json,
    "graphml": _graphml,
}
