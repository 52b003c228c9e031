"""What a rerun came to: where each pod went, and how full and how fragmented the cluster was, beside the record."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from wharfinger.framework.snapshot import Snapshot
from wharfinger.model.node import CPU, PODS
from wharfinger.replaying.rerun import LivedPod, Rerun
from wharfinger.whatif.use import use_of

SHAPES = 20
"""The most frequent requests of pods, by which fragmentation is measured."""
SHOWN = 100

Shape = tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class Moment:
    """Both clusters at one revision."""

    revision: int
    use: tuple[Mapping[str, float], Mapping[str, float]]
    """Per cent in use by resource, in the record and in the rerun."""
    fragmentation: tuple[Mapping[str, float], Mapping[str, float]]
    """By resource, the share of what is free that lies on nodes where a pod that asks for it does not fit."""


@dataclass(slots=True)
class RerunReport:
    """Figures of a rerun, under the names that conditions know."""

    told: tuple[str, ...] = ()
    counts: Counter[str] = field(default_factory=Counter)
    moments: list[Moment] = field(default_factory=list)
    pods: list[dict[str, str]] = field(default_factory=list)
    evictions: list[tuple[str, str]] = field(default_factory=list)
    stopped: bool = False

    @property
    def decisions(self) -> int:
        """Pods that were decided for."""
        return self.counts.total()

    @property
    def packed(self) -> float | None:
        """Share of all cpu in use at the end, in the rerun; None where nothing happened."""
        return self.moments[-1].use[1].get(CPU, 0.0) / 100 if self.moments else None

    def close(self, rerun: Rerun) -> None:
        """Take in where all pods ended."""
        for pod in rerun.lived:
            if pod.ours:
                verdict = _verdict(pod)
                self.counts[verdict] += 1
                if verdict != "same" and len(self.pods) < SHOWN:
                    told = {"recorded": pod.recorded, "again": pod.node, "message": pod.message}
                    self.pods.append({"pod": str(pod.key), "verdict": verdict, **told})
        self.evictions = [(str(victim), str(preemptor)) for victim, preemptor in rerun.evictions]
        self.stopped = rerun.stopped

    def to_plain(self) -> dict[str, Any]:
        """As in docs/json-outputs.md, but for what only the caller knows."""
        names = ("same", "elsewhere", "refused", "placed", "otherwise")
        return {
            "mode": "rerun",
            "change": list(self.told),
            "decisions": self.decisions,
            "summary": {name: self.counts[name] for name in names},
            "evictions": [{"victim": victim, "preemptor": by} for victim, by in self.evictions[:SHOWN]],
            "evictionCount": len(self.evictions),
            "stopped": self.stopped,
            "overTime": [
                {
                    "revision": one.revision,
                    "recorded": {"use": dict(one.use[0]), "fragmentation": dict(one.fragmentation[0])},
                    "again": {"use": dict(one.use[1]), "fragmentation": dict(one.fragmentation[1])},
                }
                for one in self.moments
            ],
            "pods": self.pods,
        }


def _verdict(pod: LivedPod) -> str:
    if pod.recorded and pod.node:
        return "same" if pod.recorded == pod.node else "elsewhere"
    if pod.recorded or pod.node:
        return "placed" if pod.node else "refused"
    return "otherwise"


def moment(revision: int, recorded: Snapshot, again: Snapshot, shapes: Sequence[tuple[Shape, int]]) -> Moment:
    """Compare the two clusters."""
    use = tuple({name: one.percent for name, one in use_of(each).resources.items()} for each in (recorded, again))
    return Moment(revision, (use[0], use[1]), (fragmentation(recorded, shapes), fragmentation(again, shapes)))


def shapes_of(requests: Iterable[Mapping[str, int]]) -> list[tuple[Shape, int]]:
    """The most frequent requests, each with its weight."""
    found = Counter(tuple(sorted((name, amount) for name, amount in one.items() if amount)) for one in requests)
    return found.most_common(SHAPES)


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
