"""What a person saves in the middle of an export: never lost, however the export ends."""

import hashlib
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from kbwiki.stages import wiki_files
from kbwiki.stages.wiki_files import ODD, put, remove, settle, sha_of

OURS, WAS, MINE = b"new", b"old", "моё".encode()
SHA = hashlib.sha256(WAS).hexdigest()


@pytest.fixture
def page(tmp_path: Path) -> Path:
    page = tmp_path / f"{'ш' * 95}.conflict.md"  # the longest there is
    page.write_bytes(WAS)
    return page


def _held(page: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in page.parent.iterdir()}


def _cut(
    page: Path, monkeypatch: pytest.MonkeyPatch, fault: BaseException, later: bytes = b""
) -> None:
    """Let a person save at the last moment, and a fault come when what they saved was moved."""
    rename = wiki_files._renameat2
    move = Path.rename
    seen: list[bool] = []

    def meet(change: Callable[[], object]) -> object:
        if seen:
            return change()
        seen.append(True)
        page.write_bytes(MINE)
        change()
        if later:
            page.write_bytes(later)
        raise fault

    def exchange(source: Path, target: Path, flag: int) -> object:
        return meet(lambda: rename(source, target, flag))

    def away(source: Path, target: Path) -> object:
        return meet(lambda: move(source, target)) if source == page else move(source, target)

    monkeypatch.setattr(wiki_files, "_renameat2", exchange)
    monkeypatch.setattr(Path, "rename", away)


@pytest.mark.parametrize("way", ["put", "remove"])
@pytest.mark.parametrize("fault", [KeyboardInterrupt(), OSError(5, "fault"), SystemExit(9)])
def test_words_saved_meanwhile_are_given_back_after_a_fault(
    page: Path, monkeypatch: pytest.MonkeyPatch, way: str, fault: BaseException
) -> None:
    with monkeypatch.context() as cut:
        _cut(page, cut, fault)
        if isinstance(fault, SystemExit):  # killed: nothing is cleaned up
            cut.setattr(wiki_files, "_settle", lambda _: None)
        with pytest.raises(type(fault)):
            _ = put(page, OURS, SHA) if way == "put" else remove(page, SHA)
    if isinstance(fault, SystemExit):
        assert MINE not in {page.exists() and page.read_bytes()}
        settle(page.parent)
    assert _held(page) == {page.name: MINE}


@pytest.mark.parametrize("way", ["put", "remove"])
def test_of_words_saved_twice_meanwhile_both_are_kept(
    page: Path, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    with monkeypatch.context() as cut:
        _cut(page, cut, KeyboardInterrupt(), b"later")
        with pytest.raises(KeyboardInterrupt):
            _ = put(page, OURS, SHA) if way == "put" else remove(page, SHA)
    assert _held(page) == {page.name: b"later", f"{page.stem}.kept-1.md": MINE}


def test_what_a_killed_export_left_of_ours_is_removed(
    page: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as cut:
        cut.setattr(wiki_files, "_settle", lambda _: None)
        assert put(page, OURS, SHA)
    (page.parent / f".half{wiki_files.NEW}").write_bytes(b"n")
    assert len(_held(page)) == 3
    settle(page.parent)
    assert _held(page) == {page.name: OURS}


@pytest.mark.parametrize("make", [lambda path: path.symlink_to("nowhere"), os.mkfifo, os.mkdir])
def test_what_is_no_file_is_neither_read_nor_replaced(
    page: Path, make: Callable[[Path], object]
) -> None:
    page.unlink()
    assert sha_of(page) is None
    make(page)
    kind = page.lstat().st_mode
    assert sha_of(page) == ODD
    assert not put(page, OURS, None)
    assert not put(page, OURS, ODD)
    assert not remove(page, ODD)
    assert page.lstat().st_mode == kind
    assert [path.name for path in page.parent.iterdir()] == [page.name]
