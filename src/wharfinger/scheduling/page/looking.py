"""One node, one pod, one gang, and lists of pods: what the read model says of them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from operator import itemgetter
from typing import Any

from wharfinger.errors import ConfigurationError, NotFound, PluginError
from wharfinger.objects.model.gang import GangKey, PodGroup, counts, gang_of
from wharfinger.objects.model.pod import Pod, PodKey
from wharfinger.objects.model.selectors import LabelSelector
from wharfinger.page.follow.plain import moment, text
from wharfinger.scheduling.page.deciding import Deciders, PresentState
from wharfinger.scheduling.page.following import Following
from wharfinger.scheduling.page.gang_verdicts import MOST_DOMAINS, GangQuestion, domains_of, free_in, verdicts
from wharfinger.scheduling.page.objects import node_in_full, pod_in_full, pod_in_short
from wharfinger.scheduling.page.pending import PendingPods, held_by
from wharfinger.scheduling.page.read_model import STATES

MOST_PODS = 5000
"""Pods of one list."""
STRETCH = 250
"""Rows that are made without a pause."""
MOST_REASONS = 12
"""Reasons of which a pod is tried on a node."""
TRIED = 4
"""Pods that are tried of each reason."""
MOST_GANGS = 1000


class Looking:
    """Answers about single things. Every method raises `NotFound` for what is not there."""

    def __init__(self, following: Following, pending: PendingPods, deciders: Deciders) -> None:
        self._following = following
        self._pending = pending
        self._deciders = deciders

    def pod(self, key: PodKey, *, optional: bool = False) -> dict[str, Any] | None:
        """A pod, and how it stands; None for one that is `optional` and not there."""
        if optional and key not in self._following.cache.pods:
            return None
        model, pod = self._following.model, self.found(key)
        told = pod_in_full(model, pod)
        record = model.record_of(pod) if pod.pending else None
        if record is not None:
            told["record"] = {
                "attempt": record.attempt,
                "reason": record.reason,
                "plugins": list(record.rejectors),
                "revision": record.revision,
                "message": text(record.message),
                "workflowId": text(record.workflow_id),
                "runId": record.run_id,
                "parked": record.parked,
            }
        promise = self._following.cache.kubernetes.promises.get(key) if self._following.cache.kubernetes else None
        told["promised"] = promise is not None
        gang = GangKey(pod.namespace, pod.group) if pod.pending and pod.group else None
        told["held"] = (text(model.gang_standing(gang).held) or None) if gang is not None else None
        return told

    def found(self, key: PodKey) -> Pod:
        """The pod."""
        pod = self._following.cache.pods.get(key)
        if pod is None:
            raise NotFound(f"there is no pod {text(str(key))}")
        return pod

    async def pods(
        self, *, namespace: str, state: str, selector: LabelSelector | None, words: str, most: int
    ) -> dict[str, Any]:
        """The pods that all of this holds for, by namespace and name; empty texts hold for all.

        Others have their turn while a long list is made.
        """
        model = self._following.model
        chosen = []
        for pod in self._following.cache.pods.values():
            if namespace and pod.namespace != namespace:
                continue
            if words and words not in pod.name and words not in f"{pod.namespace}/{pod.name}":
                continue
            if selector is not None and not selector.matches(pod.labels):
                continue
            if state and model.state_of(pod) != state:
                continue
            chosen.append(pod)
        chosen.sort(key=lambda pod: pod.key)
        shown = []
        for place, pod in enumerate(chosen[:most], start=1):
            shown.append(pod_in_short(model, pod))
            if place % STRETCH == 0:
                await asyncio.sleep(0)
        return {"count": len(chosen), "omitted": max(0, len(chosen) - most), "pods": shown, "states": list(STATES)}

    def node(self, name: str) -> dict[str, Any]:
        """A node with its pods and what happened to it."""
        model, cache = self._following.model, self._following.cache
        info = cache.absent_nodes.get(name) or cache.node_info(name)
        if info is None:
            raise NotFound(f"there is no node {text(name)}")
        pods = sorted(info.pods.values(), key=lambda pod: (-pod.priority, pod.key))
        return node_in_full(info.node) | {
            "absent": name in cache.absent_nodes,
            "requested": dict(info.requested),
            "pods": [pod_in_short(model, pod) for pod in pods],
            "nominated": [text(str(pod.key)) for pod in cache.nominated_on(name)],
            "events": [
                {"time": moment(one.time), "node": one.node, "what": one.what, "about": text(str(one.about))}
                for one in model.events_of(name)
            ],
        }

    async def refused_on(self, name: str, namespace: str = "") -> dict[str, Any]:
        """Why pods that wait are not on this node, by plugin and reason. Raises `TooLong`."""
        cache = self._following.cache
        if cache.nodes.get(name) is None:
            raise NotFound(f"there is no node {text(name)}")
        asked: list[tuple[str, list[tuple[Pod, str | None]]]] = []
        for key, pods in self._pending.groups(namespace)[:MOST_REASONS]:
            there = [pod for one in pods[:TRIED] if (pod := cache.pods.get(one)) is not None and pod.pending]
            asked.append((text(key.title()), [(pod, held_by(self._following, key, pod)) for pod in there]))
        reasons = await self._deciders.ask(lambda stage: _refused_on(stage, name, asked))
        return {"node": text(name), "reasons": reasons}

    def gangs(self, namespace: str = "") -> dict[str, Any]:
        """Every gang with its members in numbers, those that are incomplete first."""
        cache = self._following.cache
        keys = [key for key in cache.gangs if not namespace or key.namespace == namespace]
        told = [self._gang(key, list(cache.gangs.of(key))) for key in sorted(keys)[:MOST_GANGS]]
        told.sort(key=lambda one: (one["pending"] == 0, one["namespace"], one["name"]))
        return {"count": len(keys), "gangs": told}

    def gang(self, namespace: str, name: str) -> dict[str, Any]:
        """One gang: its members, the domains they are in, and what is missing."""
        cache, model = self._following.cache, self._following.model
        key = GangKey(namespace, name)
        members = sorted(cache.gangs.of(key), key=lambda pod: (not pod.bound, pod.create_revision))
        if not members:
            raise NotFound(f"there is no gang {text(str(key))}")
        told = self._gang(key, members)
        keys: list[str] = told["topologyKeys"]
        domains: dict[str, int] = {}
        for pod in members:
            node = cache.nodes.get(pod.node_name) if pod.bound else None
            if node is not None and keys:
                place = ", ".join(f"{one}={node.labels.get(one, '?')}" for one in keys)
                domains[place] = domains.get(place, 0) + 1
        offered = self._domains(keys) if keys else []
        return told | {
            "refusal": self._refusal(members),
            "pods": [pod_in_short(model, pod) for pod in members[:MOST_PODS]],
            "domains": [{"domain": text(place), "members": count} for place, count in sorted(domains.items())],
            "offered": offered,
        }

    async def gang_verdicts(self, namespace: str, name: str) -> dict[str, Any]:
        """How many of its members fit in each domain now, and what is missing there. Raises `TooLong`."""
        cache, key = self._following.cache, GangKey(namespace, name)
        members = list(cache.gangs.of(key))
        if not members:
            raise NotFound(f"there is no gang {text(str(key))}")
        asked = GangQuestion(key, members, self._group(key))
        return await self._deciders.ask(lambda stage: verdicts(stage, asked))

    # --- inside -------------------------------------------------------------------------------

    def _refusal(self, members: list[Pod]) -> dict[str, Any] | None:
        """The refusal that its members wait with: all of a gang have the same; the newest of several."""
        model = self._following.model
        found = [(record, pod) for pod in members if pod.pending and (record := model.record_of(pod)) is not None]
        if not found:
            return None
        record, _ = max(found, key=lambda one: (one[0].revision, one[0].attempt))
        return {
            "attempt": record.attempt,
            "reason": record.reason,
            "plugins": list(record.rejectors),
            "message": text(record.message),
            "revision": record.revision,
            "workflowId": text(record.workflow_id),
            "nominated": sorted({text(one.nominated_node) for one, _ in found if one.nominated_node}),
            "members": sum(one.revision == record.revision for one, _ in found),
        }

    def _gang(self, key: GangKey, members: list[Pod]) -> dict[str, Any]:
        known, stands = gang_of(key, members, self._group(key)), self._following.model.gang_standing(key)
        counted = [pod for pod in members if counts(pod)]
        bound = sum(pod.bound for pod in counted)
        least = known.min_available if not isinstance(known, str) else 0
        return {
            "namespace": text(key.namespace),
            "name": text(key.name),
            "members": len(counted),
            "bound": bound,
            "pending": len(counted) - bound,
            "minAvailable": least,
            "missing": max(0, least - len(counted)),
            "topologyKeys": list(known.topology_keys) if not isinstance(known, str) else [],
            "held": text(stands.held) or None,
            "placedAsOne": stands.gang is not None,
        }

    def _domains(self, keys: Sequence[str]) -> list[dict[str, Any]]:
        """Each domain with its nodes and free room."""
        domains = domains_of(self._following.cache.snapshot(), keys)
        return [
            {"domain": text(", ".join(value for _, value in terms)), "nodes": len(infos), "free": free_in(infos)}
            for terms, infos in sorted(domains.items(), key=itemgetter(0))[:MOST_DOMAINS]
        ]

    def _group(self, key: GangKey) -> PodGroup | None:
        return self._following.cache.surroundings.pod_group(*key)


def _refused_on(
    stage: PresentState, name: str, asked: list[tuple[str, list[tuple[Pod, str | None]]]]
) -> list[dict[str, Any]]:
    told = []
    if name not in stage.snapshot:
        return []
    for title, pods in asked:
        for pod, held in pods:
            about = {"waitsFor": title, "pod": text(str(pod.key)), "held": held}
            if held is not None:
                told.append(about | {"refusedBy": {}, "fits": False})
                continue
            try:
                evaluation = stage.profile(pod).evaluate(pod, stage.snapshot, preempt=False)
                said = {plugin: list(status.reasons) for plugin, status in evaluation.verdicts_on(name).items()}
            except (ConfigurationError, PluginError) as error:
                said = {"?": [text(str(error))]}
            told.append(about | {"refusedBy": said, "fits": not said})
    return told
