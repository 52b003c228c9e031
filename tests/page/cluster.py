"""A cluster in memory, small or of 5,000 nodes, and the page before it: for tests, pictures, and looking at it.

`python -m tests.page.cluster` serves a filled one until Ctrl-C.
"""

from __future__ import annotations

import asyncio
import json
import random
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from temporalio.client import Client

from tests.fleet.fleet_records import Records, status
from wharfinger.errors import ServerError
from wharfinger.etcd import keys
from wharfinger.framework.evaluation import Evaluation
from wharfinger.framework.profiles import load_profiles
from wharfinger.objects.documents.pods import GROUP_LABEL, MIN_AVAILABLE_LABEL
from wharfinger.objects.model.pod import Pod, PodKey
from wharfinger.page.follow.reaching import TemporalReach
from wharfinger.page.options import PageOptions
from wharfinger.page.parts import PageParts
from wharfinger.page.views import VIEWS
from wharfinger.page.web.server import PageServer
from wharfinger.process.records import AttemptRecord, InstanceRecord
from wharfinger.scheduling.contracts.computation import Computation, PluginRefusal, ScoredNode
from wharfinger.scheduling.contracts.eviction import Victim
from wharfinger.scheduling.contracts.scheduling import Placed, Refused
from wharfinger.scheduling.page.attempts import LAST, PodAttempts
from wharfinger.scheduling.page.following import Following
from wharfinger.scheduling.page.view import SchedulingView
from wharfinger.scheduling.reading.explanation import Explanation, explain
from wharfinger.scheduling.reading.history import Attempt, Step
from wharfinger.telemetry import Metrics
from wharfinger.testing import MemoryStore, node_manifest, pod_manifest

NAMESPACES = ("web", "batch", "training", "data", "platform")
GPU = "nvidia.com/gpu"
BEGAN = datetime(2026, 3, 2, 9, 0, tzinfo=UTC)
SUBJECT = PodKey("training", "llm-finetune-0")
"""A pod with a history."""


@dataclass
class MemoryCluster:
    """A store, and what is written into it."""

    store: MemoryStore = field(default_factory=MemoryStore)
    rng: random.Random = field(default_factory=lambda: random.Random(7))

    async def put(self, key: str, obj: Any) -> int:
        """Write an object as JSON; answers the revision."""
        value = obj if isinstance(obj, bytes) else json.dumps(obj).encode()
        await self.store.put(key, value)
        return self.store.revision

    async def node(self, name: str, cpu: str = "4", memory: str = "8Gi", **more: Any) -> None:
        """Write a node; `gpus`: how many cards it has."""
        gpus = more.pop("gpus", 0)
        obj = node_manifest(name, cpu, memory, **more)
        if gpus:
            obj["status"]["allocatable"][GPU] = str(gpus)
        await self.put(keys.node(name), obj)

    async def pod(self, name: str, cpu: str = "1", namespace: str = "default", **more: Any) -> None:
        """Write a pod; `gpus`: how many cards it asks for, `created`: when it was."""
        gpus, created = more.pop("gpus", 0), more.pop("created", None)
        obj = pod_manifest(name, cpu, namespace=namespace, **more)
        if gpus:
            obj["spec"]["containers"][0]["resources"]["requests"][GPU] = str(gpus)
        obj["metadata"]["creationTimestamp"] = (created or datetime.now(UTC)).strftime("%Y-%m-%dT%H:%M:%SZ")
        await self.put(keys.pod(namespace, name), obj)

    async def refusal(self, namespace: str, name: str, plugins: tuple[str, ...], message: str, **more: Any) -> None:
        """Write the record of a waiting pod."""
        kv = (await self.store.get(keys.pod(namespace, name))).kv
        assert kv is not None
        more = {"attempt": 1, "workflow_id": f"wharfinger/pod/{namespace}/{name}/u", "run_id": "run"} | more
        record = AttemptRecord(
            plugins=plugins, message=message, create_revision=kv.create_revision, revision=kv.mod_revision, **more
        )
        await self.put(keys.attempt(namespace, name), record.to_bytes())

    async def worker(self, slot: int, state: str = "ready", tenant: str = "common", **more: Any) -> None:
        """Register a worker."""
        record = InstanceRecord(
            state=state, host=f"host-{slot + 1}.example", pid=4100 + slot, revision="2",
            scheduler_names=("default-scheduler",), **more,
        )  # fmt: skip
        lease = await self.store.grant_lease(60)
        await self.store.put(keys.instance(tenant, str(slot), 1), record.to_bytes(), lease=lease.id)

    async def fleet(self, ready: int = 3, replicas: int = 4) -> None:
        """Write what the actor of the common fleet keeps, while a rollout to template 2 is running."""
        updating = f"updating slot {ready}: waits until its instance has been ready for 10 s"
        told = status(replicas=replicas, ready=ready, updated=ready, rollout="running", generation=50, phase=updating)
        records = Records("common").fleet(replicas).status(told).actor().revision(1, "completed").revision(2)
        for slot in range(replicas):
            records.slot(slot).grant(slot)
        for key, value in records.values.items():
            await self.store.put(key, value)

    async def profile(self) -> str:
        """Write the default configuration, as workers do; answers its digest."""
        profile = load_profiles()["default-scheduler"]
        await self.put(keys.profile(profile.digest), profile.configuration)
        return profile.digest


async def filled(nodes: int = 5000, pods: int = 50_000) -> MemoryCluster:
    """A cluster with something of everything."""
    cluster = MemoryCluster()
    rng = cluster.rng
    now = datetime.now(UTC)
    for worker in range(3):
        await cluster.worker(worker)
    await cluster.worker(3, "starting", waiting_for="etcd: list of 55,012 keys")
    await cluster.fleet()
    await cluster.profile()
    pools = ["general"] * 6 + ["memory"] * 2 + ["gpu"] * 2
    names = []
    for number in range(nodes):
        pool, zone = pools[number % len(pools)], "abc"[number % 3]
        name = f"{pool}-{zone}-{number // 30:03d}{number % 30:02d}"
        names.append((name, pool))
        labels = {
            "topology.kubernetes.io/zone": f"eu-west-1{zone}",
            "topology.kubernetes.io/rack": f"r{number // 60:02d}",
            "pool": pool,
            "node.kubernetes.io/instance-type": {"general": "m6.8xlarge", "memory": "r6.8xlarge", "gpu": "p4.24xlarge"}[
                pool
            ],
        }
        spec: dict[str, Any] = {}
        if pool == "gpu":
            spec["taints"] = [{"key": GPU, "value": "present", "effect": "NoSchedule"}]
        if number % 211 == 5:
            spec["unschedulable"] = True
        cpu, memory = {"general": ("32", "128Gi"), "memory": ("32", "256Gi"), "gpu": ("96", "768Gi")}[pool]
        await cluster.node(name, cpu, memory, labels=labels, gpus=8 if pool == "gpu" else 0, **spec)
        if number % 617 == 9:
            obj = node_manifest(name, cpu, memory, labels=labels)
            obj["status"]["conditions"] = [{"type": "Ready", "status": "False"}]
            await cluster.put(keys.node(name), obj)
    shares = {name: rng.betavariate(5, 2.2) for name, _ in names}
    size = 10 * nodes / pods
    left = {name: [32_000.0 * shares[name], 120 * shares[name], 8] for name, _ in names}
    for number in range(pods):
        name, pool = names[rng.randrange(len(names))]
        room = left[name]
        cpu = int(rng.choice((500, 1000, 2000, 4000, 6000)) * size)
        if room[0] < cpu:
            cpu = 100
        room[0] -= cpu
        namespace = NAMESPACES[rng.randrange(len(NAMESPACES))]
        gpus = 1 if pool == "gpu" and room[2] > 0 and number % 2 else 0
        room[2] -= gpus
        await cluster.pod(
            f"{namespace}-{number % 97:02d}-{number:06d}", f"{cpu}m", namespace,
            memory=f"{int(1024 * size * rng.choice((2, 4, 8)))}Mi",
            nodeName=name, gpus=gpus, labels={"app": f"{namespace}-{number % 97:02d}"}, status={"phase": "Running"},
            created=now - timedelta(minutes=rng.randrange(40_000)),
        )  # fmt: skip
    for name, pool in names:
        if pool == "gpu":  # so that no node has all of its cards free
            labels = {"app": "exporter"}
            await cluster.pod(f"exporter-{name}", "100m", "platform", nodeName=name, gpus=1, labels=labels)
    await _waiting(cluster, now, max(12, pods // 250))
    return cluster


async def _waiting(cluster: MemoryCluster, now: datetime, count: int) -> None:
    nodes = "5000"
    for number in range(count):
        name, namespace = f"sweep-{number:04d}", "batch"
        await cluster.pod(name, "64", namespace, memory="200Gi", created=now - timedelta(seconds=40 + 11 * number))
        await cluster.refusal(
            namespace, name, ("NodeAffinity", "NodeResourcesFit"),
            f"0/{nodes} nodes are available: 1000 node(s) had untolerated taint(s), 4000 Insufficient cpu.",
            attempt=1 + number % 5,
        )  # fmt: skip
    for number in range(count // 3):
        name, namespace = f"llm-finetune-{number}", "training"
        tolerations = [{"key": GPU, "operator": "Exists"}]
        await cluster.pod(
            name, "16", namespace, memory="96Gi", gpus=8, tolerations=tolerations, priority=1000,
            created=now - timedelta(seconds=5400 + 17 * number),
        )  # fmt: skip
        await cluster.refusal(
            namespace, name, ("NodeResourcesFit",),
            f"0/{nodes} nodes are available: 4000 Insufficient nvidia.com/gpu, 1000 Insufficient nvidia.com/gpu.",
            attempt=4, nominated_node="",
        )  # fmt: skip
    for number in range(count // 8):
        await cluster.pod(
            f"shard-{number}", "2", "data", created=now - timedelta(seconds=900 + number),
            nodeSelector={"topology.kubernetes.io/zone": "eu-west-1d"},
        )  # fmt: skip
        await cluster.refusal(
            "data",
            f"shard-{number}",
            ("NodeAffinity",),
            f"0/{nodes} nodes are available: node(s) didn't match Pod's node affinity/selector.",
        )
    for number in range(5):
        await cluster.pod(f"held-{number}", "1", "platform", schedulingGates=[{"name": "example.com/quota"}])
    for number in range(6):
        labels = {GROUP_LABEL: "mpi-solve", MIN_AVAILABLE_LABEL: "8"}
        await cluster.pod(f"mpi-solve-{number}", "8", "training", labels=labels, created=now - timedelta(seconds=260))
    await cluster.pod("legacy-0", "1", "platform", schedulerName="old-scheduler", created=now - timedelta(hours=3))


class RecordedAttempts(PodAttempts):
    """Attempts as Temporal would have them; everything else is the page's own."""

    def record(self, key: PodKey, pod: Pod, attempts: list[Attempt]) -> None:
        """Have these recorded of a pod."""
        self._recorded = {**getattr(self, "_recorded", {}), key: (pod, attempts)}

    async def recorded(self, key: PodKey, limit: int = LAST) -> Explanation:
        pod, attempts = getattr(self, "_recorded", {}).get(key, (None, []))
        return explain(str(key), pod, "", None, attempts[-limit:], query=f'WharfingerPod="{key}"')


def attempt_of(evaluation: Evaluation, pod: Pod, number: int, started: datetime, **more: Any) -> Attempt:
    """An attempt with this decision, as a worker would have recorded it."""
    computation = Computation(
        revision=evaluation.snapshot.revision, profile=more.pop("digest"), nodes=len(evaluation.snapshot),
        feasible=evaluation.feasible_count,
    )  # fmt: skip
    fenced = {"uid": pod.uid, "create_revision": pod.create_revision, "pod_revision": pod.mod_revision}
    refusals = tuple(PluginRefusal(plugin=plugin, reasons=dict(said)) for plugin, said in evaluation.refusals.items())
    ranking = tuple(
        ScoredNode(node=one.node, total=one.total, plugins=dict(one.plugins)) for one in evaluation.ranking(5)
    )
    if evaluation.node is not None:
        score = ranking[0].total if ranking else None
        placed = Placed(
            **fenced,
            node=evaluation.node,
            node_revision=1,
            score=score,
            ranking=ranking,
            refusals=refusals,
            computation=computation,
        )
        placement, outcome = placed.model_dump(mode="json"), "bound"
    else:
        victims = tuple(
            Victim(pod=str(one.key), create_revision=one.create_revision, uid=one.uid) for one in evaluation.victims
        )
        refused = Refused(
            **fenced, message=evaluation.message, refusals=refusals, rejectors=evaluation.rejectors,
            nominated_node=evaluation.nominated_node or "", victims=victims, computation=computation,
        )  # fmt: skip
        placement, outcome = refused.model_dump(mode="json"), "waiting" if more.get("last") else "refused"
    last = more.get("last", False)
    waited = None if last else 840.0
    steps = [
        *([Step("backed off", started, 2.0 * number)] if number > 1 else []),
        Step("place", started, 0.0123 + number / 1000),
        Step("record_refusal", started, 0.0081),
        Step("waited", started, waited),
    ]  # fmt: skip
    return Attempt(
        number, f"wharfinger/pod/{pod.namespace}/{pod.name}/{pod.uid}", f"0198a{number:03d}-5f02-7c3b", started,
        "woken by AssignedPodDelete" if number > 1 else "started when the pod was seen",
        ended=None if last else started + timedelta(seconds=860 + number), outcome=outcome, node=evaluation.node,
        message="" if evaluation.node else evaluation.message, placement=placement, steps=steps,
    )  # fmt: skip


async def with_history(cluster: MemoryCluster, parts: PageParts) -> None:
    """Give `SUBJECT` four attempts, on states of the cluster that differ; they can be decided again."""
    attempts = parts.view(SchedulingView).attempts
    assert isinstance(attempts, RecordedAttempts)
    profile = load_profiles()["default-scheduler"]
    digest = await cluster.profile()
    cache = parts.following.cache
    pod = cache.pods[SUBJECT]
    found = []
    gpu_nodes = [name for name in cache.nodes if name.startswith("gpu")]
    for number in range(1, 5):
        if number > 1:
            for name in gpu_nodes[number * 5 : number * 5 + 12]:
                obj = json.loads((await cluster.store.get(keys.node(name))).kv.value)  # type: ignore[union-attr]
                obj["spec"]["unschedulable"] = number == 2
                await cluster.put(keys.node(name), obj)
        await in_step(parts, cluster.store.revision)
        evaluation = profile.evaluate(pod, cache.snapshot(), preempt=number == 4)
        found.append(
            attempt_of(
                evaluation,
                pod,
                number,
                datetime.now(UTC) - timedelta(seconds=900 * (5 - number)),
                digest=digest,
                last=number == 4,
            )
        )
    attempts.record(SUBJECT, pod, found)
    await cluster.refusal(*SUBJECT, evaluation.rejectors, evaluation.message, attempt=4)


async def in_step(parts: PageParts, revision: int) -> None:
    """Wait until the page has seen the revision."""
    while parts.following.cache.progress.revision < revision or not parts.following.in_step.is_set():
        await asyncio.sleep(0.005)


async def no_temporal() -> Client:
    """There is none."""
    raise ServerError("cannot reach Temporal")


class AnsweringTemporal(TemporalReach):
    """Temporal as it is most of the time."""

    async def _ask(self) -> None:
        self._asked = True


@dataclass
class Page:
    """A page that is served."""

    server: PageServer
    parts: PageParts
    cluster: MemoryCluster
    store: MemoryStore
    """The page's own client of the cluster's store."""
    links: list[str]
    """One-time links, in the order in which they were announced."""

    @property
    def link(self) -> str:
        """The one that is good now."""
        return self.links[-1]


@asynccontextmanager
async def served(
    cluster: MemoryCluster, options: PageOptions | None = None, views: Sequence[str] = VIEWS
) -> AsyncIterator[Page]:
    """The page before this cluster, in step with it."""
    options = options or PageOptions(0, temporal_ui="http://127.0.0.1:8233")
    links: list[str] = []
    server = PageServer(options, links.append, views=views)
    await server.start()
    store = cluster.store.client()
    following = Following(store, Metrics(), rng=random.Random(1))
    parts = PageParts(following, options, no_temporal, cluster="wharfinger", namespace="default", views=views)
    parts.view(SchedulingView).attempts = RecordedAttempts(
        following.store, no_temporal, cluster="wharfinger", ui=options.temporal_ui, namespace="default"
    )
    parts.temporal = AnsweringTemporal(no_temporal, following.clock)
    running = asyncio.create_task(parts.run())
    server.show(parts)
    try:
        waiting = asyncio.create_task(in_step(parts, cluster.store.revision))
        await asyncio.wait({waiting, running}, return_when=asyncio.FIRST_COMPLETED)
        if running.done():
            running.result()
        yield Page(server, parts, cluster, store, links)
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        await server.stop()


async def stir(cluster: MemoryCluster, pace: float = 8.0) -> None:
    """Let pods come, be bound and be refused, about so many a second, until cancelled."""
    rng, number = cluster.rng, 0
    nodes = [kv.key.removeprefix(keys.NODES) async for page in cluster.store.list(keys.NODES) for kv in page.items]
    while True:
        number += 1
        name = f"job-{number:05d}"
        await cluster.pod(name, "500m", "batch", memory="1Gi")
        await asyncio.sleep(rng.expovariate(4 * pace))
        if rng.random() < 0.2:
            await cluster.refusal(
                "batch", name, ("NodeResourcesFit",), "0/5000 nodes are available: 5000 Insufficient cpu."
            )
        else:
            await cluster.pod(
                name, "500m", "batch", memory="1Gi", nodeName=rng.choice(nodes), status={"phase": "Running"}
            )
        if number > 150:
            with suppress(KeyError):
                await cluster.store.delete(keys.pod("batch", f"job-{number - 150:05d}"))
                await cluster.store.delete(keys.attempt("batch", f"job-{number - 150:05d}"))
        await asyncio.sleep(rng.expovariate(pace * 1.4))


async def _serve(nodes: int, pods: int) -> None:
    cluster = await filled(nodes, pods)
    async with served(cluster, PageOptions(10280, temporal_ui="http://127.0.0.1:8233")) as page:
        await with_history(cluster, page.parts)
        stirring = asyncio.create_task(stir(cluster))
        print(page.link, flush=True)
        while not stirring.done():
            await asyncio.sleep(1)
            print(page.link, flush=True) if len(page.links) > 1 and page.links.pop(0) else None
        stirring.result()


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        asyncio.run(
            _serve(int(sys.argv[1]) if len(sys.argv) > 1 else 5000, int(sys.argv[2]) if len(sys.argv) > 2 else 50_000)
        )
