"""The second extractor: asked for a page of which the first made nothing or junk.

Owns pypdf. It also tells a page that is blank from one whose content cannot be read.
"""

import logging
import re
import zlib
from collections.abc import Callable
from functools import cached_property
from io import BytesIO
from typing import Any, TypeVar

from kbwiki.text.gate import refusal
from kbwiki.text.normal import clean_line
from kbwiki.text.pdf_page import LIGATURES, Cell, Line, placed

_LEADING = 12.0
_STATE = re.compile(
    rb"(?:\s|[-+.\d\[\]]|/[\w.+-]+|(?:q|Q|J|j|w|M|d|i|ri|gs|cm|g|G|rg|RG|k|K|cs|CS|sc|SC|n|BT|ET|Tf|Tm|Td)"
    rb"(?!\w))*+"
)
"""How to draw, and nothing that draws."""
_MAX_STATE = 2_000
"""Bytes up to which a content may hold nothing else."""


Answer = TypeVar("Answer")


def _draws_nothing(content: bytes) -> bool:
    return len(content) <= _MAX_STATE and _STATE.fullmatch(content) is not None


class Spare:
    """A PDF opened a second time, at the first page that needs it."""

    def __init__(self, raw: bytes) -> None:
        self._raw = raw

    @cached_property
    def _reader(self) -> Any:
        from pypdf import PdfReader

        logging.getLogger("pypdf").setLevel(logging.CRITICAL)
        return PdfReader(BytesIO(self._raw))

    def is_blank(self, number: int) -> bool:
        """Tell whether a page (from 0) draws nothing: its content is there and empty, or absent."""

        def drawn() -> bytes | None:
            page = self._reader.pages[number]
            content = page.get_contents()
            if content is None:  # none named, or one that is not to be found
                return None if "/Contents" in page else b""
            data: bytes = content.get_data()
            return b"" if _draws_nothing(data.strip()) else data

        return self._asked(drawn) == b""

    def lines(self, number: int) -> list[Line]:
        """Return the lines of a page (from 0) in the file's order; none where they are junk."""

        def read() -> str:
            return str(self._reader.pages[number].extract_text())

        text = self._asked(read) or ""
        if refusal(text):
            return []
        out: list[Line] = []
        base = 0.0
        for row in text.translate(LIGATURES).splitlines():
            base -= _LEADING
            words = clean_line(row)
            if words:
                cell = Cell(words, 0.0, 6.0 * len(words))
                out.append(Line((cell,), base, 10.0, False, pitch=_LEADING))
        return placed(out)

    def _asked(self, question: Callable[[], Answer]) -> Answer | None:
        """Return an answer of pypdf, or None where a broken file made it fail."""
        from pypdf.errors import PyPdfError

        try:
            return question()
        except (
            PyPdfError, KeyError, ValueError, TypeError, AttributeError, IndexError, OSError,
            RecursionError, AssertionError, NotImplementedError, zlib.error,
        ):  # fmt: skip
            return None
