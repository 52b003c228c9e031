"""How many of our modules are entered while one lone pod is bound, and while one slot is rolled.

    python benchmarks/modules.py            two JSON lines: `what`, `modules` (how many), `entered` (their names)

Real servers, a real worker and a real agent. Every function call in these two processes is seen by a profile function;
the modules of `wharfinger` that were entered between a pod's put and its bind, or between `fleet restart` and the end
of the rollout, are counted. A module counts that was entered in each of some rounds: what runs now and then besides
(leases, gauges) is left out mostly. The new instance that a rollout starts is a worker and is not counted.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

from wharfinger.dev import binaries, processes
from wharfinger.dev.etcd import EtcdServer
from wharfinger.dev.ports import free_port
from wharfinger.dev.supervisor import clean_environment
from wharfinger.dev.temporal import TemporalServer
from wharfinger.etcd import keys
from wharfinger.etcd.etcd import EtcdStore
from wharfinger.settings import EtcdSettings
from wharfinger.testing import node_manifest, pod_manifest

PODS = 6
"""Rounds of a lone pod, after the first one, which loads modules."""
ROLLOUTS = 2
"""Rounds of a slot, after the first rollout."""
WITHIN = 90.0
"""Seconds for each step."""
PAUSE = 0.1
"""Seconds between two looks."""


# --- in the process that is looked at -------------------------------------------------------------


class Entered:
    """The modules that are entered, in all threads."""

    def __init__(self) -> None:
        self._modules: set[Any] = set()

    def watch(self) -> None:
        """Look at every call from now on."""
        threading.setprofile(self._look)
        sys.setprofile(self._look)

    def _look(self, frame: FrameType, event: str, _: object) -> None:
        if event == "call":
            self._modules.add(frame.f_globals.get("__name__"))

    def obey(self) -> None:
        """Forget, or tell, as standard input says line by line."""
        for line in sys.stdin:
            what, _, file = line.strip().partition(" ")
            if what == "forget":
                self._modules = set()
            names = sorted(name for name in self._modules if str(name).startswith("wharfinger."))
            if file:
                whole = Path(f"{file}.new")
                whole.write_text(json.dumps(names))
                whole.rename(file)


def traced(arguments: list[str]) -> None:
    """Run a command of wharfinger, looked at."""
    entered = Entered()
    threading.Thread(target=entered.obey, daemon=True).start()
    from wharfinger.cli.main import main as command

    entered.watch()
    command(arguments)


# --- outside --------------------------------------------------------------------------------------


class Traced:
    """A process that is looked at."""

    def __init__(self, folder: Path, *arguments: str) -> None:
        self._folder = folder
        self._log = folder / f"{arguments[0]}.log"
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, __file__, "--trace", *arguments],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                text=True,
                env=clean_environment(),
                preexec_fn=processes.die_with_parent(),  # noqa: PLW1509 - one call into libc, loaded before
            )
        self._told = 0

    async def during(self, act: Callable[[], Awaitable[None]]) -> set[str]:
        """The modules entered meanwhile."""
        await self._say("forget")
        await act()
        return await self._say("tell")

    async def _say(self, what: str) -> set[str]:
        self._told += 1
        file = self._folder / f"{self._process.pid}-{self._told}.json"
        assert self._process.stdin is not None
        self._process.stdin.write(f"{what} {file}\n")
        self._process.stdin.flush()
        await until(f"{self._log} tells", lambda: _true(file.exists()))
        return set(json.loads(file.read_text()))

    def end(self) -> None:
        """Ask it to end."""
        self._process.terminate()
        self._process.wait(30)


@dataclass(frozen=True, slots=True)
class Servers:
    """Where etcd and Temporal are."""

    etcd: str
    temporal: str

    @property
    def options(self) -> tuple[str, ...]:
        """By which a command finds them."""
        return ("--etcd", self.etcd, "--temporal", self.temporal)


@contextlib.contextmanager
def servers(folder: Path) -> Iterator[Servers]:
    """Both, new and empty."""
    etcd = EtcdServer(binaries.locate(binaries.ETCD), folder / "etcd", free_port(), fsync=False)
    temporal = TemporalServer(binaries.locate(binaries.TEMPORAL), free_port(), database=folder / "temporal.db")
    started = []
    try:
        for server in (etcd, temporal):
            with (folder / f"{type(server).__name__}.log").open("wb") as log:
                started.append(
                    subprocess.Popen(
                        server.command(), stdout=log, stderr=log, env=clean_environment(),
                        preexec_fn=processes.die_with_parent(),  # noqa: PLW1509 - one call into libc, loaded before
                    )
                )  # fmt: skip
        deadline = time.monotonic() + WITHIN
        while not (etcd.is_up() and asyncio.run(temporal.is_up())):
            if time.monotonic() > deadline:
                raise SystemExit(f"the servers are not up; see {folder}")
            time.sleep(PAUSE)
        yield Servers(etcd.url, temporal.address)
    finally:
        for process in reversed(started):
            process.kill()
            process.wait(20)


async def until(what: str, holds: Callable[[], Awaitable[bool]]) -> None:
    """Wait for it, at most for `WITHIN` seconds."""
    deadline = time.monotonic() + WITHIN
    while not await holds():
        if time.monotonic() > deadline:
            raise SystemExit(f"waited in vain for {WITHIN:.0f} s: {what}")
        await asyncio.sleep(PAUSE)


async def _true(value: bool) -> bool:
    return value


async def lone_pod(folder: Path, found: Servers, store: EtcdStore) -> set[str]:
    """Modules of a worker that are entered between the put of a pod and its bind, in each round."""
    await store.put(keys.node("n"), json.dumps(node_manifest("n", cpu="32", memory="64Gi")).encode())
    worker = Traced(folder, "worker", *found.options, f"--health-port={free_port()}")

    async def bind(name: str) -> None:
        await store.put(keys.pod("default", name), json.dumps(pod_manifest(name, cpu="100m")).encode())

        async def bound() -> bool:
            stored = (await store.get(keys.pod("default", name))).kv
            return stored is not None and "nodeName" in json.loads(stored.value)["spec"]

        await until(f"pod {name} is bound", bound)

    try:
        await bind("first")
        rounds = []
        for number in range(PODS):
            await asyncio.sleep(1.0)  # the chain of the pod before has ended, so the next one starts from rest
            rounds.append(await worker.during(lambda number=number: bind(f"pod-{number}")))  # type: ignore[misc]
        return set.intersection(*rounds)
    finally:
        worker.end()


async def one_slot(folder: Path, found: Servers, store: EtcdStore) -> set[str]:
    """Modules of the agent that are entered while its one slot gets another instance, in each round."""
    from wharfinger.fleet.reading.fleet_goals import Goal
    from wharfinger.fleet.reading.fleets import Fleets

    data = f"--data-dir={folder / 'agent'}"
    agent = Traced(folder, "agent", *found.options, "--host=one", data, f"--health-port={free_port()}",
                   "--stop-instances=5", f"--instance-health-port={free_port()}")  # fmt: skip
    fleets = Fleets(store)
    spec = {"replicas": 1, "minReadySeconds": 0, "strategy": {"rollingUpdate": {"soakSeconds": 0}}}
    fleet = {"apiVersion": "wharfinger.dev/v1", "kind": "SchedulerFleet", "metadata": {"name": "common"}, "spec": spec}

    async def roll() -> None:
        await fleets.restart("common")
        await fleets.wait("common", Goal.COMPLETE, timeout=WITHIN)

    try:
        await fleets.apply(fleet)
        await fleets.wait("common", Goal.COMPLETE, timeout=WITHIN)
        await roll()
        return set.intersection(*[await agent.during(roll) for _ in range(ROLLOUTS)])
    finally:
        agent.end()


async def measure(folder: Path, found: Servers) -> dict[str, set[str]]:
    """Both, by what they are."""
    async with EtcdStore(EtcdSettings(endpoints=(found.etcd,))) as store:
        return {
            "a lone pod is bound": await lone_pod(folder, found, store),
            "a slot is rolled": await one_slot(folder, found, store),
        }


def main() -> None:
    if sys.argv[1:2] == ["--trace"]:
        traced(sys.argv[2:])
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="wharfinger-modules-"))
    with servers(folder) as found:
        entered = asyncio.run(measure(folder, found))
    for what, modules in entered.items():
        names = sorted(name.removeprefix("wharfinger.") for name in modules)
        print(json.dumps({"what": what, "modules": len(names), "entered": names}), flush=True)


if __name__ == "__main__":
    main()
