"""What `ingest.py` and `memory.py` feed a worker with: objects as clusters have them, and etcd's own bytes for them.

A pod is one of a Deployment's, about 1 KiB of JSON; the lines are those of etcd's JSON gateway.
"""

from __future__ import annotations

import asyncio
import json
import random
import time
from base64 import b64encode
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager
from types import SimpleNamespace
from typing import Any

from wharfinger.etcd import etcd_json_wire, keys
from wharfinger.etcd.etcd_json import messages
from wharfinger.etcd.etcd_watch import Watch
from wharfinger.etcd.store import KeyValue, Page, Store, WatchBatch
from wharfinger.framework.profiles import load_profiles
from wharfinger.objects.model.pod import Pod
from wharfinger.process.names import COMMON, pod_workflow_id
from wharfinger.process.parts import ProcessParts
from wharfinger.process.running import tune_garbage_collection
from wharfinger.programs.loops import Loops
from wharfinger.scheduling.loops.run_ends import RunEnds
from wharfinger.scheduling.loops.signals import TemporalSide
from wharfinger.scheduling.state.cache.cache import Cache
from wharfinger.scheduling.state.pool import Ownership, Pool
from wharfinger.settings import DispatchSettings, WorkerSettings

NAMESPACES = 20
SIZES = [(cpu, memory) for cpu in ("100m", "250m", "500m", "1") for memory in ("128Mi", "256Mi", "512Mi", "1Gi", "2Gi")]
CHUNK = 1 << 17
"""Bytes of a stream that are read at a time."""


def node(name: str, beat: int = 0) -> bytes:
    """A node that reports; `beat` counts its heart-beats."""
    room = {"cpu": "32", "memory": "128Gi", "pods": "110", "ephemeral-storage": "100Gi"}
    labels = {"kubernetes.io/hostname": name, "kubernetes.io/arch": "amd64", "topology.kubernetes.io/zone": "a"}
    beaten = f"2025-01-01T{beat // 3600 % 24:02}:{beat // 60 % 60:02}:{beat % 60:02}Z"
    conditions = [
        {"type": kind, "status": status, "lastHeartbeatTime": beaten, "reason": f"Kubelet{kind}"}
        for kind, status in (("MemoryPressure", "False"), ("DiskPressure", "False"), ("Ready", "True"))
    ]
    status = {"capacity": room, "allocatable": room, "conditions": conditions}
    metadata = {"name": name, "uid": f"uid-{name}", "labels": labels}
    return encoded({"apiVersion": "v1", "kind": "Node", "metadata": metadata, "spec": {}, "status": status})


def pod(number: int) -> tuple[str, str, dict[str, Any]]:
    """Namespace, name and object of a pending pod."""
    app, size = number % 200, SIZES[number % len(SIZES)]
    namespace, name = f"team-{app % NAMESPACES}", f"web-{app}-6d4f8b7c9d-{number:06}"
    labels = {"app": f"web-{app}", "pod-template-hash": "6d4f8b7c9d", "tier": "front"}
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": f"web-{app}-6d4f8b7c9d", "controller": True}
    container = {
        "name": "main",
        "image": f"registry.example.com/web/app-{app}:1.27.3",
        "resources": {"requests": {"cpu": size[0], "memory": size[1]}, "limits": {"memory": size[1]}},
        "ports": [{"containerPort": 8080, "protocol": "TCP"}],
        "env": [{"name": "LEVEL", "value": "info"}, {"name": "REGION", "value": "north"}],
        "volumeMounts": [{"name": "token", "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount"}],
        "terminationMessagePath": "/dev/termination-log",
        "imagePullPolicy": "IfNotPresent",
    }
    tolerations = [
        {"key": f"node.kubernetes.io/{what}", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
        for what in ("not-ready", "unreachable")
    ]
    spec = {
        "containers": [container],
        "volumes": [{"name": "token", "projected": {"sources": [{"serviceAccountToken": {"path": "token"}}]}}],
        "restartPolicy": "Always",
        "schedulerName": "default-scheduler",
        "serviceAccountName": "web",
        "tolerations": tolerations,
        "priority": 0,
    }
    metadata = {
        "name": name,
        "namespace": namespace,
        "uid": f"8d1c{number:08x}-4f6a-4b7e-9c1d-0123456789ab",
        "creationTimestamp": "2025-01-01T00:00:00Z",
        "labels": labels,
        "ownerReferences": [{**owner, "uid": f"0f3c{app:08x}-4f6a-4b7e-9c1d-0123456789ab"}],
    }
    obj = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec, "status": {"phase": "Pending"}}
    return namespace, name, obj


def bound(obj: dict[str, Any], node_name: str, batch: int) -> bytes:
    """The same pod as a bind writes it."""
    condition = {
        "lastProbeTime": None,
        "lastTransitionTime": f"2025-01-01T00:{batch // 60 % 60:02}:{batch % 60:02}Z",
        "type": "PodScheduled",
        "status": "True",
    }
    annotations = {"wharfinger.dev/attempt": f"wharfinger/cohort/{batch}@0197c2d1-7a35-7c53-8d2b-000000000000"}
    return encoded({
        **obj,
        "metadata": {**obj["metadata"], "annotations": annotations},
        "spec": {**obj["spec"], "nodeName": node_name},
        "status": {"phase": "Pending", "conditions": [condition]},
    })  # fmt: skip


def encoded(obj: dict[str, Any]) -> bytes:
    """As clients store it."""
    return json.dumps(obj, separators=(",", ":")).encode()


def line(items: Iterable[KeyValue], revision: int) -> bytes:
    """One message of the watch as the gateway writes it."""
    events = [
        {
            "kv": {
                "key": b64encode(item.key.encode()).decode(),
                "create_revision": str(item.create_revision),
                "mod_revision": str(item.mod_revision),
                "version": "1",
                "value": b64encode(item.value).decode(),
            }
        }
        for item in items
    ]
    header = {"cluster_id": "14841639068965178418", "member_id": "10276657743932975437", "raft_term": "2"}
    return encoded({"result": {"header": {**header, "revision": str(revision)}, "events": events}}) + b"\n"


class Recorded(Store):
    """A store that lists what it is given and plays lines to the watch; in the place of `EtcdStore`."""

    def __init__(self, listed: list[KeyValue], revision: int) -> None:
        self._listed = listed
        self._revision = revision
        self._chunks: asyncio.Queue[bytes] = asyncio.Queue()
        self.readany = self._chunks.get
        settings = SimpleNamespace(watch_idle=20.0)
        self._connection: Any = SimpleNamespace(
            closed=asyncio.Event(),
            endpoint="",
            size=1,
            settings=settings,
            random=random.Random(1),
            stream=self._stream,
            wire=etcd_json_wire,
        )  # fmt: skip

    def play(self, lines: Iterable[bytes]) -> None:
        """Let the watch read this next."""
        whole = b"".join(lines)
        for at in range(0, len(whole), CHUNK):
            self._chunks.put_nowait(whole[at : at + CHUNK])

    async def list(self, prefix: str, *, page_size: int = 500, **_: object) -> AsyncIterator[Page]:
        """Everything of the prefix, page by page."""
        found = [item for item in self._listed if item.key.startswith(prefix)]
        for at in range(0, len(found), page_size) or (0,):
            yield Page(tuple(found[at : at + page_size]), self._revision)

    def watch(
        self, prefix: str, start_revision: int, *, previous: bool = False
    ) -> AbstractAsyncContextManager[AsyncIterator[WatchBatch]]:
        """The real watch, over the recorded lines."""
        watch = Watch(self._connection, prefix, start_revision, previous=previous, observe=lambda _: None)
        return aclosing(watch.batches())

    @asynccontextmanager
    async def _stream(self, *_: object, **__: object) -> AsyncIterator[AsyncIterator[Any]]:
        yield messages(self)


class Nowhere:
    """In the place of Temporal: nothing is started."""

    running = True

    def workflow_id(self, pod: Pod) -> str:
        """As a real worker has it."""
        return pod_workflow_id("wharfinger", pod.namespace, pod.name, pod.uid)

    def seconds_after(self, attempt: int) -> float:
        """No pod is refused here."""
        return float(attempt)

    async def start(self, *_: object, **__: object) -> None:
        """Nothing."""

    async def wake(self, *_: object, **__: object) -> bool:
        """No chain is open."""
        return False

    failure_of = signal = stop = start

    def on_failure(self, _: object) -> None:
        """It does not fail."""

    async def probe(self) -> None:
        """It is there."""


def worker(store: Any, clock: Any) -> Loops:
    """The real loops of one worker over a store; nothing of it runs yet, and no pod is its own."""
    profiles, temporal = load_profiles(), Nowhere()
    loops = Loops(
        WorkerSettings(dispatching=DispatchSettings(hold=0.0)),
        ProcessParts(store, clock=clock, rng=random.Random(1)),
        Pool(Cache(clock=clock), profiles, Ownership(frozenset(profiles))),
        TemporalSide(temporal, temporal, temporal, temporal.probe, RunEnds()),
    )
    # Registrations decide whose the pods are, and here there are none: no pods may be shared out anew.
    loops.lifecycle._share_out = lambda **_: None  # type: ignore[method-assign]
    return loops


async def serving(store: Recorded) -> tuple[Loops, asyncio.Task[None]]:
    """A worker that has listed the store, with every pod for its own, and the task that follows the store."""
    loops = worker(store, time.monotonic)
    tune_garbage_collection()
    following = asyncio.create_task(loops.scheduling.informer.run())
    await loops.scheduling.informer.synced.wait()
    serve(loops)
    return loops, following


def stored(number: int, revision: int) -> KeyValue:
    """A pending pod, as etcd has it."""
    namespace, name, obj = pod(number)
    return KeyValue(keys.pod(namespace, name), encoded(obj), revision, revision)


def serve(loops: Loops) -> None:
    """Every pod is this worker's from now on."""
    me = f"{COMMON}/0"
    loops.scheduling.shards.update(frozenset((me,)), me)
    loops.scheduling.pod_events.resharded()


def revisions(per_revision: int, count: int) -> Iterator[range]:
    """Numbers of the pods of each transaction."""
    for at in range(0, count, per_revision):
        yield range(at, min(at + per_revision, count))
