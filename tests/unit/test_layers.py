"""The architecture of DESIGN section 3, read off the imports."""

import ast
import re
import subprocess
import sys
from importlib.metadata import distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement

PACKAGE = Path(__file__).parent.parent.parent / "kbwiki"
MAX_LINES = 460

LAYERS = {
    "errors": 0, "records": 0, "verbs": 0,
    "config": 1, "text": 1, "engines": 1, "embedders": 1, "fetch": 1, "e5graph": 1, "e5weights": 1,
    "prompts": 1, "embedded": 1, "embedded_run": 1, "embedded_watch": 1, "embedded_wire": 1,
    "vectors": 1,
    "db": 2, "pool": 2, "question": 2, "support": 2, "search": 2, "ask": 2,
    "answers": 2,
    "stages": 3, "ledger": 3, "memory": 3,
    "pipeline": 4, "estimate": 4, "curate": 4, "lint": 4, "edges": 4, "evaluate": 4,
    "pages": 4, "server": 5, "cli": 6, "__main__": 7, "__init__": 0,
}  # fmt: skip

OWNERS = {
    "psycopg": {"db", "pool"},
    "psycopg_pool": {"pool"},
    "mcp": {"server"},
    "mcp_types": {"server"},
    "starlette": {"server"},
    "uvicorn": {"server"},
    "sse_starlette": {"server"},
    "argon2": {"server"},
    "anyio": {"server"},
    "typer": {"cli"},
    "rich": {"cli"},
    "jinja2": {"stages"},
    "markdown_it": {"text"},
    "trafilatura": {"text"},
    "lxml": {"text"},
    "pypdfium2": {"text"},
    "docx": {"text"},
    "pptx": {"text"},
    "openpyxl": {"text"},
    "docutils": {"text"},
    "pylatexenc": {"text"},
    "bibtexparser": {"text"},
    "onnxruntime": {"embedders", "e5graph"},
    "onnx": {"e5graph"},
    "sentence_transformers": {"embedders"},
    "google": {"engines"},
    "openai": {"engines"},
    "pydantic_settings": {"config"},
}
"""The only parts that may import a package."""


def _files() -> list[Path]:
    return sorted(PACKAGE.rglob("*.py"))


def _part(path: Path) -> str:
    relative = path.relative_to(PACKAGE)
    return relative.parts[0] if len(relative.parts) > 1 else relative.stem


def _imports(path: Path) -> list[tuple[str, bool]]:
    """Return (dotted name, at module level) of each import but those for type checking."""
    tree = ast.parse(path.read_text("utf-8"))
    typing_only: set[ast.AST] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            typing_only.update(ast.walk(node))
    out: list[tuple[str, bool]] = []
    for node in ast.walk(tree):
        if node in typing_only:
            continue
        level = node in tree.body
        if isinstance(node, ast.Import):
            out += [(alias.name, level) for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            out += [(f"{node.module}.{alias.name}", level) for alias in node.names]
    return out


def test_every_part_has_a_layer() -> None:
    assert {_part(path) for path in _files()} == set(LAYERS)


@pytest.mark.parametrize("path", _files(), ids=lambda p: str(p.relative_to(PACKAGE)))
def test_imports_point_down(path: Path) -> None:
    mine = _part(path)
    for name, _ in _imports(path):
        if name.startswith("kbwiki."):
            other = name.split(".")[1]
            if other in LAYERS and other != mine:
                siblings = LAYERS[other] == LAYERS[mine] and LAYERS[mine] in {2, 1, 0}
                assert LAYERS[other] < LAYERS[mine] or siblings, f"{mine} imports {name}"


@pytest.mark.parametrize("path", _files(), ids=lambda p: str(p.relative_to(PACKAGE)))
def test_each_package_has_one_owner(path: Path) -> None:
    for name, _ in _imports(path):
        owners = OWNERS.get(name.split(".")[0])
        assert owners is None or _part(path) in owners, f"{path.name} imports {name}"


def _licences(name: str, found: dict[str, str]) -> dict[str, str]:
    """Add what a distribution and all that it needs say of their licences."""
    meta = distribution(name)
    said = [meta.metadata.get("License-Expression", ""), meta.metadata.get("License", "")[:60]]
    classes = [c for c in meta.metadata.get_all("Classifier") or [] if "License" in c]
    found[name] = " ".join(filter(None, [*said, *classes]))
    for line in meta.requires or []:
        need = Requirement(line)
        is_needed = need.marker is None or need.marker.evaluate({"extra": ""})
        if is_needed and need.name not in found:
            _licences(need.name, found)
    return found


def test_nothing_that_is_installed_along_is_under_the_gpl_alone() -> None:
    free = re.compile(r"BSD|MIT|Apache|MPL|LGPL|Lesser|Public Domain", re.IGNORECASE)
    found = _licences("kbwiki", {})
    assert "pypdfium2" in found
    strict = {
        name for name, said in found.items() if re.search(r"\bA?GPL|\(A?GPL", said)
        and not free.search(said)
    }  # fmt: skip
    assert strict == set()


def test_each_library_that_reads_files_is_named_with_its_reason() -> None:
    guide = (PACKAGE.parent / "CONTRIBUTING.md").read_text("utf-8")
    needed = set(_licences("kbwiki", {}))
    for name in (
        "markdown-it-py", "trafilatura", "pypdfium2", "pypdf", "python-docx", "python-pptx",
        "openpyxl", "docutils", "pylatexenc", "bibtexparser", "lxml", "charset-normalizer",
    ):  # fmt: skip
        assert re.search(rf"^\|[^\n]*\b{name}\b", guide, re.MULTILINE), name
        assert name in needed


def test_modules_do_not_import_each_other_in_a_circle() -> None:
    graph = {
        ".".join(("kbwiki", *p.relative_to(PACKAGE).with_suffix("").parts)).removesuffix(
            ".__init__"
        ): {name for name, level in _imports(p) if level and name.startswith("kbwiki")}
        for p in _files()
    }

    def targets(module: str) -> set[str]:
        found = {n if n in graph else n.rpartition(".")[0] for n in graph[module]}
        return {n for n in found if n in graph and n != module}

    done: set[str] = set()

    def visit(module: str, path: tuple[str, ...]) -> None:
        assert module not in path, f"circle: {' -> '.join((*path, module))}"
        if module in done:
            return
        for target in targets(module):
            visit(target, (*path, module))
        done.add(module)

    for module in graph:
        visit(module, ())


@pytest.mark.parametrize("path", _files(), ids=lambda p: str(p.relative_to(PACKAGE)))
def test_no_module_grows_too_long(path: Path) -> None:
    assert len(path.read_text("utf-8").splitlines()) <= MAX_LINES


def _public(tree: ast.Module) -> list[ast.ClassDef | ast.FunctionDef]:
    """Return the classes and functions that others may use: none in a private class or function."""
    out: list[ast.ClassDef | ast.FunctionDef] = []
    queue: list[ast.Module | ast.ClassDef] = [tree]
    while queue:
        for node in queue.pop().body:
            if isinstance(node, ast.ClassDef | ast.FunctionDef) and node.name[0] != "_":
                out.append(node)
                if isinstance(node, ast.ClassDef):
                    queue.append(node)
    return out


@pytest.mark.parametrize("path", _files(), ids=lambda p: str(p.relative_to(PACKAGE)))
def test_every_module_and_public_name_has_a_docstring(path: Path) -> None:
    tree = ast.parse(path.read_text("utf-8"))
    assert not tree.body or ast.get_docstring(tree), path
    assert [node.name for node in _public(tree) if not ast.get_docstring(node)] == []


def test_help_needs_no_heavy_package() -> None:
    code = (
        "import sys; from kbwiki.cli import main; main(['--help']); "
        "heavy = {'psycopg', 'numpy', 'pydantic', 'trafilatura', 'onnxruntime', 'pymorphy3'}; "
        "assert not heavy & set(sys.modules), heavy & set(sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
