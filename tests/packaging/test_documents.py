"""The documents name what exists: commands of the CLI, files of the repository; and the README stays short."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from wharfinger.cli.main import command_line

ROOT = Path(__file__).parents[2]
DOCUMENTS = sorted([ROOT / "README.md", ROOT / "ARCHITECTURE.md", ROOT / "CONTRIBUTING.md", *ROOT.glob("docs/**/*.md")])
MADE = ROOT / "docs" / "reference"
"""Pages that are made from the code as the documents are built, which fails where a link to one leads nowhere."""
PATH = re.compile(r"`((?:src/wharfinger|tests|workflows|activities|benchmarks|examples|deploy|docs)/[\w./-]+)`")
LINK = re.compile(r"(?<!!)\[[^\]]+\]\(([^)#\s:]+)(?:#[^)]*)?\)")
COMMAND = re.compile(r"(?:^\$ |`)wharfinger ([a-z][a-z-]*)(?: ([a-z][a-z-]+))?", flags=re.M)


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_named_files_exist(document: Path) -> None:
    text = document.read_text()
    linked = [document.parent / target for target in LINK.findall(text)]
    named = [ROOT / name for name in PATH.findall(text)]

    missing = [path for path in linked + named if not path.exists()]
    assert [str(path) for path in missing if path.parent != MADE] == []


@pytest.fixture(scope="module")
def command() -> Any:
    """The whole command line."""
    return typer.main.get_command(command_line())


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_named_commands_exist(document: Path, command: Any) -> None:
    unknown = []
    for name, sub in COMMAND.findall(document.read_text()):
        below = getattr(command.commands.get(name), "commands", None)
        if name not in command.commands or (below is not None and sub and sub not in below):
            unknown.append(f"{name} {sub}".strip())

    assert unknown == []


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_lines_of_etcdctl_log_in(document: Path) -> None:
    """They are refused otherwise where etcd has users, as that of `dev` has; without users the option does no harm."""
    lines = [line for line in document.read_text().splitlines() if re.match(r"(\$ )?(\w+=\S+ )?etcdctl ", line)]

    assert [line for line in lines if " --user " not in line] == []


def test_json_outputs_of_all_commands_are_documented(command: Any) -> None:
    rows = re.findall(r"^\| `([a-z -]+)", (ROOT / "docs/json-outputs.md").read_text(), flags=re.M)
    documented = {" ".join(word for word in row.split() if not word.startswith("--")) for row in rows}

    assert documented == set(with_json(command, ""))


def with_json(command: Any, name: str) -> Iterator[str]:
    """The commands that have the option `-o`."""
    for child, below in getattr(command, "commands", {}).items():
        yield from with_json(below, f"{name} {child}".strip())
    if any("-o" in parameter.opts for parameter in command.params):
        yield name


def test_readme_is_at_most_9_kb() -> None:
    assert len((ROOT / "README.md").read_bytes()) <= 9_000
