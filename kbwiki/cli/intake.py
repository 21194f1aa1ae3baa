"""What a person names to be taken in: files and folders, addresses, standard input."""

import sys
from dataclasses import dataclass
from pathlib import Path

import typer

from kbwiki.cli.console import notice
from kbwiki.cli.store import Place
from kbwiki.errors import InputError
from kbwiki.fetch import is_public
from kbwiki.stages.fetched import fetch_item, given_item
from kbwiki.stages.files import FileItem, is_address
from kbwiki.text.ocr import LANGS, languages

STDIN = "-"


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a run is to take in, as a person named it, and how."""

    names: tuple[str, ...] = ()
    prune: bool = False
    force: bool = False
    title: str = ""
    allow_private: bool = False
    use_ocr: bool = False


NOTHING = Wanted()


def take_in(wanted: Wanted, place: Place) -> tuple[list[Path], tuple[FileItem, ...]]:
    """Return the paths that were named, and what was fetched or read from standard input."""
    if wanted.title and STDIN not in wanted.names:
        raise typer.BadParameter("it names what is read from -", param_hint="--title")
    if wanted.use_ocr and (langs := languages()) != "+".join(LANGS):
        notice(f"tesseract reads {langs} alone here: apt install tesseract-ocr-rus adds Russian")
    max_bytes = int(place.settings.max_file_mb * 1_000_000)
    paths: list[Path] = []
    items: list[FileItem] = []
    for name in dict.fromkeys(wanted.names):
        if name == STDIN:
            items.append(given_item(_standard_input(max_bytes), wanted.title, place.home))
        elif is_address(name):
            notice(f"{name}: fetching it over the network")
            may_ask = (lambda _: True) if wanted.allow_private else is_public
            items.append(fetch_item(name, place.home, max_bytes, may_ask))
        else:
            paths.append(Path(name))
    return paths, tuple(items)


def only_paths(names: list[str]) -> list[Path]:
    """Return names as paths; raises BadParameter for an address or standard input."""
    for name in names:
        if name == STDIN or is_address(name):
            raise typer.BadParameter(f"{name}: take it in with `kbwiki ingest` first.")
    return [Path(name) for name in names]


def _standard_input(max_bytes: int) -> bytes:
    if sys.stdin.isatty():
        notice("reading standard input; Ctrl-D ends it")
    raw = sys.stdin.buffer.read(max_bytes + 1)
    if len(raw) > max_bytes:
        raise InputError(
            f"standard input: it is over the limit of {max_bytes / 1e6:g} MB.",
            "Split it, or set KBWIKI_MAX_FILE_MB.",
        )
    if not raw.strip():
        raise InputError("standard input: it is empty.", "Nothing was stored.")
    return raw
