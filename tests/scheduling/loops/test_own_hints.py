"""Pods that a Reserve or Permit plugin of one's own refused: the events that its hints name bring them back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from tests.scheduling.stage import PROFILES, Stage
from wharfinger.framework.catalog import Enabled
from wharfinger.framework.interface import EventHint, Permission
from wharfinger.framework.profile import Profile
from wharfinger.framework.status import SUCCESS, Status
from wharfinger.objects.model.events import Action, Resource
from wharfinger.scheduling.state.queue.entry import Part

USUAL = PROFILES["default-scheduler"]


class Seats:
    """Takes part in Reserve or Permit, and wants to hear of new nodes; it does not refuse any more."""

    name = "Seats"

    def queueing_hints(self) -> Sequence[EventHint]:
        return (EventHint(Resource.NODE, Action.ADD),)


class ReservedSeats(Seats):
    def reserve(self, state: Any, pod: Any, node_name: str) -> Status:
        return SUCCESS

    def unreserve(self, state: Any, pod: Any, node_name: str) -> None:
        return


class PermittedSeats(Seats):
    def permit(self, state: Any, pod: Any, node_name: str) -> Permission:
        return Permission()


def stage_with(plugin: Seats) -> Stage:
    profile = Profile(USUAL.name, Enabled.everywhere([plugin, *USUAL.plugins], {}), digest="seats")
    return Stage(profiles={USUAL.name: profile})


@pytest.mark.parametrize("plugin", [ReservedSeats(), PermittedSeats()], ids=["Reserve", "Permit"])
async def test_only_an_event_that_the_plugin_names_brings_the_pod_back(plugin: Seats) -> None:
    async with stage_with(plugin) as stage:
        await stage.put_node("n", cpu="4")
        await stage.waiting("web", cpu="1", plugins=("Seats",))

        await stage.bind("other", "n", cpu="100m")
        await stage.caught_up()
        assert stage.attempts.woken == []

        await stage.put_node("m", cpu="4")
        await stage.until(lambda: stage.attempts.woken)

        ((name, wake),) = stage.attempts.woken
        assert (name, wake.event, wake.plugin) == ("web", "NodeAdd", "Seats")


@pytest.mark.parametrize("plugin", [ReservedSeats(), PermittedSeats()], ids=["Reserve", "Permit"])
async def test_an_event_between_decision_and_refusal_is_not_lost(plugin: Seats) -> None:
    """A held pod is refused long after its decision, on whose snapshot the record tells what it included."""
    async with stage_with(plugin) as stage:
        await stage.put_node("n", cpu="4")
        await stage.put_pod("web", cpu="1")
        await stage.until(lambda: stage.part("web") is Part.IN_FLIGHT)
        decided = stage.cache.progress.revision
        await stage.put_node("m", cpu="4")
        await stage.caught_up()

        await stage.refuse("web", plugins=("Seats",), snapshot=decided)
        await stage.until(lambda: stage.attempts.woken)

        ((_, wake),) = stage.attempts.woken
        assert (wake.event, wake.plugin) == ("NodeAdd", "Seats")
