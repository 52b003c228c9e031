"""Recorded decisions, asked for again on a real API server: pods one by one, in the recorded order.

Each pod is created, decided by a running scheduler, compared, and then placed as it was recorded, or deleted. A kubelet
is played here: it starts what is bound, and ends what is preempted when all victims are marked. Neighbours:
`recorded_scene` writes the objects, `recorded_watch` sees what becomes of them, `recorded_answers` compares,
`recorded_changes` replays the family whose pods wait.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from tests.conformance.scenarios import changes_before, key_of
from tests.kubernetes.recorded_answers import (
    Answer,
    Difference,
    Expected,
    NotReplayed,
    SeenCondition,
    SeenEvent,
    differences,
)
from tests.kubernetes.recorded_objects import Fields
from tests.kubernetes.recorded_scene import ActualPod, PodInvalid, Scene
from wharfinger.apiserver import client
from wharfinger.apiserver.client import uid_of

OUTCOME = 30.0
"""Seconds until a pod must be bound or refused; milliseconds are usual."""
EVENTS = 15.0
"""Seconds until the events of a scenario must be there."""
SCHEDULING_GATED = "SchedulingGated"
PREEMPTED = "Preempted"
"""Reason of the event about a victim."""
PREEMPTED_BY = ("DisruptionTarget", "PreemptionByScheduler")


class Scheduler(Protocol):
    """One of those that are compared."""

    async def begin(self, scene: Scene) -> None:
        """Make it ready for a scenario of which all exists but nodes and pods; sets `scene.scheduler`."""

    async def seen_nodes(self, scene: Scene) -> None:
        """Wait until it has seen all nodes of the scenario, and no others, and all pods that run."""

    async def end(self) -> None:
        """The scenario has ended, and its objects are deleted."""


@dataclass
class Replayed:
    """What became of one scenario."""

    answers: list[Answer] = field(default_factory=list)
    judged: list[Sequence[Difference]] = field(default_factory=list)
    """The differences of each decision; none = it is as recorded."""
    apart: list[NotReplayed] = field(default_factory=list)


async def set_up(scene: Scene, scheduler: Scheduler) -> None:
    """Everything but the pods exists, and the scheduler has seen it."""
    await scene.create_general()
    await scheduler.begin(scene)
    await scene.create_nodes(scene.scenario["nodes"])
    for fields in scene.scenario.get("bound", ()):
        await scene.put_bound(fields)
    await scheduler.seen_nodes(scene)


async def replay(scene: Scene, scheduler: Scheduler, most: int | None = None) -> Replayed:
    """All pods of a scenario, or so many of them; leaves nothing behind."""
    await set_up(scene, scheduler)
    done = Replayed()
    asked: list[tuple[Answer, Expected]] = []
    name = f"{scene.scenario['family']}-{scene.scenario['seed']}"
    for fields, expected in list(zip(scene.scenario["pods"], scene.scenario["expect"], strict=True))[:most]:
        where = f"{name} {expected['pod']}"
        if changes := changes_before(scene.scenario, fields):
            await scene.change(changes)
            await scheduler.seen_nodes(scene)
        try:
            answer = await decide(scene, where, fields, expected)
        except PodInvalid as invalid:
            done.apart.append(NotReplayed(where, str(invalid)))
            if "node" in expected:
                await scene.create_stand_in(fields, expected["node"])
            continue
        asked.append((answer, expected))
        if "node" in expected:
            await scene.placed(fields, expected["node"])
        else:
            await scene.delete_pod(key_of(dict(fields)))
    await judge(scene, asked, done)
    await scene.clear()
    await scheduler.end()
    return done


async def decide(scene: Scene, where: str, fields: Fields, expected: Expected) -> Answer:
    """Create one pod, and see what the scheduler does with it. Raises `PodInvalid`."""
    key = key_of(dict(fields))
    actual = await scene.create_pod(fields)
    answer = Answer(where, f"{key[0]}/{actual.name}", actual.uid)
    if "gated" in expected:
        return _with_states(scene, answer, ())
    await scene.watch.until(lambda: is_decided(scene.watch.states(actual.uid)), OUTCOME)
    victims: Sequence[str] = ()
    if "nominated" in expected:
        victims = await _make_room(scene, actual, expected)
    return _with_states(scene, answer, victims or victims_now(scene))


async def _make_room(scene: Scene, actual: ActualPod, expected: Expected) -> Sequence[str]:
    """All victims are marked, and end then; the pod is bound after that. Their recorded names."""
    wanted = set(expected["victims"])
    await scene.watch.until(lambda: {scene.names[uid] for uid in _terminating(scene)} >= wanted, OUTCOME)
    victims = victims_now(scene)
    await _end(scene, _terminating(scene))
    await scene.watch.until(lambda: node_of(scene.watch.states(actual.uid)), OUTCOME)
    return victims


def _terminating(scene: Scene) -> list[str]:
    """The uids of pods that are being deleted."""
    return [uid_of(one) for one in scene.watch.existing() if one["metadata"].get("deletionTimestamp")]


def victims_now(scene: Scene) -> list[str]:
    """The recorded names of pods that are being deleted because they were preempted."""
    found = []
    for one in scene.watch.existing():
        marks = [(mark["type"], mark.get("reason")) for mark in one.get("status", {}).get("conditions", ())]
        if one["metadata"].get("deletionTimestamp") and PREEMPTED_BY in marks:
            found.append(scene.names[uid_of(one)])
    return sorted(found)


async def _end(scene: Scene, uids: Sequence[str]) -> None:
    """The kubelet ends these pods."""
    for key in [key for key, actual in scene.pods.items() if actual.uid in uids]:
        await scene.delete_pod(key)


# --- what the API shows ---------------------------------------------------------------------------


def condition_of(pod: Mapping[str, Any]) -> SeenCondition | None:
    """A pod's PodScheduled."""
    for one in pod.get("status", {}).get("conditions", ()):
        if one["type"] == "PodScheduled":
            return SeenCondition(one["status"], one.get("reason", ""), one.get("message", ""))
    return None


def refusal(states: Sequence[Mapping[str, Any]]) -> SeenCondition | None:
    """The first one that a scheduler wrote."""
    found = (condition_of(state) for state in states)
    return next((one for one in found if one and one.status == "False" and one.reason != SCHEDULING_GATED), None)


def node_of(states: Sequence[Mapping[str, Any]]) -> str:
    """Where a pod was bound; empty = nowhere."""
    return next((str(state["spec"]["nodeName"]) for state in states if state["spec"].get("nodeName")), "")


def is_decided(states: Sequence[Mapping[str, Any]]) -> bool:
    """Whether a pod was bound or refused."""
    return bool(node_of(states)) or refusal(states) is not None


def _with_states(scene: Scene, answer: Answer, victims: Sequence[str]) -> Answer:
    states = scene.watch.states(answer.uid)
    first = refusal(states) or condition_of(states[0])
    bound = next((condition_of(state) for state in states if state["spec"].get("nodeName")), None)
    nominated = next((one for state in states if (one := state.get("status", {}).get("nominatedNodeName"))), "")
    return replace(
        answer,
        node=node_of(states),
        refused=first if first is not None and first.status == "False" else None,
        bound=bound,
        nominated=str(nominated),
        victims=tuple(victims),
    )


def with_events(scene: Scene, answer: Answer) -> Answer:
    """With the events that there are: about the pod, and about what it preempted. It may be a later one's victim."""
    found = [one for one in events_about(scene, answer.uid) if one.reason != PREEMPTED]
    for uid, name in scene.names.items():
        if name in answer.victims:
            found += [one for one in events_about(scene, uid) if one.reason == PREEMPTED and answer.uid in one.note]
    return replace(answer, events=tuple(sorted(found)))


def events_about(scene: Scene, uid: str) -> list[SeenEvent]:
    """The events about a recorded pod that there are now."""
    return [
        SeenEvent(scene.names[uid], one["reason"], one["action"], one["type"], one["note"])
        for one in scene.watch.events(uid)
    ]


async def judge(scene: Scene, asked: Sequence[tuple[Answer, Expected]], done: Replayed) -> None:
    """Compare decisions as soon as their events are there. `allowed`: the best nodes where there are no scores."""

    def found() -> list[list[Difference]]:
        return [differences(with_events(scene, one), expected, expected.get("allowed")) for one, expected in asked]

    await scene.watch.until(lambda: not any(found()), EVENTS)
    done.answers += [with_events(scene, answer) for answer, _ in asked]
    done.judged += found()


# --- whether the scheduler sees it ----------------------------------------------------------------


async def probe(scene: Scene) -> str:
    """Have a pod refused that fits nowhere; what the scheduler says of it."""
    uid = await scene.create_probe()
    assert await scene.watch.until(lambda: is_decided(scene.watch.states(uid)), OUTCOME), "the probe is not decided"
    states = scene.watch.states(uid)
    found = refusal(states)
    assert found is not None, "the probe is bound"
    name = states[-1]["metadata"]["name"]
    await scene.api.delete(client.PODS, name, namespace="default", grace_seconds=0)
    return found.message


async def probe_until_all_nodes(scene: Scene) -> None:
    """Until the scheduler counts as many nodes as there are."""
    begins = f"0/{len(scene.scenario['nodes'])} nodes are available"
    for _ in range(100):
        if (await probe(scene)).startswith(begins):
            return
    raise AssertionError(f"the scheduler does not see its nodes: {begins}")
