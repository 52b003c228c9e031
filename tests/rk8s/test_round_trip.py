"""Documents that a YAML library writes with rk8s' tags: after a bind, no byte but those of `node_name` has changed."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.rk8s import rk8s_documents as docs
from tests.rk8s.conftest import Rk8sCluster
from tests.rk8s.rk8s_documents import Tagged, expression, node, node_affinity, pod, pod_affinity, pod_term, toleration

pytestmark = pytest.mark.asyncio(loop_scope="module")

NULL = b"node_name: null"


def probed() -> dict[str, Any]:
    """Enums that carry data, wherever rk8s has them in a pod that waits."""
    found = pod("p", labels={"app": "web", "on": "yes"}, annotations={"time": "1:30", "day": "2026-01-01", "=": "<<"})
    [container] = found["spec"]["containers"]
    container["livenessProbe"] = {"action": Tagged("httpGet", {"path": "/", "port": 80}), "periodSeconds": 10}
    container["readinessProbe"] = {"action": Tagged("exec", {"command": ["true", "null", "~"]}), "periodSeconds": 5}
    container["startupProbe"] = {"action": Tagged("tcpSocket", {"port": 80}), "periodSeconds": 1}
    container["env"] = [{"name": "TEXT", "value": "two\nlines\n"}, {"name": "LINE", "value": "node_name: null"}]
    found["spec"]["volumes"] = [{"name": "data", "type": "hostPath", "path": "/data"}]
    waiting = Tagged("Waiting", {"reason": "ContainerCreating", "message": None})
    ended = Tagged("Terminated", {"exit_code": 1, "finished_at": docs.CREATED})
    found["status"]["containerStatuses"] = [
        {"name": "main", "state": waiting, "last_termination_state": ended, "ready": False, "restart_count": 3}
    ]
    return found


def with_finalizers() -> bytes:
    return docs.document(pod("p")).replace(b"finalizers: null", b"finalizers:\n  - OrphanDependents\n  - !Custom mine")


def with_rules() -> dict[str, Any]:
    rules = pod_affinity(anti=[pod_term("zone", app="other")], preferred={10: pod_term("zone", app="web")})
    nodes = node_affinity(
        [expression("zone", "In", "a"), expression("cores", "Gt", "1")], preferred={5: [expression("ssd", "Exists")]}
    )
    tolerated = [toleration("NodeMemoryPressure", operator="Exists")]
    return pod("p", tolerations=tolerated, affinity={**rules, "node_affinity": nodes["node_affinity"]})


DOCUMENTS = {
    "plain": docs.document(pod("p")),
    "tags": docs.document(probed()),
    "finalizers": with_finalizers(),
    "rules": docs.document(with_rules()),
    "flow": docs.document(pod("p"), default_flow_style=True),
    "indented": docs.document(pod("p"), indent=4),
    "sorted": docs.document(probed(), sort_keys=True),
    "lines_of_windows": docs.document(probed()).replace(b"\n", b"\r\n"),
    "comments": b"# made by hand\n" + docs.document(pod("p")).replace(NULL, NULL + b" # none yet"),
    "unknown_fields": docs.document({**pod("p"), "extra": {"node_name": "mine"}}),
    "begun_and_ended": b"---\n" + docs.document(pod("p")) + b"...\n",
}


@pytest.mark.parametrize("kind", DOCUMENTS)
async def test_a_bind_changes_no_byte_but_those_of_the_node(cluster: Rk8sCluster, kind: str) -> None:
    before = DOCUMENTS[kind]
    await cluster.put(node("worker-1", labels={"zone": "a", "cores": "4"}))
    await cluster.put_raw("/registry/pods/p", before)
    assert await cluster.bound("p") == {"p": "worker-1"}
    assert (await cluster.value("p")).replace(b'"worker-1"', b"null").replace(b"worker-1", b"null") == before


async def test_json_stays_json(cluster: Rk8sCluster) -> None:
    document = pod("p")
    await cluster.put(node("worker-1"))
    await cluster.put_raw("/registry/pods/p", json.dumps(document).encode())
    assert await cluster.bound("p") == {"p": "worker-1"}
    document["spec"]["node_name"] = "worker-1"
    assert json.loads(await cluster.value("p")) == document
    assert await cluster.value("p") == json.dumps(document).encode()
