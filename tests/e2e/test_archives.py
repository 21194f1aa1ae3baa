"""Archives: their files are sources under the archive's name, within bounds; none escapes."""

import gzip
import io
import tarfile
import zipfile
from pathlib import Path

import pytest
from conftest import Store

from kbwiki.errors import InputError
from kbwiki.stages import archives
from kbwiki.stages.archives import list_members

NOTE = "# {0}\n\n**{0}** — это способ хранить прошлое. В тексте {0} встречается ещё раз.\n"
NOTES = {
    "ru/линейное.md": NOTE.format("Линейное внимание"),
    "en/hopfield.md": "# Hopfield network\n\nA **Hopfield network** is a memory of patterns.\n",
}


def _zip(path: Path, files: dict[str, str]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    return path


def _tar(path: Path, files: dict[str, str]) -> Path:
    with tarfile.open(path, "w:gz" if path.name.endswith("gz") else "w") as archive:
        for name, text in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(text.encode())
            archive.addfile(info, io.BytesIO(text.encode()))
    return path


def _pack(path: Path, files: dict[str, str]) -> Path:
    return (_zip if path.suffix == ".zip" else _tar)(path, files)


def _uris(store: Store) -> list[str]:
    return [row["uri"] for row in store.database.dicts("list_source_uris")]


@pytest.mark.parametrize("name", ["заметки.zip", "a.tar.gz", "a.tgz", "a.tar"])
def test_files_of_an_archive_are_sources_under_its_name(store: Store, name: str) -> None:
    folder = store.root / "notes"
    folder.mkdir()
    path = _pack(folder / name, {**NOTES, ".hidden.md": "x", "__MACOSX/a.md": "x", "a.bin": "x"})
    report = store.build(folder)["ingest"]
    assert report.failures == ()
    assert _uris(store) == [f"notes/{name}/en/hopfield.md", f"notes/{name}/ru/линейное.md"]
    note = "0 new, 0 changed, 2 as before, 1 of kinds that are not read (1 .bin)"
    assert store.build(path)["ingest"].outcome.note == note
    _pack(path, {"en/hopfield.md": NOTES["en/hopfield.md"]})
    note = store.build(folder)["ingest"].outcome.note
    assert f"1 vanished (notes/{name}/ru/линейное.md): --prune removes them" in note
    path.unlink()
    (folder / "en.md").write_text(NOTES["en/hopfield.md"], "utf-8")
    assert "1 moved" in store.build(folder)["ingest"].outcome.note


@pytest.mark.parametrize("name", ["a.zip", "a.tar"])
@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_two_files_of_one_name_in_an_archive_are_two(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    with zipfile.ZipFile(path, "w") if name == "a.zip" else tarfile.open(path, "w") as archive:
        for raw in (b"# One\n", "# Два\n".encode()):
            if isinstance(archive, zipfile.ZipFile):
                archive.writestr("память.md", raw)
            else:
                info = tarfile.TarInfo("память.md")
                info.size = len(raw)
                archive.addfile(info, io.BytesIO(raw))
    members = list_members(path).members
    assert [member.name for member in members] == ["память.md", "память (2).md"]
    read = [member.read(99) for member in members if member.read]
    assert read == [b"# One\n", "# Два\n".encode()]


def test_a_failure_in_an_archive_stays_while_the_archive_does(store: Store) -> None:
    path = _zip(store.root / "a.zip", {**NOTES, "broken.ipynb": "{"})
    (store.root / "b.md").write_text(NOTE.format("Память"), "utf-8")
    assert len(store.build(path)["ingest"].failures) == 1
    store.build(store.root / "b.md")
    [failure] = store.database.dicts("list_failures")
    assert failure["item"] == "a.zip/broken.ipynb"
    path.unlink()
    store.build(store.root / "b.md")
    assert store.database.dicts("list_failures") == []


def test_an_archive_that_cannot_be_opened_any_more_loses_nothing(store: Store) -> None:
    path = _zip(store.root / "a.zip", NOTES)
    store.build(path)
    path.write_bytes(path.read_bytes()[:99])
    report = store.build(path)["ingest"]
    assert report.failures == (("a.zip", "a.zip: it is broken or no archive. Save a clean copy."),)
    assert "2 not found" in report.outcome.note
    assert len(_uris(store)) == 2


FILES = {"один.md": "# Один\n", "two.md": "# Two\n" * 200}


@pytest.mark.parametrize("cut_in", ["end of one", "head of two", "text of two", "end of two"])
@pytest.mark.parametrize("is_packed", [False, True])
def test_of_a_tar_that_was_cut_the_whole_files_are_read(
    tmp_path: Path, cut_in: str, is_packed: bool
) -> None:
    path = _tar(tmp_path / "a.tar", FILES)
    assert not list_members(path).is_cut
    raw = path.read_bytes()
    text = raw.index(b"# Two")
    kept = {"end of one": -512, "head of two": -9, "text of two": 99, "end of two": 1_536}[cut_in]
    raw = raw[: text + kept]
    path.write_bytes(gzip.compress(raw + b"lost", 0)[: len(raw) + 15] if is_packed else raw)
    listing = list_members(path)
    assert listing.is_cut
    whole = {m.name: m.read(9_999) for m in listing.members if m.read}
    names = {"один.md", "two.md"} if cut_in == "end of two" else {"один.md"}
    assert whole == {name: FILES[name].encode() for name in names}
    lost = {m.name: m.problem for m in listing.members if not m.read}
    assert lost == ({"two.md": "its archive is cut there"} if cut_in == "text of two" else {})


def test_what_a_cut_archive_lost_is_said_and_is_not_taken_for_gone(store: Store) -> None:
    path = _tar(store.root / "a.tar", NOTES)
    store.build(path)
    raw = path.read_bytes()
    path.write_bytes(raw[: raw.index(b"# Hopfield") - 99])
    report = store.build(path)["ingest"]
    assert report.failures == (
        ("a.tar", "a.tar: it is cut: what is whole in it was read. Get the whole archive."),
    )
    note = "0 new, 0 changed, 1 as before, 1 not found (a.tar/en/hopfield.md)"
    assert report.outcome.note.startswith(note)
    assert len(_uris(store)) == 2


@pytest.mark.parametrize("name", ["a.zip", "a.tar.gz"])
def test_a_path_that_leads_outside_is_refused_and_the_rest_is_read(store: Store, name: str) -> None:
    folder = store.root / "notes"
    folder.mkdir()
    _pack(folder / name, {"../escape.md": "x", "/etc/absolute.md": "x", **NOTES})
    report = store.build(folder)["ingest"]
    assert [(item, "outside its archive" in why) for item, why in report.failures] == [
        (f"notes/{name}/escape.md", True),
        (f"notes/{name}/etc/absolute.md", True),
    ]
    assert len(_uris(store)) == 2
    assert not (store.root / "escape.md").exists()


def test_a_zip_bomb_is_refused_and_the_rest_is_read(store: Store) -> None:
    path = _zip(store.root / "a.zip", {"bomb.txt": "0" * 20_000_000, **NOTES})
    [(item, why)] = store.build(path)["ingest"].failures
    assert (item, "unpacks to far more" in why) == ("a.zip/bomb.txt", True)
    assert len(_uris(store)) == 2


def test_a_packed_tar_that_is_a_bomb_is_not_unpacked_whole(tmp_path: Path) -> None:
    path = _tar(tmp_path / "a.tgz", {"bomb.txt": "0" * 60_000_000})
    with pytest.raises(InputError, match="unpacks to far more"):
        list_members(path)


def test_links_and_archives_in_archives_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.tar"
    with tarfile.open(path, "w") as archive:
        link = tarfile.TarInfo("link.md")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        archive.addfile(link)
        archive.addfile(tarfile.TarInfo("inner.zip"))
        archive.addfile(tarfile.TarInfo(""))
    assert {m.name: m.problem for m in list_members(path).members} == {
        "link.md": "it is no regular file",
        "inner.zip": "it is an archive in an archive",
        "one without a name": "it has no name",
    }


@pytest.mark.parametrize(
    ("name", "value", "why"), [("MAX_MEMBERS", 1, "over 1 files"), ("MAX_UNPACKED", 99, "0 MB")]
)
@pytest.mark.parametrize("kind", ["a.zip", "a.tar.gz"])
def test_count_and_size_are_bounded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, name: str, value: int, why: str
) -> None:
    path = _pack(tmp_path / kind, NOTES)
    monkeypatch.setattr(archives, name, value)
    with pytest.raises(InputError, match=why):
        list_members(path)


def test_depth_is_bounded(tmp_path: Path) -> None:
    [member] = list_members(_zip(tmp_path / "a.zip", {"x/" * 30 + "a.md": "x"})).members
    assert "folders deep" in member.problem


def test_russian_names_of_an_old_archive_are_read(tmp_path: Path) -> None:
    path = _zip(tmp_path / "a.zip", {"xxxxxxx.md": "# Заметка\n\nТекст.\n"})
    raw = path.read_bytes().replace(b"xxxxxxx", "заметка".encode("cp866"))
    path.write_bytes(raw)
    assert [m.name for m in list_members(path).members] == ["заметка.md"]
