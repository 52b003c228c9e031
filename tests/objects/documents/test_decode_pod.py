"""Stored bytes to pods."""

from __future__ import annotations

from typing import Any

import pytest

from tests.objects.documents.manifests import pod_manifest, raw
from wharfinger.errors import InvalidObject
from wharfinger.objects.documents.decode import decode_pod, pod_from_mapping
from wharfinger.objects.model.pod import GangTerms, HostPort
from wharfinger.objects.model.selectors import NodeSelectorTerm, Operator, PreferredTerm, Requirement, Toleration

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
TERM = {"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "a"}}}


def pod_requiring(term: dict[str, Any]) -> dict[str, Any]:
    return pod_manifest(affinity={"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [term]}}})


def test_a_pod_is_read_with_its_revisions() -> None:
    pod = decode_pod(raw(pod_manifest()), namespace="default", name="web", create_revision=7, mod_revision=9)

    assert (str(pod.key), pod.uid, pod.create_revision, pod.mod_revision) == ("default/web", "u-1", 7, 9)
    assert pod.requests == {"cpu": 100, "memory": 1024 * 1024}
    assert (pod.scheduler_name, pod.priority, pod.condition) == ("default-scheduler", 0, None)


def test_yaml_and_json_decode_equally() -> None:
    text = b"metadata: {name: web, uid: u-1, namespace: default}\nspec:\n  containers:\n"
    text += b"  - {name: main, resources: {requests: {cpu: 100m, memory: 1Mi}}}\n"

    assert decode_pod(text) == decode_pod(raw(pod_manifest()))


def test_a_pod_without_uid_is_called_by_its_create_revision() -> None:
    assert pod_from_mapping(pod_manifest(metadata={"uid": None}), create_revision=12).uid == "rev-12"


def test_a_pod_without_namespace_takes_its_keys() -> None:
    manifest = pod_manifest(metadata={"namespace": None})

    assert decode_pod(raw(manifest), namespace="team", name="web").namespace == "team"
    assert pod_from_mapping(manifest).namespace == "default"


@pytest.mark.parametrize(
    ("spec", "priority"),
    [
        ({}, 0),
        ({"priority": -5}, -5),
        ({"priorityClassName": "system-node-critical"}, 2_000_001_000),
        ({"priorityClassName": "system-cluster-critical"}, 2_000_000_000),
        ({"priorityClassName": "system-node-critical", "priority": 3}, 3),
        ({"priorityClassName": "unknown"}, 0),
    ],
)
def test_priority_comes_from_the_number_else_from_a_system_class(spec: dict[str, Any], priority: int) -> None:
    assert pod_from_mapping(pod_manifest(**spec)).priority == priority


def test_a_limit_without_a_request_counts_as_one() -> None:
    resources = {"limits": {"cpu": "2", "memory": "1Ki"}, "requests": {"cpu": "1"}}

    assert pod_from_mapping(pod_manifest(containers=[{"resources": resources}])).requests == {
        "cpu": 1000,
        "memory": 1024,
    }


def test_host_ports_come_from_containers_and_restartable_init_containers() -> None:
    pod = pod_from_mapping(
        pod_manifest(
            containers=[{"ports": [{"hostPort": 80}, {"containerPort": 8080}, {"hostPort": 0}]}],
            initContainers=[
                {"ports": [{"hostPort": 81}]},
                {"restartPolicy": "Always", "ports": [{"hostPort": 82, "protocol": "UDP", "hostIP": "10.0.0.1"}]},
            ],
        )
    )

    assert pod.host_ports == (HostPort("TCP", "0.0.0.0", 80), HostPort("UDP", "10.0.0.1", 82))


def test_on_the_hosts_network_container_ports_are_host_ports() -> None:
    ports = [{"containerPort": 80}, {"containerPort": 81, "hostPort": 8081, "protocol": "UDP"}]
    containers = [{"name": "main", "ports": ports}]

    pod = pod_from_mapping(pod_manifest(containers=containers, hostNetwork=True))

    assert pod.host_ports == (HostPort("TCP", "0.0.0.0", 80), HostPort("UDP", "0.0.0.0", 8081))
    assert pod_from_mapping(pod_manifest(containers=containers)).host_ports == (HostPort("UDP", "0.0.0.0", 8081),)


def test_amounts_finer_than_milli_units_are_rounded_up_one_by_one() -> None:
    container = {"name": "c", "resources": {"requests": {"cpu": "500u"}}}

    assert pod_from_mapping(pod_manifest(containers=[container, container])).requests == {"cpu": 2}


def test_empty_pod_level_resources_are_none() -> None:
    manifest = pod_manifest(resources={"requests": {}})
    manifest["spec"]["containers"].append({"name": "silent"})

    assert pod_from_mapping(manifest).scoring_cpu == 200


def test_node_affinity_is_read_whole() -> None:
    term = {
        "matchExpressions": [{"key": "gen", "operator": "Gt", "values": ["3"]}],
        "matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}],
    }
    affinity = {REQUIRED: {"nodeSelectorTerms": [term, {}]}, PREFERRED: [{"weight": 7, "preference": term}]}

    pod = pod_from_mapping(pod_manifest(affinity={"nodeAffinity": affinity}, nodeSelector={"disk": "ssd"}))

    read = NodeSelectorTerm(
        (Requirement("gen", Operator.GT, ("3",)),), (Requirement("metadata.name", Operator.IN, ("n1",)),)
    )
    assert pod.required_node_terms == (read, NodeSelectorTerm())
    assert pod.preferred_node_terms == (PreferredTerm(7, read),)
    assert pod.node_selector == {"disk": "ssd"}


def test_required_affinity_without_terms_matches_no_node() -> None:
    assert pod_from_mapping(pod_manifest(affinity={"nodeAffinity": {REQUIRED: {}}})).required_node_terms == ()
    assert pod_from_mapping(pod_manifest(affinity={"nodeAffinity": {}})).required_node_terms is None


def test_what_else_scheduling_reads_is_read() -> None:
    pod = pod_from_mapping(
        pod_manifest(
            metadata={"labels": {"a": "b"}, "deletionTimestamp": "2026-01-01T00:00:00Z"},
            status={
                "phase": "Pending",
                "nominatedNodeName": "n2",
                "conditions": [{"type": "Ready"}, {"type": "PodScheduled", "status": "False", "reason": "X"}],
            },
            nodeName="n1",
            tolerations=[{"operator": "Exists"}, {"key": "k", "value": "v", "effect": "NoSchedule"}],
            schedulingGates=[{"name": "quota"}],
            preemptionPolicy="Never",
        )
    )

    assert (pod.node_name, pod.nominated_node_name, pod.phase) == ("n1", "n2", "Pending")
    assert (pod.deletion_timestamp, pod.preemption_policy) == ("2026-01-01T00:00:00Z", "Never")
    assert pod.condition == ("False", "X", "")
    assert pod.tolerations == (Toleration(operator="Exists"), Toleration("k", "Equal", "v", "NoSchedule"))
    assert pod.scheduling_gates == ("quota",)
    assert pod.labels == {"a": "b"}


GANG = "pod-group.scheduling.sigs.k8s.io/"


def test_a_group_is_named_by_the_spec_else_by_a_label() -> None:
    label = {"pod-group.scheduling.sigs.k8s.io/name": "gang"}

    assert pod_from_mapping(pod_manifest(metadata={"labels": label})).group == "gang"
    assert (
        pod_from_mapping(pod_manifest(metadata={"labels": label}, schedulingGroup={"podGroupName": "newer"})).group
        == "newer"
    )


@pytest.mark.parametrize(
    ("labels", "terms"),
    [
        ({"scheduling.x-k8s.io/pod-group": "gang"}, GangTerms(by_object=True)),
        ({"pod-group.scheduling.sigs.k8s.io": "gang"}, GangTerms(by_object=True)),
        ({GANG + "name": "gang", GANG + "min-available": "3"}, GangTerms(min_available=3)),
        (
            {"pod-group.scheduling.x-k8s.io/name": "gang", "pod-group.scheduling.x-k8s.io/min-available": "3"},
            GangTerms(min_available=3),
        ),
        ({"scheduling.x-k8s.io/pod-group": "gang", GANG + "name": "older"}, GangTerms(by_object=True)),
        ({"scheduling.x-k8s.io/pod-group": "", GANG + "name": "gang"}, GangTerms()),
    ],
)
def test_labels_of_the_scheduler_plugins_name_a_gang(labels: dict[str, str], terms: GangTerms) -> None:
    """The spellings of the coscheduling plugin's releases and proposals; the one of today counts first."""
    read = pod_from_mapping(pod_manifest(metadata={"labels": labels}))

    assert (read.group, read.gang) == ("gang", terms)


def test_pod_has_the_size_and_topology_of_its_gang() -> None:
    labels = {GANG + "name": "team", GANG + "min-available": "8"}
    annotations = {"wharfinger.dev/topology-key": "topology.kubernetes.io/zone"}
    metadata = {"labels": labels, "annotations": annotations}

    assert pod_from_mapping(pod_manifest(metadata=metadata)).gang == GangTerms(
        min_available=8, topology_keys=("topology.kubernetes.io/zone",)
    )
    by_object = pod_from_mapping(pod_manifest(metadata=metadata, schedulingGroup={"podGroupName": "team"}))
    assert by_object.gang == GangTerms(by_object=True)
    assert pod_from_mapping(pod_manifest(metadata={"annotations": annotations})).gang == GangTerms()


def test_scheduling_group_may_have_what_a_pod_group_would_say() -> None:
    inline = {"minCount": 4, "topologyKeys": ["zone", "rack", "zone"]}
    own = pod_from_mapping(pod_manifest(schedulingGroup={"podGroupName": "team", "wharfinger.dev/group": inline}))

    assert (own.group, own.gang) == ("team", GangTerms(min_available=4, topology_keys=("rack", "zone")))
    misspelt = {"podGroupName": "team", "wharfinger.dev/group": {"min_count": 4}}
    with pytest.raises(InvalidObject, match=r"schedulingGroup\.wharfinger\.dev/group\.min_count: unknown field"):
        pod_from_mapping(pod_manifest(schedulingGroup=misspelt))


def test_a_number_that_is_none_makes_the_pod_wait_and_not_vanish() -> None:
    labels = {GANG + "name": "team", GANG + "min-available": "many"}

    assert pod_from_mapping(pod_manifest(metadata={"labels": labels})).gang == GangTerms(
        problem="min-available 'many' is no positive number"
    )


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({"resourceClaims": [{"name": "gpu"}]}, "resource claims"),
        ({"containers": [{"name": "c", "resources": {"claims": [{"name": "gpu"}]}}]}, "resource claims"),
    ],
)
def test_what_cannot_be_honoured_is_named(spec: dict[str, Any], words: str) -> None:
    assert pod_from_mapping(pod_manifest(**spec)).unsupported == (words,)


def test_terms_about_other_pods_are_supported() -> None:
    terms = {"podAffinity": {REQUIRED: [TERM]}, "podAntiAffinity": {REQUIRED: [TERM]}}
    spread = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}

    assert pod_from_mapping(pod_manifest(affinity=terms, topologySpreadConstraints=[spread])).unsupported == ()


def test_volumes_and_affinities_without_effect_are_supported() -> None:
    pod = pod_from_mapping(
        pod_manifest(volumes=[{"configMap": {"name": "c"}}, {"emptyDir": {}}], affinity={"podAffinity": {REQUIRED: []}})
    )

    assert pod.unsupported == ()


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (b"", "neither JSON nor one YAML document"),
        (b"\xff\xfe", "no UTF-8"),
        (b"no json", "a text, not an object"),
        (b"null", "null, not an object"),
        (b"[]", "a list, not an object"),
        (b'{"metadata":', "no JSON"),
        (b"[" * 100_000, "nested too deeply"),
        (b'{"metadata": {"name": "web"}, "x": NaN}', "NaN"),
        (b'{"metadata": {"name": "web"}, "x": 1e999}', "cannot be represented"),
        (b"a: 1\n---\nb: 2", "one YAML document"),
    ],
)
def test_bytes_that_are_no_object_have_different_errors(value: bytes, reason: str) -> None:
    with pytest.raises(InvalidObject, match=reason):
        decode_pod(value)


@pytest.mark.parametrize(
    ("manifest", "reason"),
    [
        (pod_manifest(metadata={"name": "other"}), "metadata.name is 'other', in its key 'web'"),
        (pod_manifest(metadata={"namespace": "other"}), "metadata.namespace is 'other', in its key 'default'"),
        ({**pod_manifest(), "kind": "Node"}, "kind is 'Node'"),
        ({**pod_manifest(), "apiVersion": "v2"}, "apiVersion is 'v2'"),
        ({**pod_manifest(), "metadata": []}, "metadata is no mapping"),
        ({**pod_manifest(), "spec": "x"}, "spec is no mapping"),
        (pod_manifest(metadata={"uid": "x" * 65}), "metadata.uid is longer than 64"),
        (pod_manifest(metadata={"uid": "a b"}), "metadata.uid holds other characters"),
        (pod_manifest(metadata={"uid": 3}), "metadata.uid is no text"),
        (pod_manifest(metadata={"labels": {"a": 1}}), r"metadata.labels\['a'\] is no text"),
        (pod_manifest(containers={}), "spec.containers is no list"),
        (pod_manifest(containers=[None]), r"spec.containers\[0\] is no mapping"),
        (pod_manifest(containers=[{}] * 5000), "more than 4096"),
        (pod_manifest(containers=[{"resources": {"requests": {"cpu": "-1"}}}]), "'-1' is negative"),
        (pod_manifest(containers=[{"resources": {"requests": {"cpu": "lots"}}}]), "'lots' is no quantity"),
        (pod_manifest(containers=[{"resources": {"limits": {"cpu": True}}}]), "True is no quantity"),
        (pod_manifest(containers=[{"resources": {"requests": {"pods": "1"}}}]), "cannot ask for 'pods'"),
        (pod_manifest(containers=[{"ports": [{"hostPort": 70000}]}]), "not between 0 and 65535"),
        (pod_manifest(priority="high"), "spec.priority is no integer"),
        (pod_manifest(priority=2**31), "spec.priority is not between"),
        (pod_manifest(nodeSelector={"a": "\ud800"}), "surrogate"),
        (pod_manifest(tolerations=[{"key": 1}]), r"spec.tolerations\[0\].key is no text"),
        (
            pod_requiring({"matchExpressions": [{"key": "a", "operator": "Is"}]}),
            r"nodeSelectorTerms\[0\].matchExpressions\[0\].operator 'Is' is none of In",
        ),
        (
            pod_requiring({"matchFields": [{"key": "metadata.uid", "operator": "In", "values": ["x"]}]}),
            "the only field",
        ),
    ],
)
def test_what_is_wrong_is_named_with_its_field(manifest: dict[str, Any], reason: str) -> None:
    with pytest.raises(InvalidObject, match=reason):
        decode_pod(raw(manifest), namespace="default", name="web")


@pytest.mark.parametrize("name", ["", "Web", "-web", "a/b", "a..b", "x" * 254, "wéb"])
def test_a_malformed_name_is_refused(name: str) -> None:
    with pytest.raises(InvalidObject, match=r"metadata\.name"):
        pod_from_mapping(pod_manifest(metadata={"name": name}))


def test_images_are_those_of_all_containers_and_of_image_volumes() -> None:
    pod = pod_from_mapping(
        pod_manifest(
            initContainers=[{"image": "init:1"}],
            containers=[{"image": "main:2"}, {"image": "main:2"}, {}],
            volumes=[{"emptyDir": {}}, {"image": {"reference": "data:3"}}],
        )
    )

    assert (pod.images, pod.container_count) == (("init:1", "main:2", "main:2", "data:3"), 4)


@pytest.mark.parametrize(("written", "seconds"), [(None, 30), (0, 0), (45, 45), (-3, 1)])
def test_grace_period_is_thirty_seconds_by_default(written: int | None, seconds: int) -> None:
    assert pod_from_mapping(pod_manifest(terminationGracePeriodSeconds=written)).termination_grace_seconds == seconds


@pytest.mark.parametrize(
    ("condition", "target"),
    [
        ({"status": "True", "reason": "PreemptionByScheduler"}, True),
        ({"status": "False", "reason": "PreemptionByScheduler"}, False),
        ({"status": "True", "reason": "EvictionByEvictionAPI"}, False),
    ],
)
def test_pod_with_a_preemption_condition_is_being_evicted(condition: dict[str, str], target: bool) -> None:
    status = {"conditions": [{"type": "Ready"}, {"type": "DisruptionTarget", **condition}]}

    assert pod_from_mapping(pod_manifest(status=status)).disruption_target is target


def test_owner_is_the_controller_reference() -> None:
    references = [{"kind": "Thing", "name": "other"}, {"kind": "ReplicaSet", "name": "web-1", "controller": True}]

    owned = pod_from_mapping(pod_manifest(metadata={"ownerReferences": references}))

    assert owned.controller == ("ReplicaSet", "web-1")
    assert pod_from_mapping(pod_manifest(metadata={"ownerReferences": references[:1]})).controller is None
