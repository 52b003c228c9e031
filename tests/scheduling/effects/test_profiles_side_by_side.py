"""Several profiles in one worker: each pod is decided and bound by the plugins of its own scheduler name."""

from __future__ import annotations

from typing import Any

from tests.scheduling.world import World
from wharfinger.framework.catalog import Enabled
from wharfinger.framework.interface import Plugin
from wharfinger.framework.profile import Profile
from wharfinger.framework.profiles import load_profiles
from wharfinger.framework.status import SUCCESS, Status, unschedulable

USUAL = load_profiles()["default-scheduler"]


class OnlyOn:
    """Refuses every node but one, and notes the pods that it saw bound."""

    name = "OnlyOn"

    def __init__(self, node_name: str) -> None:
        self._node_name = node_name
        self.bound: list[str] = []

    def filter_node(self, state: Any, pod: Any, node: Any) -> Status:
        return SUCCESS if node.node.name == self._node_name else unschedulable("another node is wanted")

    def post_bind(self, state: Any, pod: Any, node_name: str) -> None:
        self.bound.append(pod.name)


def profile(name: str, plugin: Plugin) -> Profile:
    return Profile(name, Enabled.everywhere([*USUAL.plugins, plugin], {}), digest=name)


async def test_pods_of_two_profiles_are_bound_in_one_run(world: World) -> None:
    for node in ("a", "b"):
        await world.put_node(node, cpu="2")
    plugins = {"first": OnlyOn("a"), "second": OnlyOn("b")}
    for number in range(2):
        for scheduler in plugins:
            await world.put_pod(f"{scheduler}-{number}", spec={"schedulerName": scheduler})
    await world.put_pod("foreign", spec={"schedulerName": "third"})
    hand = await world.hand(profiles={name: profile(name, plugin) for name, plugin in plugins.items()})

    for scheduler, plugin in plugins.items():
        lone = f"{scheduler}-0"
        assert (await hand.bind(lone, await hand.placed(lone))).kind == "bound"
        await hand.seen()
        bound = await hand.bind_many(await hand.place_many(f"{scheduler}-1"))
        assert [one.name for one in bound.bound] == [f"{scheduler}-1"]
        assert plugin.bound == [lone, f"{scheduler}-1"]

    nodes = {name: await world.node_of(name) for name in ("first-0", "first-1", "second-0", "second-1", "foreign")}
    assert nodes == {"first-0": "a", "first-1": "a", "second-0": "b", "second-1": "b", "foreign": ""}
    assert (await hand.gone("foreign")).reason == "not-ours"
