"""The decision core without servers: add objects, ask for decisions, apply placements.

::

    sim = Simulator()
    sim.add(node)                       # mappings, as kubectl prints them
    sim.add(pod)
    decision = sim.decide(("default", "web-1"))
    sim.bind(("default", "web-1"), decision.node)
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

from wharfinger.cache.cache import Cache
from wharfinger.errors import UsageError
from wharfinger.framework.evaluation import Evaluation
from wharfinger.framework.profile import Profile
from wharfinger.framework.snapshot import Snapshot
from wharfinger.framework.status import Status
from wharfinger.manifests.decode import node_from_mapping, pod_from_mapping
from wharfinger.manifests.fields import mapping
from wharfinger.manifests.metadata import object_name, object_namespace
from wharfinger.model.decision import Decision
from wharfinger.model.pod import Pod, PodKey
from wharfinger.profiles import load_profiles

DEFAULT_NAMESPACE = "default"
GATED = "SchedulingGated"
"""The reason of a pod that is held back before it is looked at, as in its PodScheduled condition."""
UNREAD = frozenset(
    {"Namespace", "Service", "ReplicationController", "ReplicaSet", "StatefulSet", "PodDisruptionBudget"}
)
"""Kinds that kube-scheduler reads too, but none of the plugins here does."""


class SimulatedDecision:
    """What would be decided for a pod, and why."""

    def __init__(self, evaluation: Evaluation, gate: Status) -> None:
        """`gate`: what PreEnqueue says. A gated pod was evaluated on no node at all."""
        self._evaluation = evaluation
        self._gate = gate

    @cached_property
    def _decision(self) -> Decision:
        return self._evaluation.decide(None)

    @property
    def node(self) -> str | None:
        """The chosen node's name, None when no node is feasible or the pod is gated."""
        return self._evaluation.node

    @property
    def feasible(self) -> list[str]:
        """Names of the nodes that passed every filter, sorted; none for a gated pod."""
        return list(self._evaluation.feasible)

    @property
    def scores(self) -> dict[str, dict[str, int]]:
        """Node -> plugin -> weighted normalised score; empty when scoring was skipped (one feasible node)."""
        return {node: dict(plugins) for node, plugins in self._decision.scores.items()}

    @property
    def totals(self) -> dict[str, int]:
        """Node -> total; empty when scoring was skipped."""
        return dict(self._decision.totals)

    @property
    def message(self) -> str:
        """The FailedScheduling text, `SchedulingGated: ...` for a gated pod, empty when placed."""
        return self._evaluation.message if self._gate.ok else f"{GATED}: {self._gate.message}"

    @property
    def rejectors(self) -> list[str]:
        """Plugins that refused first on some node, or in PreFilter or PreEnqueue, sorted."""
        return list(self._evaluation.rejectors) if self._gate.ok else [self._gate.plugin]

    @property
    def refusals(self) -> dict[str, dict[str, list[str]]]:
        """Node -> plugin -> reasons, of every plugin that refuses, in profile order."""
        return {
            node: {plugin: list(status.reasons) for plugin, status in verdicts.items()}
            for node, verdicts in self._evaluation.verdicts().items()
            if verdicts
        }


class Simulator:
    """A cluster in memory, decided on by the same engine as a live one."""

    def __init__(self, config: Mapping[str, Any] | Path | str | None = None) -> None:
        """`config`: a KubeSchedulerConfiguration v1 (mapping or path), None = the defaults."""
        self._profiles: dict[str, Profile] = load_profiles(config)
        self._cache = Cache(clock=lambda: 0.0)
        self._revisions = itertools.count(1)
        self._unread: set[tuple[str, str, str]] = set()
        """Kind, namespace and name of the objects that no plugin reads."""

    def add(self, obj: Mapping[str, Any]) -> None:
        """Add a Node or a Pod (bound or not); one that exists is updated.

        Objects of the kinds in `UNREAD` are accepted too, and change no decision. Raises InvalidObject, or UsageError
        for another kind.
        """
        kind = obj.get("kind") if isinstance(obj, Mapping) else type(obj).__name__
        revision = next(self._revisions)
        if kind == "Node":
            self._cache.set_node(node_from_mapping(obj, create_revision=revision, mod_revision=revision))
        elif kind == "Pod":
            self._cache.set_pod(self._read_pod(obj, revision))
        elif isinstance(kind, str) and kind in UNREAD:
            metadata = mapping(obj, "metadata")
            self._unread.add((kind, object_namespace(metadata, DEFAULT_NAMESPACE), object_name(metadata)))
        else:
            raise UsageError(f"kind {kind} is not simulated; Node and Pod are")
        self._cache.progress.advance(revision)

    def delete(self, kind: str, name: str, namespace: str = DEFAULT_NAMESPACE) -> None:
        """Delete an object; UsageError when there is none."""
        if kind == "Node" and name in self._cache.nodes:
            self._cache.remove_node(name)
        elif kind == "Pod" and PodKey(namespace, name) in self._cache.pods:
            self._cache.remove_pod(PodKey(namespace, name))
        elif (kind, namespace, name) in self._unread:
            self._unread.remove((kind, namespace, name))
        else:
            raise UsageError(f"there is no {kind} {name}")
        self._cache.progress.advance(next(self._revisions))

    def decide(self, pod: Mapping[str, Any] | tuple[str, str]) -> SimulatedDecision:
        """Decide for a pod given as a mapping, or one that was added, by (namespace, name). Changes nothing.

        A pod held back by PreEnqueue (its scheduling gates) is not placed.

        Raises InvalidObject, UsageError (no such pod or profile), PluginError.
        """
        subject = pod_from_mapping(pod) if isinstance(pod, Mapping) else self._pod(pod)
        profile = self._profiles.get(subject.scheduler_name)
        if profile is None:
            raise UsageError(f"no profile is called {subject.scheduler_name}")
        gate = profile.gate(subject)
        snapshot = self._cache.snapshot() if gate.ok else Snapshot.of(())
        return SimulatedDecision(profile.evaluate(subject, snapshot), gate)

    def bind(self, pod: tuple[str, str], node: str) -> None:
        """Apply a placement, this engine's or another. UsageError when the pod or the node does not exist."""
        subject = self._pod(pod)
        if node not in self._cache.nodes:
            raise UsageError(f"there is no Node {node}")
        self._cache.set_pod(subject.on(node))
        self._cache.progress.advance(next(self._revisions))

    def _read_pod(self, obj: Mapping[str, Any], revision: int) -> Pod:
        """The pod as etcd would hold it: the same life unless the uid tells otherwise."""
        pod = pod_from_mapping(obj, create_revision=revision, mod_revision=revision)
        known = self._cache.pods.get(pod.key)
        if known is None or pod.uid not in (known.uid, f"rev-{revision}"):
            return pod
        return pod_from_mapping(obj, create_revision=known.create_revision, mod_revision=revision)

    def _pod(self, key: tuple[str, str]) -> Pod:
        if not isinstance(key, tuple) or len(key) != len(PodKey._fields):
            raise UsageError(f"a pod is named by (namespace, name), not by {key!r}")
        pod = self._cache.pods.get(PodKey(*key))
        if pod is None:
            raise UsageError(f"there is no Pod {key[0]}/{key[1]}")
        return pod
