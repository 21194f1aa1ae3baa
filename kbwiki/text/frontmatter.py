"""The front matter of a Markdown file: title, aliases, authors, year, date in English or Russian.

What is not valid YAML is read line by line, and a note says so; a faulty field is left out.
"""

import re
from datetime import date
from typing import NamedTuple

import yaml

from kbwiki.text.normal import clean_line

_KEYS = {
    name: field
    for field, names in {
        "title": "название заголовок",
        "author": "автор авторы authors",
        "year": "год",
        "aliases": "alias псевдоним псевдонимы синонимы",
        "date": "дата updated created published обновлено создано",
    }.items()
    for name in names.split()
}
_LINE = re.compile(r"^([^\W\d_][\w -]{0,40}):\s+(\S.*)$", re.MULTILINE)
_DAY_FIRST = re.compile(r"(\d{1,2})[./](\d{1,2})[./](\d{4})")
_LIST = re.compile(r"\s*[;,]\s*")
_PEOPLE = re.compile(r"\s*[;,]\s*|\s+(?:and|и)\s+")
_YEAR = re.compile(r"(?<!\d)(?:1[5-9]|20)\d\d(?!\d)")


class FrontMatter(NamedTuple):
    """What front matter says of its document, and what was wrong with it."""

    title: str = ""
    authors: tuple[str, ...] = ()
    year: int | None = None
    dated: date | None = None
    aliases: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def read_front_matter(content: str) -> FrontMatter:
    """Return the fields of a front matter's text; never raises."""
    meta, notes = _fields(content)
    dated = as_date(_scalar(meta.get("date")))
    year = _YEAR.search(_scalar(meta.get("year")))
    return FrontMatter(
        title=clean_line(_scalar(meta.get("title"))),
        authors=_names(meta.get("author")),
        year=int(year.group()) if year else dated.year if dated else None,
        dated=dated,
        aliases=_names(meta.get("aliases"), _LIST),
        notes=notes,
    )


def as_date(value: str) -> date | None:
    """Return the day of ``2024-05-06...`` or ``06.05.2024``; None for anything else."""
    value = value.strip()
    day_first = _DAY_FIRST.match(value)
    try:
        if day_first:
            day, month, year = map(int, day_first.groups())
            return date(year, month, day)
        return date.fromisoformat(value[:10])
    except ValueError:
        return None


def _fields(content: str) -> tuple[dict[str, object], tuple[str, ...]]:
    notes: tuple[str, ...] = ()
    try:
        # The base loader makes strings only: no impossible date can stop it.
        meta = yaml.load(content, yaml.BaseLoader)
    except (yaml.YAMLError, RecursionError) as error:
        meta = {m.group(1): m.group(2).strip(" \"'") for m in _LINE.finditer(content)}
        notes = (
            f"front matter is not valid YAML ({str(error).splitlines()[0]}); read line by line",
        )
    if meta is None:
        return {}, ()
    if not isinstance(meta, dict):
        return {}, ("front matter is not a mapping; it was left out",)
    out: dict[str, object] = {}
    for key, value in meta.items():
        name = clean_line(key).casefold() if isinstance(key, str) else ""
        out.setdefault(_KEYS.get(name, name), value)
    return out, notes


def _scalar(value: object) -> str:
    return value if isinstance(value, str) and value.casefold() not in {"null", "~"} else ""


def _names(value: object, between: re.Pattern[str] = _PEOPLE) -> tuple[str, ...]:
    if isinstance(value, str):
        value = between.split(_scalar(value).strip("[]"))
    if not isinstance(value, list):
        return ()
    names = (item.get("name") if isinstance(item, dict) else item for item in value)
    return tuple(line for name in names if (line := clean_line(_scalar(name))))
