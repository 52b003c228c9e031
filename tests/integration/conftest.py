"""Whole trees for the tests of this folder."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.integration.dev_tree import DevTree


@pytest.fixture(scope="module")
def two_workers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DevTree]:
    """A tree with two workers, shared by the tests of a module."""
    tree = DevTree(tmp_path_factory.mktemp("dev"), workers=2)
    tree.start()
    yield tree
    assert tree.stop() == 0


@pytest.fixture
def cluster(two_workers: DevTree) -> Iterator[DevTree]:
    """The shared tree, empty before and after the test."""
    two_workers.clear()
    yield two_workers
    two_workers.clear()
