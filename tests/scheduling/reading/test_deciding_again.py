"""A recorded decision made again: what can be told, and what can be told no more."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pytest

from tests.scheduling.world import PROFILES, World
from wharfinger.errors import ConfigurationError, NotFound
from wharfinger.etcd import keys
from wharfinger.framework.profiles import load_profiles
from wharfinger.objects.model.pod import PodKey
from wharfinger.scheduling.cli.story import tell_verdicts
from wharfinger.scheduling.contracts.cohort_scheduling import PlacedMany
from wharfinger.scheduling.contracts.computation import LateVerdict
from wharfinger.scheduling.contracts.group_payloads import placed_alone, refused_alone
from wharfinger.scheduling.contracts.scheduling import Placed, Refused
from wharfinger.scheduling.reading.deciding_again import decide_again, decision_of, to_plain
from wharfinger.scheduling.reading.history import Attempt
from wharfinger.scheduling.reading.recomputation import Recomputation, RecordedDecision
from wharfinger.scheduling.state.cache.assumptions import digest_of

KEY = PodKey("default", "web")
[PROFILE] = PROFILES.values()


@dataclass
class Case:
    """A cluster of three nodes, of which one fits badly and one is too small, and a decision for `web`."""

    world: World
    record: Placed | Refused

    async def again(self, **changed: Any) -> Recomputation:
        """Decide again, perhaps by a record that says something else."""
        record = self.record
        computation = record.computation.model_copy(update=changed.pop("computation", {}))
        record = record.model_copy(update={"computation": computation, **changed})
        return await decide_again(self.world.store, RecordedDecision(KEY, record), load_profiles)


def attempt(number: int = 1, **placement: Any) -> Attempt:
    return Attempt(number, "workflow", f"run-{number}", datetime(2026, 3, 1, tzinfo=UTC), "", placement=placement)


async def case(cpu: str = "1", **pod: Any) -> Case:
    world = World()
    await world.store.put(keys.profile(PROFILE.digest), PROFILE.configuration)
    await world.put_node("big", cpu="8")
    await world.put_node("small", cpu="500m", spec={"unschedulable": True})
    await world.put_node("usual", cpu="2")
    hand = await world.hand()
    await world.put_pod("web", cpu=cpu, **pod)
    await hand.seen()
    outcome = await hand.place("web")
    assert isinstance(outcome, Placed | Refused)
    await world.close()
    return Case(world, outcome)


async def test_every_node_has_each_filters_verdict_and_each_scorers_score() -> None:
    made = await case()
    found = await made.again()

    plain = to_plain(attempt(), found)
    assert plain["same"] is True
    assert plain["recorded"]["node"] == plain["recomputed"]["node"] == "big"
    big, small, usual = plain["nodes"]
    assert set(big["filters"]) == set(plain["filters"]) == set(PROFILE.at["filter"])
    assert {said["verdict"] for said in big["filters"].values()} == {"passes", "skipped"}
    refusing = {plugin: said["reasons"] for plugin, said in small["filters"].items() if said["verdict"] == "refuses"}
    assert refusing == {
        "NodeUnschedulable": ["node(s) were unschedulable"],
        "NodeResourcesFit": ["Insufficient cpu"],
    }
    assert (small["feasible"], small["total"], small["scores"]) == (False, None, {})
    assert usual["total"] == sum(usual["scores"].values())
    assert isinstance(made.record, Placed)
    assert big["total"] == made.record.score
    assert set(usual["scores"]) <= set(plain["scores"]) == set(PROFILE.at["score"])


async def test_people_read_the_same() -> None:
    found = await (await case()).again()

    text = tell_verdicts(attempt(), found)

    assert "The same decision as recorded: big, score" in text
    assert "NodeUnschedulable: node(s) were unschedulable; NodeResourcesFit: Insufficient cpu" in text
    assert "NodeResourcesBalancedAllocation" in text


async def test_a_refusal_is_made_again_too() -> None:
    found = await (await case(cpu="99")).again()

    assert found.same
    assert not found.recomputed.node
    assert found.recomputed.message.startswith("0/3 nodes are available: 1 node(s) were unschedulable")
    assert all(not one.feasible for one in found.nodes)
    assert "refused. 0/3 nodes are available" in tell_verdicts(attempt(), found)


async def test_priorities_are_those_of_the_classes_of_then() -> None:
    """The pod preempts by its class; later the class is lower than its victim's, and then it is gone."""
    world = World()
    await world.store.put(keys.profile(PROFILE.digest), PROFILE.configuration)
    await world.put_node("node", cpu="1")
    await put_class(world, 10)
    await world.put_pod("victim", spec={"nodeName": "node", "priority": 5})
    hand = await world.hand()
    await world.put_pod("web", spec={"priorityClassName": "high"})
    await hand.seen()
    outcome = await hand.refused("web")
    assert [victim.pod for victim in outcome.victims] == ["default/victim"]
    await world.close()

    await put_class(world, 1)
    later = await Case(world, outcome).again()
    await world.store.delete(keys.stored("priorityclasses", "", "high"))
    gone = await Case(world, outcome).again()

    assert later.same
    assert gone.same
    assert gone.recomputed.victims == ("default/victim",)


async def put_class(world: World, value: int) -> None:
    obj = {"metadata": {"name": "high"}, "value": value}
    await world.store.put(keys.stored("priorityclasses", "", "high"), json.dumps(obj).encode())


@pytest.mark.parametrize(
    ("changed", "differs", "words"),
    [
        ({"message": "0/3 nodes are available: another."}, ("message",), "message"),
        ({"refusals": ()}, ("reasons",), "reasons"),
        ({"only_assumed": True}, ("onlyAssumed",), "whether only assumed pods are in the way"),
    ],
)
async def test_a_refusal_is_compared_to_the_letter(
    changed: dict[str, Any], differs: tuple[str, ...], words: str
) -> None:
    found = await (await case(cpu="99")).again(**changed)

    assert (found.same, found.differs) == (False, differs)
    assert to_plain(attempt(), found)["differs"] == list(differs)
    assert f"\n  differs:  {words}" in tell_verdicts(attempt(), found)


async def test_runners_up_and_scores_are_compared_too() -> None:
    made = await case()
    assert isinstance(made.record, Placed)
    best, second = made.record.ranking

    found = await made.again(ranking=(best, second.model_copy(update={"total": 1})))
    other = await made.again(ranking=(best.model_copy(update={"plugins": {}}), second))

    assert (found.differs, other.differs) == (("runnersUp",), ("scores",))


async def test_a_verdict_of_permit_is_taken_from_the_record() -> None:
    made = await case()
    late = LateVerdict(point="permit", plugin="Quota", node="big")
    said = {"kind": "refused", "message": "no quota", "rejectors": ["Quota"], "late": late.model_dump()}
    said["refusals"] = [{"plugin": "Quota", "reasons": {"no quota": 3}}]
    refused = Refused.model_validate(made.record.model_dump() | said)

    found = await Case(made.world, refused).again()

    assert (found.same, found.lacks) == (True, ())
    assert "Quota refused the chosen node big afterwards, at Permit, by the record" in found.notes


async def test_a_part_of_a_cohort_is_compared_as_replay_does() -> None:
    world = World()
    await world.store.put(keys.profile(PROFILE.digest), PROFILE.configuration)
    for name, cpu in (("a", "3"), ("b", "2"), ("c", "1")):
        await world.put_node(name, cpu=cpu)
    hand = await world.hand()
    names = ["web", "web-1", "web-2", "large"]
    for name in names:
        await world.put_pod(name, cpu="9" if name == "large" else "1")
    await hand.seen()
    many = await hand.place_many(*names)
    await world.close()
    assert [one.name for one in many.turned_away] == ["large"]

    for number, seat in enumerate(many.seats):
        again = await part(world, many, placed_alone(many, number), seat.name)
        assert (again.same, again.lacks) == (True, ()), again
    large = await part(world, many, refused_alone(many, many.turned_away[0]), "large")
    assert (large.same, large.lacks) == (True, ())
    seats = (many.seats[0].model_copy(update={"others": {"c": 1}}), *many.seats[1:])
    other = many.model_copy(update={"seats": seats})
    assert (await part(world, other, placed_alone(other, 0), "web")).differs == ("runnersUp",)


async def part(world: World, many: PlacedMany, record: Placed | Refused, name: str) -> Recomputation:
    return await decide_again(world.store, RecordedDecision(PodKey("default", name), record, many), load_profiles)


async def test_what_happened_since_changes_nothing() -> None:
    made = await case()
    await made.world.put_node("big", cpu="1m")
    await made.world.store.delete(keys.node("usual"))
    await made.world.store.delete(keys.pod(*KEY))

    assert (await made.again()).same


async def test_different_decision_than_the_recorded_one_is_reported() -> None:
    found = await (await case()).again(node="usual", score=1)

    assert not found.same
    told = re.sub(r"\x1b\[\d+m", "", tell_verdicts(attempt(), found))
    assert "Not the decision that is recorded:\n  recorded: usual, score 1\n  now:      big, score" in told


async def test_overlay_that_was_too_large_is_reported_as_missing() -> None:
    found = await (await case()).again(computation={"approximate": True, "overlay": digest_of([("a/b", 1, "big")])})

    plain = to_plain(attempt(), found)
    assert (plain["approximate"], plain["same"]) == (True, None)
    assert plain["lacks"] == ["the worker had assumed 1 pod, and the record has only a digest of them"]
    told = tell_verdicts(attempt(), found)
    assert "It cannot be told whether it is the same:" in told
    assert "the worker had assumed 1 pod, and the record has only a digest" in told


async def test_a_digest_of_the_pods_that_are_named_is_no_lack() -> None:
    found = await (await case()).again(computation={"approximate": True, "overlay": digest_of([])})

    assert (found.same, found.lacks) == (True, ())


async def test_a_record_of_an_earlier_release_without_digest_is_not_compared() -> None:
    found = await (await case()).again(computation={"approximate": True, "number": 0})

    assert found.lacks == ("the worker had assumed, or nominated, more pods than the record keeps",)


async def test_a_pod_that_changed_since_the_record_cannot_be_compared() -> None:
    found = await (await case()).again(pod_revision=1)

    assert found.same is None
    assert re.fullmatch(r"etcd held the pod at revision \d+, and 1 was decided for", found.lacks[0])


async def test_compacted_state_is_reported_as_gone() -> None:
    made = await case()
    await made.world.put_node("later")
    made.world.store.compact(made.world.store.revision)

    with pytest.raises(NotFound, match=r"revision \d+, on which was decided, is compacted in etcd"):
        await made.again()


async def test_a_revision_that_does_not_exist_is_of_before_a_restore() -> None:
    with pytest.raises(NotFound, match="restored from a backup"):
        await (await case()).again(computation={"revision": 999})


async def test_missing_profile_is_reported() -> None:
    with pytest.raises(NotFound, match="etcd holds no configuration of profile default-scheduler"):
        await (await case()).again(computation={"profile": "0" * 64})


async def test_plugins_that_are_not_installed_here_are_named() -> None:
    made = await case()
    theirs = PROFILE.configuration.replace(b'"NodePorts"', b'"TheirOwn"')
    await made.world.store.put(keys.profile("theirs"), theirs)

    with pytest.raises(ConfigurationError, match=r"cannot be made here: .*TheirOwn"):
        await made.again(computation={"profile": "theirs"})


async def test_a_pod_that_was_held_back_was_shown_no_node() -> None:
    found = await (await case(spec={"schedulingGates": [{"name": "later"}]})).again()

    assert found.same
    assert found.nodes == ()
    assert found.notes == ("SchedulingGates held the pod back before any node was looked at",)


async def test_a_pod_that_is_refused_before_filtering_passes_no_filter() -> None:
    claim = {"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]}

    found = await (await case(spec=claim)).again()

    assert found.same
    verdicts = [one["filters"] for one in to_plain(attempt(), found)["nodes"]]
    assert {said["verdict"] for one in verdicts for said in one.values()} == {"refuses", "notAsked"}
    assert f"{found.refused_by} refused the pod before any filter ran" in tell_verdicts(attempt(), found)


def leave(pod: dict[str, Any]) -> None:
    """What preemption does to a victim, gracefully."""
    pod["metadata"]["deletionTimestamp"] = "2026-03-01T12:00:30Z"
    condition = {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}
    pod["status"] = {"conditions": [condition]}


async def preempted(*, leaving: bool = False) -> Case:
    """`web` needs the room of a pod that is less important, and perhaps leaves for it already."""
    world = World()
    await world.store.put(keys.profile(PROFILE.digest), PROFILE.configuration)
    await world.put_node("full", cpu="1")
    await world.put_pod("victim", spec={"nodeName": "full"})
    if leaving:
        await world.change_pod("victim", leave)
    hand = await world.hand()
    await world.put_pod("web", spec={"priority": 10}, status={"nominatedNodeName": "full"} if leaving else {})
    await hand.seen()
    record = await hand.refused("web")
    await world.store.delete(keys.pod("default", "victim"))
    await world.close()
    return Case(world, record)


async def test_a_preemption_is_decided_again_with_its_victims() -> None:
    found = await (await preempted()).again()

    assert found.same
    assert (found.recorded.nominated_node, found.recorded.victims) == ("full", ("default/victim",))
    assert found.recomputed.victims == found.recorded.victims
    assert "Nominated to full, evicting default/victim" in tell_verdicts(attempt(), found)


async def test_other_victims_than_the_recorded_ones_are_another_decision() -> None:
    made = await preempted()
    assert isinstance(made.record, Refused)
    [victim] = made.record.victims

    assert not (await made.again(victims=(victim.model_copy(update={"pod": "default/somebody"}),))).same


async def test_a_nomination_that_is_kept_while_victims_leave_is_no_difference() -> None:
    made = await preempted(leaving=True)

    assert isinstance(made.record, Refused)
    assert (made.record.nominated_node, made.record.victims) == ("full", ())
    assert (await made.again()).same


async def test_the_attempt_that_is_meant_is_found() -> None:
    record = (await case()).record.model_dump(mode="json")
    attempts = [attempt(1, **record), attempt(2, **record), attempt(3)]

    assert decision_of(attempts, KEY, None)[0].attempt == 2
    assert decision_of(attempts, KEY, 1)[0].attempt == 1
    with pytest.raises(NotFound, match="attempt 3 of pod default/web came to no decision"):
        decision_of(attempts, KEY, 3)
    with pytest.raises(NotFound, match="Temporal keeps no attempt 7"):
        decision_of(attempts, KEY, 7)
    with pytest.raises(NotFound, match="Temporal keeps no attempt of pod default/web"):
        decision_of([], KEY, None)
