"""Which tests go into one process together, and in which order processes get them.

Where some of the tests need servers, what is handed out is a whole file, or all files on one tree of servers: servers
take long to start, and the tests of a file share them. Where none does, it is a few tests at a time.

Neighbours: `tests.conftest` orders the tests by `in_order`, `tests.forked_session` hands out what `shares` gives it.
"""

from __future__ import annotations

import functools
import re
from collections import Counter
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

import pytest

_FOLDER = Path(__file__).parent
_HEAVY = ("integration", "kubernetes", "faults", "dev", "demo")
"""Folders with few and long files: they go first, so that no process is left with one of them when the others are done.
One after the other, because the servers that the tests of a folder share end with the folder's last test."""
_SHARED = {
    "two_workers": r"\b(cluster|two_workers): DevTree",
    "only_servers": r"\b(servers|only_servers): DevTree|\bstart_worker: StartWorker",
}
"""Trees of servers that several files share (tests/integration/conftest.py) -> the parameters by which tests use them.
All files of a tree run in one process: a tree costs as much processor time as many of the tests on it, and would be
started in each process."""
_LAST = "test_fleets_under_faults.py"
"""Its tests, of seconds each, share nothing. They are handed out one by one at the end, as each process gets idle."""
_CALM = ("placement", "properties")
"""Folders of tests that compute, and neither wait nor look at the clock."""
_HEAVIEST = "test_fleet_rolling.py"
"""Twelve instances: it goes after the other long ones, beside tests that need little."""
_TESTS_AT_ONCE = 8
"""Of one file, where no servers are needed. They often share fixtures; but the last ones should not be many."""
_LONG = ("properties", "tooling", "packaging")
"""Folders that go first there: tests of seconds must not be the last ones, while other processes have none left."""


class Shares(NamedTuple):
    """All tests, in portions that one process runs from its first test to its last."""

    others: list[list[pytest.Item]]
    calm: list[list[pytest.Item]]
    """Those that only compute, beside servers. One process, which yields to all others, does nothing else: it takes
    what the others leave while they wait, so it makes none of their servers late. The others help with what is left."""


def in_order(items: Sequence[pytest.Item]) -> list[pytest.Item]:
    """The tests, as they are to be handed out."""
    sizes = Counter(item.path for item in items)
    trees = [*_SHARED, ""]

    @functools.cache
    def turn(path: Path) -> tuple[bool, int, int, bool, int]:
        within = path.relative_to(_FOLDER).parts[0] if path.is_relative_to(_FOLDER) else ""
        heavy = _HEAVY.index(within) if within in _HEAVY else len(_HEAVY)
        tree = trees.index(_tree_of(path)) if within == "integration" else len(trees)
        return path.name == _LAST, heavy, tree, path.name == _HEAVIEST, -sizes[path]

    return sorted(items, key=lambda item: turn(item.path))


def shares(items: Sequence[pytest.Item]) -> Shares:
    """The tests in portions; both kinds in their order."""
    served = {item.path for item in items if item.get_closest_marker("servers") is not None}
    if not served:
        return Shares(_few_at_once(items), [])
    scopes: dict[str, list[pytest.Item]] = {}
    for item in items:
        scope = item.nodeid if item.path.name == _LAST else _tree_of(item.path) or str(item.path)
        scopes.setdefault(scope, []).append(item)
    found = Shares([], [])
    for portion in scopes.values():
        path = portion[0].path
        calm = path not in served and path.is_relative_to(_FOLDER) and path.relative_to(_FOLDER).parts[0] in _CALM
        (found.calm if calm else found.others).append(portion)
    return found


def _few_at_once(items: Sequence[pytest.Item]) -> list[list[pytest.Item]]:
    """Those that may take long first; a portion has tests of one file."""
    found: list[list[pytest.Item]] = []
    for _, group in groupby(items, lambda item: item.path):
        of_file = list(group)
        found += [of_file[at : at + _TESTS_AT_ONCE] for at in range(0, len(of_file), _TESTS_AT_ONCE)]
    found.sort(key=lambda portion: _LONG.index(room) if (room := portion[0].path.parent.name) in _LONG else len(_LONG))
    return found


@functools.cache
def _tree_of(path: Path) -> str:
    """The first of `_SHARED` that the tests of a file use; empty without one."""
    text = path.read_text()
    return next((tree for tree, parameters in _SHARED.items() if re.search(parameters, text)), "")
