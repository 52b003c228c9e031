"""HTTP extenders and real workers: answers outlive workers, and pods outlive extenders."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.framework.extenders.extender_thread import ExtenderThread
from tests.integration.conftest import StartWorker
from tests.integration.dev_tree import DevTree, wait_until
from tests.integration.gateway import NODES, PODS, bound_pods, condition, node, pod

pytestmark = pytest.mark.timeout(180)

GPU = "example.com/gpu"


@pytest.fixture
def extender() -> Iterator[ExtenderThread]:
    with ExtenderThread().running() as running:
        yield running


@pytest.fixture
def config(extender: ExtenderThread, tmp_path: Path) -> Path:
    """One extender that filters and preempts, for pods that ask for a GPU."""
    return written(tmp_path, urlPrefix=extender.url, filterVerb="filter", preemptVerb="preempt", httpTimeout="2s")


def written(folder: Path, **fields: Any) -> Path:
    managed = [{"name": GPU, "ignoredByScheduler": True}]
    path = folder / "config.json"
    path.write_text(json.dumps({"extenders": [{"nodeCacheCapable": True, "managedResources": managed, **fields}]}))
    return path


def gpu_pod(name: str, *, cpu: str = "1", **spec: Any) -> dict[str, Any]:
    made = pod(name, namespace="gpus")
    made["spec"]["containers"] = [{"name": "c", "resources": {"requests": {"cpu": cpu}, "limits": {GPU: "1"}}}]
    return {**made, "spec": {**made["spec"], **spec}}


def test_a_recorded_answer_is_not_asked_for_again(
    servers: DevTree, start_worker: StartWorker, extender: ExtenderThread, config: Path
) -> None:
    """The worker is killed while the extender thinks about victims; what it said of the nodes is in the history."""
    etcd = servers.etcd
    first = start_worker(f"--config={config}")
    etcd.put(f"{NODES}full", node("full", cpu="1"))
    etcd.put(f"{NODES}locked", node("locked", cpu="4"))
    low = pod("low", namespace="gpus", cpu="1")
    etcd.put(f"{PODS}gpus/low", {**low, "spec": {**low["spec"], "priority": 0, "nodeName": "full"}})
    extender.refused["locked"] = "no licence"
    extender.hangs.add("preempt")
    etcd.put(f"{PODS}gpus/vip", gpu_pod("vip", priority=9))
    wait_until(lambda: extender.asked == ["filter", "preempt"], 40, f"victims are asked about; {extender.asked}")

    first.process.kill()
    first.process.wait()
    extender.hangs.clear()
    start_worker(f"--config={config}")

    def nominated() -> str:
        return str((etcd.get(f"{PODS}gpus/vip").get("status") or {}).get("nominatedNodeName", ""))

    wait_until(lambda: nominated() == "full", 60, "room is made by another worker")
    assert extender.asked == ["filter", "preempt", "preempt"]
    said = condition(etcd.get(f"{PODS}gpus/vip"))["message"]
    assert said.startswith("0/2 nodes are available: 1 Insufficient cpu, 1 no licence.")
    wait_until(lambda: "DisruptionTarget" in json.dumps(etcd.get(f"{PODS}gpus/low")), 20, "its victim is marked")
    etcd.delete(f"{PODS}gpus/low")
    wait_until(lambda: bound_pods(etcd, "gpus").get("vip") == "full", 30, "bound once its victim is gone")
    told = servers.cli("explain", "pod", "gpus/vip").stdout
    assert "extenders asked" in told
    assert "no licence" in told
    again = json.loads(servers.cli("explain", "pod", "gpus/vip", "--nodes", "--attempt=1", "-o", "json").stdout)
    assert again["same"]
    locked = next(one for one in again["nodes"] if one["node"] == "locked")
    assert locked["filters"][extender.url]["verdict"] == "refuses"


def test_a_question_that_died_with_its_worker_is_put_by_another(
    servers: DevTree, start_worker: StartWorker, extender: ExtenderThread, config: Path
) -> None:
    etcd = servers.etcd
    first = start_worker(f"--config={config}")
    for name in ("a", "b"):
        etcd.put(f"{NODES}{name}", node(name))
    extender.refused["a"] = "no licence"
    extender.hangs.add("filter")
    etcd.put(f"{PODS}gpus/web", gpu_pod("web"))
    wait_until(lambda: extender.asked == ["filter"], 40, "the nodes are asked about")

    first.process.kill()
    first.process.wait()
    start_worker(f"--config={config}")
    extender.hangs.clear()

    wait_until(lambda: bound_pods(etcd, "gpus") == {"web": "b"}, 60, f"bound where allowed; {extender.asked}")
    assert extender.asked == ["filter", "filter"]


def test_pods_wait_for_an_extender_that_breaks_and_others_do_not(
    servers: DevTree, start_worker: StartWorker, extender: ExtenderThread, config: Path
) -> None:
    etcd = servers.etcd
    worker = start_worker(f"--config={config}")
    etcd.put(f"{NODES}a", node("a", cpu="64"))
    extender.breaks.add("filter")
    for number in range(3):
        etcd.put(f"{PODS}gpus/card{number}", gpu_pod(f"card{number}"))
        etcd.put(f"{PODS}gpus/plain{number}", pod(f"plain{number}", namespace="gpus"))

    wait_until(lambda: len(bound_pods(etcd, "gpus")) == 3, 30, "pods without a GPU are bound")

    def said() -> list[dict[str, str]]:
        return [condition(etcd.get(f"{PODS}gpus/card{number}")) for number in range(3)]

    wait_until(lambda: {one.get("reason") for one in said()} == {"SchedulerError"}, 30, "the failure is recorded")
    assert all("the connection broke in the middle of the answer" in one["message"] for one in said())
    assert set(extender.pods_asked("filter")) == {"card0", "card1", "card2"}
    assert "extender_failed" in worker.said

    extender.breaks.clear()
    wait_until(lambda: len(bound_pods(etcd, "gpus")) == 6, 40, "bound without any event once it works")


def test_a_slow_extender_that_may_be_ignored_delays_its_pod_only(
    servers: DevTree, start_worker: StartWorker, extender: ExtenderThread, tmp_path: Path
) -> None:
    etcd = servers.etcd
    config = written(tmp_path, urlPrefix=extender.url, filterVerb="filter", httpTimeout="500ms", ignorable=True)
    start_worker(f"--config={config}")
    etcd.put(f"{NODES}a", node("a"))
    extender.hangs.add("filter")
    etcd.put(f"{PODS}gpus/web", gpu_pod("web"))

    wait_until(lambda: bound_pods(etcd, "gpus") == {"web": "a"}, 30, "bound without the extender")
    assert extender.asked == ["filter"]


def test_a_worker_on_etcd_alone_takes_no_extender_that_binds(servers: DevTree, tmp_path: Path) -> None:
    config = written(tmp_path, urlPrefix="http://127.0.0.1:1", bindVerb="bind")
    ended = servers.cli("worker", f"--config={config}", check=False)

    assert ended.returncode == 2
    assert "extenders[0].bindVerb: an extender can bind pods of a Kubernetes API only" in ended.stderr
