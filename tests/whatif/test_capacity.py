"""How many more fit."""

from __future__ import annotations

from typing import Any

import pytest

from tests.whatif.objects import node, pod, workload
from wharfinger.errors import UsageError
from wharfinger.objects.model.pod import PodKey
from wharfinger.whatif.capacity import Capacity, capacity, subject
from wharfinger.whatif.inventory import Inventory
from wharfinger.whatif.scene import Scene


def count(*objects: dict[str, Any], live: list[dict[str, Any]] | None = None, most: int = 100) -> Capacity:
    inventory = Inventory()
    for obj in live or ():
        inventory.put(obj)
    given = {inventory.put(obj, applied=True): obj for obj in objects}
    made = Scene(inventory, given)
    pod = subject(made, given.items())
    made.load()
    return capacity(made, pod, most=most)


def test_copies_are_placed_until_the_next_one_is_refused() -> None:
    found = count(node("a", cpu="4"), node("b", cpu="2"), pod("there", nodeName="a"), pod("web"))

    assert (found.fits, found.nodes, found.limited) == (5, {"a": 3, "b": 2}, False)
    assert found.message.startswith("0/2 nodes are available: 2 Insufficient cpu.")
    assert found.refusals == {"NodeResourcesFit": {"Insufficient cpu": 2}}
    assert (found.before.resources["cpu"].requested, found.after.resources["cpu"].requested) == (1000, 6000)


def test_a_pod_that_keeps_its_likes_away_fits_once_a_node() -> None:
    apart = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
        {"labelSelector": {"matchLabels": {"app": "web"}}, "topologyKey": "kubernetes.io/hostname"}]}}  # fmt: skip

    found = count(node("a"), node("b"), pod("web", labels={"app": "web"}, affinity=apart))

    assert found.nodes == {"a": 1, "b": 1}


def test_no_pod_is_evicted() -> None:
    found = count(node("a", cpu="1"), pod("there", nodeName="a"), pod("urgent", priority=9))

    assert found.fits == 0
    assert "preemption" not in found.message


def test_counting_stops_at_its_limit() -> None:
    found = count(node("a"), pod("web", cpu="1m"), most=3)

    assert (found.fits, found.limited, found.message) == (3, True, "")


def test_copies_take_no_name_of_a_pod_that_is_there() -> None:
    there = [pod("web-1", cpu="500m", nodeName="a"), pod("web-2", cpu="2", nodeName="a")]

    found = count(workload("Deployment", "web"), live=[node("a"), *there])

    assert found.fits == 1
    assert found.after.resources["cpu"].requested == 3500


def test_a_pod_that_the_live_state_has_placed_stands_for_more_of_its_kind() -> None:
    found = count(pod("web"), live=[node("a"), pod("web", nodeName="a")])

    assert found.fits == 3
    assert (found.before.resources["cpu"].requested, found.after.resources["cpu"].requested) == (1000, 4000)


def test_a_workload_stands_for_its_template() -> None:
    found = count(workload("Deployment", "web", replicas=7), live=[node("a")])

    assert (found.pod, found.fits) == (PodKey("default", "web"), 4)
    assert count(workload("CronJob", "nightly", suspend=True), live=[node("a")]).fits == 4
    assert count(workload("StatefulSet", "db", replicas=0), live=[node("a")]).fits == 4


@pytest.mark.parametrize(
    ("objects", "said"),
    [
        ([pod("a"), pod("b")], "not 2"),
        ([pod("a", nodeName="n")], "not 0"),
        ([workload("DaemonSet", "d")], "one pod a node"),
    ],
)
def test_it_must_be_clear_which_pod_is_meant(objects: list[dict[str, Any]], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        count(node("n"), *objects)


def test_a_pod_that_is_there_already_is_asked_for_more_of() -> None:
    found = count(pod("web", cpu="1"), live=[node("a", cpu="4"), pod("web", nodeName="a"), pod("waits")])

    assert (found.pod, found.fits) == (PodKey("default", "web"), 3)
    assert found.before.resources["cpu"].requested == 1000
