"""Which tests one process runs together, and in which order processes take them.

Tests that compute take milliseconds, and a few of one file are a batch. Tests with servers take seconds, and share
servers by the file or by several files, which then are one batch. Neighbours: `tests.conftest` orders what is
collected, `tests.forked_session` hands the batches out.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Hashable, Sequence
from functools import cache
from pathlib import Path

import pytest

_AT_ONCE = 8
"""Tests in a batch of a file without servers. They often share fixtures; but the last ones should not be many."""
_LONG = ("properties", "tooling", "packaging")
"""Folders that go first in a session without servers: tests of seconds must not be the last ones, while other processes
have none left."""
_HEAVY = ("integration", "kubernetes", "faults", "dev", "dev/demo")
"""Folders with few and long files: they go first, so that no process is left with one of them when the others are done.
One after the other, because the servers that the tests of a folder share end with the folder's last test."""
_SHARED = {
    "two_workers": r"\b(cluster|two_workers): DevTree",
    "only_servers": r"\b(servers|only_servers): DevTree|\bstart_worker: StartWorker",
    "kube_apiserver": r"\b(mortal_)?kube_apiserver: ApiServerProcess|\bapiserver\.conformance\.",
}
"""Trees of servers that several files share (tests/integration/conftest.py) -> the parameters by which tests use them.
The last one is the API server of tests/apiserver/conftest.py, which files of several folders use. All files of a tree
run in one process: a tree costs as much processor time as many of the tests on it, and would be started in each
process."""
_ALONE = ("test_fleets_under_faults.py", "test_worker_lives.py")
"""Their tests, of seconds each, share nothing. They are handed out one by one."""
_CALM = ("placement/deciding", "properties")
"""Folders of tests that compute, and neither wait nor look at the clock. In a session with servers one process, which
yields to all others, does nothing else: it takes what the others leave while they wait, so it makes none of their
servers late. The others help it at the end."""
_HEAVIEST = "test_fleet_rolling.py"
"""Six workers and six more: it goes after the other long ones, beside tests that need little."""
_TESTS = Path(__file__).parent

Batch = list[pytest.Item]


def order(items: list[pytest.Item]) -> None:
    """Sort the tests by file as they are handed out."""
    sizes = Counter(item.path for item in items)

    @cache
    def turn(path: Path) -> tuple[int, int, bool, bool, int]:
        within = _folder(path)
        tree = _rank(_tree_of(path) if within == "integration" else "", list(_SHARED))
        return _rank(within, _HEAVY), tree, path.name == _HEAVIEST, path.name not in _ALONE, -sizes[path]

    items.sort(key=lambda item: turn(item.path))


def batches(items: Sequence[pytest.Item]) -> tuple[list[Batch], list[Batch]]:
    """The batches in the order in which processes take them, and those of them that only a calm process takes at first.

    Without servers there is no calm process.
    """
    with_servers = {item.path for item in items if item.get_closest_marker("servers") is not None}
    found: dict[Hashable, Batch] = {}
    taken: Counter[Path] = Counter()
    for item in items:
        path = item.path
        together: Hashable = _tree_of(path) if with_servers else ""
        if not together:
            size = 1 if path.name in _ALONE else _AT_ONCE
            together = path if path in with_servers else (path, taken[path] // size)
        taken[path] += 1
        found.setdefault(together, []).append(item)
    if not with_servers:
        return sorted(found.values(), key=lambda batch: _rank(batch[0].path.parent.name, _LONG)), []
    busy: list[Batch] = []
    calm: list[Batch] = []
    for batch in sorted(found.values(), key=lambda batch: batch[0].path not in with_servers):
        path = batch[0].path
        (calm if _folder(path).startswith(_CALM) and path not in with_servers else busy).append(batch)
    return busy, calm


def _rank(name: str, names: Sequence[str]) -> int:
    """Its place among the names; those that are missing come last."""
    return names.index(name) if name in names else len(names)


def _folder(path: Path) -> str:
    """Below `tests`; empty elsewhere."""
    return path.parent.relative_to(_TESTS).as_posix() if path.is_relative_to(_TESTS) else ""


@cache
def _tree_of(path: Path) -> str:
    """The first of `_SHARED` that the tests of a file use; empty without one."""
    text = path.read_text()
    return next((tree for tree, parameters in _SHARED.items() if re.search(parameters, text)), "")
