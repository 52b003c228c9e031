"""What manifests are refused for, beside what an API server of Kubernetes 1.36.2 answered to the same objects."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import cycle
from pathlib import Path
from typing import Any

import pytest

from tests.objects.documents.checks.cases import CASES, CONTAINER, of_pods, pod, workload
from tests.objects.documents.complete import EVERYTHING
from wharfinger.objects.documents.checks.objects import MOST, problems_of, was_taken

ANSWERS: dict[str, list[str]] = json.loads((Path(__file__).parent / "answers.json").read_text())
GATE = "needs the feature gate TaintTolerationComparisonOperators, which is off by default in Kubernetes 1.36"
OWN_WORDS = {
    "Gt": f'spec.tolerations[0].operator: Unsupported value: "Gt": supported values: "Equal", "Exists"; Gt {GATE}',
    "Lt": f'spec.tolerations[0].operator: Unsupported value: "Lt": supported values: "Equal", "Exists"; Lt {GATE}',
    "an owner without a uid": 'metadata.ownerReferences[0].uid: Invalid value: "": must not be empty',
    "two controllers": "Only one reference can have Controller set to true",
    "a claim of two sources": '"resourceClaimTemplateName":"g"}: at most one of',
    "a claim without a source": 'spec.resourceClaims[0]: Invalid value: {"name":"gpu"}: must specify one of',
    "more for a container than for the pod": "spec.containers[0].resources.limits[cpu]: Invalid value: ",
    "a preemption policy that is none": 'spec.preemptionPolicy: Unsupported value: "Always"',
    "a class of priority of a name that is none": 'spec.priorityClassName: Invalid value: "High Priority"',
    "no selector": "spec.selector: Required value",
    "a strategy that is none": 'spec.strategy: Unsupported value: {"type":"Rolling"}: supported values: "Recreate"',
    "an update strategy that is none": 'spec.updateStrategy: Invalid value: {"type":"Recreate"}: must be',
    "a daemon set without a selector": "spec.selector: Required value",
    "a job with a selector": 'spec.selector: Invalid value: {"matchLabels":{"a":"b"}}: `selector` not auto-generated',
    "a budget of both": "minAvailable and maxUnavailable cannot be both set",
    "a node of less than nothing": 'status.allocatable[cpu]: Invalid value: "-4": must be greater than or equal to 0',
    "a node of half a device": 'status.allocatable[example.com/gpu]: Invalid value: "500m": must be an integer',
    "a taint twice": "spec.taints[1]: Duplicate value: ",
    "a taint without an effect": "spec.taints[0].effect: Required value",
    "a taint of an effect that is none": 'spec.taints[0].effect: Unsupported value: "NoRun": supported values: ',
    "a taint without a key": 'spec.taints[0].key: Invalid value: "": name part must be non-empty',
    "a taint of a value that is none": 'spec.taints[0].value: Invalid value: "a b": a valid label must be',
}
"""Where the API server's path or value is not that of the manifest, or its admission answers first."""


@pytest.mark.parametrize("title", CASES)
def test_refused_is_what_an_api_server_refuses_in_its_words(title: str) -> None:
    found = problems_of(CASES[title])

    if title in OWN_WORDS:
        assert ANSWERS[title]
        assert OWN_WORDS[title] in "\n".join(found)
    else:
        assert sorted(found) == ANSWERS[title]


@pytest.mark.parametrize(
    ("obj", "problem"),
    [
        (
            pod(labels={"version": 1.5}),
            "metadata.labels[version]: Invalid value: 1.5: must be a string: write it in quotes",
        ),
        (pod(nodeSelector={"ssd": True}), "spec.nodeSelector[ssd]: Invalid value: true: must be a string"),
        (pod(containers={"name": "c"}), 'spec.containers: Invalid value: {"name":"c"}: must be a list'),
        (pod(containers=["c"]), 'spec.containers[0]: Invalid value: "c": must be a mapping'),
        (pod(hostNetwork="yes"), 'spec.hostNetwork: Invalid value: "yes": must be true or false'),
        (pod(nodeSelector=["a"]), 'spec.nodeSelector: Invalid value: ["a"]: must be a mapping'),
        (workload("Deployment", replicas="2"), 'spec.replicas: Invalid value: "2": must be an integer of 32 bits'),
        (workload("Deployment", replicas=2**31), "must be an integer of 32 bits"),
        (pod(activeDeadlineSeconds=2**63), "must be an integer of 64 bits"),
        (pod(overhead={"cpu": "2 cores"}), "spec.overhead[cpu]: Invalid value: "),
        (
            workload("Deployment", template=of_pods(containers=[{**CONTAINER, "env": [{"name": "A", "value": 1}]}])),
            "spec.template.spec.containers[0].env[0].value: Invalid value: 1: must be a string: write it in quotes",
        ),
        (
            {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {}, "spec": {"minAvailable": 0.5}},
            "spec.minAvailable: Invalid value: 0.5: must be an integer or a string",
        ),
        (
            {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "data": {"a": "no base64"}},
            'data[a]: Invalid value: "no base64": must be a string in base64',
        ),
    ],
)
def test_a_value_of_another_type_is_refused_with_its_field(obj: dict[str, Any], problem: str) -> None:
    assert any(problem in found for found in problems_of(obj)), problems_of(obj)


def test_null_means_absent_and_unknown_fields_are_left_to_others() -> None:
    assert (
        problems_of(pod(nodeSelector=None, tolerations=None, wharf=1, containers=[{**CONTAINER, "ports": None}])) == ()
    )


def test_kinds_of_other_makers_are_not_checked() -> None:
    assert problems_of({"apiVersion": "example.com/v1", "kind": "Pod", "spec": {"containers": 5}}) == ()


def test_no_value_breaks_a_check() -> None:
    """Every field of whole objects is replaced by one of some values, one at a time."""
    others = cycle((None, {}, [], "", 0, -1, True, "x y", [None], [{}]))
    for obj in EVERYTHING:
        for changed in _changed(obj, others):
            if isinstance(changed, dict):
                problems_of(changed)


def _changed(value: Any, others: Iterator[Any]) -> Iterator[Any]:
    yield next(others)
    if isinstance(value, dict):
        for key, below in value.items():
            if key not in ("apiVersion", "kind"):
                yield from ({**value, key: changed} for changed in _changed(below, others))
    elif isinstance(value, list):
        for index, below in enumerate(value):
            yield from ([*value[:index], changed, *value[index + 1 :]] for changed in _changed(below, others))


def test_of_many_problems_the_first_are_named() -> None:
    found = problems_of(pod(nodeSelector={f"a b{number}": "c" for number in range(MOST + 1)}))

    assert (len(found), found[-1]) == (MOST + 1, "and more")


def test_an_object_that_an_api_server_printed_was_taken() -> None:
    for field in ("uid", "resourceVersion", "creationTimestamp"):
        assert was_taken({"metadata": {field: "1"}})
    assert was_taken({"metadata": None, "status": {"phase": "Running"}})
    assert not was_taken({"metadata": {"name": "web", "creationTimestamp": None}, "status": {}})
    assert not was_taken({"metadata": None})


@pytest.mark.parametrize(
    ("kind", "spec", "said"),
    [
        (
            "LimitRange",
            {"limits": [{"type": "Container", "default": {"cpu": "1"}, "defaultRequest": {"cpu": "2"}}]},
            'limits[0].defaultRequest[cpu]: Invalid value: "2": '
            "default request value 2 is greater than default limit value 1",
        ),
        (
            "LimitRange",
            {"limits": [{"type": "Pod", "min": {"cpu": "2"}, "max": {"cpu": "1"}}]},
            'limits[0].min[cpu]: Invalid value: "2": min value 2 is greater than max value 1',
        ),
        (
            "LimitRange",
            {"limits": [{"type": "Pod", "default": {"cpu": "1"}}]},
            "limits[0].default: Forbidden: may not be specified when `type` is 'Pod'",
        ),
        (
            "LimitRange",
            {"limits": [{"type": "Container", "maxLimitRequestRatio": {"cpu": "500m"}}]},
            'limits[0].maxLimitRequestRatio[cpu]: Invalid value: "500m": ratio 500m is less than 1',
        ),
        ("ResourceQuota", {"hard": {"pods": "1.5"}}, 'hard[pods]: Invalid value: "1500m": must be an integer'),
        (
            "ResourceQuota",
            {"hard": {"requests.cpu": "1"}, "scopes": ["BestEffort"]},
            'scopes: Invalid value: ["BestEffort"]: unsupported scope applied to resource',
        ),
        (
            "ResourceQuota",
            {"hard": {"pods": "1"}, "scopes": ["Terminating", "NotTerminating"]},
            'scopes: Invalid value: ["Terminating","NotTerminating"]: conflicting scopes',
        ),
        (
            "ResourceQuota",
            {"scopeSelector": {"matchExpressions": [{"scopeName": "PriorityClass", "operator": "In"}]}},
            "scopeSelector.matchExpressions[0].values: Required value: "
            "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector",
        ),
        ("ResourceQuota", {"hard": {"pods": "1", "requests.nvidia.com/gpu": "2"}, "scopes": ["NotTerminating"]}, ""),
    ],
)
def test_limits_that_contradict_themselves_are_refused(kind: str, spec: dict[str, Any], said: str) -> None:
    found = problems_of({"apiVersion": "v1", "kind": kind, "metadata": {"name": "one"}, "spec": spec})
    assert found == ((f"spec.{said}",) if said else ())
