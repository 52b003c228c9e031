"""What a change of a pod means to scheduling, and to whom."""

from __future__ import annotations

from dataclasses import replace

from wharfinger.objects.model.events import Action, ClusterEvent, Resource, pod_events
from wharfinger.objects.model.pod import Pod
from wharfinger.objects.model.selectors import SpreadConstraint
from wharfinger.objects.model.surroundings import Namespace, Surroundings
from wharfinger.testing.builders import pod

WAITING = pod("waiting")
NOMINATED = replace(WAITING, nominated_node_name="n1")
BOUND = WAITING.on("n1")


def told(old: Pod | None, new: Pod | None) -> list[tuple[Resource, Action]]:
    return [(event.resource, event.action) for event in pod_events(old, new, 1)]


def test_pod_that_is_bound_or_ends_is_an_event_for_others() -> None:
    assert told(None, BOUND) == [(Resource.ASSIGNED_POD, Action.ADD)]
    assert told(WAITING, BOUND) == [(Resource.ASSIGNED_POD, Action.ADD)]
    assert told(BOUND, None) == [(Resource.ASSIGNED_POD, Action.DELETE)]
    assert told(BOUND, replace(BOUND, phase="Succeeded")) == [(Resource.ASSIGNED_POD, Action.DELETE)]
    assert told(replace(BOUND, phase="Failed"), None) == []


def test_a_waiting_pod_that_comes_or_goes_is_no_event() -> None:
    assert told(None, WAITING) == []
    assert told(WAITING, None) == []
    assert told(None, None) == []


def test_a_change_of_status_is_no_event() -> None:
    assert told(WAITING, replace(WAITING, condition=("False", "Unschedulable", "no room"), phase="Pending")) == []
    assert told(BOUND, replace(BOUND, phase="Running", start_time="2026-01-01T00:00:00Z")) == []


def test_shrinking_resources_are_an_event() -> None:
    smaller = {"requests": {"cpu": 1}}
    big, bound = replace(WAITING, requests={"cpu": 2}), replace(BOUND, requests={"cpu": 2})

    assert told(big, replace(big, **smaller)) == [(Resource.UNSCHEDULED_POD, Action.UPDATE_POD_SCALE_DOWN)]
    assert told(bound, replace(bound, **smaller)) == [(Resource.ASSIGNED_POD, Action.UPDATE_POD_SCALE_DOWN)]


def test_a_nomination_that_ends_frees_its_room() -> None:
    for after in (None, WAITING, replace(NOMINATED, nominated_node_name="n2")):
        (event,) = pod_events(NOMINATED, after, 1)
        assert (event.resource, event.action, event.old) == (Resource.ASSIGNED_POD, Action.DELETE, NOMINATED)
        assert event.freed_nomination

    (event,) = pod_events(BOUND, None, 1)
    assert not event.freed_nomination


def test_a_nomination_that_begins_stays_or_is_kept_frees_nothing() -> None:
    assert told(WAITING, NOMINATED) == []
    assert told(NOMINATED, NOMINATED) == []
    assert told(NOMINATED, NOMINATED.on("n1")) == [(Resource.ASSIGNED_POD, Action.ADD)]


def test_one_change_can_free_a_nomination_and_help_its_own_pod() -> None:
    assert told(NOMINATED, replace(WAITING, labels={"a": "b"})) == [
        (Resource.ASSIGNED_POD, Action.DELETE),
        (Resource.UNSCHEDULED_POD, Action.UPDATE_POD_LABEL),
    ]


def test_other_terms_are_another_specification() -> None:
    spread = replace(WAITING, spread_constraints=(SpreadConstraint(1, "zone", True),))

    assert told(WAITING, spread) == [(Resource.UNSCHEDULED_POD, Action.UPDATE)]


def test_event_has_its_surroundings() -> None:
    around = Surroundings(namespaces={"team": Namespace("team")})

    (event,) = pod_events(None, BOUND, 1, around)

    assert event.surroundings is around
    assert event == ClusterEvent(Resource.ASSIGNED_POD, Action.ADD, 1, None, BOUND)
