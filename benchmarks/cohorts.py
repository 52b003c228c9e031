"""What a cohort's activities cost this process for each pod: `python benchmarks/cohorts.py --nodes 5000 --pods 200`.

The real cache, profile and activities on a store that answers at once (`bind_many` in Python, without etcd's part), and
the conversion of what travels between them and the workflow. Plain pods, several cohorts; the lower quartile of the
process times counts, so that neighbours do not. A JSON line of microseconds a pod; `--profile` prints where they go.
`place` and `refuse` are decisions for lone pods that fit and that fit nowhere; `gang` is one decision for as many
members as a gang of the default limits can have, and `sum` leaves all three out.
"""

from __future__ import annotations

import argparse
import asyncio
import cProfile
import gc
import json
import pstats
import statistics
import time
from collections.abc import Sequence
from dataclasses import replace

import core_workloads

from wharfinger.activities.scheduling import SchedulingActivities
from wharfinger.etcd import etcd_json_wire, etcd_wire
from wharfinger.etcd.store import Condition, Operation, TxnResult
from wharfinger.framework.profiles import load_profiles
from wharfinger.objects.documents.decode import decode_pod, node_from_mapping
from wharfinger.objects.model.pod import PodKey
from wharfinger.process.connecting import data_converter
from wharfinger.process.names import gang_workflow_id, pod_workflow_id
from wharfinger.process.parts import ProcessParts
from wharfinger.scheduling.contracts.cohort_scheduling import (
    BindManyInput,
    BoundMany,
    CohortInput,
    CohortPod,
    GangName,
    PlacedMany,
    PlaceManyInput,
)
from wharfinger.scheduling.contracts.scheduling import PlaceInput
from wharfinger.scheduling.state.cache.cache import Cache
from wharfinger.scheduling.state.pool import Identity, Ownership, Pool
from wharfinger.settings import BindSettings
from wharfinger.testing.memory_store import MemoryStore

CLUSTER = "bench"
GROUP = "pod-group.scheduling.sigs.k8s.io/"
MEMBERS = 40
"""Of a gang."""
ALONE = ("place", "refuse", "gang")
"""Steps that are no part of a cohort's way."""


class Agreeable(MemoryStore):
    """Says yes at once, having spelt the request as etcd's gateway takes it."""

    def __init__(self) -> None:
        super().__init__()
        self.at = 1_000_000

    async def txn(
        self, compares: Sequence[Condition], success: Sequence[Operation], failure: Sequence[Operation] = ()
    ) -> TxnResult:
        """Every compare holds."""
        etcd_json_wire.encoded(etcd_wire.txn(compares, success, failure))
        await asyncio.sleep(0)
        self.at += 1
        return TxnResult(True, self.at)


class Bench:
    """One worker's activities."""

    def __init__(self, nodes: int) -> None:
        profiles = load_profiles()
        self.cache = Cache(clock=time.monotonic)
        for number in range(nodes):
            self.cache.set_node(node_from_mapping(core_workloads.node(number)))
        self.cache.progress.advance(nodes)
        self.activities = SchedulingActivities(
            ProcessParts(Agreeable()),
            Pool(self.cache, profiles, Ownership(frozenset(profiles))),
            Identity(CLUSTER, "bench"),
            BindSettings(),
        )
        self._number = nodes

    def pods(self, number: int, *, cpu: str = "100m", group: str = "") -> tuple[CohortPod, ...]:
        """Pending pods as the watch shows them, named as a dispatcher does; `group`: the gang that they are."""
        named = []
        for _ in range(number):
            self._number += 1
            revision = self._number
            labels = {GROUP + "name": group, GROUP + "min-available": str(number)} if group else {}
            manifest = core_workloads.pod(f"pod-{revision}", cpu=cpu, labels=labels)
            manifest["metadata"]["uid"] = f"5a2d6a0e-8d5c-4b0f-9b1e-{revision:012d}"
            raw = json.dumps(manifest).encode()
            meta = manifest["metadata"]
            pod = decode_pod(
                raw, namespace=meta["namespace"], name=meta["name"], create_revision=revision, mod_revision=revision
            )
            self.cache.set_pod(pod, raw)
            named.append(CohortPod(namespace=pod.namespace, name=pod.name, uid=pod.uid, revision=revision))
        self.cache.progress.advance(self._number)
        return tuple(named)

    async def cohort(self, number: int) -> dict[str, float]:
        """Seconds of each step of one cohort."""
        pods = self.pods(number)
        took: dict[str, float] = {}
        given = PlaceManyInput(pods=pods, workflow_id="bench/cohort/1", run_id="run")
        began = time.process_time()
        placed = await self.activities.cohorts.place_many(given)
        took["place_many"] = time.process_time() - began
        bind = BindManyInput(
            seats=tuple(seat.to_commit() for seat in placed.seats),
            computations=tuple(stretch.computation for stretch in placed.stretches),
            workflow_id="bench/cohort/1",
            run_id="run",
        )
        began = time.process_time()
        bound = await self.activities.cohorts.bind_many(bind)
        took["bind_many"] = time.process_time() - began
        assert len(bound.bound) == number, bound.unbound[:1]
        began = time.process_time()
        size = sum(map(converted, [CohortInput(pods=pods), given, placed, bind, bound]))
        took["conversion"] = time.process_time() - began
        took["bytes"] = size / 1e6
        for seat in placed.seats:  # as the watch tells it
            pod = self.cache.pods[PodKey(seat.namespace, seat.name)]
            self.cache.set_pod(replace(pod, node_name=seat.node))
        return took

    async def lone(self, number: int) -> dict[str, float]:
        """Seconds of decisions for lone pods, and of one for a gang as if it were as many."""
        fitting, huge, gang = self.pods(number), self.pods(number, cpu="4k"), self.pods(MEMBERS, group="team")
        took: dict[str, float] = {}
        for step, pods in (("place", fitting), ("refuse", huge)):
            took[step] = 0.0
            for one in pods:
                given = PlaceInput(
                    namespace=one.namespace,
                    name=one.name,
                    uid=one.uid,
                    revision=one.revision,
                    workflow_id=pod_workflow_id(CLUSTER, one.namespace, one.name, one.uid),
                    run_id="run",
                )
                began = time.process_time()
                outcome = await self.activities.place(given)
                took[step] += time.process_time() - began
                assert outcome.kind == ("placed" if step == "place" else "refused"), outcome
                self.remove(one)
        name = GangName(namespace=gang[0].namespace, name="team")
        run = gang_workflow_id(CLUSTER, name.namespace, name.name)
        asked = PlaceManyInput(gang=name, revision=self._number, workflow_id=run, run_id="run")
        began = time.process_time()
        placed = await self.activities.cohorts.place_many(asked)
        took["gang"] = (time.process_time() - began) * number / MEMBERS
        assert len(placed.seats) == MEMBERS, placed.reasons
        for one in gang:
            self.remove(one)
        return took

    def remove(self, one: CohortPod) -> None:
        """The pod is deleted, as the watch tells it."""
        self.cache.remove_pod(PodKey(one.namespace, one.name))


def converted(value: CohortInput | PlaceManyInput | PlacedMany | BindManyInput | BoundMany) -> int:
    """There and back; how many bytes it is."""
    converter = data_converter.payload_converter
    payloads = converter.to_payloads([value])
    converter.from_payloads(payloads, [type(value)])
    return sum(len(payload.data) for payload in payloads)


async def measure(nodes: int, pods: int, cohorts: int, profile: bool) -> dict[str, object]:
    """The line that is printed."""
    bench = Bench(nodes)
    await bench.cohort(pods)
    await bench.lone(pods)
    gc.collect()
    gc.freeze()
    profiler = cProfile.Profile() if profile else None
    if profiler is not None:
        profiler.enable()
    rounds = [await bench.cohort(pods) | await bench.lone(pods) for _ in range(cohorts)]
    if profiler is not None:
        profiler.disable()
        pstats.Stats(profiler).sort_stats("tottime").print_stats(40)
    each = {name: statistics.quantiles([took[name] for took in rounds])[0] / pods * 1e6 for name in rounds[0]}
    size = each.pop("bytes")
    line: dict[str, object] = {"nodes": nodes, "pods": pods}
    return (
        line
        | {f"{name}_us": round(micros, 1) for name, micros in each.items()}
        | {"sum_us": round(sum(v for name, v in each.items() if name not in ALONE), 1), "bytes": round(size)}
    )


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--nodes", type=int, default=5000)
    options.add_argument("--pods", type=int, default=200, help="in a cohort")
    options.add_argument("--cohorts", type=int, default=30)
    options.add_argument("--profile", action="store_true")
    given = options.parse_args()
    print(json.dumps(asyncio.run(measure(given.nodes, given.pods, given.cohorts, given.profile))))


if __name__ == "__main__":
    main()
