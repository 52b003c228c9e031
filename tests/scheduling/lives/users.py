"""What users of a life do: pods and gangs that come, change, finish and go, nodes that come and close; and kubelets."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tests.scheduling.lives.truth import CHANGES, GROUP, LEAST, TruePod
from tests.scheduling.lives.worker import ALONE, ASKING, POISON, SPOILS
from wharfinger.etcd import keys
from wharfinger.etcd.store import Compare, Put
from wharfinger.testing import node_manifest, pod_manifest

if TYPE_CHECKING:
    from tests.scheduling.lives.life import World

KUBELET = 1.0
"""Seconds in which a kubelet ends a pod that is to leave."""
RUSH_EVERY = 50
"""One of so many lives begins with a rush."""
RUSH = 10
"""Gangs of a rush."""
APART = {
    "podAntiAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [
            {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "apart"}}}
        ]
    }
}


class Users:
    """Do one thing after the other, until the world's time for that is up."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._rng = world.rng
        self.pods = 0
        """How many were made."""

    async def act(self) -> None:
        """Act."""
        rng = self._rng
        if self._world.seed % RUSH_EVERY == 0:
            await self._rush()
        rate = rng.choice([0.3, 1.0, 3.0])
        most = rng.choice([2, 3, 4, 4, 5, 6, 16])
        doings: list[tuple[Callable[[], Any], float]] = [
            (self._new_pod, 10),
            (self._flood, 1),
            (self._gang, 1),
            (self._delete_pod, 2),
            (self._change_pod, 1),
            (self._finish_pod, 2),
            (self._new_node, 0.5),
            (self._touch_node, 0.5),
            (self._cordon, 0.5),
            (self._remove_node, 0.5),
        ]
        while self._world.loop.now < self._world.until:
            await asyncio.sleep(rng.expovariate(rate))
            [doing] = rng.choices([one for one, _ in doings], [weight for _, weight in doings])
            if self.pods >= most and doing in (self._new_pod, self._flood, self._gang):
                continue
            await doing()

    async def _new_pod(self) -> None:
        await self._put_pod(self._pod_name())

    def _pod_name(self) -> str:
        self.pods += 1
        kind = self._rng.random()
        return f"{POISON if kind < 0.03 else SPOILS if kind < 0.06 else 'p'}{self.pods}"

    async def _flood(self) -> None:
        for _ in range(self._rng.randint(3, 12)):
            await self._new_pod()

    async def _rush(self) -> None:
        """More pods at once than one group takes, and behind them more gangs than are started at a time."""
        for _ in range(3):
            await self._put_pod(self._pod_name())
        for _ in range(RUSH):
            await self._put_gang(2, 1, [0])

    async def _gang(self) -> None:
        await self._put_gang(self._rng.randint(2, 3), self._rng.randint(1, 2), [0, 0.1])

    async def _put_gang(self, size: int, cpu: int, pauses: list[float]) -> None:
        labels = {GROUP: f"g{self.pods}", LEAST: str(size)}
        for _ in range(size):
            self.pods += 1
            await self._put(f"g{self.pods}", pod_manifest(f"g{self.pods}", str(cpu), labels=labels))
            await asyncio.sleep(self._rng.choice(pauses))

    async def _put_pod(self, name: str) -> None:
        rng = self._rng
        spec: dict[str, Any] = {"priority": rng.choice([0, 0, 0, 10])}
        labels = {}
        if rng.random() < 0.1:
            labels, spec["affinity"] = {"app": "apart"}, APART
        if rng.random() < 0.2:
            spec["schedulerName"] = rng.choice([ALONE, ASKING])
        await self._put(name, pod_manifest(name, str(rng.choice([1, 1, 2, 3])), labels=labels, **spec))

    async def _put(self, name: str, manifest: Any) -> None:
        self._world.tell("user", "makes", name)
        manifest["metadata"]["uid"] = f"uid-{name}-{self._rng.getrandbits(16)}"
        revision = await self._world.store.put(keys.pod("default", name), json.dumps(manifest).encode())
        self._world.truth.user_made(revision, name)

    async def _delete_pod(self) -> None:
        pod = self._some_pod()
        if pod is not None:
            self._world.tell("user", "deletes", pod.name)
            await self._world.store.delete(keys.pod("default", pod.name))
            if self._rng.random() < 0.3:
                await self._put_pod(pod.name)

    def _some_pod(self) -> TruePod | None:
        """Not one of a gang: these are left whole."""
        self._world.truth.follow()
        pods = [pod for pod in self._world.truth.pods.values() if not pod.gang]
        return self._rng.choice(pods) if pods else None

    async def _change_pod(self) -> None:
        pod = self._some_pod()
        if pod is not None:
            count = str(pod.changes + 1)
            await self._rewrite(
                keys.pod("default", pod.name), lambda it: it["metadata"]["labels"].update({CHANGES: count})
            )

    async def _finish_pod(self) -> None:
        pod = self._some_pod()
        if pod is not None and pod.node:
            key = keys.pod("default", pod.name)
            await self._rewrite(key, lambda it: it.setdefault("status", {}).update(phase="Succeeded"))

    def leaves(self, pod: TruePod) -> None:
        """A pod was marked as leaving: its kubelet ends it, if it has one."""
        if pod.node:
            self._world.loop.call_later(KUBELET, lambda: self._world.loop.create_task(self._leave(pod)))

    async def _leave(self, pod: TruePod) -> None:
        key = keys.pod("default", pod.name)
        found = (await self._world.store.get(key)).kv
        if found is not None and found.create_revision == pod.create_revision:
            self._world.tell("kubelet", "ends", pod.name)
            await self._world.store.delete(key)

    async def _new_node(self) -> None:
        await self.put_node(f"n{self._rng.randrange(4, 1000)}")

    async def put_node(self, name: str) -> None:
        """A node of some size."""
        cpu = self._rng.choice([2, 3, 4, 6])
        self._world.tell("user", "adds", name, "with", cpu)
        await self._world.store.put(keys.node(name), json.dumps(node_manifest(name, str(cpu), pods=110)).encode())

    async def _touch_node(self) -> None:
        beat = str(self._rng.getrandbits(16))
        name = self._rng.choice(list(self._world.truth.nodes))
        await self._rewrite(
            keys.node(name), lambda it: it["status"]["conditions"][0].update(lastHeartbeatTime=beat), quiet=True
        )

    async def _remove_node(self) -> None:
        name = self._rng.choice(list(self._world.truth.nodes))
        self._world.truth.follow()
        if len(self._world.truth.nodes) < 2 or self._world.truth.nodes[name].on:
            return
        self._world.tell("user", "removes", name)
        await self._world.store.delete(keys.node(name))
        if self._rng.random() < 0.5:
            await self.put_node(name)

    async def _cordon(self) -> None:
        name = self._rng.choice(list(self._world.truth.nodes))
        closed = self._world.truth.nodes[name].open
        await self._rewrite(keys.node(name), lambda it: it["spec"].update(unschedulable=closed))

    async def _rewrite(self, key: str, change: Callable[[Any], None], *, quiet: bool = False) -> None:
        found = (await self._world.store.get(key)).kv
        if found is None:
            return
        manifest = json.loads(found.value)
        change(manifest)
        if not quiet:
            self._world.tell("user", "changes", key.rpartition("/")[2])
        await self._world.store.txn(
            [Compare(key, "mod", found.mod_revision)], [Put(key, json.dumps(manifest).encode())]
        )
