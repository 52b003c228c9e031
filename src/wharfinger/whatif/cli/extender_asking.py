"""`simulate --extenders`: asks the extenders of the configuration about supposed pods and nodes.

A simulation awaits nothing, so each question is put on an event loop of its own and waited for. Extenders are sent the
objects as they were given or read, with the uids that the simulation knows them by.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from wharfinger.framework.extenders.asking import ask, ask_preemption
from wharfinger.framework.extenders.calls import ExtenderCalls
from wharfinger.framework.extenders.extender_verdicts import (
    ExtenderFailure,
    ExtenderQuestion,
    ExtenderVerdicts,
    PreemptionQuestion,
    PreemptionVerdicts,
    VictimPod,
)
from wharfinger.framework.extenders.wire import Json
from wharfinger.framework.snapshot import Snapshot
from wharfinger.objects.documents.fields import mapping
from wharfinger.objects.model.extenders import Extender
from wharfinger.objects.model.pod import Pod, PodKey
from wharfinger.whatif.inventory import Inventory, Ref
from wharfinger.whatif.scene import Scene


class SupposedObjects:
    """The objects of one question; see `framework.extenders.asking.Objects`."""

    def __init__(self, inventory: Inventory, pods: Mapping[PodKey, Any], subject: Pod, snapshot: Snapshot) -> None:
        """`pods`: those that were put on the stage, which may be others than those in the inventory."""
        self._inventory = inventory
        self._pods = pods
        self._subject = subject
        self._snapshot = snapshot

    def subject(self) -> Json:
        """The pod that is decided, without a node."""
        found = self._object(self._subject)
        spec = {name: value for name, value in mapping(found, "spec").items() if name != "nodeName"}
        return {**found, "spec": spec}

    def pod(self, key: PodKey) -> Json | None:
        """A pod that is bound somewhere."""
        for info in map(self._snapshot.info, self._snapshot.names):
            for pod in info.pods.values():
                if pod.key == key:
                    return self._object(pod)
        return None

    def node(self, name: str) -> Json | None:
        """A node of the inventory."""
        return self._inventory.get(Ref("Node", "", name))

    def pods_of(self, node: str) -> Mapping[str, VictimPod] | None:
        """The pods on a node that the subject may evict, by uid; None where there is no such node."""
        if node not in self._snapshot:
            return None
        return {
            pod.uid: VictimPod(pod.key, pod.uid, pod.create_revision)
            for pod in self._snapshot.info(node).pods.values()
            if pod.priority < self._subject.priority
        }

    def _object(self, pod: Pod) -> dict[str, Any]:
        found = self._pods.get(pod.key) or self._inventory.get(Ref("Pod", *pod.key)) or {}
        metadata = {**mapping(found, "metadata"), "namespace": pod.namespace, "name": pod.name, "uid": pod.uid}
        return {**found, "metadata": metadata}


@contextmanager
def asking(scene: Scene) -> Iterator[None]:
    """Have the extenders asked about the pods of the scene during the block."""
    with asyncio.Runner() as runner:
        calls = ExtenderCalls()

        def put(
            pod: Pod, question: ExtenderQuestion | PreemptionQuestion, extenders: Sequence[Extender], snapshot: Snapshot
        ) -> ExtenderVerdicts | PreemptionVerdicts | ExtenderFailure:
            objects = SupposedObjects(scene.inventory, scene.objects, pod, snapshot)
            if isinstance(question, ExtenderQuestion):
                return runner.run(ask(question, objects.subject(), extenders, calls, objects))
            return runner.run(ask_preemption(question, objects.subject(), extenders, calls, objects))

        scene.simulator.extenders.ask = put
        try:
            yield
        finally:
            scene.simulator.extenders.ask = None
            runner.run(calls.close())
