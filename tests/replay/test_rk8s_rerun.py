"""A span of a cluster of rk8s is lived again: its pods carry no marks, so records beside them say who bound them."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests import forked
from tests.conftest import TemporalServer
from tests.patience import patient
from tests.rk8s import rk8s_documents as docs
from tests.rk8s.conftest import Rk8sCluster, rk8s, rk8s_etcd
from tests.scheduling.world import PROFILES, node_object, pod_object
from wharfinger.etcd import keys
from wharfinger.etcd.store import Event, KeyValue
from wharfinger.objects.model.pod import PodKey
from wharfinger.objects.rk8s.format import RK8S
from wharfinger.process.records import AttemptRecord, BoundByRecord
from wharfinger.replay.lived_pods import LivedPod
from wharfinger.replay.rerun import Rerun, RerunSimulator

__all__ = ["rk8s", "rk8s_etcd"]

CLUSTER = "lived-again"
"""Of its own: on the shared Temporal, other tests run workers of the usual one."""
PACKED = "NodeResourcesFit.scoringStrategy.type=MostAllocated"


class Rk8sSpan:
    """Events as a store of such a cluster shows them, one revision after the other."""

    def __init__(self) -> None:
        self.revision = 10
        self.created: dict[str, int] = {}
        self.rerun = Rerun(RerunSimulator(PROFILES), frozenset(), set(PROFILES), "ours", RK8S)
        self.rerun.begin([])

    def take(self, **values: bytes | None) -> None:
        """One revision: each key's value, None = deleted. Slashes of keys are written as two underscores."""
        self.revision += 1
        events = []
        for name, value in values.items():
            key = keys.ROOT + name.replace("__", "/")
            created = self.created.setdefault(key, self.revision)
            if value is None:
                del self.created[key]
            events.append(Event(KeyValue(key, value or b"", created, self.revision), deleted=value is None))
        self.rerun.take(events)

    def node(self, name: str, cpu: str = "4") -> None:
        self.take(**{f"nodes__{name}": docs.document(docs.node(name, cpu=cpu))})

    def pod(self, name: str, cpu: str = "1", **more: Any) -> None:
        self.take(**{f"pods__default__{name}": docs.document(docs.pod(name, cpu=cpu, **more))})

    def bound(self, name: str, node: str, *, by: str, cpu: str = "1") -> None:
        """Pod and record in one revision, the record last; `by`: of whose cluster the attempt is, empty = no record."""
        value = docs.document(docs.pod(name, cpu=cpu, node_name=node))
        created = self.created[f"{keys.PODS}default/{name}"]
        record = BoundByRecord(attempt=f"{by}/pod/default/{name}@run", node=node, create_revision=created)
        beside = {f"wharfinger.dev__boundby__default__{name}": record.model_dump_json().encode()} if by else {}
        self.take(**{f"pods__default__{name}": value}, **beside)

    @property
    def nodes(self) -> Mapping[str, str]:
        return {pod.key.name: pod.node for pod in self.rerun.lived}

    def lived(self, name: str) -> LivedPod:
        return [pod for pod in self.rerun.lived if pod.key.name == name][-1]


def test_records_beside_pods_tell_who_bound_them() -> None:
    span = Rk8sSpan()
    span.node("a", cpu="8")
    for name in ("mine", "other", "libscheduler"):
        span.pod(name)
    span.node("b", cpu="8")
    span.bound("mine", "b", by="ours")
    span.bound("other", "b", by="theirs")
    span.bound("libscheduler", "b", by="")

    assert span.nodes == {"mine": "a", "other": "b", "libscheduler": "b"}
    assert {pod.key.name: (pod.ours, pod.recorded) for pod in span.rerun.lived} == {
        "mine": (True, "b"),
        "other": (False, "b"),
        "libscheduler": (False, "b"),
    }


def test_a_record_of_an_earlier_life_tells_nothing() -> None:
    span = Rk8sSpan()
    span.node("a")
    span.pod("web")
    span.bound("web", "a", by="ours")
    span.take(pods__default__web=None)
    span.pod("web")
    span.node("b")
    span.bound("web", "b", by="")

    assert [(pod.node, pod.ours) for pod in span.rerun.lived] == [("a", True), ("b", False)]


def test_a_changed_pod_goes_on_living_and_a_finished_one_ends() -> None:
    span = Rk8sSpan()
    span.node("a", cpu="2")
    span.pod("job", cpu="2")
    span.pod("next", cpu="2")
    span.bound("job", "a", by="ours", cpu="2")
    span.pod("job", cpu="2", node_name="a", labels={"changed": "yes"})
    before = dict(span.nodes)
    span.pod("job", cpu="2", node_name="a", phase="Succeeded")

    assert before == {"job": "a", "next": ""}
    assert span.nodes == {"job": "a", "next": "a"}


@pytest.mark.parametrize("then", [True, False])
def test_victims_are_told_by_the_record_of_the_pod_they_left_for(*, then: bool) -> None:
    span = Rk8sSpan()
    span.node("a", cpu="2")
    span.pod("low", cpu="2", priority=1)
    span.bound("low", "a", by="ours", cpu="2")
    span.pod("high", cpu="2", priority=9)
    record = AttemptRecord(attempt=1, nominated_node="a", victims=("default/low",) if then else ())
    span.take(wharfinger__dev__attempts__default__high=b"")
    span.take(**{"wharfinger.dev__attempts__default__high": record.model_dump_json().encode()})
    span.take(pods__default__low=None)

    assert span.rerun.evictions == [(PodKey("default", "low"), PodKey("default", "high"))]
    assert span.nodes["high"] == "a"
    assert span.lived("low").verdict == ("same" if then else "evicted")


def test_what_workers_cannot_read_is_not_lived() -> None:
    """Documents of Kubernetes, kinds that the format has not, and documents under another name."""
    span = Rk8sSpan()
    span.take(nodes__k8s=json.dumps(node_object("k8s")).encode())
    span.take(pods__default__k8s=json.dumps(pod_object("k8s", spec={"nodeName": "a"})).encode())
    span.take(pods__default__other=docs.document(docs.pod("named")))
    span.take(namespaces__default=b'{"metadata": {"name": "default"}}', replicasets__default__web=b"kind: [")
    span.node("a")
    span.pod("web")

    assert span.nodes == {"web": "a"}


async def command(cluster: Rk8sCluster, temporal: TemporalServer, *arguments: str) -> str:
    """What a command prints that succeeds."""
    env = {**os.environ, "WHARFINGER_ETCD": cluster.etcd, "WHARFINGER_TEMPORAL": temporal.address}
    env["WHARFINGER_CLUSTER"] = CLUSTER

    def ran() -> subprocess.CompletedProcess[str]:
        return forked.run(*arguments, env=env, timeout=patient(60))

    done = await asyncio.to_thread(ran)
    assert done.returncode == 0, done.stderr
    return done.stdout


def read(output: str) -> Any:
    return json.loads(output)


async def test_an_archive_of_a_cluster_is_lived_again(
    rk8s: Rk8sCluster,
    temporal_server: TemporalServer,
    tmp_path: Path,
) -> None:
    """Lone pods, a gang, one that waits for room, one that another scheduler bound: all are where they were."""
    file = str(tmp_path / "day.archive")
    gang = {"id": "train", "size": 2}
    await rk8s.put(*(docs.node(name, cpu="4") for name in ("oak", "elm", "ash")))
    await rk8s.put(docs.pod("before", cpu="1", node_name="oak"))
    worker = await rk8s.worker(cluster=CLUSTER)
    for number in range(4):
        await rk8s.put(docs.pod(f"web-{number}", cpu="500m"))
        await rk8s.bound(f"web-{number}")
    await rk8s.put_at_once(*(docs.pod(f"train-{number}", cpu="1", gang=gang) for number in range(2)))
    await rk8s.bound("train-0", "train-1")
    await rk8s.put(docs.pod("large", cpu="4"))
    await rk8s.refused("large", "NodeResourcesFit")
    await rk8s.put(docs.pod("theirs", cpu="500m", node_name="elm"))
    await rk8s.delete("web-0")
    await rk8s.put(docs.node("yew", cpu="4"))
    assert await rk8s.bound("large") == {"large": "yew"}
    stored = await rk8s.nodes_of(["web-1", "web-2", "web-3", "train-0", "train-1", "large"])
    await rk8s.until(lambda: len(worker.queue) == 0)

    await command(rk8s, temporal_server, "archive", file, "--since", "1h")
    shadow = read(await command(rk8s, temporal_server, "replay", "--archive", file, "-o", "json"))
    lived = "replay", "--mode", "rerun", "-o", "json"
    again = read(await command(rk8s, temporal_server, *lived, "--archive", file))
    served = read(await command(rk8s, temporal_server, *lived, "--since", "1h"))
    packed = read(await command(rk8s, temporal_server, *lived, "--archive", file, "--set", PACKED))

    assert shadow["summary"]["same"] == shadow["decisions"] >= 8, "the large one was decided twice or more"
    for report in (again, served):
        assert report["decisions"] == 7
        assert report["summary"]["same"] == 7, report["pods"]
        assert report["overTime"][-1]["again"] == report["overTime"][-1]["recorded"]
    assert packed["decisions"] == 7
    assert packed["summary"]["elsewhere"] > 0
    recorded = {one["pod"]: one["recorded"] for one in packed["pods"]} | {"default/web-0": ""}
    assert recorded.items() <= {f"default/{name}": node for name, node in (stored | {"web-0": ""}).items()}.items()
    assert packed["overTime"][-1]["again"]["use"]["cpu"] == again["overTime"][-1]["again"]["use"]["cpu"]
