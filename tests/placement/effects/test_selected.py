"""What a placement selects in etcd: KubeFleet's cases of gathering resources, limits, and what cannot be read."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from wharfinger.errors import Compacted, InvalidObject
from wharfinger.etcd import keys
from wharfinger.objects.documents.kinds import reference
from wharfinger.placement.effects import selected
from wharfinger.placement.effects.selected import Selected, read_selected
from wharfinger.placement.model.delivery import ResourceSelector
from wharfinger.placement.spec.placement_fields import stored_selectors
from wharfinger.placement.state.contents_view import catches, prefixes
from wharfinger.testing.memory_store import MemoryStore

P, RP = "cluster/web", "ns/test-ns/web"
DEPLOYMENT = {"group": "apps", "version": "v1", "kind": "Deployment"}
CONFIG_MAP = {"group": "", "version": "v1", "kind": "ConfigMap"}
CLUSTER_ROLE = {"group": "rbac.authorization.k8s.io", "version": "v1", "kind": "ClusterRole"}
NAMESPACE = {"group": "", "version": "v1", "kind": "Namespace"}
FRONTEND = {"labelSelector": {"matchLabels": {"app": "frontend"}}}
DELETING = {"deletionTimestamp": "2025-01-01T00:00:00Z"}
ALONE, SELECTED = {"selectionScope": "NamespaceOnly"}, {"selectionScope": "NamespaceWithResourceSelectors"}


def obj(kind: Mapping[str, str], name: str, namespace: str = "", **metadata: Any) -> dict[str, Any]:
    place = {"namespace": namespace} if namespace else {}
    version = f"{kind['group']}/v1" if kind["group"] else "v1"
    return {"apiVersion": version, "kind": kind["kind"], "metadata": {"name": name, **place, **metadata}}


def placement(*selectors: Mapping[str, Any]) -> dict[str, Any]:
    return {"metadata": {"name": "web"}, "spec": {"resourceSelectors": list(selectors)}}


def parsed(*selectors: Mapping[str, Any]) -> tuple[ResourceSelector, ...]:
    return stored_selectors({"resourceSelectors": list(selectors)})


async def put(store: MemoryStore, *objects: Mapping[str, Any]) -> None:
    for one in objects:
        about = reference(one, "default")
        await store.put(keys.stored(about.kind.folder, about.namespace, about.name), json.dumps(one).encode())


@pytest.fixture
async def store() -> MemoryStore:
    store = MemoryStore()
    await put(
        store,
        obj(NAMESPACE, "test-ns", labels={"environment": "test"}),
        obj(NAMESPACE, "prod-ns", labels={"environment": "production"}),
        obj(NAMESPACE, "deleting-ns", labels={"environment": "test"}, **DELETING),
        obj(DEPLOYMENT, "test-deployment", "test-ns"),
        obj(DEPLOYMENT, "frontend", "test-ns", labels={"app": "frontend", "tier": "web"}),
        obj(DEPLOYMENT, "backend", "test-ns", labels={"app": "backend", "tier": "api"}),
        obj(DEPLOYMENT, "deleting", "test-ns", labels={"app": "frontend"}, **DELETING),
        obj(DEPLOYMENT, "elsewhere", "deleting-ns", labels={"app": "frontend"}),
        obj(CONFIG_MAP, "test-configmap", "test-ns"),
        obj(CONFIG_MAP, "kube-root-ca.crt", "test-ns"),
        obj(CONFIG_MAP, "prod", "prod-ns"),
        obj(CLUSTER_ROLE, "role-1"),
        obj(CLUSTER_ROLE, "role-2"),
    )
    return store


async def read(store: MemoryStore, p: str, *selectors: Mapping[str, Any]) -> Selected:
    return await read_selected(store, placement(*selectors), p)


async def names(store: MemoryStore, p: str, *selectors: Mapping[str, Any]) -> list[str]:
    found = await read(store, p, *selectors)
    assert not found.trouble
    assert [one["metadata"]["name"] for one in found.objects] == [one.name for one in found.ids]
    return [one.name for one in found.ids]


IN_TEST = ["test-ns", "test-configmap", "backend", "frontend", "test-deployment"]


@pytest.mark.parametrize(
    ("p", "selectors", "wanted"),
    [
        pytest.param(P, [], [], id="empty selectors"),
        pytest.param(P, [{**NAMESPACE, "kind": "Node"}], [], id="disabled resources"),
        pytest.param(
            P, [{"group": "cluster.kubernetes-fleet.io", "version": "v1", "kind": "MemberCluster"}], [], id="members"
        ),
        pytest.param(RP, [{**DEPLOYMENT, "name": "test-deployment"}], ["test-deployment"], id="single resource"),
        pytest.param(RP, [{**DEPLOYMENT, "name": "absent"}], [], id="not found"),
        pytest.param(
            RP,
            [{**DEPLOYMENT, "name": "test-deployment"}, {**DEPLOYMENT, "name": "deleting"}],
            ["test-deployment"],
            id="only non-deleting resources",
        ),
        pytest.param(RP, [{**DEPLOYMENT, **FRONTEND}], ["frontend"], id="label selector"),
        pytest.param(
            RP,
            [
                {
                    **DEPLOYMENT,
                    "labelSelector": {
                        "matchExpressions": [{"key": "tier", "operator": "In", "values": ["web", "api"]}]
                    },
                }
            ],
            ["backend", "frontend"],
            id="label selector with MatchExpressions",
        ),
        pytest.param(
            RP,
            [{**DEPLOYMENT, "name": "frontend"}, {**CONFIG_MAP, "name": "test-configmap"}],
            ["test-configmap", "frontend"],
            id="sort resources",
        ),
        pytest.param(
            RP, [CONFIG_MAP], ["test-configmap"], id="skip reserved resources when selecting all the configMaps"
        ),
        pytest.param(RP, [{**CONFIG_MAP, "name": "kube-root-ca.crt"}], [], id="skip reserved resources"),
        pytest.param(
            P,
            [CLUSTER_ROLE, {**NAMESPACE, "name": "prod-ns"}],
            ["prod-ns", "prod", "role-1", "role-2"],
            id="sort resources for cluster scoped placement",
        ),
        pytest.param(
            P,
            [{**CLUSTER_ROLE, "name": "role-1"}, {**NAMESPACE, "name": "prod-ns", **ALONE}],
            ["prod-ns", "role-1"],
            id="by name for cluster scoped placement",
        ),
        pytest.param(
            P,
            [{**NAMESPACE, "labelSelector": {"matchLabels": {"environment": "test"}}}],
            IN_TEST,
            id="namespaces and their children by label selector",
        ),
        pytest.param(P, [NAMESPACE], ["prod-ns", *IN_TEST[:1], "prod", *IN_TEST[1:]], id="nil label selector"),
        pytest.param(P, [{**NAMESPACE, "name": "test-ns", **ALONE}], ["test-ns"], id="namespace only"),
        pytest.param(P, [{**NAMESPACE, **ALONE}], ["prod-ns", "test-ns"], id="namespace only, all"),
        pytest.param(P, [{**NAMESPACE, "name": "absent"}], [], id="namespace not found"),
        pytest.param(P, [{**NAMESPACE, "name": "deleting-ns"}], [], id="deleting namespace"),
        pytest.param(
            P,
            [
                {**NAMESPACE, "name": "test-ns", **SELECTED},
                {**DEPLOYMENT, "name": "test-deployment"},
                {**CONFIG_MAP, "name": "test-configmap"},
            ],
            ["test-ns", "test-configmap", "test-deployment"],
            id="namespace and specific resources",
        ),
        pytest.param(
            P,
            [{**DEPLOYMENT, **FRONTEND}, {**NAMESPACE, "name": "test-ns", **SELECTED}],
            ["test-ns", "frontend"],
            id="namespace and resources by label selector",
        ),
        pytest.param(
            P,
            [
                {**NAMESPACE, "name": "test-ns", **SELECTED},
                {**CLUSTER_ROLE, "name": "role-1"},
                {**DEPLOYMENT, "name": "test-deployment"},
            ],
            ["test-ns", "role-1", "test-deployment"],
            id="namespace and cluster-scoped resources",
        ),
        pytest.param(
            P, [{**NAMESPACE, "name": "test-ns", **SELECTED}], ["test-ns"], id="namespace without other selectors"
        ),
    ],
)
async def test_gather_selected_resource(
    store: MemoryStore, p: str, selectors: list[dict[str, Any]], wanted: list[str]
) -> None:
    assert await names(store, p, *selectors) == wanted


@pytest.mark.parametrize(
    ("p", "selectors", "trouble"),
    [
        pytest.param(
            RP,
            [{**CLUSTER_ROLE, "name": "role-1"}],
            "spec.resourceSelectors[0]: a ResourcePlacement cannot select the cluster-scoped kind ClusterRole",
            id="cluster-scoped resource",
        ),
        pytest.param(
            RP,
            [{**NAMESPACE, "name": "test-ns", **ALONE}],
            "spec.resourceSelectors[0]: a ResourcePlacement cannot select the cluster-scoped kind Namespace",
            id="resourceplacement selects namespaces",
        ),
        pytest.param(
            P,
            [CLUSTER_ROLE, {**DEPLOYMENT, "name": "test-deployment"}],
            "spec.resourceSelectors[1]: a ClusterResourcePlacement selects objects of the namespaced kind Deployment "
            "only in a namespace that it selects with selectionScope NamespaceWithResourceSelectors",
            id="namespace-scoped resource for cluster scoped placement",
        ),
        pytest.param(
            RP,
            [{**DEPLOYMENT, "name": "frontend"}, {**DEPLOYMENT, **FRONTEND}],
            "apps/v1 Deployment test-ns/frontend is selected twice",
            id="duplicate resources",
        ),
        pytest.param(
            P,
            [{**NAMESPACE, "name": "absent", **SELECTED}, CONFIG_MAP],
            "the namespace absent that it selects is not there",
            id="zero namespaces with NamespaceWithResourceSelectors mode",
        ),
        pytest.param(
            P,
            [{**NAMESPACE, "name": "kube-system"}],
            "the namespace kube-system cannot be placed, because it is reserved",
            id="reserved namespace",
        ),
        pytest.param(
            "ns/fleet-system/web",
            [CONFIG_MAP],
            "nothing of the namespace fleet-system is placed, which is reserved",
            id="placement in a reserved namespace",
        ),
        pytest.param(
            P,
            [{"group": "example.com", "version": "v1", "kind": "Widget"}],
            "spec.resourceSelectors[0]: kind 'Widget' is not known here",
            id="unknown kind",
        ),
        pytest.param(
            P, [{"kind": 3}], "spec.resourceSelectors[0].kind: Input should be a valid string, not 3", id="wrong type"
        ),
        pytest.param(P, [{}], "spec.resourceSelectors[0]: kind is missing", id="empty selector"),
    ],
)
async def test_gather_selected_resource_error_cases(
    store: MemoryStore, p: str, selectors: list[dict[str, Any]], trouble: str
) -> None:
    found = await read(store, p, *selectors)
    assert (found.trouble, found.objects, found.ids, found.digest) == (trouble, (), (), "")


async def test_a_reserved_namespace_that_labels_select_is_trouble(store: MemoryStore) -> None:
    await put(store, obj(NAMESPACE, "kube-system"))
    assert (await read(store, P, NAMESPACE)).trouble.startswith("the namespace kube-system cannot be placed")
    assert await names(store, P, {**NAMESPACE, **ALONE}) == ["prod-ns", "test-ns"]


@pytest.mark.parametrize("spec", [3, "x", [], {"resourceSelectors": "x"}, {"resourceSelectors": [None]}])
async def test_a_malformed_placement_is_trouble(store: MemoryStore, spec: Any) -> None:
    assert (await read_selected(store, {"spec": spec}, P)).trouble


async def test_objects_are_sanitised_and_have_their_namespace(store: MemoryStore) -> None:
    written = {**obj(CONFIG_MAP, "own", uid="1"), "data": {"a": "b"}, "status": {}}
    await store.put(keys.stored("configmaps", "test-ns", "own"), json.dumps(written).encode())
    await put(store, obj(CLUSTER_ROLE, "role-3", "stray"))
    found = await read(store, RP, {**CONFIG_MAP, "name": "own"})
    assert found.objects == ({**obj(CONFIG_MAP, "own", "test-ns"), "data": {"a": "b"}},)
    found = await read(store, P, {**CLUSTER_ROLE, "name": "role-3"})
    assert found.objects == (obj(CLUSTER_ROLE, "role-3"),)


async def test_envelopes_come_with_their_namespace(store: MemoryStore) -> None:
    envelope = {"group": "placement.kubernetes-fleet.io", "version": "v1", "kind": "ResourceEnvelope"}
    override = {"group": "placement.kubernetes-fleet.io", "version": "v1", "kind": "ResourceOverride"}
    await put(store, obj(envelope, "pods", "prod-ns"), obj(override, "more", "prod-ns"))
    assert await names(store, P, {**NAMESPACE, "name": "prod-ns"}) == ["prod-ns", "prod", "pods"]


async def test_the_contents_of_many_namespaces_are_read(store: MemoryStore) -> None:
    many = [f"many-{number:02}" for number in range(20)]
    for name in many:
        await put(store, obj(NAMESPACE, name, labels={"many": "1"}), obj(CONFIG_MAP, "one", name))
    found = await names(store, P, {**NAMESPACE, "labelSelector": {"matchLabels": {"many": "1"}}})
    assert found == many + ["one"] * 20


async def test_everything_is_read_at_one_revision(store: MemoryStore) -> None:
    before = await read(store, RP, CONFIG_MAP)
    assert before.revision == store.revision
    await put(store, obj(CONFIG_MAP, "later", "test-ns"))
    again = await read_selected(store, placement(CONFIG_MAP), RP, before.revision)
    now = await read(store, RP, CONFIG_MAP)
    assert again == before
    assert [one.name for one in now.ids] == ["later", "test-configmap"]
    assert now.digest != before.digest
    store.compact(store.revision)
    with pytest.raises(Compacted):
        await read_selected(store, placement(CONFIG_MAP), RP, before.revision)


async def test_digests_are_of_contents_and_not_of_versions(store: MemoryStore) -> None:
    first = await read(store, RP, CONFIG_MAP)
    await put(store, obj(DEPLOYMENT, "unrelated", "test-ns"))
    unrelated = await read(store, RP, CONFIG_MAP)
    await put(store, {**obj(CONFIG_MAP, "test-configmap", "test-ns"), "status": {"only": "status"}})
    rewritten = await read(store, RP, CONFIG_MAP)
    narrower = await read(store, RP, {**CONFIG_MAP, "name": "test-configmap"})
    assert len(first.digest) == 64
    assert unrelated.digest == first.digest
    assert rewritten.digest == first.digest
    assert narrower.digest == first.digest


NEST = b'{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"bad","namespace":"test-ns"},"data":%s}'


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (b"\xff\xfe", "is no UTF-8 text (byte 0)"),
        (b"[]", "it is no object"),
        (b"{}", "kind is missing"),
        (b'{"apiVersion":"v1","kind":"Widget"}', "kind 'Widget' is not known here"),
        (json.dumps(obj(NAMESPACE, "bad")).encode(), "it is a Namespace"),
        (json.dumps(obj(CONFIG_MAP, "other", "test-ns")).encode(), "it is called 'other/test-ns'"),
        (json.dumps(obj(CONFIG_MAP, "bad", "other")).encode(), "it is called 'bad/other'"),
        (b'{"apiVersion":"v1","kind":"ConfigMap","metadata":[]}', "metadata is no mapping"),
        (NEST % (b"[" * 200_000 + b"]" * 200_000), "is nested too deeply"),
    ],
)
@pytest.mark.parametrize("selector", [CONFIG_MAP, {**CONFIG_MAP, "name": "bad"}])
async def test_an_unreadable_object_is_named(
    store: MemoryStore, selector: dict[str, Any], value: bytes, reason: str
) -> None:
    await store.put(keys.stored("configmaps", "test-ns", "bad"), value)
    found = await read(store, RP, selector)
    assert found.trouble.startswith("the ConfigMap test-ns/bad cannot be read: ")
    assert found.trouble.endswith(reason)
    assert found.objects == ()


@pytest.mark.parametrize(
    ("metadata", "reason"),
    [
        ({"labels": [1]}, "v1 ConfigMap test-ns/bad: metadata.labels is no mapping"),
        ({"annotations": 3}, "v1 ConfigMap test-ns/bad cannot be read: metadata.annotations is no mapping"),
    ],
)
async def test_malformed_metadata_is_named(store: MemoryStore, metadata: dict[str, Any], reason: str) -> None:
    await put(store, obj(CONFIG_MAP, "bad", "test-ns", **metadata))
    assert (await read(store, RP, CONFIG_MAP)).trouble == reason


@pytest.mark.parametrize("depth", [300, 900])
async def test_deep_objects_are_selected_or_named(store: MemoryStore, depth: int) -> None:
    key = keys.stored("configmaps", "test-ns", "bad")
    await store.put(key, NEST % (b"[" * depth + b"]" * depth))
    found = await read(store, RP, {**CONFIG_MAP, "name": "bad"})
    assert found.trouble == "" or "nested too deeply" in found.trouble


@pytest.mark.parametrize("value", [b"1" + b"0" * 30, b'"\\ud800"'])
async def test_what_members_could_not_read_back_is_trouble(store: MemoryStore, value: bytes) -> None:
    await store.put(keys.stored("configmaps", "test-ns", "bad"), NEST % value)
    found = await read(store, RP, {**CONFIG_MAP, "name": "bad"})
    assert found.trouble.startswith("v1 ConfigMap test-ns/bad cannot be read: it holds a number or a text that")


async def test_what_is_written_slowly_is_the_same_object(store: MemoryStore) -> None:
    await store.put(keys.stored("configmaps", "test-ns", "bad"), NEST % (b"[" * 300 + b"]" * 300))
    found = await read(store, RP, {**CONFIG_MAP, "name": "bad"})
    assert found.trouble or [json.loads(one) for one in found.written] == list(found.objects)


async def test_too_many_objects_are_trouble(store: MemoryStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(selected, "MOST_OBJECTS", 2)
    assert (await read(store, RP, DEPLOYMENT)).trouble == "it selects more than 2 objects"


async def test_too_many_bytes_are_trouble(store: MemoryStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(selected, "MOST_BYTES", 1024 * 1024)
    await put(store, {**obj(CONFIG_MAP, "big", "test-ns"), "data": {"a": "x" * 1024 * 1024}})
    assert (await read(store, RP, CONFIG_MAP)).trouble == "it selects objects of more than 1 MiB"


# What a hub follows

TEST_NS = {**NAMESPACE, "name": "test-ns"}


def test_prefixes_are_of_the_kinds_that_are_selected() -> None:
    assert prefixes(parsed(DEPLOYMENT, CLUSTER_ROLE), RP) == ("/registry/deployments/test-ns/",)
    assert prefixes(parsed(CLUSTER_ROLE, {**NAMESPACE, **ALONE}), P) == (
        "/registry/clusterroles/",
        "/registry/namespaces/",
    )
    assert prefixes(parsed({**TEST_NS, **SELECTED}, CONFIG_MAP), P) == (
        "/registry/configmaps/test-ns/",
        "/registry/namespaces/",
    )
    assert prefixes(parsed({"kind": "Widget"}, {**NAMESPACE, "kind": "Node"}, DEPLOYMENT), P) == ()


def test_prefixes_of_a_namespace_are_of_all_that_is_in_it() -> None:
    named = prefixes(parsed(TEST_NS), P)
    assert {"/registry/namespaces/", "/registry/pods/test-ns/"} < set(named)
    assert "/registry/placement.kubernetes-fleet.io/resourceenvelopes/test-ns/" in named
    assert "/registry/placement.kubernetes-fleet.io/resourceoverrides/test-ns/" not in named
    every = prefixes(parsed(TEST_NS, {**NAMESPACE, **FRONTEND}), P)
    assert len(every) == len(named)
    assert "/registry/pods/" in every


@pytest.mark.parametrize(
    ("p", "selectors", "key", "labels", "wanted"),
    [
        (RP, [DEPLOYMENT], "/registry/deployments/test-ns/a", {}, True),
        (RP, [DEPLOYMENT], "/registry/deployments/other/a", {}, False),
        (RP, [DEPLOYMENT], "/registry/replicasets/test-ns/a", {}, False),
        (RP, [DEPLOYMENT], "/registry/deployments/test-ns/a/b", {}, False),
        (RP, [DEPLOYMENT], "/registry/deployments/test-ns", {}, False),
        (RP, [DEPLOYMENT], "/wharfinger.dev/deployments/test-ns/a", {}, False),
        (RP, [{**DEPLOYMENT, "name": "a"}], "/registry/deployments/test-ns/a", {}, True),
        (RP, [{**DEPLOYMENT, "name": "a"}], "/registry/deployments/test-ns/b", None, False),
        (RP, [{**DEPLOYMENT, **FRONTEND}], "/registry/deployments/test-ns/a", {"app": "frontend"}, True),
        (RP, [{**DEPLOYMENT, **FRONTEND}], "/registry/deployments/test-ns/a", {}, False),
        (RP, [{**DEPLOYMENT, **FRONTEND}], "/registry/deployments/test-ns/a", None, True),
        (RP, [CLUSTER_ROLE, TEST_NS], "/registry/clusterroles/a", {}, False),
        (P, [CLUSTER_ROLE], "/registry/clusterroles/a", {}, True),
        (P, [DEPLOYMENT], "/registry/deployments/test-ns/a", {}, False),
        (P, [TEST_NS], "/registry/namespaces/test-ns", {}, True),
        (P, [TEST_NS], "/registry/namespaces/other", {}, False),
        (P, [TEST_NS], "/registry/pods/test-ns/a", {}, True),
        (P, [TEST_NS], "/registry/pods/other/a", {}, False),
        (P, [TEST_NS], "/registry/placement.kubernetes-fleet.io/resourceenvelopes/test-ns/a", {}, True),
        (P, [TEST_NS], "/registry/placement.kubernetes-fleet.io/resourceoverrides/test-ns/a", {}, False),
        (P, [{**TEST_NS, **ALONE}], "/registry/pods/test-ns/a", {}, False),
        (P, [{**NAMESPACE, **FRONTEND}], "/registry/pods/any/a", {}, True),
        (P, [{**NAMESPACE, **FRONTEND}], "/registry/namespaces/any", {}, False),
        (P, [CONFIG_MAP, {**TEST_NS, **SELECTED}], "/registry/configmaps/test-ns/a", {}, True),
        (P, [CONFIG_MAP, {**TEST_NS, **SELECTED}], "/registry/configmaps/other/a", {}, False),
        (P, [{"kind": "Widget"}, NAMESPACE], "/registry/pods/any/a", None, True),
        (P, [], "/registry/pods/any/a", None, False),
        (P, [{**NAMESPACE, "kind": "Node"}], "/registry/nodes/a", {}, False),
    ],
)
def test_catches_what_may_be_selected(
    p: str, selectors: list[dict[str, Any]], key: str, labels: dict[str, str] | None, *, wanted: bool
) -> None:
    assert catches(parsed(*selectors), p, key, labels) is wanted


async def test_everything_selected_is_followed_and_caught(store: MemoryStore) -> None:
    cases = [(P, [NAMESPACE]), (P, [TEST_NS, CLUSTER_ROLE]), (RP, [DEPLOYMENT, CONFIG_MAP])]
    for p, written in cases:
        selectors = parsed(*written)
        for one in (await read(store, p, *written)).objects:
            about = reference(one, "default")
            key = keys.stored(about.kind.folder, about.namespace, about.name)
            assert key.startswith(prefixes(selectors, p))
            assert catches(selectors, p, key, one["metadata"].get("labels", {}))


def test_selectors_that_cannot_be_read_are_refused() -> None:
    with pytest.raises(InvalidObject):
        parsed({"labelSelector": 3})
