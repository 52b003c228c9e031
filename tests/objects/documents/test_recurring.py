"""What many pods share is read once, and never for a pod that differs in it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.objects.documents.manifests import pod_manifest, raw
from tests.objects.documents.test_fuzz import FULL_POD
from wharfinger.errors import InvalidObject
from wharfinger.objects.documents.decode import Remembered, decode_pod, pod_from_mapping
from wharfinger.objects.model.pod import Pod

REPLACED = st.sampled_from([None, 0, 1, True, "", "x", [], {}, [{}], [1], {"a": "b"}, {"a": 1}, 2**64, "\ud800"])


def shared(obj: Mapping[str, Any]) -> Pod | str:
    try:
        return decode_pod(raw(obj))
    except InvalidObject as error:
        return str(error)


def anew(obj: Mapping[str, Any]) -> Pod | str:
    try:
        return pod_from_mapping(obj)
    except InvalidObject as error:
        return str(error)


@given(st.sampled_from(sorted(FULL_POD["spec"])), REPLACED, st.booleans())
def test_a_pod_reads_the_same_with_and_without_memory(part: str, value: Any, again: bool) -> None:
    changed = {**FULL_POD, "spec": {**FULL_POD["spec"], part: value}}

    for obj in (FULL_POD, changed, *([changed] if again else [])):
        assert shared(obj) == anew(obj)


@given(st.sampled_from(["labels", "ownerReferences", "annotations"]), REPLACED)
def test_so_do_its_metadata(part: str, value: Any) -> None:
    changed = {**FULL_POD, "metadata": {**FULL_POD["metadata"], part: value}}

    for _ in range(2):
        assert shared(changed) == anew(changed)


def test_pods_of_one_controller_share_what_they_have_alike() -> None:
    """Although each has a volume with a name of its own, as API servers make them, and one of them is bound."""
    owner = {"kind": "ReplicaSet", "name": "web", "controller": True}
    metadata = {"labels": {"a": "b"}, "ownerReferences": [owner]}
    one, other = (
        decode_pod(
            raw(pod_manifest(metadata=metadata, volumes=[{"name": name}], tolerations=[{"key": "k"}], nodeName=node))
        )
        for name, node in (("token-x", ""), ("token-y", "n"))
    )

    assert (one.node_name, other.node_name) == ("", "n")
    assert one.requests is other.requests
    assert one.labels is other.labels
    assert one.tolerations is other.tolerations
    assert one.controller is other.controller


def test_terms_that_name_labels_by_key_are_read_with_each_pods_own() -> None:
    term = {"topologyKey": "zone", "labelSelector": {"matchLabels": {"a": "b"}}, "matchLabelKeys": ["version"]}
    affinity = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    first, second = (
        decode_pod(raw(pod_manifest(metadata={"labels": {"version": version}}, affinity=affinity)))
        for version in ("1", "2")
    )

    assert "1" in str(first.required_affinity[0].selector)
    assert "2" in str(second.required_affinity[0].selector)


def test_terms_without_namespaces_are_about_each_pods_own() -> None:
    term = {"topologyKey": "zone", "labelSelector": {}}
    affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    found = [
        decode_pod(raw(pod_manifest(metadata={"namespace": namespace}, affinity=affinity))) for namespace in ("x", "y")
    ]

    assert [pod.required_anti_affinity[0].namespaces for pod in found] == [{"x"}, {"y"}]


def test_values_that_differ_in_json_stay_different() -> None:
    one, yes = (pod_manifest(hostNetwork=value) for value in (1, True))

    assert isinstance(shared(yes), Pod)
    assert shared(one) == "spec.hostNetwork is neither true nor false"
    assert json.loads(raw(yes)) == yes


def test_only_so_many_parts_are_remembered_and_those_that_recur_longest() -> None:
    remembered = Remembered[int](10)
    for number in range(100):
        remembered.put(number, number)
        if number % 4 == 0:
            assert remembered.get(0) == 0

    assert len(remembered) <= 10
    assert remembered.get(99) == 99
    assert remembered.get(50) is None
