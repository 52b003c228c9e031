"""What surrounds nodes and pods, as a value that changes only when something does."""

from __future__ import annotations

import pytest

from wharfinger.objects.model.gang import PodGroup
from wharfinger.objects.model.selectors import LabelSelector, Operator, Requirement
from wharfinger.objects.model.surroundings import DisruptionBudget, Namespace, PodCollection, Surrounding, Surroundings

WEB = LabelSelector((Requirement("app", Operator.IN, ("web",)),))
SERVICE = PodCollection("Service", "team", "web", WEB)
THINGS = (Namespace("team", {"a": "b"}), SERVICE, DisruptionBudget("team", "web", WEB, 1), PodGroup("team", "web", 8))


@pytest.mark.parametrize("thing", THINGS, ids=lambda thing: type(thing).__name__)
def test_equal_surroundings_change_nothing(thing: Surrounding) -> None:
    around = Surroundings().with_object(thing)

    assert around.with_object(thing) is around
    assert around != Surroundings()


def test_another_state_takes_the_place_of_the_older_one() -> None:
    around = Surroundings()
    for thing in (*THINGS, Namespace("team"), PodCollection("Service", "team", "web", LabelSelector())):
        around = around.with_object(thing)

    assert around.namespaces == {"team": Namespace("team")}
    assert around.collections == {"team": (PodCollection("Service", "team", "web", LabelSelector()),)}
    assert around.budgets == {"team": (THINGS[2],)}
    assert around.pod_groups == {"team": (THINGS[3],)}
    assert around.pod_group("team", "web") == THINGS[3]
    assert around.pod_group("team", "other") is None


def test_collections_of_one_name_differ_by_their_kind() -> None:
    others = PodCollection("ReplicaSet", "team", "web", WEB)
    around = Surroundings().with_object(SERVICE).with_object(others)

    assert around.collections == {"team": (others, SERVICE)}
    assert around.without(PodCollection, "team", "web", "Service").collections == {"team": (others,)}
    assert around.without(PodCollection, "team", "web", "StatefulSet") is around


def test_what_is_gone_leaves_nothing_behind() -> None:
    around = Surroundings()
    for thing in THINGS:
        around = around.with_object(thing)

    around = around.without(Namespace, "", "team").without(PodCollection, "team", "web", "Service")
    assert around.without(DisruptionBudget, "team", "web").without(PodGroup, "team", "web") == Surroundings()
    assert Surroundings().namespace_labels("team") == {}
