"""What a replay came to: how many decisions are the same, which are not, and what that does to the cluster.

Takes outcomes one by one and keeps counts, so its size does not depend on how many there are. Plain values for JSON
are in docs/json-outputs.md.
"""

from __future__ import annotations

import heapq
import itertools
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from typing import Any, ClassVar

from wharfinger.replay.recorded import Lack, Unreplayable, worker_of
from wharfinger.replay.shadow import MadeAgain
from wharfinger.scheduling.reading.comparing import Compared, DecisionSaid, Sameness

EXAMPLES = 5
"""Pods that stand for all that lack the same."""
SHOWN = 100
"""Pods that differ most."""
WORKLOADS = 1000
"""Workloads, and namespaces, that are told apart; others are one."""
REASONS = 200
OTHERS = "others"
"""Stands for the rest, of workloads, namespaces and reasons."""
ALONE = "pods of their own"
"""The workload of pods without a controller."""
STEPS = 600
"""Of packing over time, at most. They take a second each, and twice as long whenever there are more."""

COUNTED = (*Sameness, "unreplayable")
_GRAVE = {Sameness.REFUSED: 5, Sameness.PLACED: 4, Sameness.ELSEWHERE: 3, Sameness.OTHERWISE: 2, Sameness.FIGURES: 1}


@dataclass(slots=True)
class Fullness:
    """Shares of cpu and memory in use on the nodes that were chosen, with the pod on them."""

    recorded: float = 0.0
    recorded_count: int = 0
    again: float = 0.0
    again_count: int = 0

    def add(self, recorded: float | None, again: float | None) -> None:
        """Take one decision in."""
        if recorded is not None:
            self.recorded, self.recorded_count = self.recorded + recorded, self.recorded_count + 1
        if again is not None:
            self.again, self.again_count = self.again + again, self.again_count + 1

    def join(self, other: Fullness) -> None:
        """Take in all decisions of another one."""
        self.recorded, self.recorded_count = self.recorded + other.recorded, self.recorded_count + other.recorded_count
        self.again, self.again_count = self.again + other.again, self.again_count + other.again_count

    def to_plain(self) -> dict[str, float | None]:
        """The means, from 0 to 1; None where there was no placement."""
        return {
            "recorded": round(self.recorded / self.recorded_count, 4) if self.recorded_count else None,
            "again": round(self.again / self.again_count, 4) if self.again_count else None,
        }


@dataclass(slots=True)
class ReplayTally(ABC):
    """What every replay counts, whatever its mode: by verdict, profile, workload, namespace and reason."""

    mode: ClassVar[str]
    verdicts: ClassVar[Sequence[str]]
    """All that there are, in the order in which they are told."""

    told: tuple[str, ...] = ()
    """What was changed, for people; empty = nothing."""
    counts: Counter[str] = field(default_factory=Counter)
    profiles: dict[str, Counter[str]] = field(default_factory=dict)
    workloads: dict[str, Counter[str]] = field(default_factory=dict)
    namespaces: dict[str, Counter[str]] = field(default_factory=dict)
    reasons: Counter[tuple[str, str]] = field(default_factory=Counter)
    """Verdict and message, of pods that find no place, or that found none."""
    reasons_by_namespace: dict[tuple[str, str], Counter[str]] = field(default_factory=dict)

    @property
    def decisions(self) -> int:
        """All of them; of a rerun, pods that were decided for."""
        return self.counts.total()

    @property
    def made(self) -> int:
        """Those that could be made again."""
        return self.decisions - self.counts["unreplayable"]

    @property
    @abstractmethod
    def packed(self) -> float | None:
        """How full nodes would be, from 0 to 1; None where nothing was placed."""

    def count(self, verdict: str, profile: str, namespace: str, owner: str) -> str:
        """Take one in; answers the namespace as it is told. `owner`: kind and name of the controller; empty = none."""
        workload = told_apart(f"{namespace}: {owner or ALONE}", self.workloads)
        namespace = told_apart(namespace, self.namespaces)
        self.counts[verdict] += 1
        for group, name in ((self.profiles, profile), (self.workloads, workload), (self.namespaces, namespace)):
            group.setdefault(name, Counter())[verdict] += 1
        return namespace

    def count_reason(self, verdict: str, message: str, namespace: str) -> None:
        """Take in why one found no place. `namespace`: as it is told."""
        reason = verdict, message
        if reason not in self.reasons and len(self.reasons) >= REASONS:
            reason = verdict, OTHERS
        self.reasons[reason] += 1
        self.reasons_by_namespace.setdefault(reason, Counter())[namespace] += 1

    def to_plain(self) -> dict[str, Any]:
        """As in docs/json-outputs.md, but for what only the caller knows."""
        return {
            "mode": self.mode,
            "change": list(self.told),
            "decisions": self.decisions,
            "summary": self._counted(self.counts),
            **self._of_decisions(),
            "profiles": {name: self._counted(counts) for name, counts in sorted(self.profiles.items())},
            "workloads": [{"workload": name, **counts} for name, counts in self._changed(self.workloads)],
            "namespaces": [
                {"namespace": name, **counts, **self._of_namespace(name)}
                for name, counts in self._changed(self.namespaces)
            ],
            "reasons": [
                {
                    "verdict": verdict,
                    "message": message,
                    "decisions": count,
                    "namespaces": dict(self.reasons_by_namespace.get((verdict, message), Counter()).most_common()),
                }
                for (verdict, message), count in self.reasons.most_common()
            ],
            **self._of_cluster(),
        }

    def ends_to_plain(self) -> dict[str, Any] | None:
        """Where each pod ended, as a kept report has it; None where that is not known."""
        return None

    def _of_decisions(self) -> dict[str, Any]:
        """What a mode has of all decisions beside their number."""
        return {}

    def _of_namespace(self, name: str) -> dict[str, Any]:  # noqa: ARG002 - not every mode has something
        """What a mode has of one namespace."""
        return {}

    @abstractmethod
    def _of_cluster(self) -> dict[str, Any]:
        """What a mode has of the cluster, and the pods that differ most."""

    def _counted(self, counts: Mapping[str, int]) -> dict[str, int]:
        return {str(name): counts.get(name, 0) for name in self.verdicts}

    def _changed(self, found: Mapping[str, Counter[str]]) -> list[tuple[str, dict[str, int]]]:
        """Those with most that is not the same go first."""
        ordered = sorted(found.items(), key=lambda entry: entry[1].total() - entry[1]["same"], reverse=True)
        return [(name, self._counted(counts)) for name, counts in ordered]


@dataclass(slots=True)
class Report(ReplayTally):
    """The report of a shadow replay; give it every outcome."""

    mode = "shadow"
    verdicts = COUNTED

    differs: Counter[str] = field(default_factory=Counter)
    lacks: dict[Lack, Counter[str]] = field(default_factory=dict)
    """By namespace."""
    examples: dict[Lack, list[tuple[str, str]]] = field(default_factory=dict)
    software: Counter[str] = field(default_factory=Counter)
    """Decisions by the digest of what decided; empty for earlier releases."""
    packing: Fullness = field(default_factory=Fullness)
    packing_by_namespace: dict[str, Fullness] = field(default_factory=dict)
    over_time: dict[int, Fullness] = field(default_factory=dict)
    """By the step, since 1970, in which the run began."""
    step: int = 1
    """Seconds of a step."""
    most_steps: int = STEPS
    _most: list[tuple[int, int, int, dict[str, Any]]] = field(default_factory=list)
    _order: itertools.count[int] = field(default_factory=itertools.count)

    @property
    def same_share(self) -> float | None:
        """Of those that could be made again, from 0 to 1; None where there was none."""
        return self.counts[Sameness.SAME] / self.made if self.made else None

    @property
    def packed(self) -> float | None:
        """How full the nodes that are chosen again are, from 0 to 1; None where none is."""
        return self.packing.to_plain()["again"]

    def add(self, outcome: MadeAgain) -> None:
        """Take one in."""
        found = outcome.again.found
        verdict = "unreplayable" if isinstance(found, Unreplayable) else str(found.verdict)
        pod = outcome.again.pod
        owner = "/".join(pod.controller) if pod is not None and pod.controller else ""
        namespace = self.count(verdict, outcome.computation.profile_name, outcome.again.key.namespace, owner)
        life = worker_of(outcome.computation)
        self.software[life.partition("-")[0] if outcome.computation.incarnation else ""] += 1
        if isinstance(found, Unreplayable):
            self._lacking(outcome, found, namespace)
        else:
            self._compared(outcome, found, namespace)

    def unread(self, run: str, why: str) -> None:
        """A run whose decisions are not known: it counts as one that cannot be made again. `run`: its ids."""
        self.counts["unreplayable"] += 1
        self.lacks.setdefault(Lack.RECORD, Counter())[""] += 1
        examples = self.examples.setdefault(Lack.RECORD, [])
        if len(examples) < EXAMPLES:
            examples.append((run, why))

    def _lacking(self, outcome: MadeAgain, found: Unreplayable, namespace: str) -> None:
        self.lacks.setdefault(found.lack, Counter())[namespace] += 1
        examples = self.examples.setdefault(found.lack, [])
        if len(examples) < EXAMPLES:
            examples.append((str(outcome.again.key), found.detail))

    def _compared(self, outcome: MadeAgain, found: Compared, namespace: str) -> None:
        self.differs.update(found.differs)
        self.packing.add(*outcome.fill)
        self.packing_by_namespace.setdefault(namespace, Fullness()).add(*outcome.fill)
        self.over_time.setdefault(int(outcome.run.started // self.step), Fullness()).add(*outcome.fill)
        if len(self.over_time) > self.most_steps:
            self._widen()
        verdict = found.verdict
        if verdict is Sameness.SAME:
            return
        if verdict in (Sameness.REFUSED, Sameness.PLACED, Sameness.OTHERWISE):
            self.count_reason(str(verdict), found.again.message or found.recorded.message, namespace)
        self._keep(outcome, found)

    def _widen(self) -> None:
        """Make each two steps one."""
        self.step *= 2
        before, self.over_time = self.over_time, {}
        for place, one in before.items():
            self.over_time.setdefault(place // 2, Fullness()).join(one)

    def _keep(self, outcome: MadeAgain, found: Compared) -> None:
        apart = _apart(found)
        entry = (_GRAVE[found.verdict], apart, -next(self._order), _pod(outcome, found, apart))
        if len(self._most) < SHOWN:
            heapq.heappush(self._most, entry)
        else:
            heapq.heappushpop(self._most, entry)

    @property
    def pods(self) -> list[dict[str, Any]]:
        """Those that differ most, newly refused ones first."""
        return [entry[3] for entry in sorted(self._most, key=lambda entry: entry[:3], reverse=True)]

    def _of_decisions(self) -> dict[str, Any]:
        return {
            "sameShare": round(self.same_share, 6) if self.same_share is not None else None,
            "differs": dict(self.differs.most_common()),
            "unreplayable": [
                {
                    "lack": str(lack),
                    "decisions": found.total(),
                    "namespaces": dict(found.most_common()),
                    "examples": [{"pod": pod, "detail": detail} for pod, detail in self.examples[lack]],
                }
                for lack, found in sorted(self.lacks.items(), key=lambda entry: -entry[1].total())
            ],
        }

    def _of_namespace(self, name: str) -> dict[str, Any]:
        return {"packing": (self.packing_by_namespace.get(name) or Fullness()).to_plain()}

    def _of_cluster(self) -> dict[str, Any]:
        return {
            "packing": self.packing.to_plain(),
            "packingOverTime": [
                {"time": written(place * self.step), **packing.to_plain()}
                for place, packing in sorted(self.over_time.items())
            ],
            "pods": self.pods,
        }


def told_apart(name: str, known: Collection[str]) -> str:
    """The name, or `OTHERS` once so many are known that this one is not told apart."""
    return name if name in known or len(known) < WORKLOADS else OTHERS


def _apart(found: Compared) -> int:
    """How far the scores of the two nodes are apart."""
    if found.recorded.total is None or found.again.total is None:
        return 0
    return abs(found.recorded.total - found.again.total)


def _pod(outcome: MadeAgain, found: Compared, apart: int) -> dict[str, Any]:
    return {
        "pod": str(outcome.again.key),
        "verdict": str(found.verdict),
        "differs": list(found.differs),
        "apart": apart,
        "revision": outcome.computation.revision,
        "profile": outcome.computation.profile_name,
        "workflowId": outcome.run.workflow_id,
        "runId": outcome.run.run_id,
        "recorded": _said(found.recorded),
        "again": _said(found.again),
    }


def _said(said: DecisionSaid) -> dict[str, Any]:
    plain = asdict(said)
    plain["nominatedNode"] = plain.pop("nominated_node")
    return {name: list(value) if isinstance(value, tuple) else value for name, value in plain.items()}


def written(seconds: float) -> str:
    """A time since 1970 as RFC 3339, whole seconds."""
    return datetime.fromtimestamp(int(seconds), UTC).isoformat().replace("+00:00", "Z")
