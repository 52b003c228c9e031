"""A PreEnqueue plugin of one's own is asked again after the events that its hints name."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tests.scheduling.loops.test_gangs import put_members
from tests.scheduling.stage import PROFILES, Stage
from wharfinger.framework.catalog import Enabled
from wharfinger.framework.interface import EventHint
from wharfinger.framework.profile import Profile
from wharfinger.framework.status import SUCCESS, Status, unschedulable
from wharfinger.objects.model.events import Action, Resource
from wharfinger.objects.model.pod import Pod
from wharfinger.scheduling.state.queue.entry import Part

USUAL = PROFILES["default-scheduler"]
NEW_NODES = (EventHint(Resource.NODE, Action.ADD),)


class Licences:
    """Holds pods back while there is no licence; counts how often it is asked."""

    name = "Licences"

    def __init__(self, hints: Sequence[EventHint]) -> None:
        self.granted = False
        self.asked = 0
        self._hints = hints

    def pre_enqueue(self, pod: Pod) -> Status:
        self.asked += 1
        return SUCCESS if self.granted else unschedulable("no licence")

    def queueing_hints(self) -> Sequence[EventHint]:
        return self._hints


def stage_with(plugin: Licences) -> Stage:
    profile = Profile(USUAL.name, Enabled.everywhere([plugin, *USUAL.plugins], {}), digest="licences")
    return Stage(profiles={USUAL.name: profile})


def part(stage: Stage, name: str) -> Part | None:
    entry = stage.entry(name)
    return entry.part if entry is not None else None


async def test_the_gate_is_asked_again_after_an_event_that_it_names() -> None:
    plugin = Licences(NEW_NODES)
    async with stage_with(plugin) as stage:
        await stage.put_pod("web")
        await stage.caught_up()
        entry = stage.entry("web")
        assert entry is not None
        assert (entry.part, entry.gate) == (Part.GATED, "Licences")

        await stage.put_node("n")
        await stage.caught_up()
        assert (part(stage, "web"), plugin.asked > 1) == (Part.GATED, True)
        plugin.granted = True
        await stage.put_node("m")
        await stage.until(lambda: "web" in stage.attempts.names)


@pytest.mark.parametrize("hints", [(), (EventHint(Resource.NODE, Action.DELETE),)], ids=["no hints", "other hints"])
async def test_an_event_that_it_does_not_name_leaves_the_pod_gated(hints: Sequence[EventHint]) -> None:
    plugin = Licences(hints)
    async with stage_with(plugin) as stage:
        await stage.put_pod("web")
        await stage.caught_up()
        asked, plugin.granted = plugin.asked, True

        await stage.put_node("n")
        await stage.caught_up()

        assert (part(stage, "web"), plugin.asked) == (Part.GATED, asked)
        await stage.put_pod("web", cpu="2")  # a change of its own always counts
        await stage.until(lambda: "web" in stage.attempts.names)


async def test_a_gang_is_complete_when_the_gates_of_its_members_open() -> None:
    plugin = Licences(NEW_NODES)
    async with stage_with(plugin) as stage:
        await put_members(stage, "a", "b", "c")
        await stage.caught_up()
        assert stage.attempts.gangs == []

        plugin.granted = True
        await stage.put_node("n")
        await stage.until(lambda: stage.attempts.gangs)

        assert [part(stage, name) for name in "abc"] == [Part.IN_FLIGHT] * 3
