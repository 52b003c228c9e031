"""wharfinger as the scheduler of recorded decisions: when a running worker has seen what a scenario needs.

A worker decides a pod on everything that its etcd had when the pod's copy came. So it is enough that the copies of all
else are there before the pod is created.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from tests.kubernetes.recorded_objects import profile_key
from tests.kubernetes.recorded_replay import probe
from tests.kubernetes.recorded_scene import Scene
from wharfinger.apiserver import client
from wharfinger.apiserver.client import ApiResource, uid_of
from wharfinger.etcd import keys
from wharfinger.etcd.etcd import EtcdStore
from wharfinger.objects.documents.pod_requests import resize_of
from wharfinger.settings import EtcdSettings

KINDS = (
    client.NAMESPACES,
    client.SERVICES,
    client.DISRUPTION_BUDGETS,
    client.PRIORITY_CLASSES,
    client.NODES,
    client.PODS,
)
"""That scenarios write, and decisions read."""
SEEN_WITHIN = 20.0
"""Seconds; a tenth of one is usual."""
LOOK_EVERY = 0.02
REWIND: dict[str, Any] = {
    "metadata": {"name": "rewind"},
    "spec": {},
    "status": {"allocatable": {"cpu": "1", "pods": "1"}},
}


class WharfingerScheduler:
    """One worker that has a profile for each scenario."""

    def __init__(self, store: EtcdStore, names: Mapping[str, str]) -> None:
        """`store`: its etcd; `names`: scheduler names by profile."""
        self._store = store
        self._names = names

    @classmethod
    @asynccontextmanager
    async def on(cls, etcd: str, names: Mapping[str, str]) -> AsyncIterator[WharfingerScheduler]:
        """Of the worker whose etcd has that URL."""
        store = await EtcdStore.connect(EtcdSettings(endpoints=(etcd,)))
        try:
            yield cls(store, names)
        finally:
            await store.close()

    async def begin(self, scene: Scene) -> None:
        profile = scene.scenario.get("profile", {})
        scene.scheduler = self._names[profile_key(profile)]
        if "percentageOfNodesToScore" in profile:
            await self._rewind(scene)

    async def _rewind(self, scene: Scene) -> None:
        """Have the next sampling search begin at the first node, as in a fresh process.

        A search begins where the one before ended, modulo the number of nodes: behind the only one is at the first.
        """
        await scene.create_nodes([REWIND])
        await self.seen_nodes(scene)
        await probe(scene)
        await scene.api.delete(client.NODES, REWIND["metadata"]["name"])

    async def seen_nodes(self, scene: Scene) -> None:
        deadline = time.monotonic() + SEEN_WITHIN
        while unlike := [kind.plural for kind in KINDS if await self._copied(kind) != await _there(scene, kind)]:
            assert time.monotonic() < deadline, f"not copied: {unlike}"
            await asyncio.sleep(LOOK_EVERY)

    async def end(self) -> None:
        """The worker goes on."""

    async def _copied(self, kind: ApiResource) -> list[Any]:
        pages = self._store.list(keys.stored_prefix(kind.plural))
        return sorted([_main(json.loads(kv.value)) async for page in pages for kv in page.items])


async def _there(scene: Scene, kind: ApiResource) -> list[Any]:
    return sorted([_main(one) async for page, _ in scene.api.list(kind) for one in page])


def _main(obj: Mapping[str, Any]) -> tuple[str, str]:
    """What is compared of an object: which one it is, and what the scenes set of it after it was created."""
    spec, status = obj.get("spec", {}), obj.get("status", {})
    written = [obj["metadata"].get("labels", {}), status.get("disruptionsAllowed", 0), status.get("declaredFeatures")]
    resize = resize_of(spec, status) if spec.get("nodeName") else {}
    return uid_of(obj), json.dumps([*written, resize], sort_keys=True)
