"""An extender that filters by whole nodes and binds pods itself, in a real Kubernetes API."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.apiserver.api_server_process import ApiServerProcess
from tests.apiserver.conftest import kube_apiserver
from tests.conftest import TemporalServer, start_etcd
from tests.framework.extenders.extender_thread import ExtenderThread
from tests.integration.dev_tree import wait_until
from tests.integration.worker_process import WorkerProcess

__all__ = ["kube_apiserver"]

pytestmark = [pytest.mark.servers, pytest.mark.timeout(240)]

GPU = "example.com/gpu"
SPACE = "cards"
PODS = f"/api/v1/namespaces/{SPACE}/pods"


class Site:
    """An API server with two nodes, an extender, and a worker with an etcd of its own."""

    def __init__(self, api: ApiServerProcess, extender: ExtenderThread, worker: WorkerProcess) -> None:
        self.api = api
        self.extender = extender
        self.worker = worker
        extender.binds = self.bind

    def pod(self, name: str, *, gpus: int = 1) -> None:
        limits = {GPU: str(gpus)} if gpus else {}
        container = {"name": "main", "image": "none", "resources": {"limits": limits}}
        spec = {"containers": [container], "tolerations": [{"operator": "Exists"}]}
        self.api.create(PODS, {"metadata": {"name": name}, "spec": spec})

    def bind(self, sent: dict[str, Any]) -> str:
        """What an extender with a `bindVerb` does."""
        target = {"apiVersion": "v1", "kind": "Node", "name": sent["Node"]}
        body = {"metadata": {"name": sent["PodName"], "uid": sent["PodUID"]}, "target": target}
        answer = self.api.request("POST", f"{PODS}/{sent['PodName']}/binding", body)
        return "" if answer.code == 201 else str(answer.body)

    def read(self, name: str) -> Any:
        return self.api.request("GET", f"{PODS}/{name}").body

    def node_of(self, name: str) -> str:
        return str(self.read(name)["spec"].get("nodeName", ""))

    def condition(self, name: str) -> dict[str, str]:
        found = self.read(name)["status"].get("conditions", ())
        return next((one for one in found if one["type"] == "PodScheduled"), {})


@pytest.fixture
def site(kube_apiserver: ApiServerProcess, temporal_server: TemporalServer, tmp_path: Path) -> Iterator[Site]:
    kube_apiserver.create("/api/v1/namespaces", {"metadata": {"name": SPACE}})
    for name in ("card-a", "card-b"):
        room = {"cpu": "8", "memory": "8Gi", "pods": "110", GPU: "4"}
        status = {"capacity": room, "allocatable": room}
        metadata = {"name": name, "annotations": {"example.com/cards": f"of {name}"}}
        kube_apiserver.create("/api/v1/nodes", {"metadata": metadata, "status": status})
    with ExtenderThread().running() as extender, start_etcd(tmp_path) as etcd:
        extender.refused["card-a"] = "no licence"
        config = tmp_path / "config.json"
        verbs = {"urlPrefix": extender.url, "filterVerb": "filter", "bindVerb": "bind"}
        config.write_text(json.dumps({"extenders": [{**verbs, "managedResources": [{"name": GPU}]}]}))
        variables = {"ETCD": etcd.url, "TEMPORAL": temporal_server.address, "CLUSTER": "cards"}
        worker = WorkerProcess(
            tmp_path / "worker.log",
            f"--kubeconfig={kube_apiserver.kubeconfig}",
            f"--config={config}",
            env={f"WHARFINGER_{name}": value for name, value in variables.items()},
        )
        try:
            worker.wait_ready()
            yield Site(kube_apiserver, extender, worker)
        finally:
            worker.end()
            for name in ("card-a", "card-b"):
                kube_apiserver.request("DELETE", f"/api/v1/nodes/{name}")


def test_an_extender_sees_whole_nodes_and_binds(site: Site) -> None:
    site.pod("card")
    site.pod("plain", gpus=0)
    wait_until(lambda: site.node_of("card") == "card-b", 60, f"bound by the extender; {site.worker.log}")
    wait_until(lambda: site.node_of("plain"), 30, "bound by the worker")

    assert site.extender.asked == ["filter", "bind"]
    nodes = site.extender.server.asked[0][1]["Nodes"]["items"]
    assert {node["metadata"]["annotations"]["example.com/cards"] for node in nodes} == {"of card-a", "of card-b"}
    annotations = [site.read(name)["metadata"].get("annotations", {}) for name in ("card", "plain")]
    assert ["wharfinger.dev/attempt" in one for one in annotations] == [False, True]

    # One that fails is said, and tried again after the back-off.
    failing = ["no card is free", "no card is free"]
    site.extender.binds = lambda sent: failing.pop() if failing else site.bind(sent)
    site.pod("late")
    wait_until(lambda: "no card is free" in site.condition("late").get("message", ""), 30, "its failure is recorded")
    wait_until(lambda: site.node_of("late") == "card-b", 60, "bound at last")
    assert site.extender.asked.count("bind") == 4
