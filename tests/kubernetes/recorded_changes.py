"""The recorded family whose pods wait: after each change of the cluster, those are bound that kube-scheduler bound.

Which waiting pods were tried again in vain is no part of this: the API does not show it, and wharfinger tries only
those that fit (`docs/compatible.md`). Where a bind was recorded, the scores were not. So the best nodes are those of
the decision core in memory, which `tests/conformance/test_conformance.py` compares with all recorded scores.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tests.conformance.scenarios import as_object, key_of
from tests.conformance.scenarios import set_up as simulator_of
from tests.kubernetes.recorded_answers import Answer, Difference, Expected, SeenCondition, scheduled
from tests.kubernetes.recorded_objects import Fields
from tests.kubernetes.recorded_replay import (
    EVENTS,
    OUTCOME,
    Replayed,
    Scheduler,
    condition_of,
    decide,
    events_about,
    judge,
    node_of,
    probe,
    set_up,
)
from tests.kubernetes.recorded_scene import Key, Scene
from wharfinger.whatif.simulator.simulator import Simulator

KINDS = {"nodes": "Node", "pods": "Pod"}


class BestNodes:
    """The same scenario in memory: which nodes are best for a pod that is bound next."""

    def __init__(self, scenario: Mapping[str, Any]) -> None:
        self._simulator: Simulator = simulator_of(dict(scenario))

    def pod(self, fields: Fields) -> None:
        self._simulator.add(as_object("Pod", dict(fields)))

    def change(self, event: Mapping[str, Any]) -> None:
        kind = KINDS[event["kind"]]
        if event["op"] == "put":
            self._simulator.update(as_object(kind, event["object"]))
        else:
            self._simulator.delete(kind, event["object"]["metadata"]["name"])

    def bound(self, key: Key, node: str) -> list[str]:
        """The best nodes; then the pod is bound to the recorded one, which must be among them."""
        decision = self._simulator.decide(key)
        most = max(decision.totals.values(), default=0)
        best = [one for one, total in decision.totals.items() if total == most] or list(decision.feasible)
        assert node in best, f"{key} was recorded on {node}, and {best} are best"
        self._simulator.bind(key, node)
        return best


async def replay_changes(scene: Scene, scheduler: Scheduler, most: int | None = None) -> Replayed:
    """The pods of a scenario, and then its changes, or so many of these; leaves nothing behind."""
    await set_up(scene, scheduler)
    done, best = Replayed(), BestNodes(scene.scenario)
    latest = {key_of(dict(fields)): fields for fields in scene.scenario["pods"]}
    asked: list[tuple[Answer, Expected]] = []
    name = f"{scene.scenario['family']}-{scene.scenario['seed']}"
    for fields in scene.scenario["pods"]:
        key = key_of(dict(fields))
        first = scene.scenario["first"].get(key[1], {"gated": True})
        best.pod(fields)
        allowed = {"allowed": best.bound(key, first["node"])} if "node" in first else {}
        expected = {"pod": key[1], **first, **allowed}
        asked.append((await decide(scene, f"{name} {key[1]}", fields, expected), expected))
        if "node" in first:
            await scene.placed(fields, first["node"])
    await judge(scene, asked, done)
    for number, event in enumerate(scene.scenario["events"][:most]):
        best.change(event)
        if (event["op"], event["kind"]) == ("put", "pods"):
            latest[key_of(event["object"])] = event["object"]
        where = f"{name} change {number} ({event['what']})"
        change = Change(scene, where, event, {key: best.bound(key, node) for key, node in binds_of(event).items()})
        done.judged.append(await change.replay())
        await change.as_recorded(latest)
    await scene.clear()
    await scheduler.end()
    return done


def binds_of(event: Mapping[str, Any]) -> dict[Key, str]:
    """Where the recording has bound which pods after a change."""
    return {("default", name): node for name, node in event["bound"].items()}


class Change:
    """One change of the cluster, and what is bound because of it."""

    def __init__(
        self, scene: Scene, where: str, event: Mapping[str, Any], allowed: Mapping[Key, Sequence[str]]
    ) -> None:
        """`allowed`: the best nodes of each pod that was bound."""
        self._scene = scene
        self._where = where
        self._event = event
        self._allowed = allowed
        self._seen: dict[Key, str] = {}

    async def replay(self) -> list[Difference]:
        """Make it, wait for the recorded binds, and compare."""
        scene = self._scene
        waiting = {key for key, node in scene.nodes().items() if not node}
        await self._make()
        uids = {key: scene.pods[key].uid for key in waiting & scene.pods.keys()}
        await scene.watch.until(lambda: all(node_of(scene.watch.states(uids[key])) for key in self._allowed), OUTCOME)
        await probe(scene)
        nodes = {key: node_of(scene.watch.states(uid)) for key, uid in uids.items()}
        self._seen = {key: node for key, node in nodes.items() if node}
        found = []
        for key in sorted(self._allowed.keys() | self._seen.keys()):
            found += await self._compare(key, uids[key])
        return found

    async def _make(self) -> None:
        fields = self._event["object"]
        if self._event["op"] == "delete":
            assert self._event["kind"] == "pods", self._event
            await self._scene.delete_pod(key_of(fields))
        elif self._event["kind"] == "pods":
            await self._scene.put_pod(fields)
        else:
            await self._scene.put_node(fields)

    async def _compare(self, key: Key, uid: str) -> list[Difference]:
        """One pod that was bound, there or here."""
        where, allowed, node = f"{self._where} {key[1]}", self._allowed.get(key, ()), self._seen.get(key, "")
        if node not in allowed:
            return [Difference(where, "node", repr(allowed or ""), repr(node))]
        watch = self._scene.watch
        condition = next((condition_of(one) for one in watch.states(uid) if one["spec"].get("nodeName")), None)
        wanted = scheduled(key[1], f"{key[0]}/{self._scene.pods[key].name}", node)
        found = []
        if condition != SeenCondition("True"):
            found.append(Difference(where, "condition", "'True'", repr(condition)))
        if not await watch.until(lambda: wanted in events_about(self._scene, uid), EVENTS):
            found.append(Difference(where, "events", repr(wanted), repr(events_about(self._scene, uid))))
        return found

    async def as_recorded(self, latest: Mapping[Key, Fields]) -> None:
        """What was bound is where it was recorded; what is bound and was not recorded so waits again.

        `latest`: each pod as it is now in the recording.
        """
        for key, node in binds_of(self._event).items():
            await self._scene.placed(latest[key], node)
        for key in self._seen.keys() - self._allowed.keys():
            await self._scene.delete_pod(key)
            await self._scene.create_pod(latest[key])
