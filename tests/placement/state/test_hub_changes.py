"""Which fields of a member have changed, and which placements are decided by them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from wharfinger.objects.model.selectors import LabelSelector, Taint
from wharfinger.placement.model.members import AgentCondition, Member, MemberAgent, ResourceUsage
from wharfinger.placement.model.placement import (
    ClusterPreference,
    ClusterSpread,
    ClusterTerm,
    Placement,
    PlacementPolicy,
    PlacementRef,
    PropertyRequirement,
    PropertySorter,
)
from wharfinger.placement.state.hub_changes import MemberChange, Readers, difference

MEMBER = Member("a", 7)
ANY_LABELS = LabelSelector(())
ALWAYS = MemberChange.ELIGIBILITY | MemberChange.STANDING | MemberChange.TAINTS


@pytest.mark.parametrize(
    ("changed", "fields"),
    [
        ({}, MemberChange(0)),
        ({"labels": {"region": "east"}}, MemberChange.LABELS),
        ({"taints": (Taint("k", "v", "NoSchedule"),)}, MemberChange.TAINTS),
        ({"properties": {"p": "1"}}, MemberChange.PROPERTIES),
        ({"usage": ResourceUsage(available={"cpu": "1"})}, MemberChange.PROPERTIES),
        ({"collects_namespaces": True}, MemberChange.NAMESPACES),
        ({"namespaces": frozenset({"default"})}, MemberChange.NAMESPACES),
        ({"agent": MemberAgent(healthy=AgentCondition("True", None))}, MemberChange.ELIGIBILITY),
        ({"leaving": True}, MemberChange.STANDING | MemberChange.ELIGIBILITY),
        ({"identity": 8}, MemberChange.STANDING | MemberChange.ELIGIBILITY),
        (
            {"labels": {"a": "b"}, "leaving": True},
            MemberChange.LABELS | MemberChange.STANDING | MemberChange.ELIGIBILITY,
        ),
    ],
    ids=lambda value: ",".join(value) or "nothing" if isinstance(value, dict) else "",
)
def test_a_change_is_named_by_its_fields(changed: dict[str, Any], fields: MemberChange) -> None:
    assert difference(MEMBER, replace(MEMBER, **changed)) == fields


def placement(namespace: str = "", **policy: Any) -> Placement:
    return Placement(PlacementRef(namespace, "web"), 1, PlacementPolicy(**policy))


@pytest.mark.parametrize(
    ("noted", "more"),
    [
        (placement(), MemberChange(0)),
        (placement("shop"), MemberChange.NAMESPACES),
        (placement(spread=(ClusterSpread("zone"),)), MemberChange.LABELS),
        (placement(required=(ClusterTerm(labels=ANY_LABELS),)), MemberChange.LABELS),
        (
            placement(required=(ClusterTerm(properties=(PropertyRequirement("p", "Gt", ("1",)),)),)),
            MemberChange.PROPERTIES,
        ),
        (placement(preferred=(ClusterPreference(1, labels=ANY_LABELS),)), MemberChange.LABELS),
        (
            placement(preferred=(ClusterPreference(1, sorter=PropertySorter("p", "Ascending")),)),
            MemberChange.PROPERTIES,
        ),
    ],
    ids=["any members", "namespace", "spread", "labels", "properties", "preferred labels", "preferred properties"],
)
def test_a_placement_reads_what_its_policy_names(noted: Placement, more: MemberChange) -> None:
    readers = Readers()
    readers.note("P", noted)
    assert readers.reads("P") == ALWAYS | more
    assert {one for one in MemberChange if "P" in readers.of(one)} == set(ALWAYS | more)


def test_an_edited_placement_is_found_by_its_new_fields_only() -> None:
    readers = Readers()
    readers.note("P", placement(spread=(ClusterSpread("zone"),)))
    readers.note("P", placement("shop"))
    assert readers.of(MemberChange.LABELS) == set()
    assert readers.of(MemberChange.NAMESPACES | MemberChange.LABELS) == {"P"}

    readers.note("P", None)
    assert readers.of(~MemberChange(0)) == set()
    assert readers.reads("P") == MemberChange.STANDING, "a decision without a placement may still name the member"
