"""Who wrote a paper, when, and its DOI or arXiv id: from its metadata and its first page."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date

from kbwiki.text.normal import clean_line

_NO_TITLE = re.compile(
    r"untitled\S*|без имени\S*|microsoft (?:word|powerpoint|excel)\b.*|(?:slide|слайд) \d+"
    r"|(?:arxiv:)?\d{4}\.\d{4,5}(?:v\d+)?|.*\.(?:docx?|tex|dvi|indd|qxd|pptx?|pdf)",
    re.IGNORECASE,
)
_NO_AUTHOR = re.compile(
    r"(?:user|admin(?:istrator)?|пользователь|администратор|unknown|owner|root|автор|author)\d*",
    re.IGNORECASE,
)
_DOI = re.compile(r"\b10\.\d{4,9}/[^\s\"<>«»]+[^\s\"<>«».,;:)\]}]")
_ARXIV = re.compile(r"arxiv\s*:\s*(\d{4}\.\d{4,5}|[a-z-]+(?:\.[A-Z]{2})?/\d{7})(v\d+)?", re.I)
_STAMP = re.compile(r"arXiv:\S+(?:\s+\[[\w.-]+\])?(?:\s+\d{1,2} \w{3} (\d{4}))?")
_DATED = re.compile(
    r"(?:published|accepted|received|submitted|опубликован\w*|принят\w*|поступил\w*|copyright|©)"
    r"[^\n]{0,40}?\b((?:19|20)\d\d)\b",
    re.IGNORECASE,
)
_NAME = re.compile(
    r"[A-ZА-ЯЁ][\w.'’-]*(?:\s+(?:van|von|de|der|den|la|ле|фон|де|[A-ZА-ЯЁ][\w.'’-]*)){1,4}"
)
_NO_NAME = re.compile(
    r"university|institut|laborator|department|research|google|school|college|abstract|inc\b"
    r"|университет|институт|лаборатори|кафедра|академи|факультет|аннотация|введение",
    re.IGNORECASE,
)
_MARKS = re.compile(r"[\d¹²³⁰-⁹*∗†‡§¶]+|\^\{[^}]*\}|\^.")
_AND = re.compile(r"\s*[;,·•]\s*|\s+(?:and|и|&)\s+")


@dataclass(frozen=True, slots=True)
class Meta:
    """What a paper says of itself; ``ids`` are such as ``doi:10...`` and ``arxiv:2501.00663``."""

    title: str
    authors: tuple[str, ...]
    year: int | None
    dated: date | None
    ids: tuple[str, ...]


def read_meta(meta: dict[str, str], first: list[str], aside: Iterable[str]) -> Meta:
    """Return what the metadata and the lines of the first page say; ``aside`` runs up its margin.

    The day when the file was made counts, unless arXiv's stamp or the page itself names a year.
    """
    told = "\n".join([*first[:60], *aside])
    known = "\n".join(meta.values())
    dated = _pdf_date(meta.get("CreationDate", ""))
    stamp = next((found for line in [*aside, *first[:4], *first[-2:]]
                  if (found := _STAMP.match(line)) and found[1]), None)  # fmt: skip
    arxiv = _ARXIV.search("\n".join(aside)) or _ARXIV.search(known) or _own_arxiv(first)
    doi = _DOI.search(known) or _DOI.search(_before_references(told))
    ids = [f"doi:{doi[0].lower()}"] if doi else []
    ids += [f"arxiv:{arxiv[1]}"] if arxiv else []
    year = int(stamp[1]) if stamp else None
    said = _DATED.search(_before_references(told))
    if year is None and dated is None and said:
        year = int(said[1])
    if year is None and dated is None and arxiv and "." in arxiv[1]:
        year = 2000 + int(arxiv[1][:2])
    return Meta(
        _title(meta.get("Title", "")),
        _authors(meta.get("Author", "")),
        year or (dated.year if dated else None),
        dated if year is None or (dated and dated.year == year) else None,
        tuple(ids),
    )


def is_stamp(line: str) -> bool:
    """Tell whether a line is nothing but the mark of arXiv."""
    return bool(_STAMP.fullmatch(clean_line(line)))


def names_in(line: str) -> tuple[str, ...]:
    """Return the names of people that a line consists of; none where anything else is in it."""
    if len(line) > 300 or _NO_NAME.search(line) or "@" in line:
        return ()
    parts = [clean_line(part) for part in _AND.split(_MARKS.sub("", line))]
    names = [part for part in parts if part]
    return tuple(names) if names and all(_NAME.fullmatch(name) for name in names) else ()


def _own_arxiv(first: list[str]) -> re.Match[str] | None:
    """Return the id on a line of its own near an edge of the page; one in a text is another's."""
    found = (_ARXIV.match(line) for line in [*first[:6], *first[-3:]])
    return next((match for match in found if match), None)


def _before_references(text: str) -> str:
    cut = re.search(r"^(?:references|список литературы|литература)\W*$", text, re.I | re.M)
    return text[: cut.start()] if cut else text


def _authors(value: str) -> tuple[str, ...]:
    names = [clean_line(name) for name in _AND.split(clean_line(value))]
    return tuple(name for name in names if name and not _NO_AUTHOR.fullmatch(name))


def _pdf_date(value: str) -> date | None:
    found = re.match(r"D:(\d{4})(\d{2})(\d{2})", value)
    try:
        return date(*map(int, found.groups())) if found else None
    except ValueError:
        return None


def _title(value: str) -> str:
    """Return the title of a file's metadata; empty where a program put its own words there."""
    title = clean_line(value)
    return "" if _NO_TITLE.fullmatch(title) else title
