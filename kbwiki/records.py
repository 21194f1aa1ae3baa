"""The values that the layers hand to each other.

Plain frozen records, without behaviour beyond a few derived names. Spans are half-open character
offsets ``[start, end)`` into the text of their Source.
"""

from dataclasses import dataclass, field
from datetime import date
from typing import Literal

Lang = Literal["en", "ru"]
BlockKind = Literal["heading", "paragraph", "item", "quote", "code", "math", "table", "references"]
MarkKind = Literal["bold", "link", "wikilink", "code", "math"]
ConceptKind = Literal["method", "model", "task", "data", "person", "organisation", "concept"]

CONCEPT_KINDS: tuple[ConceptKind, ...] = (
    "model",
    "method",
    "task",
    "data",
    "concept",
    "person",
    "organisation",
)


@dataclass(frozen=True, slots=True)
class Block:
    """A piece of a document's structure; ``level`` is 1 to 6 for a heading, else 0."""

    kind: BlockKind
    start: int
    end: int
    level: int = 0


@dataclass(frozen=True, slots=True)
class Mark:
    """An emphasised, linked or verbatim stretch inside a block; ``target`` is a link's end."""

    kind: MarkKind
    start: int
    end: int
    target: str = ""


@dataclass(frozen=True, slots=True)
class Document:
    """What a reader makes of one file: plain text and where its parts lie in it.

    ``pages`` holds the start offset of each page, in order; it is empty for a format without pages.
    """

    text: str
    title: str = ""
    authors: tuple[str, ...] = ()
    year: int | None = None
    dated: date | None = None
    blocks: tuple[Block, ...] = ()
    marks: tuple[Mark, ...] = ()
    pages: tuple[int, ...] = ()
    notes: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()
    """Other names of what the title names, as front matter gives them."""
    references: tuple["Reference", ...] = ()
    coverage: tuple[int, int] = (1, 1)
    """How many of its parts (pages, chapters, lines) came through, of how many."""
    characters: tuple[int, int] = (1, 1)
    """How many signs of its text layer came through, of how many, where that can be told."""
    ids: tuple[str, ...] = ()
    """What names it everywhere: ``doi:10...``, ``arxiv:2501.00663``."""
    doubt: str = ""
    """Why it may be no document at all: an error page, a wall before the text."""


@dataclass(frozen=True, slots=True)
class Reference:
    """What a bibliography says of a paper; ``key`` is the canonical key of its title."""

    key: str
    authors: tuple[str, ...]
    year: int | None


@dataclass(frozen=True, slots=True)
class Chunk:
    """A span of a Source, about 200 words, with the headings above it; ``page`` counts from 1."""

    ordinal: int
    start: int
    end: int
    page: int | None
    headings: tuple[str, ...]
    lang: Lang


@dataclass(frozen=True, slots=True)
class Alias:
    """Another name of a concept and how the text gave it."""

    name: str
    kind: Literal["form", "acronym", "translation", "link", "given"]
    lang: Lang


@dataclass(frozen=True, slots=True)
class Candidate:
    """A term that one source might be about.

    ``key`` is the lemma key; ``signals`` counts how often each sign was seen (title, heading, bold,
    link, definition, acronym, translation, noun, name); ``definition`` is the span of a sentence.
    """

    key: str
    name: str
    lang: Lang
    kind: ConceptKind | None
    signals: dict[str, int]
    aliases: tuple[Alias, ...] = ()
    definition: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True)
class Claim:
    """A statement worth citing, with its verbatim span in the Source.

    ``text`` is the statement as it may be shown; ``rank`` in [0, 1] is higher for a sentence that
    stands alone well.
    """

    ordinal: int
    start: int
    end: int
    text: str
    lang: Lang
    page: int | None
    heading: str
    rank: float
    statement: str = ""
    """A model's own wording of it, if one read the source."""


@dataclass(frozen=True, slots=True)
class Extraction:
    """Everything that an engine reads out of one Source."""

    title: str
    lang: Lang
    summary: str
    candidates: tuple[Candidate, ...]
    claims: tuple[Claim, ...]
    authors: tuple[str, ...] = ()
    year: int | None = None
    """These two where a model read them off the text; what a reader found counts more."""
    engine: str = ""
    """The models that replied, or the engine without one."""


@dataclass(frozen=True, slots=True)
class Statement:
    """A claim as a brief gives it: where it stands and whose words it is."""

    source_id: int
    source_key: str
    source_title: str
    start: int
    end: int
    text: str
    lang: Lang
    page: int | None
    heading: str
    rank: float
    defines: bool
    mentions: tuple[tuple[int, int, str], ...] = ()
    """(start, end, title) of each other concept named in it; offsets within ``text``."""
    wording: str = ""
    """A model's own wording of it, which stands alone; empty if none read the source."""
    dated: str = ""
    """When its source is from, as ISO date or year; empty where nothing says so."""


@dataclass(frozen=True, slots=True)
class Brief:
    """What an engine gets in order to write one article."""

    title: str
    kind: str
    lang: Lang
    aliases: tuple[str, ...]
    statements: tuple[Statement, ...]
    main_source_key: str = ""
    is_lang_set: bool = False
    """Whether the reader set ``lang``; else it is that of most of the concept's names."""


@dataclass(frozen=True, slots=True)
class Citation:
    """A footnote of an article: the quote and where it stands. ``ordinal`` counts from 1."""

    ordinal: int
    source_id: int
    start: int
    end: int
    quote: str
    page: int | None


@dataclass(frozen=True, slots=True)
class Article:
    """A written page: its body holds cited statements and links (see text/links.py)."""

    title: str
    lang: Lang
    summary: str
    body: str
    citations: tuple[Citation, ...]
    engine: str


@dataclass(frozen=True, slots=True)
class Passage:
    """A piece of text that an answer may rest on.

    ``quotable``: spans of the sentences in it that are worth citing; None where nobody knows.
    """

    slug: str
    title: str
    text: str
    page: int | None = None
    quotable: tuple[tuple[int, int], ...] | None = None


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer to a question: sentences, each with the numbers, from 1, of its passages.

    ``missing`` is what the passages do not say, or empty; ``engine`` who wrote it.
    """

    statements: tuple[tuple[str, tuple[int, ...]], ...]
    missing: str
    engine: str


@dataclass(frozen=True, slots=True)
class Pair:
    """Two concepts that may be one: title, kind and definition of each."""

    first: tuple[str, str, str]
    second: tuple[str, str, str]


@dataclass(frozen=True, slots=True)
class Step:
    """One step of a chain: along an edge (``label`` its type, as read in this direction) or, where
    ``label`` is "mentions", from a passage to what it speaks of. ``slug`` is a page's.
    """

    label: str
    slug: str
    title: str


@dataclass(frozen=True, slots=True)
class Chain:
    """How one thing leads to another: where it begins, and the steps from there."""

    slug: str
    title: str
    steps: tuple[Step, ...]
    strength: float = 1.0

    def __str__(self) -> str:
        return self.title + "".join(f" -[{step.label}]-> {step.title}" for step in self.steps)


@dataclass(frozen=True, slots=True)
class Hit:
    """A search result; ``score`` in [0, 1], higher is better.

    ``kind`` is source (a passage of one), concept, article or answer; ``parts`` holds the score of
    words, vectors and graph; ``deviations`` how far its vector stands out of all others'. ``chain``
    is how the graph led to it; ``place`` how it came to its rank, where that is not the score's.
    """

    kind: str
    slug: str
    title: str
    snippet: str
    text: str
    score: float
    lang: str
    page: int | None
    parts: dict[str, float] = field(default_factory=dict)
    chain: Chain | None = None
    deviations: float = 0.0
    text_sha: str = ""
    place: str = ""

    @property
    def why(self) -> str:
        """What spoke for it, in a few words."""
        said = [self.place] if self.place else []
        said += [f"{name} {self.parts[name]:.2f}" for name in self.parts if self.parts[name] > 0]
        return ", ".join([*said, f"by {self.chain}"] if self.chain else said)
