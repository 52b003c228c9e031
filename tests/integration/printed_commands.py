"""The commands that documents print, run as a reader enters them.

A block is left out where a comment before it says what it needs: `<!-- needs Docker -->`. The lines that set up and
start `dev` stand for the tree that a test starts. What is compared is the exit code, and the first line that is
printed, without what differs from run to run: ages, numbers, names of nodes, hosts and users.
"""

from __future__ import annotations

import os
import re
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from tests.integration.dev_tree import DevTree
from tests.patience import patient

ROOT = Path(__file__).parents[2]
BLOCK = re.compile(
    r"^(?:<!-- needs (?P<needs>[^>]+) -->\n+)?```(?P<language>\w*)\n(?P<text>.*?)^```$", flags=re.M | re.S
)
STARTS = re.compile(r"(make setup|make demo|make test|wharfinger dev )")
LOOKS = re.compile(
    r"wharfinger (get|pending|explain|workflow-id|fleet (status|history)|placement (list|status|diff)|cluster list)\b"
)
"""Commands that may be repeated until they print what the page shows."""
PASSING = (
    (re.compile(r"\b[0-9a-f]{6,}(-[0-9a-f]{4,})*\b"), "ID"),
    (re.compile(r"\b(oak|elm)-\d\b"), "NODE"),
    (re.compile(r"\b[\w-]+@[\w-]+\b"), "WHO"),
    (re.compile(r"\d+(\.\d+)?"), "N"),
    (re.compile(r"\bN(ms|s|m|h|d)(Ns)?\b"), "AGE"),
)


class Printed(NamedTuple):
    """A command of a document."""

    command: str
    first: str
    """The first line below it; empty if there is none, or only what it waits for."""
    fails: bool


def commands(text: str) -> Iterator[Printed]:
    """The commands of a document that the tests run, in order."""
    for block in BLOCK.finditer(text):
        if block["needs"] is not None or block["language"] not in {"", "console"}:
            continue
        for part in re.split(r"^\$ ", block["text"], flags=re.M)[1:]:
            command, _, below = part.partition("\n")
            shown = [line for line in below.splitlines() if line and not line.startswith(("waits: ", "..."))]
            if not STARTS.match(command) and "activate" not in command:
                yield Printed(command, shown[0] if shown else "", fails="error: " in below or "exit code 1" in command)


def document(name: str) -> list[Printed]:
    found = [*commands((ROOT / name).read_text())]
    assert found, name
    return found


def section(name: str, heading: str) -> list[Printed]:
    """The commands of a section of a document, with those of its parts."""
    text = (ROOT / name).read_text().split(f"\n## {heading}\n")[1].split("\n## ")[0]
    return [*commands(text)]


def shape(line: str) -> str:
    for pattern, name in PASSING:
        line = pattern.sub(name, line)
    return " ".join(line.split())


class Terminal:
    """Where a reader enters commands: a folder with the examples, the data of `dev`, and its variables."""

    def __init__(self, tree: DevTree) -> None:
        self._folder = tree.folder
        for name, target in (("examples", ROOT / "examples"), ("wharfinger-data", tree.folder / "data")):
            (self._folder / name).symlink_to(target)
        path = f"{ROOT / '.venv' / 'bin'}:{os.environ['PATH']}"
        self._env = {**tree.environment, "PATH": path, "COLUMNS": "200"}
        self.variables = ""
        """Assignments of lines before, as a terminal keeps them."""

    def runs(self, commands: list[Printed]) -> None:
        for one in commands:
            ends = time.monotonic() + patient(60)
            while (trouble := self._trouble(one)) and LOOKS.match(one.command) and time.monotonic() < ends:
                time.sleep(0.5)
            assert not trouble, trouble

    def _trouble(self, one: Printed) -> str:
        done = subprocess.run(
            ["bash", "-o", "pipefail", "-c", f"{self.variables}\n{one.command}"],
            cwd=self._folder, env=self._env, capture_output=True, text=True, timeout=patient(180), check=False,
        )  # fmt: skip
        if re.match(r"\w+=", one.command) and done.returncode == 0:
            self.variables += f"{one.command}\n"
        said = [line for line in (done.stdout or done.stderr).splitlines() if line and not line.startswith("waits: ")]
        if (done.returncode != 0) != one.fails:
            return f"$ {one.command}\nexit code {done.returncode}: {done.stdout}{done.stderr}"
        if one.first and shape(one.first) not in {shape(line) for line in said}:
            return f"$ {one.command}\nnot printed: {one.first}\n{done.stdout}{done.stderr}"
        return ""
