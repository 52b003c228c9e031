"""The filters before spread, each alone and in order; whether a member is eligible, and can be named."""

from __future__ import annotations

import pytest

from tests.placement.deciding.cases import HEALTHY, HEARD, member
from wharfinger.objects.model.selectors import LabelSelector, Operator, Requirement, Taint, Toleration
from wharfinger.placement.deciding import texts
from wharfinger.placement.deciding.affinity import Unreadable, affinity_of
from wharfinger.placement.deciding.filters import MemberRefusal, refusal, why_not_eligible
from wharfinger.placement.model.members import AgentCondition, Ages, MemberAgent
from wharfinger.placement.model.placement import ClusterTerm, Placement, PlacementPolicy, PlacementRef

TAINT = Taint("dedicated", "a", "NoSchedule")


def refused(
    policy: PlacementPolicy, namespace: str = "", ages: Ages = HEARD, **fields: object
) -> MemberRefusal | Unreadable | None:
    placement = Placement(PlacementRef(namespace, "web"), 1, policy)
    affinity = affinity_of(policy, dashes=True, exactly=True)
    return refusal(placement, affinity, member("m", **fields), ages, as_kubefleet=False)


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


TRUE, FALSE = AgentCondition("True", 1.0), AgentCondition("False", 1.0)


@pytest.mark.parametrize(
    ("agent", "ages", "told"),
    [
        pytest.param(HEALTHY, HEARD, "", id="normal"),
        pytest.param(None, HEARD, texts.NOT_ONLINE, id="no agent status"),
        pytest.param(HEALTHY, Ages(301.0, 1.0), texts.silent(301.0), id="heart-beat old"),
        pytest.param(HEALTHY, Ages(300.0, 1.0), "", id="heart-beat of five minutes"),
        pytest.param(HEALTHY, Ages(-60.0, 1.0), "", id="heart-beat in the future"),
        pytest.param(HEALTHY, Ages(None, 1.0), texts.NO_HEARTBEAT, id="no heart-beat ever"),
        pytest.param(MemberAgent(1.0, None, TRUE), HEARD, texts.NOT_JOINED, id="joined missing"),
        pytest.param(MemberAgent(1.0, FALSE, TRUE), HEARD, texts.NOT_JOINED, id="joined false"),
        pytest.param(MemberAgent(1.0, TRUE, None), HEARD, texts.NO_HEALTH, id="health missing"),
        pytest.param(MemberAgent(1.0, TRUE, FALSE), Ages(1.0, 400.0), texts.unhealthy(400.0), id="unhealthy long"),
        pytest.param(MemberAgent(1.0, TRUE, FALSE), Ages(1.0, 60.0), "", id="unhealthy briefly"),
    ],
)
def test_a_member_is_eligible_unless_something_speaks_against(agent: MemberAgent, ages: Ages, told: str) -> None:
    assert why_not_eligible(member("m", agent=agent), ages) == told


def test_who_is_leaving_has_left() -> None:
    assert why_not_eligible(member("m", leaving=True), HEARD) == texts.LEFT


def test_a_heartbeat_that_never_came_has_kubefleets_age_upstream() -> None:
    told = why_not_eligible(member("m"), Ages(None, 1.0), as_kubefleet=True)
    assert "153722867.28 minutes ago" in told
