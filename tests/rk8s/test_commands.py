"""Commands on a cluster of rk8s, without a worker: what they read and write in etcd."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.cli.shell import Shell, outside
from tests.conftest import EtcdServer
from tests.rk8s import rk8s_documents as docs
from wharfinger.etcd import keys
from wharfinger.etcd.etcd import EtcdStore
from wharfinger.etcd.store import KeyValue
from wharfinger.objects.model.formats import ClusterFormat
from wharfinger.process.records import AttemptRecord, InstallationRecord
from wharfinger.settings import EtcdSettings

__all__ = ["outside"]

pytestmark = pytest.mark.servers

SHORT = "apiVersion: v1\nkind: Pod\nmetadata: {name: NAME}\nspec:\n  containers: [{name: a, image: b}]\n"


class Etcd:
    """etcd as rk8s' own programs see it."""

    def __init__(self, url: str) -> None:
        self._url = url

    @asynccontextmanager
    async def _opened(self) -> AsyncIterator[EtcdStore]:
        store = await EtcdStore.connect(EtcdSettings(endpoints=(self._url,)))
        try:
            yield store
        finally:
            await store.close()

    def put(self, key: str, value: bytes) -> int:
        async def put() -> int:
            async with self._opened() as store:
                return await store.put(key, value)

        return asyncio.run(put())

    def get(self, key: str) -> KeyValue | None:
        async def get() -> KeyValue | None:
            async with self._opened() as store:
                return (await store.get(key)).kv

        return asyncio.run(get())

    def clean(self) -> None:
        async def clean() -> None:
            async with self._opened() as store:
                async for page in store.list(keys.ROOT):
                    for kv in page.items:
                        await store.delete(kv.key)

        asyncio.run(clean())


@pytest.fixture
def etcd(rk8s_etcd: EtcdServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[Etcd]:
    """An empty etcd that a worker of rk8s has claimed; command lines find it by the environment."""
    monkeypatch.setenv("WHARFINGER_ETCD", rk8s_etcd.url)
    found = Etcd(rk8s_etcd.url)
    found.clean()
    record = InstallationRecord(cluster="wharfinger", temporal_namespace="default", format=ClusterFormat.RK8S)
    found.put(keys.INSTALLATION, record.to_bytes())
    yield found
    found.clean()


def test_apply_stores_documents_as_rk8s_keeps_them(etcd: Etcd, outside: Shell) -> None:
    pod = docs.document(docs.pod("web-1", running=True)).decode()
    node = docs.document(docs.node("worker1")).decode()
    path = outside.file(f"# both\n{pod}---\n{node}")
    answer = outside("apply", "-f", path)
    assert (answer.code, answer.out) == (0, "node/worker1 created\npod/default/web-1 created\n")
    stored = etcd.get("/registry/pods/web-1")
    assert stored is not None
    assert stored.value.decode() == pod
    again = outside("apply", "-f", path)
    assert (again.code, again.out) == (0, "node/worker1 unchanged\npod/default/web-1 unchanged\n")


def test_apply_refuses_what_rk8s_does_not_read(etcd: Etcd, outside: Shell) -> None:
    kubernetes = SHORT.replace("spec:\n", "spec:\n  nodeName: a\n").replace("NAME", "theirs")
    service = "apiVersion: v1\nkind: Service\nmetadata: {name: a}\n"
    answer = outside("apply", "-f", outside.file(f"{kubernetes}---\n{service}---\n{SHORT.replace('NAME', 'ours')}"))
    assert (answer.code, answer.out) == (1, "pod/default/ours created\n")
    assert answer.err.splitlines()[1:] == [
        "error: pod/default/theirs: spec.nodeName is Kubernetes', and this cluster's objects are rk8s': it has "
        "node_name instead"
    ]
    assert "kind 'Service': of a cluster of the format rk8s, only pods and nodes are read" in answer.err.splitlines()[0]
    assert etcd.get("/registry/pods/theirs") is None


def test_get_prints_documents_as_they_are_stored(etcd: Etcd, outside: Shell) -> None:
    pods = {name: docs.document(docs.pod(name, running=True)).decode() for name in ("a", "b")}
    for name, value in pods.items():
        etcd.put(f"/registry/pods/{name}", value.encode())
    assert outside("get", "pod", "a", "-o", "yaml").out == pods["a"]
    every = outside("get", "pods", "-o", "yaml")
    assert every.out == f"{pods['a']}---\n{pods['b']}"
    (state,) = outside("get", "pod", "a", "-o", "json").json["status"]["containerStatuses"]
    assert (state["state"], state["ready"]) == ({"!Running": {"started_at": docs.CREATED}}, True)
    assert "unchanged" in outside("apply", "-f", outside.file(every.out)).out


def test_get_shows_the_reason_that_the_attempt_record_has(etcd: Etcd, outside: Shell) -> None:
    life = etcd.put("/registry/pods/big", docs.document(docs.pod("big")))
    record = AttemptRecord(attempt=1, message="0/0 nodes are available", create_revision=life, plugins=("NodeName",))
    etcd.put(keys.attempt("default", "big"), record.to_bytes())
    headings, row = outside("get", "pods").out.splitlines()
    assert headings.split() == ["NAMESPACE", "NAME", "STATUS", "NODE", "AGE", "REASON"]
    assert (row.split()[:4], row.split()[-1]) == (["default", "big", "Pending", "<none>"], "Unschedulable")
    assert "  0/0 nodes are available\n  default/big" in outside("pending").out
    described = outside("describe", "pod", "big").out
    assert "Message:          0/0 nodes are available\n" in described
    assert f"Workflow id:      wharfinger/pod/default/big/rev-{life}" in described


def test_invalid_objects_are_named_by_their_keys_in_etcd(etcd: Etcd, outside: Shell) -> None:
    etcd.put("/registry/pods/odd", docs.document(docs.pod("even")))
    etcd.put("/registry/pods/default/nested", docs.document(docs.pod("nested")))
    etcd.put("/registry/nodes/worker1", b"kind: Node")
    assert outside("get", "pods", "--invalid", "-o", "json").json == [
        {"key": "/registry/pods/default/nested", "reason": "the key is not /registry/pods/<name>"},
        {"key": "/registry/pods/odd", "reason": "metadata.name is 'even', in its key 'odd'"},
    ]
    assert outside("get", "nodes", "--invalid", "-o", "json").json == [
        {"key": "/registry/nodes/worker1", "reason": "apiVersion is missing"}
    ]


def test_pods_are_in_one_namespace_whatever_they_say(etcd: Etcd, outside: Shell) -> None:
    text = SHORT.replace("{name: NAME}", "{name: web, namespace: other}")
    assert outside("apply", "-n", "third", "-f", outside.file(text)).out == "pod/default/web created\n"
    assert etcd.get("/registry/pods/web") is not None
    assert outside("get", "pods", "-n", "other").err == "no pods found in namespace other\n"
    assert outside("delete", "pod", "web", "-n", "other").code == 1
    assert outside("delete", "-f", outside.file(text)).out == "pod/default/web deleted\n"
    assert etcd.get("/registry/pods/web") is None


@pytest.mark.parametrize("command", [("get", "services"), ("delete", "service", "a"), ("get", "priorityclasses")])
def test_other_kinds_are_not_touched(etcd: Etcd, outside: Shell, command: tuple[str, ...]) -> None:
    answer = outside(*command)
    assert answer.code == 2
    assert "a cluster of the format rk8s has pods, nodes and fleets here, not " in answer.err


def test_a_fleet_may_be_applied_in_any_cluster(etcd: Etcd, outside: Shell) -> None:
    answer = outside("apply", "-f", str(Path(__file__).parents[2] / "examples" / "fleet" / "common.yaml"))
    assert (answer.code, answer.out) == (0, "schedulerfleet/common created\n")
    assert outside("get", "fleet", "common", "-o", "json").json["metadata"]["name"] == "common"


def test_the_format_must_be_the_one_of_the_cluster(etcd: Etcd, outside: Shell) -> None:
    answer = outside("get", "pods", "--format", "kubernetes")
    assert answer.code == 1
    assert answer.err == (
        "error: the pods and nodes of this etcd are kept in the format rk8s, not kubernetes: leave out the format, or "
        "check --etcd\n"
    )


def test_an_etcd_without_workers_has_the_format_that_is_named(
    etcd: Etcd, outside: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    etcd.clean()
    monkeypatch.setenv("WHARFINGER_FORMAT", "rk8s")
    assert outside("apply", "-f", outside.file(SHORT.replace("NAME", "web"))).code == 0
    assert etcd.get("/registry/pods/web") is not None


def test_the_live_state_is_simulated_in_its_format(etcd: Etcd, outside: Shell) -> None:
    etcd.put("/registry/nodes/worker1", docs.document(docs.node("worker1", cpu="4")))
    etcd.put("/registry/pods/old", docs.document(docs.pod("old", cpu="1", node_name="worker1")))
    unreadable = docs.pod("odd", cpu="1", node_name="worker1", tolerations=[docs.toleration("team")], running=True)
    etcd.put("/registry/pods/odd", docs.document(unreadable))
    pod = docs.document(docs.pod("web", cpu="1", running=True)).replace(b"phase: Running", b"phase: Pending")
    path = outside.file(pod.decode())
    answer = outside("simulate", "--live", "-f", path, "-o", "json")
    assert (answer.code, [pod["node"] for pod in answer.json["pods"]]) == (0, ["worker1"])
    assert answer.json["before"]["resources"]["cpu"]["requested"] == 2000
    assert answer.json["notes"] == [
        "1 bound pods of the live state cannot be read: what they hold on their nodes counts, nothing else"
    ]
    assert outside("capacity", "--live", "-f", path, "-o", "json").json["nodes"] == {"worker1": 2}


def test_bound_pods_are_compared_in_their_format(etcd: Etcd, outside: Shell) -> None:
    """libscheduler put `a` on the same node as `z`, which keeps pods of its app away: it looks at new pods alone."""
    away = docs.pod_affinity(anti=[docs.pod_term("host", app="web")])
    for name in ("worker1", "worker2"):
        etcd.put(f"/registry/nodes/{name}", docs.document(docs.node(name, labels={"host": name})))
    for name, affinity in (("z", away), ("a", None)):
        pod = docs.pod(name, node_name="worker1", labels={"app": "web"}, affinity=affinity, running=True)
        etcd.put(f"/registry/pods/{name}", docs.document(pod))
    last = etcd.get("/registry/pods/a")
    answer = outside("simulate", "--live", "--compare", "-o", "json")
    first, second = answer.json["pods"]
    assert (first["pod"], first["result"] in ("same", "tied")) == ("default/z", True)
    assert (second["result"], second["node"], second["chosen"]) == ("refused", "worker1", "worker2")
    assert list(second["refusals"]) == ["InterPodAffinity"]
    assert (answer.code, last is not None and answer.json["revision"] == last.mod_revision) == (0, True)
