"""Who is refused, by whom, in which words."""

from __future__ import annotations

import pytest

from tests.placement.deciding.cases import HEARD, member
from wharfinger.objects.model.selectors import LabelSelector, Operator, Requirement, Taint, Toleration
from wharfinger.placement.deciding.affinity import Unreadable, affinity_of
from wharfinger.placement.deciding.filters import MemberRefusal, refusal
from wharfinger.placement.model.members import Ages
from wharfinger.placement.model.placement import ClusterTerm, Placement, PlacementPolicy, PlacementRef

TAINT = Taint("dedicated", "a", "NoSchedule")


def refused(
    policy: PlacementPolicy, namespace: str = "", ages: Ages = HEARD, **fields: object
) -> MemberRefusal | Unreadable | None:
    placement = Placement(PlacementRef(namespace, "web"), 1, policy)
    affinity = affinity_of(policy, dashes=True, exactly=True)
    return refusal(placement, affinity, member("m", **fields), ages, upstream=False)


@pytest.mark.parametrize(
    ("toleration", "tolerated"),
    [
        (Toleration("dedicated", "Equal", "a", "NoSchedule"), True),
        (Toleration("dedicated", "Equal", "a", ""), True),
        (Toleration("dedicated", "Equal", "b", "NoSchedule"), False),
        (Toleration("dedicated", "Equal", "", "NoSchedule"), False),
        (Toleration("other", "Equal", "a", "NoSchedule"), False),
        (Toleration("", "Equal", "a", "NoSchedule"), False),
        (Toleration("dedicated", "Exists", "", "NoSchedule"), True),
        (Toleration("dedicated", "Exists", "", ""), True),
        (Toleration("other", "Exists", "", ""), False),
        (Toleration("", "Exists", "", "NoSchedule"), True),
        (Toleration("", "Exists", "", ""), True),
    ],
)
def test_a_taint_needs_one_toleration(toleration: Toleration, *, tolerated: bool) -> None:
    found = refused(PlacementPolicy(tolerations=(Toleration("x", "Exists"), toleration)), taints=(TAINT,))
    assert (found is None) is tolerated


def test_the_first_taint_that_is_not_tolerated_is_told() -> None:
    found = refused(PlacementPolicy(), taints=(TAINT, Taint("b", "", "NoSchedule")))
    told = "taint &{Key:dedicated Value:a Effect:NoSchedule} cannot be tolerated"
    assert found == MemberRefusal("TaintToleration", told)


@pytest.mark.parametrize(
    ("fields", "plugin"),
    [
        ({}, None),
        ({"collects_namespaces": True, "namespaces": frozenset({"shop"})}, None),
        ({"collects_namespaces": True, "namespaces": frozenset({"other"})}, "NamespaceAffinity"),
        ({"collects_namespaces": True}, "NamespaceAffinity"),
        ({"namespaces": frozenset({"other"})}, None),
    ],
)
def test_a_namespaced_placement_needs_its_namespace(fields: dict[str, object], plugin: str | None) -> None:
    found = refused(PlacementPolicy(), "shop", **fields)
    assert (found.plugin if isinstance(found, MemberRefusal) else found) == plugin
    assert refused(PlacementPolicy(), "", **fields) is None


def test_filters_refuse_in_kubefleets_order() -> None:
    policy = PlacementPolicy(required=(ClusterTerm(LabelSelector((Requirement("env", Operator.IN, ("prod",)),))),))
    fields = {"taints": (TAINT,), "collects_namespaces": True}
    order = []
    for labels, ages in (({}, Ages(900.0, 1.0)), ({"env": "prod"}, Ages(900.0, 1.0)), ({"env": "prod"}, HEARD)):
        found = refused(policy, "shop", ages, labels=labels, **fields)
        assert isinstance(found, MemberRefusal)
        order.append(found.plugin)
    found = refused(policy, "", HEARD, labels={"env": "prod"}, **fields)
    assert isinstance(found, MemberRefusal)
    assert [*order, found.plugin] == ["ClusterAffinity", "ClusterEligibility", "NamespaceAffinity", "TaintToleration"]
