"""What a decision had to tell of assumptions is told by the next one, where it failed itself."""

from __future__ import annotations

from typing import Any

import pytest
from temporalio.exceptions import ApplicationError

from tests.replay.replay_stage import Stage
from tests.scheduling.world import PROFILES, Hand
from wharfinger.framework.catalog import Enabled
from wharfinger.framework.interface import Permission
from wharfinger.framework.profile import Profile
from wharfinger.objects.model.pod import DEFAULT_SCHEDULER, Pod, PodKey
from wharfinger.scheduling.contracts.cohort_scheduling import CohortPod, Seat
from wharfinger.scheduling.contracts.scheduling import Placed
from wharfinger.scheduling.effects.placing.placing_cohorts import CohortDecision

[USUAL] = PROFILES.values()


class Breaks:
    """Permit fails for pods that are called bad."""

    name = "Breaks"

    def permit(self, state: Any, pod: Pod, node_name: str) -> Permission:
        if pod.name == "bad":
            raise RuntimeError("boom")
        return Permission()


async def told(stage: Stage) -> tuple[Hand, str, str]:
    """A worker that has to tell of a pod that it binds for another one, and of one that was given up."""
    profile = Profile(DEFAULT_SCHEDULER, Enabled.everywhere([*USUAL.plugins, Breaks()], {}), digest=USUAL.digest)
    await stage.world.put_node("a", cpu="8")
    hand = await stage.world.hand(profiles={DEFAULT_SCHEDULER: profile})
    for name in ("other", "gone", "bad", "good"):
        await stage.world.put_pod(name)
    await stage.world.seen()
    other, gone = (hand.cache.pods[PodKey("default", name)] for name in ("other", "gone"))
    hand.cache.assume(other, "a")
    hand.cache.overlay_changes.note(gone.identity, None)
    return hand, f"default/other {other.create_revision} a", f"default/gone {gone.create_revision}"


async def test_the_next_decision_tells_what_a_failed_one_told(stage: Stage) -> None:
    hand, begun, ended = await told(stage)

    with pytest.raises(ApplicationError):
        await hand.place("bad")
    good = await hand.place("good")

    assert isinstance(good, Placed)
    assert (good.computation.begun, good.computation.ended) == ((begun,), (ended,))


@pytest.mark.parametrize("how", ["given up", "bound"])
async def test_a_cohort_that_fails_has_what_still_holds_told_again(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    """An assumption that was given up since has an end to tell, and one that etcd shows as bound has nothing."""
    hand, _, ended = await told(stage)
    other, good = (hand.cache.pods[PodKey("default", name)] for name in ("other", "good"))

    async def failing(self: CohortDecision, pods: tuple[CohortPod, ...]) -> None:
        seat = self.decide_one(pods[0], good)
        assert isinstance(seat, Seat)
        if how == "bound":
            await stage.world.put_pod("other", spec={"nodeName": "a"})
            await stage.world.seen()
        else:
            hand.cache.forget(other.identity)
        raise ApplicationError("the worker stops")

    monkeypatch.setattr(CohortDecision, "decide", failing)
    with pytest.raises(ApplicationError):
        await hand.place_many("good")
    placed = await hand.place("good")

    assert isinstance(placed, Placed)
    assert placed.computation.begun == ()
    gone = {f"default/other {other.create_revision}"} if how == "given up" else set()
    assert set(placed.computation.ended) - {f"default/good {good.create_revision}"} == {ended, *gone}
    assert placed.computation.assumed == ()
