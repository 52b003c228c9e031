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
import json
import os
import sys
import threading
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

import real_cluster
from kubernetes_sides import start_etcd, start_temporal
from processes import Child, Children, until

from wharfinger.dev.settings import Servers
from wharfinger.etcd import keys
from wharfinger.etcd.etcd import EtcdStore
from wharfinger.fleet.reading.fleet_goals import Goal
from wharfinger.fleet.reading.fleets import Fleets
from wharfinger.process.children.ports import free_port
from wharfinger.settings import EtcdSettings
from wharfinger.testing import node_manifest, pod_manifest

PODS = 6
"""Rounds of a lone pod, after the first one, which loads modules."""
ROLLOUTS = 2
"""Rounds of a slot, after the first rollout."""
WITHIN = 90.0
"""Seconds for each step."""


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

    def obey(self, orders: str) -> None:
        """Write the modules entered since the last line to the file that a line names."""
        with Path(orders).open() as lines:
            for file in map(str.strip, lines):
                names = sorted(name for name in self._modules if str(name).startswith("wharfinger."))
                self._modules = set()
                whole = Path(f"{file}.new")
                whole.write_text(json.dumps(names))
                whole.rename(file)


def traced(orders: str, *arguments: str) -> None:
    """Run a command of wharfinger, looked at."""
    entered = Entered()
    threading.Thread(target=entered.obey, args=(orders,), daemon=True).start()
    from wharfinger.cli.main import main as command

    entered.watch()
    command(list(arguments))


# --- outside --------------------------------------------------------------------------------------


@dataclass
class Traced:
    """A process that is looked at."""

    child: Child
    orders: int
    """Where lines are written that it obeys."""
    told: int = 0

    @classmethod
    async def start(cls, children: Children, *arguments: str) -> Traced:
        """Start this command."""
        orders = children.folder / f"{arguments[0]}.orders"
        os.mkfifo(orders)
        command = [sys.executable, __file__, "--trace", str(orders), *arguments]
        return cls(await children.start(arguments[0], command), os.open(orders, os.O_RDWR))

    async def during(self, act: Callable[[], Awaitable[None]]) -> set[str]:
        """The modules entered meanwhile."""
        await self._entered()
        await act()
        return await self._entered()

    async def _entered(self) -> set[str]:
        """Those since this was asked last."""
        self.told += 1
        file = self.child.log.with_suffix(f".{self.told}")
        os.write(self.orders, f"{file}\n".encode())

        async def there() -> bool:
            return file.exists()

        await until(f"{self.child.name} tells", there, WITHIN)
        return set(json.loads(file.read_text()))


async def lone_pod(children: Children, options: tuple[str, ...], store: EtcdStore) -> set[str]:
    """Modules of a worker that are entered between the put of a pod and its bind, in each round."""
    await store.put(keys.node("n"), json.dumps(node_manifest("n", cpu="32", memory="64Gi")).encode())
    worker = await Traced.start(children, "worker", *options, f"--health-port={free_port()}")

    async def bind(name: str) -> None:
        await store.put(keys.pod("default", name), json.dumps(pod_manifest(name, cpu="100m")).encode())

        async def bound() -> bool:
            stored = (await store.get(keys.pod("default", name))).kv
            return stored is not None and "nodeName" in json.loads(stored.value)["spec"]

        await until(f"pod {name} is bound", bound, WITHIN)

    await bind("first")
    rounds = []
    for number in range(PODS):
        await asyncio.sleep(1.0)  # the chain of the pod before has ended, so the next one starts from rest
        rounds.append(await worker.during(lambda number=number: bind(f"pod-{number}")))  # type: ignore[misc]
    await children.stop(worker.child)
    return set.intersection(*rounds)


async def one_slot(children: Children, options: tuple[str, ...], store: EtcdStore) -> set[str]:
    """Modules of the agent that are entered while its one slot gets another instance, in each round."""
    data, port = f"--data-dir={children.folder / 'agent'}", f"--instance-health-port={free_port()}"
    own = ("--host=one", data, "--stop-instances=5", port, f"--health-port={free_port()}")
    agent = await Traced.start(children, "agent", *options, *own)
    fleets = Fleets(store)
    spec = {"replicas": 1, "minReadySeconds": 0, "strategy": {"rollingUpdate": {"soakSeconds": 0}}}
    fleet = {"apiVersion": "wharfinger.dev/v1", "kind": "SchedulerFleet", "metadata": {"name": "common"}, "spec": spec}

    async def roll() -> None:
        await fleets.restart("common")
        await fleets.wait("common", Goal.COMPLETE, timeout=WITHIN)

    await fleets.apply(fleet)
    await fleets.wait("common", Goal.COMPLETE, timeout=WITHIN)
    await roll()
    return set.intersection(*[await agent.during(roll) for _ in range(ROLLOUTS)])


async def measure(servers: Servers, folder: Path) -> int:
    """Print both."""
    async with Children(folder) as children:
        etcd, _ = await start_etcd(children, "etcd", servers.etcd, folder / "data", fsync=False)
        temporal, _ = await start_temporal(children, "temporal", servers.temporal, folder / "temporal.db")
        options = ("--etcd", etcd.url, "--temporal", temporal.address)
        async with EtcdStore(EtcdSettings(endpoints=(etcd.url,))) as store:
            for what, looked_at in {"a lone pod is bound": lone_pod, "a slot is rolled": one_slot}.items():
                entered = await looked_at(children, options, store)
                names = sorted(name.removeprefix("wharfinger.") for name in entered)
                print(json.dumps({"what": what, "modules": len(names), "entered": names}), flush=True)
    return 0


def main() -> None:
    if sys.argv[1:2] == ["--trace"]:
        traced(*sys.argv[2:])
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.parse_args()
    real_cluster.run(measure)


if __name__ == "__main__":
    main()
