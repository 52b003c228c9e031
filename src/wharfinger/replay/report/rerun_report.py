"""What a rerun came to: where each pod went, and how full and how fragmented the cluster was, beside the record."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from wharfinger.framework.snapshot import Snapshot
from wharfinger.objects.model.node import CPU, PODS
from wharfinger.objects.model.pod import PodKey
from wharfinger.replay.ends import GRAVEST, VERDICTS, PodEnds
from wharfinger.replay.kept_form import ClusterFigures, LivedMoment
from wharfinger.replay.lived_pods import LivedPod
from wharfinger.replay.report.report import ReplayTally, written
from wharfinger.replay.rerun import Rerun
from wharfinger.scheduling.reading.comparing import DecisionSaid
from wharfinger.whatif.outcome import use_of

SHAPES = 20
"""The most frequent requests of pods, by which fragmentation is measured."""
SHOWN = 100
"""Pods that differ most."""
MOST_ENDS = 150_000
"""Pods of which a kept report says where each ended: some 40 bytes each, there and in memory."""

Shape = tuple[tuple[str, int], ...]


@dataclass(slots=True)
class RerunReport(ReplayTally):
    """The report of a rerun: give it the rerun when that has ended."""

    mode = "rerun"
    verdicts = VERDICTS

    moments: list[LivedMoment] = field(default_factory=list)
    shown: list[LivedPod] = field(default_factory=list)
    """Those that differ most."""
    recorded: dict[tuple[PodKey, int], DecisionSaid] = field(default_factory=dict)
    """What was decided of these then, by create revision."""
    evictions: list[tuple[str, str]] = field(default_factory=list)
    """The first ones: victim and preemptor."""
    eviction_count: int = 0
    stopped: bool = False
    ends: PodEnds = field(default_factory=lambda: PodEnds(MOST_ENDS))
    """Of all pods that were decided for, so that two reruns can be compared."""

    @property
    def packed(self) -> float | None:
        """Share of all cpu in use at the end, in the rerun; None where nothing happened."""
        return self.moments[-1].again.use.get(CPU, 0.0) / 100 if self.moments else None

    def close(self, rerun: Rerun, known: Callable[[PodKey, int], bool] = lambda _key, _created: True) -> None:
        """Take in where all pods ended.

        `known`: whether the record decided for a pod in the span. One that it neither bound nor decided for came too
        late to be compared.
        """
        found: dict[str, list[LivedPod]] = {verdict: [] for verdict in GRAVEST}
        for pod in rerun.lived:
            if pod.ours and (pod.recorded or known(pod.key, pod.create_revision)):
                verdict = pod.verdict
                namespace = self.count(verdict, pod.scheduler, pod.key.namespace, pod.owner)
                if not pod.node:
                    self.count_reason(verdict, pod.message, namespace)
                self.ends.add(str(pod.key), pod.create_revision, pod.end, evicted=pod.evicted)
                if verdict in found and len(found[verdict]) < SHOWN:
                    found[verdict].append(pod)
        self.shown = [pod for verdict in GRAVEST for pod in found[verdict]][:SHOWN]
        self.evictions = [(str(victim), str(preemptor)) for victim, preemptor in rerun.evictions]
        self.eviction_count = rerun.eviction_count
        self.stopped = rerun.stopped

    def _of_cluster(self) -> dict[str, Any]:
        return {
            "evictions": [{"victim": victim, "preemptor": by} for victim, by in self.evictions],
            "evictionCount": self.eviction_count,
            "stopped": self.stopped,
            "overTime": [one.model_dump() for one in self.moments],
            "pods": [_pod(one, self.recorded.get((one.key, one.create_revision))) for one in self.shown],
        }

    def ends_to_plain(self) -> dict[str, Any] | None:
        """None where there are more pods than `MOST_ENDS`."""
        return self.ends.to_plain()


def _pod(pod: LivedPod, said: DecisionSaid | None) -> dict[str, Any]:
    return {
        "pod": str(pod.key),
        "verdict": pod.verdict,
        "recorded": pod.recorded,
        "again": pod.node,
        "message": pod.message,
        "recordedMessage": said.message if said is not None else "",
        "recordedTotal": said.total if said is not None else None,
        "recordedScores": dict(said.scores) if said is not None else {},
        "againTotal": pod.total if pod.node else None,
        "evicted": pod.evicted,
    }


def moment(
    revision: int,
    recorded: Snapshot,
    again: Snapshot,
    shapes: Sequence[tuple[Shape, int]],
    seconds: float | None = None,
) -> LivedMoment:
    """Compare the two clusters. `seconds`: about when that was, since 1970; None where no run had begun."""

    def figures(snapshot: Snapshot) -> ClusterFigures:
        use = {name: one.percent for name, one in use_of(snapshot).resources.items()}
        return ClusterFigures(use=use, fragmentation=fragmentation(snapshot, shapes))

    time = written(seconds) if seconds is not None else None
    return LivedMoment(revision=revision, time=time, recorded=figures(recorded), again=figures(again))


def shapes_of(requests: Iterable[Mapping[str, int]], most: int | None = SHAPES) -> list[tuple[Shape, int]]:
    """The most frequent requests, each with its weight. `most`: None = all."""
    found = Counter(tuple(sorted((name, amount) for name, amount in one.items() if amount)) for one in requests)
    return found.most_common(most)


def fragmentation(snapshot: Snapshot, shapes: Sequence[tuple[Shape, int]]) -> dict[str, float]:
    """By resource, the share of what is free that a pod cannot use, on average over the shapes that ask for it.

    Resources of which nothing is free, and those that no shape asks for, are left out.
    """
    free = [
        {name: amount - info.requested.get(name, 0) for name, amount in info.node.allocatable.items()}
        for info in snapshot.rows
    ]
    asked = dict.fromkeys(name for shape, _ in shapes for name, _ in shape)
    totals = {name: sum(max(0, one.get(name, 0)) for one in free) for name in asked}
    lost: dict[str, float] = {}
    weights: dict[str, int] = {}
    for shape, weight in shapes:
        unfit = [one for one in free if not _fits(one, shape)]
        for name, _ in shape:
            if totals[name]:
                share = sum(max(0, one.get(name, 0)) for one in unfit) / totals[name]
                lost[name] = lost.get(name, 0.0) + weight * share
                weights[name] = weights.get(name, 0) + weight
    return {name: round(lost[name] / weights[name], 4) for name in weights}


def _fits(free: Mapping[str, int], shape: Shape) -> bool:
    return free.get(PODS, 1) > 0 and all(free.get(name, 0) >= amount for name, amount in shape)
