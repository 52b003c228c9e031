"""Whole `wharfinger dev` trees, stopped at the end whatever a test did."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.integration.dev_tree import DevTree

NewTree = Callable[[int], DevTree]


@pytest.fixture
def dev_tree(tmp_path: Path) -> Iterator[NewTree]:
    """Makes trees, not started yet, with a number of workers; all on the same data folder."""
    made: list[DevTree] = []

    def make(workers: int) -> DevTree:
        tree = DevTree(tmp_path, workers, usual_ports=True)
        made.append(tree)
        return tree

    yield make
    for tree in made:
        if tree.process is not None and tree.process.poll() is None:
            tree.process.send_signal(signal.SIGKILL)  # its children die with it
            tree.process.wait()
