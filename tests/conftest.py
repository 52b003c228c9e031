"""Real servers for the tests: one etcd and one Temporal a session, started when first asked for.

The servers and their command lines are those of `wharfinger dev`, but for durability.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import gc
import itertools
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests import batches, forked, forked_session, server_marker
from tests.event_loop import pytest_asyncio_loop_factories
from tests.patience import PROCESSES, patient, process_number
from wharfinger.dev import binaries, etcd, processes, temporal
from wharfinger.dev.supervisor import clean_environment
from wharfinger.process.children import ports

__all__ = ["EtcdServer", "TemporalServer", "free_port", "pytest_asyncio_loop_factories", "start_etcd", "start_temporal"]


# How long an example takes says more about the machine, and who shares it, than about what it tests; and chance may
# draw many in a row that are too large, or filtered out.
UNHEALTHY = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]
settings.register_profile("any machine", deadline=None, suppress_health_check=UNHEALTHY)
settings.load_profile("any machine")

_PORTS = range(12_000, 32_000)
"""Below those that the system gives to outgoing connections: one of these would be taken before a server listens."""


@functools.cache
def _candidates() -> Iterator[int]:
    """This process's ports: no other test process looks for free ones there."""
    share = len(_PORTS) // PROCESSES
    own = _PORTS[process_number() * share :][:share]
    return (own[at % share] for at in itertools.count(os.getpid()))


# To import aiohttp is to read the machine's certificates, a tenth of a short command. No test trusts them.
os.environ.setdefault("SSL_CERT_FILE", os.devnull)
# Of etcd and Temporal: garbage collections, and threads that look for each other's work, were a seventh of what tests
# with servers cost. A server that gets as large as the limit collects garbage all the same.
os.environ.setdefault("GOGC", "off")
os.environ.setdefault("GOMEMLIMIT", "512MiB")
os.environ.setdefault("GOMAXPROCS", "1")
# Tests of etcd's gRPC are followed by tests that start servers in the same process. What gRPC does in a forked child
# before the server's program begins may abort it.
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")
os.environ.setdefault(forked_session.STATE, os.path.join(tempfile.gettempdir(), f"wharfinger-tests-{os.getpid()}"))
# From the first one on, `wharfinger` commands of tests are forks.
forked.start_wanted()
# Collection makes thousands of objects and no garbage; `pytest_collection_finish` turns the collector on again.
gc.disable()


def free_port() -> int:
    """A port without a listener that was not handed out lately: its new owner may not listen yet."""
    return next(port for port in _candidates() if ports.is_free(port))


def pytest_configure(config: pytest.Config) -> None:
    """Watch over the marker `servers`, and let Ctrl-C reach the commands that tests interrupt.

    A shell starts what runs in the background deaf to Ctrl-C, and the commands would inherit that.
    """
    config.pluginmanager.register(server_marker.ServerGuard(), "server guard")
    if os.environ.get("TESTS_PROCESSES"):
        config.pluginmanager.register(forked_session.ForkedSession(), "forked session")
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_unconfigure() -> None:
    """Remove what workers remembered, where this process chose the place."""
    chosen = Path(os.environ[forked_session.STATE])
    if chosen.name == f"wharfinger-tests-{os.getpid()}":
        shutil.rmtree(chosen, ignore_errors=True)


@pytest.hookimpl(tryfirst=True)  # before `-m` selects by the markers
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark tests with servers; order files as they are handed out; give each test its share's time."""
    server_marker.mark(items)
    batches.order(items)
    for item in items:
        marker = item.get_closest_marker("timeout")
        if marker is not None or item.config.getoption("timeout") is None:
            seconds = marker.args[0] if marker is not None else float(item.config.getini("timeout"))
            item.add_marker(pytest.mark.timeout(patient(seconds)), append=False)


def pytest_collection_finish() -> None:
    """Leave what collection has made out of garbage collections, and let those of the rest be rare.

    Modules and thousands of tests stay to the end; a full collection would look through them each time. A simulated
    case makes and forgets some ten thousand objects. Young ones must fit into the processor's cache: when they were
    collected after every 100,000, collections took a sixth of the time of a case.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000, 20, 100)
    gc.enable()


@dataclass(frozen=True)
class EtcdServer:
    """A running etcd."""

    url: str
    pid: int


@dataclass(frozen=True)
class TemporalServer:
    """A running Temporal dev server."""

    address: str
    pid: int


@contextlib.contextmanager
def running(command: list[str], log: Path, is_up: Callable[[], bool], seconds: float) -> Iterator[int]:
    """Run a server until the end of the block; gives its pid once it is up."""
    with log.open("ab") as output:
        process = subprocess.Popen(
            command,
            stdout=output,
            stderr=output,
            env=clean_environment(),
            preexec_fn=processes.die_with_parent(),  # noqa: PLW1509 - one call into libc, loaded before
        )
    try:
        limit = patient(seconds)
        deadline = time.monotonic() + limit
        while not is_up():
            assert process.poll() is None, log.read_text()[-2000:]
            assert time.monotonic() < deadline, f"{command[0]} is not up after {limit:.0f} s"
            time.sleep(0.05)
        yield process.pid
    finally:
        process.kill()
        process.wait()


@contextlib.contextmanager
def start_etcd(folder: Path, port: int | None = None, *options: str) -> Iterator[EtcdServer]:
    """An etcd of one's own on a folder: started again there on the same port, it goes on. `options` count more."""
    server = etcd.EtcdServer(binaries.locate(binaries.ETCD), folder / "etcd", port or free_port(), fsync=False)
    with running([*server.command(), *options], folder / "etcd.log", server.is_up, 20) as pid:
        yield EtcdServer(server.url, pid)


@contextlib.contextmanager
def start_temporal(folder: Path, port: int | None = None, *, durable: bool = False) -> Iterator[TemporalServer]:
    """A Temporal of one's own, in memory unless it is to be durable in the folder."""
    database = folder / "temporal.db" if durable else None
    server = temporal.TemporalServer(binaries.locate(binaries.TEMPORAL), port or free_port(), database=database)
    with running(server.command(), folder / "temporal.log", lambda: asyncio.run(server.is_up()), 30) as pid:
        yield TemporalServer(server.address, pid)


@pytest.fixture(scope="session")
def etcd_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EtcdServer]:
    """A real etcd on a free port; tests share it and keep to keys of their own or clean up."""
    with start_etcd(tmp_path_factory.mktemp("etcd")) as server:
        yield server


@pytest.fixture(scope="session")
def temporal_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TemporalServer]:
    """A real Temporal dev server (in memory) on a free port, with our search attributes."""
    with start_temporal(tmp_path_factory.mktemp("temporal")) as server:
        yield server
