"""Where a pod counts: bound, else assumed, else where room is held; and what the end of one leaves of the others."""

from __future__ import annotations

from dataclasses import replace

import pytest

from wharfinger.objects.model.pod import Pod, PodKey
from wharfinger.objects.model.pod_records import HeldPlace
from wharfinger.objects.model.storage import ClaimKey, PersistentVolumeClaim
from wharfinger.objects.model.volume_matching import VolumePlan
from wharfinger.scheduling.state.cache.accounting import PodAccounting
from wharfinger.testing.builders import node, pod

WEB = pod("web", cpu=500, create_revision=7)
HELD = HeldPlace("n2", 7, "workflow@run", 9)
CLAIM = PersistentVolumeClaim(ClaimKey("default", "data"), "claim-1")


class Counted:
    """An accounting of two nodes, and the pods that etcd holds."""

    def __init__(self, *pods: Pod) -> None:
        self.pods: dict[PodKey, Pod] = {pod.key: pod for pod in pods}
        self.planned: list[tuple[str, str]] = []
        self.accounting = PodAccounting(self.pods, self._plan)
        for name in ("n1", "n2"):
            self.accounting.booking.set_node(node(name))

    def _plan(self, pod: Pod, node_name: str) -> VolumePlan | None:
        self.planned.append((pod.name, node_name))
        return VolumePlan(node_name, (), (CLAIM,))

    def place_of(self, pod: Pod) -> str | None:
        return self.accounting.booking.place_of(pod.identity)


@pytest.mark.parametrize(
    ("known", "assumed", "held", "counts"),
    [
        (WEB, False, False, None),
        (WEB, False, True, "n2"),
        (WEB, True, False, "n1"),
        (WEB, True, True, "n1"),
        (WEB.on("n2"), True, False, "n2"),
        (replace(WEB.on("n2"), phase="Succeeded"), True, True, None),
        (replace(WEB, create_revision=8), False, True, None),
        (None, True, True, "n1"),
        (None, False, True, None),
    ],
    ids=[
        "waits",
        "room held",
        "assumed",
        "assumed before held",
        "bound before assumed",
        "finished before all",
        "another life",
        "assumed and not seen",
        "held and not seen",
    ],
)
def test_first_that_applies_decides(known: Pod | None, assumed: bool, held: bool, counts: str | None) -> None:
    counted = Counted(*([known] if known is not None else []))
    if assumed:
        counted.accounting.assumptions.put(WEB, "n1", 0.0)
    if held:
        counted.accounting.places.set(WEB.key, HELD)
    counted.accounting.recount(WEB)
    assert counted.place_of(WEB) == counts


def test_a_dropped_assumption_leaves_the_room_that_is_held() -> None:
    waits = replace(WEB, claims=("data",))
    counted = Counted(waits)
    accounting = counted.accounting
    accounting.places.set(waits.key, HELD)
    accounting.assumptions.put(waits, "n1", 0.0)
    accounting.recount(waits)
    assert counted.place_of(waits) == "n1"

    accounting.drop(waits.identity)
    assert counted.place_of(waits) == "n2"
    assert counted.planned == [("web", "n2")], "its volumes are taken there"
    assert accounting.changes.take(lambda _: True) == ((), ("default/web 7",))


def test_dropping_what_is_not_assumed_changes_nothing() -> None:
    counted = Counted(WEB)
    counted.accounting.drop(WEB.identity)
    assert counted.place_of(WEB) is None
    assert counted.accounting.changes.take(lambda _: True) == ((), ())


def test_a_nomination_counts_only_while_the_pod_counts_nowhere() -> None:
    nominated = replace(WEB, nominated_node_name="n2")
    accounting = Counted(nominated).accounting
    accounting.renominate(nominated.key)
    assert accounting.nominated.frozen() == {"n2": (nominated,)}

    accounting.assumptions.put(nominated, "n1", 0.0)
    accounting.renominate(nominated.key)
    assert accounting.nominated.frozen() == {}

    accounting.drop(nominated.identity)
    assert accounting.nominated.frozen() == {"n2": (nominated,)}


def test_a_settled_assumption_ends_at_its_revision() -> None:
    counted = Counted(WEB)
    accounting = counted.accounting
    accounting.assumptions.put(WEB, "n1", 0.0)
    accounting.assumptions.settle_at(WEB.identity, 12)
    accounting.recount(WEB)

    accounting.settle(11)
    assert counted.place_of(WEB) == "n1"
    accounting.settle(12)
    assert counted.place_of(WEB) is None


def test_a_life_that_is_over_holds_nothing() -> None:
    counted = Counted(WEB)
    accounting = counted.accounting
    accounting.assumptions.put(WEB, "n1", 0.0)
    accounting.recount(WEB)
    accounting.end(WEB)
    assert counted.place_of(WEB) is None
    assert accounting.assumptions.get(WEB.identity) is None
    assert accounting.changes.take(lambda _: True) == ((), ()), "etcd shows its end"
