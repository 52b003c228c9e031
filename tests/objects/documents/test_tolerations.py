"""Words of tolerations and preemption that an API server of Kubernetes 1.36 accepts, and those that it refuses."""

from __future__ import annotations

from typing import Any

import pytest

from tests.objects.documents.manifests import pod_manifest, raw
from wharfinger.errors import InvalidObject
from wharfinger.objects.documents.decode import decode_pod, pod_from_mapping
from wharfinger.objects.model.selectors import Taint, tolerates


@pytest.mark.parametrize("operator", [None, "", "Equal", "Exists", "Lt", "Gt"])
@pytest.mark.parametrize("effect", [None, "", "NoSchedule", "PreferNoSchedule", "NoExecute"])
def test_tolerations_as_kubernetes_has_them_are_read(operator: str | None, effect: str | None) -> None:
    pod = pod_from_mapping(pod_manifest(tolerations=[{"key": "a", "operator": operator, "effect": effect}]))

    (found,) = pod.tolerations
    assert (found.operator, found.effect) == (operator or "Equal", effect or "")


@pytest.mark.parametrize("operator", ["Lt", "Gt"])
def test_operators_behind_a_gate_tolerate_nothing(operator: str) -> None:
    toleration = {"key": "a", "operator": operator, "value": "3"}
    pod = pod_from_mapping(pod_manifest(tolerations=[toleration]))

    assert not any(tolerates(pod.tolerations, Taint("a", value, "NoSchedule")) for value in "234")


@pytest.mark.parametrize(
    ("spec", "reason"),
    [
        (
            {"tolerations": [{}, {"key": "a", "operator": "Exits"}]},
            r"spec.tolerations\[1\].operator 'Exits' is none of Exists, Equal, Lt, Gt",
        ),
        (
            {"tolerations": [{"key": "a", "effect": "NoSchedul"}]},
            r"spec.tolerations\[0\].effect 'NoSchedul' is none of NoSchedule, PreferNoSchedule, NoExecute",
        ),
        ({"tolerations": [{"key": "a", "operator": "exists"}]}, "operator 'exists' is none of"),
        ({"tolerations": [{"key": "a", "operator": 1}]}, "operator is no text"),
        ({"preemptionPolicy": "Nevr"}, "spec.preemptionPolicy 'Nevr' is none of PreemptLowerPriority, Never"),
    ],
)
def test_misspelt_words_are_refused(spec: dict[str, Any], reason: str) -> None:
    with pytest.raises(InvalidObject, match=reason):
        pod_from_mapping(pod_manifest(**spec))
    with pytest.raises(InvalidObject, match=reason):
        decode_pod(raw(pod_manifest(**spec)))


@pytest.mark.parametrize("policy", ["PreemptLowerPriority", "Never"])
def test_preemption_policies_of_kubernetes_are_read(policy: str) -> None:
    assert pod_from_mapping(pod_manifest(preemptionPolicy=policy)).preemption_policy == policy
