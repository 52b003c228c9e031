"""The lines of `wharfinger dev`: what is about to start, and each process once it is up."""

from __future__ import annotations

import io
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.clock import Clock
from wharfinger.dev.cli.dev import StatusLines, starting
from wharfinger.dev.settings import DevSettings
from wharfinger.dev.tree import DevTree

TOUR = Path(__file__).parents[3] / "docs" / "placement-tour.md"


def settings(**changes: Any) -> DevSettings:
    return DevSettings(Path("data"), **{"page": True, **changes})


@pytest.mark.parametrize(
    ("changes", "workers", "said"),
    [
        ({}, 2, "Starting etcd, Temporal, an agent, 2 workers and the web page: 6 processes ..."),
        ({"page": False}, 0, "Starting etcd, Temporal, an agent and no workers: 3 processes ..."),
        (
            {"kubernetes": True},
            None,
            "Starting etcd, Temporal, an API server, an agent, its workers and the web page: 5 processes and the "
            "workers ...",
        ),
        (
            {"hub": True, "page": False},
            1,
            "Starting etcd, Temporal, an agent, 1 worker and a hub: 5 processes ...",
        ),
        (
            {"temporal_address": "host:7233", "page": False},
            1,
            "Starting etcd, an agent and 1 worker: 3 processes ...",
        ),
    ],
)
def test_it_says_what_is_started_and_how_many_processes(
    changes: dict[str, Any], workers: int | None, said: str
) -> None:
    assert starting(settings(**changes), workers) == said


def test_the_tour_shows_what_is_said_of_members() -> None:
    assert f" {starting(settings(hub=True, members=3), 1)}\n" in TOUR.read_text()


def child(name: str, *, up: bool) -> Any:
    return SimpleNamespace(spec=SimpleNamespace(name=name), pid=len(name), up=up)


def test_each_process_is_said_once_when_it_is_up() -> None:
    """The tree is a stand-in: what of it the lines read."""
    clock, out = Clock(), io.StringIO()
    etcd, agent = child("etcd", up=True), child("agent", up=False)
    instances = SimpleNamespace(ready=[])
    tree = cast(
        "DevTree",
        SimpleNamespace(
            etcd=SimpleNamespace(url="http://etcd"),
            temporal=SimpleNamespace(address="temporal", ui="http://ui"),
            page_url="",
            kubernetes=None,
            supervisor=SimpleNamespace(children=[etcd, agent]),
            instances=instances,
        ),
    )
    lines = StatusLines(out, clock=clock)

    clock.now += 1.25
    lines.tell(tree)
    lines.tell(tree)
    agent.up = True
    clock.now += 2
    instances.ready.append(SimpleNamespace(name="common/0", pid=7, health="http://worker", up=True))
    lines.tell(tree)

    assert [line[9:] for line in out.getvalue().splitlines()] == [
        "etcd (4) is up after 1.2 s: http://etcd",
        "agent (5) is up after 3.2 s",
        "common/0 (7) is up after 3.2 s: http://worker/readyz",
    ]
