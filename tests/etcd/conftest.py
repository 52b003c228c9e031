"""etcd processes that the tests of the registry may maltreat."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import pytest

from tests.etcd.etcd_process import EtcdProcess
from wharfinger.settings import EtcdSettings

StartEtcd = Callable[..., EtcdProcess]


class Spoken:
    """Settings for one protocol of etcd's; called like `EtcdSettings`."""

    def __init__(self, protocol: Literal["json", "grpc"]) -> None:
        self.protocol = protocol

    def __call__(self, **settings: Any) -> EtcdSettings:
        return EtcdSettings(protocol=self.protocol, **settings)

    def of(self, etcd: EtcdProcess) -> EtcdSettings:
        return replace(etcd.settings, protocol=self.protocol)


@pytest.fixture(params=["json", "grpc"])
def spoken(request: pytest.FixtureRequest) -> Spoken:
    """Both protocols, one after the other."""
    return Spoken(request.param)


@pytest.fixture(scope="session")
def steady_etcd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EtcdProcess]:
    """Shared by tests that keep to keys of their own; any of them may compact it."""
    process = EtcdProcess(tmp_path_factory.mktemp("steady-etcd")).start()
    try:
        yield process
    finally:
        process.kill()


@pytest.fixture
def start_etcd(tmp_path: Path) -> Iterator[StartEtcd]:
    """Starts members; all are killed at the end."""
    started: list[EtcdProcess] = []

    def start(*, scheme: str = "http", options: Sequence[str] = ()) -> EtcdProcess:
        process = EtcdProcess(tmp_path / f"etcd{len(started)}", scheme=scheme, options=options)
        started.append(process)
        return process.start()

    try:
        yield start
    finally:
        for process in started:
            process.kill()


@pytest.fixture
def three_members(tmp_path: Path) -> Iterator[list[EtcdProcess]]:
    """A cluster of three."""
    members = [EtcdProcess(tmp_path / f"member{number}") for number in range(3)]
    cluster = ",".join(member.cluster for member in members)
    try:
        for member in members:
            member.cluster = cluster
            member.start(wait=False)
        for member in members:
            member.wait_ready()
        yield members
    finally:
        for member in members:
            member.kill()
