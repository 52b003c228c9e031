"""The marker `servers`: which tests start etcd, Temporal, PostgreSQL or Kubernetes, and that no other test does.

`make check` runs the tests without the marker on machines that have no servers. Tests get the marker at collection, by
their fixtures; a test that starts servers without such a fixture carries `pytest.mark.servers` itself. An audit hook of
the interpreter sees every process that a test starts, so a forgotten marker is an error and not a slow check.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import PurePath
from typing import Any

import pytest

FIXTURES = frozenset(
    {"etcd_server", "temporal_server", "start_etcd", "steady_etcd", "three_members", "dev_tree", "two_workers",
     "only_servers", "kube_apiserver", "start_kube_apiserver"}
)  # fmt: skip
"""Fixtures that start servers. Fixtures that use them, and fixtures of one file with the marker, are not listed."""

_PROGRAMS = frozenset(
    {"etcd", "etcdctl", "etcdutl", "temporal", "temporal-server", "temporal-sql-tool", "postgres", "initdb", "go",
     "kube-apiserver", "kube-scheduler"}
)  # fmt: skip
"""Servers, their tools, and the compiler that builds them."""
_COMMANDS = frozenset({"dev", "demo"})
"""Commands of wharfinger that start servers."""
_ONLY_ANSWERED = frozenset({"--version", "version", "--help"})


def mark(items: Sequence[pytest.Item]) -> None:
    """Give the marker to every test that uses one of the fixtures."""
    for item in items:
        if not FIXTURES.isdisjoint(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.servers)


def server_started_by(arguments: Sequence[str | bytes | os.PathLike[str]]) -> str | None:
    """The server or the command that this command line starts; None if it starts none."""
    words = [os.fsdecode(argument) for argument in arguments]
    if not words or _ONLY_ANSWERED.intersection(words[1:]):
        return None
    if (program := PurePath(words[0]).name) in _PROGRAMS:
        return program
    for word, command in pairwise(words):
        if PurePath(word).name == "wharfinger" and command in _COMMANDS:
            return f"wharfinger {command}"
    return None


class ServerGuard:
    """Fails a test that starts a server and lacks the marker."""

    def __init__(self) -> None:
        self._item: pytest.Item | None = None
        sys.addaudithook(self._audit)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        """Remember the test that runs; its fixtures are set up and ended on its account."""
        self._item = item
        try:
            return (yield)
        finally:
            self._item = None

    def _audit(self, event: str, details: tuple[Any, ...]) -> None:
        if event == "subprocess.Popen" and self._item is not None:
            server = server_started_by(details[1])
            if server is not None and self._item.get_closest_marker("servers") is None:
                pytest.fail(
                    f"{self._item.nodeid} starts {server} and lacks the marker `servers`: "
                    "use a fixture named in tests/server_marker.py, or mark the test with pytest.mark.servers",
                    pytrace=False,
                )
