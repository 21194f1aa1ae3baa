"""Windows of whole blocks within a budget, each repeating the last block."""

from itertools import pairwise

import pytest

from kbwiki.engines.tokens import count_tokens
from kbwiki.engines.windows import Window, cut_windows, halves
from kbwiki.text.markdown import read_markdown

PARAGRAPH = {
    "en": "The associative scan is a parallel algorithm for prefix sums. " * 5,
    "ru": "Ассоциативное сканирование — это параллельный алгоритм для префиксных сумм. " * 5,
}


@pytest.mark.parametrize("lang", ["en", "ru"])
def test_windows_hold_whole_blocks_and_overlap_by_one(lang: str) -> None:
    paragraphs = [f"{n}. {PARAGRAPH[lang]}".replace(".", "\\.", 1) for n in range(20)]
    document = read_markdown("# T\n\n" + "\n\n".join(paragraphs))
    budget = 4 * count_tokens(PARAGRAPH[lang])
    windows = cut_windows(document, budget)
    starts = {block.start for block in document.blocks}
    ends = {block.end for block in document.blocks}
    assert len(windows) > 3
    for window in windows:
        assert (window.start in starts, window.end in ends) == (True, True)
        assert count_tokens(document.text[window.start : window.end]) <= budget * 1.05
    for before, after in pairwise(windows):
        assert before.start < after.start < before.end < after.end
    assert (windows[0].start, windows[-1].end) == (0, document.blocks[-1].end)


def test_a_block_over_the_budget_is_a_window_of_its_own() -> None:
    document = read_markdown(f"short one here\n\n{PARAGRAPH['en'] * 10}\n\nanother short one")
    spans = [document.text[w.start : w.end] for w in cut_windows(document, 60)]
    assert [len(span) > 2000 for span in spans] == [False, True, False]
    assert (spans[0], spans[2]) == ("short one here", "another short one")


def test_nothing_to_read_gives_no_window() -> None:
    assert cut_windows(read_markdown(""), 100) == []


def test_halves_cut_between_blocks_and_end_at_short_pieces() -> None:
    document = read_markdown(f"{PARAGRAPH['en']}\n\n{PARAGRAPH['ru']}")
    whole = Window(0, len(document.text))
    first, second = halves(document, whole)
    assert document.text[second.start :].startswith("Ассоциативное")
    assert (first.start, second.end) == (0, len(document.text))
    lone = read_markdown(PARAGRAPH["ru"])
    left, right = halves(lone, Window(0, len(lone.text)))
    assert left.end == right.start
    assert lone.text[: left.end].rstrip().endswith(".")
    assert halves(read_markdown("tiny"), Window(0, 4)) == []


def test_a_long_paragraph_under_a_heading_is_cut_inside_itself() -> None:
    document = read_markdown(f"# Title\n\n{PARAGRAPH['ru']}")
    left, right = halves(document, Window(0, len(document.text)))
    assert min(left.end - left.start, right.end - right.start) > len(PARAGRAPH["ru"]) / 3
