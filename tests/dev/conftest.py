"""Whole `wharfinger dev` trees, stopped at the end whatever a test did."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.integration.dev_tree import DevTree

NewTree = Callable[..., DevTree]


@pytest.fixture
def dev_tree(tmp_path: Path) -> Iterator[NewTree]:
    """Makes trees, not started yet, with a number of workers; all on the same data folder.

    The usual ports are preferred by every tree of this machine, and may go to another one while a test's is away.
    """
    made: list[DevTree] = []

    def make(
        workers: int, *, usual_ports: bool = False, own_interpreter: bool = False, guarded: bool = False
    ) -> DevTree:
        tree = DevTree(tmp_path, workers, usual_ports=usual_ports, own_interpreter=own_interpreter, guarded=guarded)
        made.append(tree)
        return tree

    yield make
    for tree in made:
        if tree.process is not None and tree.process.poll() is None:
            tree.process.send_signal(signal.SIGKILL)  # its children die with it
            tree.process.wait()
