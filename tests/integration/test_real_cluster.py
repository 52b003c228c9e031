"""The worker against a full Temporal on PostgreSQL, as docker-compose.production.yml lays it out.

Skipped, with the reason, where there is no PostgreSQL or the server was not built.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from google.protobuf.duration_pb2 import Duration
from temporalio.api.operatorservice.v1 import ListSearchAttributesRequest
from temporalio.api.workflowservice.v1 import DescribeNamespaceRequest, RegisterNamespaceRequest
from temporalio.client import Client, WorkflowExecutionStatus

from tests.conftest import start_etcd
from tests.etcd.certificates import Authority
from tests.integration import temporal_cluster
from tests.integration.dev_tree import wait_until
from tests.integration.gateway import ATTEMPTS, NODES, PODS, Gateway, audit, bound_pods, node, pod
from tests.integration.temporal_cluster import TemporalCluster
from tests.integration.worker_process import WorkerProcess
from tests.patience import patient
from wharfinger.process.names import SEARCH_ATTRIBUTES

pytestmark = [pytest.mark.servers, pytest.mark.timeout(300)]

MONTH = timedelta(hours=720)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TemporalCluster]:
    reason = temporal_cluster.missing()
    if reason:
        pytest.skip(reason)
    made = TemporalCluster(tmp_path_factory.mktemp("cluster"))
    try:
        made.make()
        made.start()
        yield made
    finally:
        made.end()


@contextlib.contextmanager
def working(cluster: TemporalCluster, namespace: str, folder: Path, *options: str) -> Iterator[Gateway]:
    """An etcd and a worker on the cluster, the worker ready."""
    with start_etcd(folder) as etcd:
        variables = {"ETCD": etcd.url, "TEMPORAL": cluster.address, "TEMPORAL_NAMESPACE": namespace}
        env = {f"WHARFINGER_{name}": value for name, value in variables.items()} | cluster.client
        worker = WorkerProcess(folder / "worker.log", *options, env=env)
        try:
            worker.wait_ready()
            yield Gateway(etcd.url)
        finally:
            worker.end()


@pytest.fixture
def secured(cluster: TemporalCluster, tmp_path: Path) -> Iterator[TemporalCluster]:
    """The same cluster behind TLS, asking for client certificates."""
    authority = Authority(tmp_path, "authority")
    server, friend = authority.sign("server", host="127.0.0.1"), authority.sign("friend")
    files = {
        "FRONTEND_CERT": server.cert, "FRONTEND_KEY": server.key, "CLIENT1_CA_CERT": authority.pem,
        "SERVER_CERT": server.cert, "SERVER_KEY": server.key, "SERVER_CA_CERT": authority.pem,
    }  # fmt: skip
    cluster.kill()
    cluster.variables = {f"TEMPORAL_TLS_{name}": str(path) for name, path in files.items()}
    for name in ("FRONTEND_SERVER_NAME", "INTERNODE_SERVER_NAME"):  # its services call each other by these
        cluster.variables[f"TEMPORAL_TLS_{name}"] = "127.0.0.1"
    cluster.variables["TEMPORAL_TLS_REQUIRE_CLIENT_AUTH"] = "true"
    paths = {"SERVER_CA_CERT_PATH": authority.pem, "CLIENT_CERT_PATH": friend.cert, "CLIENT_KEY_PATH": friend.key}
    cluster.client = {f"TEMPORAL_TLS_{name}": str(path) for name, path in paths.items()}
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.variables, cluster.client = {}, {}
        cluster.kill()
        cluster.start()


async def attributes(client: Client) -> set[str]:
    """Names of the search attributes that the client's namespace knows besides the server's own."""
    request = ListSearchAttributesRequest(namespace=client.namespace)
    return set((await client.operator_service.list_search_attributes(request)).custom_attributes)


async def test_what_makes_the_databases_and_the_namespace_may_run_at_every_start(cluster: TemporalCluster) -> None:
    cluster.make_schema()
    for _ in range(2):
        cluster.make_namespace("prepared")

    client = await Client.connect(cluster.address, namespace="prepared")
    made = await client.workflow_service.describe_namespace(DescribeNamespaceRequest(namespace="prepared"))

    assert made.config.workflow_execution_retention_ttl.ToTimedelta() == MONTH
    assert await attributes(client) == set(SEARCH_ATTRIBUTES)


@pytest.mark.parametrize(("victim", "cohorts"), [("temporal", "auto"), ("temporal", "off"), ("postgres", "auto")])
async def test_worker_registers_attributes_and_loses_no_pod_in_a_server_crash(
    cluster: TemporalCluster, victim: str, cohorts: str, tmp_path: Path
) -> None:
    killed = cluster if victim == "temporal" else cluster.postgres
    retention = Duration()
    retention.FromTimedelta(MONTH)
    client = await Client.connect(cluster.address, namespace=f"bare-{victim}-{cohorts}")
    await client.workflow_service.register_namespace(
        RegisterNamespaceRequest(namespace=client.namespace, workflow_execution_retention_period=retention)
    )
    with working(cluster, client.namespace, tmp_path, "--cohorts", cohorts) as etcd:
        assert await attributes(client) == set(SEARCH_ATTRIBUTES)
        first = etcd.revision() + 1
        for number in range(10):
            etcd.put(f"{NODES}n{number}", node(f"n{number}", cpu="8"))
        etcd.put(f"{PODS}default/large", pod("large", cpu="32"))
        wait_until(lambda: etcd.get(f"{ATTEMPTS}default/large"), 30, "the large pod refused")

        def put(first: int, last: int) -> None:
            for number in range(first, last):
                etcd.put(f"{PODS}default/p{number:03}", pod(f"p{number:03}", cpu="200m"))

        put(0, 40)
        wait_until(lambda: len(bound_pods(etcd)) == 40, 60, "the first pods bound")
        put(40, 100)
        killed.kill()
        put(100, 120)
        assert len(bound_pods(etcd)) < 120
        killed.start()
        wait_until(lambda: len(bound_pods(etcd)) == 120, 90, "all pods bound that fit")

        etcd.put(f"{NODES}wide", node("wide", cpu="64"))
        wait_until(lambda: bound_pods(etcd).get("large") == "wide", 30, "the parked pod woken and bound")
        verdict = audit(etcd, first)
        assert verdict.doubled == []
        assert verdict.overcommitted == []
        assert verdict.pending == set()
        assert len(verdict.bound) == 121

        async def count(query: str) -> int:
            return (await client.count_workflows(query)).count

        found = (
            "WharfingerPod STARTS_WITH 'default/p' AND WharfingerOutcome = 'bound' AND ExecutionStatus = 'Completed'"
        )
        singly = 120 if cohorts == "off" else 0  # of a cohort's pods, the histories are found by their annotations
        # A run that bound just before the kill ends when it is told that it did.
        async with asyncio.timeout(patient(60)):
            while await count("ExecutionStatus = 'Running'") or await count(found) < singly:
                await asyncio.sleep(0.2)
        for value in etcd.objects(PODS).values():
            workflow, _, run = value["metadata"]["annotations"]["wharfinger.dev/attempt"].rpartition("@")
            bound_by = await client.get_workflow_handle(workflow, run_id=run).describe()
            assert bound_by.status in (WorkflowExecutionStatus.COMPLETED, WorkflowExecutionStatus.FAILED)
        # Attempts that a part's death cut short are repeated, and so are starts; refused and bound it was all the same.
        large = "WharfingerPod = 'default/large' AND WharfingerOutcome = "
        async with asyncio.timeout(patient(60)):
            while not await count(large + "'bound' AND ExecutionStatus = 'Completed'"):
                await asyncio.sleep(0.2)
        assert await count(large + "'bound'") == 1
        assert await count(large + "'refused' AND ExecutionStatus = 'Failed'") >= 1


async def test_a_worker_shows_its_certificate_to_a_temporal_behind_tls(
    secured: TemporalCluster, tmp_path: Path
) -> None:
    with pytest.raises(RuntimeError):
        await Client.connect(secured.address)
    secured.make_namespace("secured")
    with working(secured, "secured", tmp_path) as etcd:
        etcd.put(f"{NODES}n0", node("n0"))
        etcd.put(f"{PODS}default/p0", pod("p0"))

        wait_until(lambda: bound_pods(etcd) == {"p0": "n0"}, 30, "the pod bound")
