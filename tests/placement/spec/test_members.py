"""MemberCluster objects as deciding reads them."""

from __future__ import annotations

from typing import Any

import pytest

from wharfinger.errors import InvalidObject
from wharfinger.objects.model.selectors import Taint
from wharfinger.placement.model.members import AgentCondition, Member, MemberAgent, ResourceUsage
from wharfinger.placement.spec.members import member_from_mapping

WHOLE: dict[str, Any] = {
    "metadata": {"name": "east", "labels": {"env": "prod"}},
    "spec": {"taints": [{"key": "t", "value": "v", "effect": "NoSchedule"}]},
    "status": {
        "conditions": [{"type": "NamespaceCollectionSucceeded", "status": "False"}],
        "namespaces": {"default": "work-1"},
        "properties": {"example.com/zones": {"value": "2", "observationTime": "2026-01-01T00:00:00Z"}},
        "resourceUsage": {"capacity": {"cpu": "4"}, "allocatable": {"cpu": "3900m"}, "available": {"cpu": 1}},
        "agentStatus": [
            {"type": "MultiClusterServiceAgent"},
            {
                "type": "MemberAgent",
                "lastReceivedHeartbeat": "1970-01-01T00:01:00Z",
                "conditions": [
                    {"type": "Joined", "status": "True", "lastTransitionTime": "1970-01-01T00:00:01Z"},
                    {"type": "Healthy", "status": "Unknown"},
                ],
            },
        ],
    },
}


def test_a_member_is_read_whole() -> None:
    found = member_from_mapping(WHOLE, 7)
    wanted = Member(
        name="east",
        identity=7,
        labels={"env": "prod"},
        taints=(Taint("t", "v", "NoSchedule"),),
        agent=MemberAgent(60.0, AgentCondition("True", 1.0), AgentCondition("Unknown", None)),
        properties={"example.com/zones": "2"},
        usage=ResourceUsage({"cpu": "4"}, {"cpu": "3900m"}, {"cpu": "1"}),
        collects_namespaces=True,
        namespaces=frozenset({"default"}),
    )
    assert {name: getattr(found, name) for name in Member.__slots__} == {
        name: getattr(wanted, name) for name in Member.__slots__
    }


def test_a_member_may_have_nothing_but_a_name() -> None:
    found = member_from_mapping({"metadata": {"name": "east", "deletionTimestamp": "2026-01-01T00:00:00Z"}}, 1)
    assert (found.leaving, found.agent, found.namespaces, found.collects_namespaces) == (True, None, None, False)


@pytest.mark.parametrize(
    ("path", "value", "told"),
    [
        (("metadata", "name"), None, "metadata.name is missing"),
        (("metadata", "labels"), ["env"], "metadata.labels is no mapping"),
        (("spec", "taints"), [{"value": "v"}], "spec.taints[0].key is missing"),
        (("status", "properties"), {"zones": "2"}, "status.properties.zones is no mapping"),
        (("status", "properties"), {"zones": {"value": 2}}, "status.properties.zones.value is no text"),
        (("status", "resourceUsage"), {"capacity": {"cpu": [4]}}, "status.resourceUsage.capacity.cpu is no quantity"),
        (
            ("status", "agentStatus"),
            [{"type": "MemberAgent", "lastReceivedHeartbeat": "yesterday"}],
            "status.agentStatus[0].lastReceivedHeartbeat is no time",
        ),
        (
            ("status", "agentStatus"),
            [{"type": "MemberAgent", "lastReceivedHeartbeat": "2026-01-01T00:00:00"}],
            "status.agentStatus[0].lastReceivedHeartbeat has no time zone",
        ),
        (("status", "namespaces"), ["default"], "status.namespaces is no mapping"),
    ],
)
def test_what_is_wrong_is_told_with_its_path(path: tuple[str, str], value: Any, told: str) -> None:
    obj = {**WHOLE, path[0]: {**WHOLE[path[0]], path[1]: value}}
    with pytest.raises(InvalidObject) as caught:
        member_from_mapping(obj, 1)
    assert str(caught.value) == told
