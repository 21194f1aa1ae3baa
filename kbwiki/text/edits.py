"""A person's edits of a page: its parts, and a three-way merge in which their words win.

Knows the shape of a page as the template lays it out, and nothing of files or the store. The merge
is by statement: the words up to a footnote, a line without one, a line break.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

BEGIN = "<!-- kbwiki: generated from here -->"
END = "<!-- kbwiki: generated to here -->"
HUMAN = "[^human]"
"""The footnote of a person's words."""

COUNTS = ("human_written", "uncited")
"""Front matter that tells of a person's words."""
LIKE = 0.5
"""Two statements more alike than this are one, written anew."""
MAX_COMPARED = 10_000

_FRONT = re.compile(r"---\n(.*?)^---\n", re.DOTALL | re.MULTILINE)
_ENTRY = re.compile(r"[^\s:#-][^:\n]*:")
_MORE = re.compile(r"[ \t]|- |-$|$")
_CODE = re.compile(
    r"^(?P<fence>```+|~~~+)[^\n]*$.*?(?:^(?P=fence)[`~]*[ \t]*$|\Z)", re.DOTALL | re.MULTILINE
)
_NOTE = re.compile(r"\[\^(\d+)\]")
_STABLE = re.compile(r"\[\^@([^\]]+)\]")
_PIECE = re.compile(r".*?(?:\[\^[^\]\s]+\])+[ \t]*|.+", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Parts:
    """A page cut at its seams; ``front`` holds the raw lines of each key, a comment by itself."""

    front: dict[str, str]
    heading: str
    body: str
    generated: str
    tail: str


def split_page(text: str) -> Parts | None:
    """Return the parts of a page, or None where it has lost a seam."""
    text = text.replace("\r\n", "\n").removeprefix("\ufeff")
    front = _FRONT.match(text)
    if not front or text.count(BEGIN) != 1 or text.count(END) != 1:
        return None
    above, _, below = text[front.end() :].partition(BEGIN)
    generated, _, tail = below.partition(END)
    above = above.strip("\n")
    heading, _, body = above.partition("\n") if above.startswith("# ") else ("", "", above)
    return Parts(
        _entries(front.group(1)), heading, body.strip("\n"), generated.strip("\n"), tail.strip("\n")
    )


def _entries(front: str) -> dict[str, str]:
    """Return the lines of front matter by their key; what belongs to no key stands by itself."""
    out: dict[str, str] = {}
    key = ""
    for line in front.splitlines():
        if not key or not _MORE.match(line):
            key = line.partition(":")[0].strip() if _ENTRY.match(line) else line
        out[key] = out.get(key, "") + line + "\n"
    return out


def to_stable(body: str, places: Sequence[str]) -> str:
    """Return a body whose footnotes name places; number n is ``places[n - 1]``, others stay.

    What looks like a footnote in a block of code is code.
    """

    def one(match: re.Match[str]) -> str:
        at = int(match.group(1)) - 1
        return f"[^@{places[at]}]" if 0 <= at < len(places) else match.group()

    return "".join(part if is_code else _NOTE.sub(one, part) for part, is_code in _blocks(body))


def _blocks(body: str) -> Iterator[tuple[str, bool]]:
    """Yield the parts of a body, and whether each is a block of code between fences."""
    at = 0
    for match in _CODE.finditer(body):
        yield body[at : match.start()], False
        yield match.group(), True
        at = match.end()
    yield body[at:], False


def rename_places(body: str, hashes: dict[str, str]) -> str:
    """Return a body whose footnotes name other sources, by the hashes that places begin with."""

    def one(match: re.Match[str]) -> str:
        source, dash, span = match.group(1).partition("-")
        return f"[^@{hashes.get(source, source)}{dash}{span}]"

    return _STABLE.sub(one, body)


def to_numbers(body: str, known: dict[str, int]) -> tuple[str, list[int]]:
    """Return a body with numbered footnotes, from 1 as they come, and the number that each had.

    ``known`` gives the former number of a place; a footnote of an unknown place goes.
    """
    order: list[int] = []

    def one(match: re.Match[str]) -> str:
        number = known.get(match.group(1))
        if number is None:
            return ""
        order.append(number)
        return f"[^{len(order)}]"

    return _STABLE.sub(one, body), order


def pieces_of(body: str) -> list[str]:
    """Return a body as statements, line breaks and blocks of code; joined they give it again."""
    out: list[str] = []
    for part, is_code in _blocks(body):
        if is_code:
            out.append(part)
            continue
        for at, line in enumerate(part.split("\n")):
            out += ["\n"] if at else []
            out += _PIECE.findall(line)
    return out


@dataclass(frozen=True, slots=True)
class _Step:
    """A change of a base: its pieces from ``start`` to ``end`` became others."""

    start: int
    end: int
    pieces: list[str]


def merge(base: str, ours: str, theirs: str) -> str:
    """Return ours with what ``theirs`` changed in ``base``; where both did, their words.

    What both put in at one place is kept from both. Whatever of ``theirs`` is neither ours nor the
    base's is marked as human-written.
    """
    if theirs == base:
        return ours
    b, o, t = pieces_of(base), pieces_of(ours), pieces_of(theirs)
    machine = {piece.strip() for piece in (*b, *o)}
    mine, its = _steps(b, o), _steps(b, t)
    covered = {i for step in (*mine, *its) for i in range(step.start, step.end)}
    kept = [step for step in mine if not _is_overruled(step, its)]
    marked = [_Step(s.start, s.end, [_marked(p, machine) for p in s.pieces]) for s in its]
    out: list[str] = []
    for i in range(len(b) + 1):
        for is_change in (False, True):  # what is put in before a piece comes before its change
            for step in (*kept, *marked):
                if step.start == i and (step.end > i) == is_change:
                    out += step.pieces
        if i < len(b) and i not in covered:
            out.append(b[i])
    return "".join(out)


def _steps(base: list[str], other: list[str]) -> list[_Step]:
    """Return what was done to a base, the pieces that changed one to one each by itself."""
    # A line break alone ties nothing together.
    matcher = SequenceMatcher(lambda piece: piece == "\n", base, other, autojunk=False)
    out: list[_Step] = []
    for tag, i1, i2, j1, j2 in matcher.get_opcodes():
        if tag == "equal":
            continue
        at, to = i1, j1
        for i, j in [*_rewritten(base[i1:i2], other[j1:j2]), (i2 - i1, j2 - j1)]:
            if (at, to) != (i1 + i, j1 + j):
                out.append(_Step(at, i1 + i, other[to : j1 + j]))
            if i < i2 - i1:
                out.append(_Step(i1 + i, i1 + i + 1, [other[j1 + j]]))
            at, to = i1 + i + 1, j1 + j + 1
    return out


def _rewritten(base: list[str], other: list[str]) -> list[tuple[int, int]]:
    """Return which pieces of a stretch became which: the likest, in order, none crossing."""
    if len(base) * len(other) > MAX_COMPARED:
        return []
    likeness = [
        [SequenceMatcher(None, one, two, autojunk=False).ratio() for two in other] for one in base
    ]
    best = [[0.0] * (len(other) + 1) for _ in range(len(base) + 1)]
    for i in reversed(range(len(base))):
        for j in reversed(range(len(other))):
            pair = likeness[i][j] + best[i + 1][j + 1] if likeness[i][j] >= LIKE else 0.0
            best[i][j] = max(best[i + 1][j], best[i][j + 1], pair)
    out, i, j = [], 0, 0
    while i < len(base) and j < len(other):
        if best[i][j] == best[i + 1][j]:
            i += 1
        elif best[i][j] == best[i][j + 1]:
            j += 1
        else:
            out.append((i, j))
            i, j = i + 1, j + 1
    return out


def _is_overruled(step: _Step, others: list[_Step]) -> bool:
    """Tell whether a person changed all that a step of ours changes, or put in the same."""
    if step.start == step.end:
        return step in others
    return any(other.start <= step.start and step.end <= other.end for other in others)


def _marked(piece: str, machine: set[str]) -> str:
    words = piece.strip()
    is_prose = (
        words
        and words not in machine
        and not words.startswith(("#", "|", "```", "~~~", "---", "<"))
    )
    if not is_prose or HUMAN in piece or not re.search(r"\w", words):
        return piece
    bare = piece.rstrip()
    return bare + HUMAN + piece[len(bare) :]


def changed_entries(base: dict[str, str], theirs: dict[str, str]) -> dict[str, str | None]:
    """Return the front matter that a person added or changed; None for what they took out.

    What counts their own words is ours.
    """
    gone: dict[str, str | None] = {key: None for key in base if key not in theirs}
    changed = gone | {key: lines for key, lines in theirs.items() if base.get(key) != lines}
    return {key: lines for key, lines in changed.items() if key not in COUNTS}
