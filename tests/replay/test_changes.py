"""What decides otherwise: fields, plugins, a whole configuration."""

from __future__ import annotations

import json
import sys
from types import ModuleType
from typing import Any

import pytest

from tests.replay.replay_stage import Stage
from tests.scheduling.world import PROFILES
from wharfinger.errors import ConfigurationError, InvalidConfiguration, UsageError
from wharfinger.etcd.store import KeyValue
from wharfinger.framework.catalog import CatalogEntry, Enabled
from wharfinger.framework.profile import Profile
from wharfinger.framework.status import SUCCESS, Status, unschedulable
from wharfinger.objects.model.pod import DEFAULT_SCHEDULER, Pod
from wharfinger.replay.changes import ProfileChange, Setting, plugin_of
from wharfinger.replay.recorded import Lack, Unreplayable
from wharfinger.scheduling.reading.comparing import Sameness

[USUAL] = PROFILES.values()
MOST = {
    "apiVersion": "kubescheduler.config.k8s.io/v1",
    "kind": "KubeSchedulerConfiguration",
    "profiles": [
        {
            "pluginConfig": [
                {
                    "name": "NodeResourcesFit",
                    "args": {
                        "scoringStrategy": {
                            "type": "MostAllocated",
                            "resources": [{"name": "cpu", "weight": 1}, {"name": "memory", "weight": 1}],
                        }
                    },
                }
            ]
        }
    ],
}


PACKED = Setting.parse("NodeResourcesFit.scoringStrategy.type=MostAllocated")


class OnlyB:
    """Lets pods go to node b alone."""

    name = "OnlyB"
    reserved: list[str] = []  # noqa: RUF012 - one for all

    def filter_node(self, state: Any, pod: Pod, node: Any) -> Status:
        return SUCCESS if node.node.name == "b" else unschedulable("not b")

    def reserve(self, state: Any, pod: Pod, node_name: str) -> Status:
        self.reserved.append(pod.name)
        return SUCCESS

    def unreserve(self, state: Any, pod: Pod, node_name: str) -> None:
        """Holds nothing."""


@pytest.fixture
def module(monkeypatch: pytest.MonkeyPatch) -> str:
    made = ModuleType("our_plugins")
    made.OnlyB = OnlyB  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "our_plugins", made)
    return "our_plugins:OnlyB"


async def two_nodes(stage: Stage) -> None:
    """One that is half full, and an empty one; the pod goes to the empty one."""
    world = stage.world
    await world.put_node("a", cpu="8")
    await world.put_node("b", cpu="8")
    await world.put_pod("there", cpu="4", spec={"nodeName": "b"})
    await world.put_pod("web")
    hand = await world.hand()
    outcome = await stage.alone(hand, "web")
    assert outcome.computation.nodes == 2


@pytest.mark.parametrize("how", ["set", "config"])
async def test_pods_that_would_go_elsewhere_are_named(stage: Stage, how: str) -> None:
    await two_nodes(stage)
    change = ProfileChange(settings=(PACKED,)) if how == "set" else ProfileChange(configuration=MOST)

    replayed = await stage.replay(change)

    [found] = replayed.compared.values()
    assert (found.verdict, found.recorded.node, found.again.node) == (Sameness.ELSEWHERE, "a", "b")
    [pod] = replayed.report.pods
    assert (pod["pod"], pod["recorded"]["node"], pod["again"]["node"]) == ("default/web", "a", "b")
    assert pod["recorded"]["scores"]["NodeResourcesFit"] > pod["again"]["scores"]["NodeResourcesFit"] / 10
    packing = replayed.report.packing.to_plain()
    assert packing["again"] is not None
    assert packing["recorded"] is not None
    assert packing["again"] > packing["recorded"]


async def test_the_state_stays_as_it_was_whatever_is_decided(stage: Stage) -> None:
    """The second pod is decided beside the first where that really went."""
    world = stage.world
    await two_nodes(stage)
    await world.put_pod("next", cpu="4")
    hand = world.hands[0]
    await world.seen()
    await stage.alone(hand, "next")

    replayed = await stage.replay(ProfileChange(settings=(PACKED,)))

    assert replayed.compared["web"].again.node == "b"
    assert replayed.compared["next"].again.node == "b", "there is room, as the first pod never went there"


async def test_another_weight_changes_totals_and_one_of_0_takes_scores_away(stage: Stage) -> None:
    await two_nodes(stage)
    heavy = await stage.replay(ProfileChange(settings=(Setting.parse("NodeResourcesFit.weight=7"),)))
    none = await stage.replay(ProfileChange(settings=(Setting.parse("NodeResourcesFit.weight=0"),)))

    [found] = heavy.compared.values()
    assert found.verdict is Sameness.FIGURES
    assert found.again.scores["NodeResourcesFit"] == 7 * found.recorded.scores["NodeResourcesFit"]
    [found] = none.compared.values()
    assert "NodeResourcesFit" not in found.again.scores


async def test_a_plugin_beside_the_others_has_a_say_and_reserves_nothing(stage: Stage, module: str) -> None:
    await two_nodes(stage)
    OnlyB.reserved.clear()

    replayed = await stage.replay(ProfileChange(plugins=(plugin_of(module),)))

    [found] = replayed.compared.values()
    assert (found.verdict, found.again.node) == (Sameness.ELSEWHERE, "b")
    assert OnlyB.reserved == []


async def test_newly_refused_pods_are_counted_by_reason(stage: Stage, module: str) -> None:
    world = stage.world
    await world.put_node("a", cpu="8")
    for name in ("one", "two"):
        await world.put_pod(name)
    hand = await world.hand()
    await stage.together(hand, "one", "two")

    report = (await stage.replay(ProfileChange(plugins=(plugin_of(module),)))).report

    assert report.counts == {"refused": 2}
    message = "0/1 nodes are available: 1 not b."
    assert [(verdict, text.startswith(message), count) for (verdict, text), count in report.reasons.items()] == [
        ("refused", True, 2)
    ]
    assert report.workloads["default: pods of their own"]["refused"] == 2


async def test_a_configuration_without_the_profile_cannot_decide(stage: Stage) -> None:
    await two_nodes(stage)
    other = {**MOST, "profiles": [{"schedulerName": "other"}]}

    replayed = await stage.replay(ProfileChange(configuration=other))

    assert replayed.lacking["web"].lack is Lack.PROFILE


async def test_verdicts_of_reserve_are_taken_from_the_record(stage: Stage) -> None:
    """Nobody is asked again: the plugin is not even installed."""

    class Refuses:
        name = "Refuses"

        def reserve(self, state: Any, pod: Pod, node_name: str) -> Status:
            return unschedulable("no licence")

        def unreserve(self, state: Any, pod: Pod, node_name: str) -> None:
            """Holds nothing."""

    profile = Profile(DEFAULT_SCHEDULER, Enabled.everywhere([*USUAL.plugins, Refuses()], {}), digest=USUAL.digest)
    world = stage.world
    await world.put_node("a", cpu="8")
    hand = await world.hand(profiles={DEFAULT_SCHEDULER: profile})
    for name in ("alone", "one", "two"):
        await world.put_pod(name)
    for name in ("m0", "m1"):
        labels = {f"pod-group.scheduling.sigs.k8s.io/{key}": value for key, value in GANG.items()}
        await world.put_pod(name, labels=labels)
    await world.seen()
    await stage.alone(hand, "alone")
    await stage.together(hand, "one", "two")
    await stage.gang(hand)

    replayed = await stage.replay()

    assert replayed.strange == []
    assert replayed.report.counts == {"same": 5}
    assert replayed.compared["alone"].again.message == "no licence"


GANG = {"name": "team", "min-available": "2"}


def test_settings_are_numbers_texts_and_structures() -> None:
    assert Setting.parse("A.weight=3") == Setting("A", ("weight",), 3)
    assert Setting.parse("A.b.c=text") == Setting("A", ("b", "c"), "text")
    assert Setting.parse('A.b=[{"name":"cpu"}]') == Setting("A", ("b",), [{"name": "cpu"}])


@pytest.mark.parametrize("text", ["A=3", "A.weight", "A.weight=heavy", "A.weight=-1", ".weight=3", "A..b=3"])
def test_settings_that_are_none_are_refused(text: str) -> None:
    with pytest.raises(UsageError, match="--set"):
        Setting.parse(text)


@pytest.mark.parametrize(("name", "why"), [("Missing", "there is no plugin Missing"), ("GpuMemory", "does not enable")])
def test_what_no_profile_enables_has_no_weight(name: str, why: str) -> None:
    change = ProfileChange(settings=(Setting.parse(f"{name}.weight=3"),))

    with pytest.raises(Unreplayable, match=why):
        change.profile(USUAL.configuration, USUAL.name, USUAL.digest)


@pytest.mark.parametrize("text", ["os", "os:", ":x"])
def test_plugins_that_are_not_named_whole_are_refused(text: str) -> None:
    with pytest.raises(UsageError, match="MODULE:NAME"):
        plugin_of(text)


def test_plugins_that_are_not_there_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="no_such_module"):
        plugin_of("no_such_module:X")


def test_a_configuration_that_is_wrong_is_told_before_anything_is_read() -> None:
    with pytest.raises(InvalidConfiguration):
        ProfileChange(
            configuration={**MOST, "profiles": [{"plugins": {"multiPoint": {"enabled": [{"name": "Nope"}]}}}]}
        ).check()


def test_the_empty_change_makes_the_recorded_profile() -> None:
    assert ProfileChange().profile(USUAL.configuration, USUAL.name, USUAL.digest).digest == USUAL.digest
    assert json.loads(USUAL.configuration)["kind"] == "KubeSchedulerConfiguration"
    with pytest.raises(Unreplayable, match="without a digest"):
        ProfileChange().profile(None, USUAL.name, "")


class Raises:
    name = "Raises"

    def __init__(self) -> None:
        raise RuntimeError("no licence here")


def recorded_profile(revision: int = 1, **changed: Any) -> KeyValue:
    value = json.dumps({**json.loads(USUAL.configuration), **changed}).encode() if changed else USUAL.configuration
    return KeyValue("/profile", value, revision, revision)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (ProfileChange(settings=(Setting.parse("NodeResourcesFit.typo=1"),)), "typo"),
        (ProfileChange(settings=(Setting.parse("NoSuch.weight=2"),)), "there is no plugin NoSuch; known are "),
        (ProfileChange(settings=(Setting.parse("GpuMemory.weight=2"),)), "does not enable GpuMemory"),
        (ProfileChange(plugins=(plugin_of("os:getcwd"),)), "getcwd"),
        (ProfileChange(plugins=(CatalogEntry("Raises", Raises, None),)), "no licence here"),
        (ProfileChange(configuration={**MOST, "profiles": [{"schedulerName": "other"}]}), "no profile that decided"),
    ],
    ids=["argument", "weight", "not-enabled", "no-plugin", "raises", "no-profile"],
)
def test_a_change_at_fault_is_refused_beforehand(change: ProfileChange, why: str) -> None:
    with pytest.raises(ConfigurationError, match=why):
        change.check_with([recorded_profile()])


def test_a_change_that_goes_with_one_pools_configuration_may_go_on() -> None:
    """The newest one is another pool's, and the last one cannot be made here at all."""
    other = recorded_profile(3, profiles=[{"schedulerName": "other"}])
    broken = recorded_profile(4, profiles=[{"plugins": {"multiPoint": {"enabled": [{"name": "Gone"}]}}}])
    ours = ProfileChange(configuration=MOST)

    ours.check_with([recorded_profile(), other, broken])
    ours.check_with([broken])
    with pytest.raises(ConfigurationError, match="no profile that decided: other"):
        ours.check_with([other, broken])
