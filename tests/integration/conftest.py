"""Whole trees for the tests of this folder; they are shared, and emptied between tests."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.integration.dev_tree import DevTree, running_tree
from tests.integration.worker_process import WorkerProcess

StartWorker = Callable[..., WorkerProcess]


@pytest.fixture(scope="package")
def two_workers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DevTree]:
    """A tree with two workers."""
    with running_tree(tmp_path_factory.mktemp("dev"), workers=2) as tree:
        yield tree


@pytest.fixture
def cluster(two_workers: DevTree) -> Iterator[DevTree]:
    """The shared tree, empty before and after the test."""
    two_workers.clear()
    yield two_workers
    two_workers.clear()


@pytest.fixture(scope="package")
def only_servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DevTree]:
    """A tree without a worker, for tests that start workers of their own."""
    with running_tree(tmp_path_factory.mktemp("servers"), workers=0) as tree:
        yield tree


@pytest.fixture
def servers(only_servers: DevTree) -> Iterator[DevTree]:
    """The shared servers, empty before and after the test."""
    only_servers.clear()
    yield only_servers
    only_servers.clear()


@pytest.fixture
def start_worker(servers: DevTree, tmp_path: Path) -> Iterator[StartWorker]:
    """Starts `wharfinger worker` with the options given, on duty; all are drained at the end. `folder`: where."""
    started: list[WorkerProcess] = []

    def start(
        *options: str, env: dict[str, str] | None = None, wait: bool = True, folder: Path | None = None
    ) -> WorkerProcess:
        log = tmp_path / f"worker{len(started)}.log"
        worker = WorkerProcess(log, *options, env={**servers.environment, **(env or {})}, folder=folder)
        started.append(worker)
        if wait:
            worker.wait_ready()
        return worker

    try:
        yield start
    finally:
        for worker in started:
            worker.end()
