"""Finding a model's quote in its source: word for word, whatever its spaces and marks."""

import unicodedata

_SAME = {
    "“": '"', "”": '"', "„": '"', "«": '"', "»": '"', "‘": "'", "’": "'", "–": "-", "—": "-",
    "−": "-", "…": "...",
}  # fmt: skip


def find_quote(
    text: str, quote: str, start: int = 0, end: int | None = None
) -> tuple[int, int] | None:
    """Return where a quote stands in ``text[start:end]``, or None if it does not.

    Runs of white space count as one space, ligatures as their letters, and all forms of a quotation
    mark or a dash as one; letters and figures must be the same.
    """
    end = len(text) if end is None else end
    for wanted in dict.fromkeys((quote.strip(), quote.strip().strip("\"“”«»'‘’"))):
        if wanted and (span := _find(text, wanted, start, end)):
            return span
    return None


def _find(text: str, quote: str, start: int, end: int) -> tuple[int, int] | None:
    at = text.find(quote, start, end)
    if at >= 0:
        return at, at + len(quote)
    folded, places = _fold(text[start:end])
    wanted = _fold(quote)[0].strip()
    at = folded.find(wanted) if wanted else -1
    if at < 0:
        return None
    return start + places[at], start + places[at + len(wanted) - 1] + 1


def _fold(text: str) -> tuple[str, list[int]]:
    """Return text in a form for comparing, and for each of its characters where it came from."""
    out: list[str] = []
    places: list[int] = []
    for at, char in enumerate(text):
        if char.isspace():
            if out and out[-1] == " ":
                continue
            folded = " "
        else:
            folded = _SAME.get(char) or unicodedata.normalize("NFKC", char)
        out.extend(folded)
        places.extend([at] * len(folded))
    return "".join(out), places
