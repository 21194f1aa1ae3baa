"""The README says what is true: its commands run, its tables are complete."""

import re
import shlex
import shutil
from pathlib import Path

import pytest
from conftest import ROOT

from kbwiki.cli import main
from kbwiki.cli.app import app
from kbwiki.config import Settings
from kbwiki.stages.archives import SUFFIXES
from kbwiki.text.readers import READERS, reader_kind
from kbwiki.verbs import STAGES

README = (ROOT / "README.md").read_text("utf-8")
NOTES = ["en/associative-scan.md", "en/linear-attention.md", "ru/ассоциативное-сканирование.md"]


def _shell_lines() -> list[str]:
    blocks = re.findall(r"```sh\n(.*?)```", README, re.DOTALL)
    return [line.split("  #")[0].strip() for block in blocks for line in block.splitlines() if line]


def test_every_command_of_the_readme_runs(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "papers").mkdir()
    for name in NOTES:
        shutil.copy(ROOT / "corpus" / name, tmp_path / "papers")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("KBWIKI_DATABASE_URL", url)
    ran = []
    for line in _shell_lines():
        if line.startswith("kbwiki serve"):
            continue  # it runs until it is stopped: test_serve_http.py starts it as a process
        if line.startswith("kbwiki "):  # the engine is local: a key is the reader's own
            assert main(shlex.split(line)[1:]) == 0, line
            ran.append(line)
    assert len(ran) >= 15


def test_every_make_target_of_the_readme_exists() -> None:
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE)
    named = [line.split()[1] for line in _shell_lines() if line.startswith("make ")]
    assert named
    assert set(named) <= set(targets)
    assert {"help", "setup", "lint", "type", "test", "bench", "demo", "clean"} <= set(targets)


def test_the_table_of_commands_is_complete_and_says_what_help_says() -> None:
    import typer.main

    group = typer.main.get_command(app)
    commands = group.commands
    table = dict(re.findall(r"^\| `([a-z-]+)` \| (.+) \|$", README, re.MULTILINE))
    texts = {name: (command.help or "").splitlines()[0] for name, command in commands.items()}
    assert table == texts
    assert table.items() >= STAGES.items()


def test_every_option_has_a_help_text() -> None:
    import typer.main

    def walk(command: object, path: str) -> None:
        for parameter in getattr(command, "params", []):
            assert getattr(parameter, "help", None), f"{path} {parameter.name}"
        for name, inner in getattr(command, "commands", {}).items():
            walk(inner, f"{path} {name}")

    for name, command in typer.main.get_command(app).commands.items():
        walk(command, name)


def test_the_table_of_settings_is_complete() -> None:
    table = re.findall(r"^\| `KBWIKI_([A-Z_]+)` \| (.*?) \| (.+) \|$", README, re.MULTILINE)
    assert {name: text for name, _, text in table} == {
        name.upper(): field.description for name, field in Settings.model_fields.items()
    }
    for name, default, _ in table:
        field = Settings.model_fields[name.lower()]
        if default.startswith("`"):
            assert default.strip("`") == str(field.default), name


def test_every_format_it_names_has_a_reader() -> None:
    sentence = README[README.index("It reads `.md`") :].split("\n\n")[0]
    named = set(re.findall(r"`(\.[a-z.]+)`", sentence.split("Name what")[0]))
    assert named <= READERS.keys() | set(SUFFIXES)
    assert {reader_kind(f"a{suffix}") for suffix in named} >= set(map(reader_kind, READERS))


def test_links_to_files_lead_somewhere() -> None:
    for target in re.findall(r"\]\(([^)#]+)\)", README):
        assert (ROOT / target).exists(), target
