"""A plugin that fails when decisions are made again says nothing of the pods, unless it failed then, too."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.replay.replay_stage import Stage
from tests.replay.test_rerun import Span
from tests.scheduling.world import PROFILES
from wharfinger.framework.catalog import CatalogEntry, Enabled
from wharfinger.framework.profile import Profile
from wharfinger.framework.status import SUCCESS, Status
from wharfinger.objects.model.pod import DEFAULT_SCHEDULER, Pod
from wharfinger.replay.changes import ProfileChange
from wharfinger.replay.recorded import Lack
from wharfinger.replay.report.rerun_report import RerunReport
from wharfinger.replay.rerun import Rerun, RerunSimulator

[USUAL] = PROFILES.values()
GANG = {"pod-group.scheduling.sigs.k8s.io/name": "team", "pod-group.scheduling.sigs.k8s.io/min-available": "2"}


class Fails:
    """Fails at each node, but for pods whose names it is told to let pass."""

    name = "Fails"
    passing: tuple[str, ...] = ()

    def filter_node(self, state: Any, pod: Pod, node: Any) -> Status:
        if pod.name in self.passing:
            return SUCCESS
        raise RuntimeError("no licence")


CHANGE = ProfileChange(plugins=(CatalogEntry("Fails", Fails, None),))


@pytest.fixture(autouse=True)
def _passing() -> Iterator[None]:
    yield
    Fails.passing = ()


async def test_a_failure_is_no_refusal_of_a_pod_of_any_kind(stage: Stage) -> None:
    await stage.world.put_node("a", cpu="8")
    hand = await stage.world.hand()
    for name in ("alone", "one", "two", "huge"):
        await stage.world.put_pod(name, cpu="90" if name == "huge" else "1")
    for name in ("m0", "m1"):
        await stage.world.put_pod(name, labels=GANG)
    await stage.world.seen()
    await stage.alone(hand, "alone")
    await stage.together(hand, "one", "huge", "two")
    await stage.gang(hand)
    Fails.passing = ("two",)

    replayed = await stage.replay(CHANGE)

    assert replayed.report.counts == {"unreplayable": 4, "same": 2}, "the next pod of the cohort is decided"
    assert {one.lack for one in replayed.lacking.values()} == {Lack.PLUGIN}
    assert all("no licence" in one.detail for one in replayed.lacking.values())
    assert replayed.compared.keys() == {"two", "huge"}, "another plugin refuses it before"


async def test_the_pods_behind_a_failure_find_its_seat_taken(stage: Stage) -> None:
    """Each node has room for one."""
    for name in ("a", "b"):
        await stage.world.put_node(name, cpu="1")
    hand = await stage.world.hand()
    for name in ("one", "two"):
        await stage.world.put_pod(name)
    await stage.world.seen()
    await stage.together(hand, "one", "two")
    Fails.passing = ("two",)

    replayed = await stage.replay(CHANGE)

    assert replayed.report.counts == {"unreplayable": 1, "same": 1}


async def test_a_failure_that_is_recorded_is_the_same_again(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a cohort and of a gang: their records say so, and the profile fails again."""
    failing = Profile(DEFAULT_SCHEDULER, Enabled.everywhere([*USUAL.plugins, Fails()], {}), digest=USUAL.digest)
    monkeypatch.setattr(ProfileChange, "profile", lambda *_: failing)
    await stage.world.put_node("a", cpu="8")
    hand = await stage.world.hand(profiles={DEFAULT_SCHEDULER: failing})
    for name in ("one", "two"):
        await stage.world.put_pod(name)
    for name in ("m0", "m1"):
        await stage.world.put_pod(name, labels=GANG)
    await stage.world.seen()
    await stage.together(hand, "one", "two", bind=False)
    await stage.gang(hand, bind=False)

    replayed = await stage.replay()

    assert replayed.strange == []
    assert replayed.report.counts == {"same": 4}


def test_a_rerun_counts_failures_apart() -> None:
    failing = Profile(DEFAULT_SCHEDULER, Enabled.everywhere([*USUAL.plugins, Fails()], {}), digest=USUAL.digest)
    Fails.passing = ("fine",)
    span, report = Span(), RerunReport()
    span.rerun = Rerun(RerunSimulator({DEFAULT_SCHEDULER: failing}), set(), {DEFAULT_SCHEDULER})
    span.node("a", cpu="8")
    for name in ("web", "fine"):
        span.pod(name)
        span.bound(name, "a")
    report.close(span.rerun)

    assert report.counts == {"unreplayable": 1, "same": 1}
    assert report.made == 1
    [reason] = report.to_plain()["reasons"]
    assert (reason["verdict"], "no licence" in reason["message"]) == ("unreplayable", True)
