"""What a replay came to: how many decisions are the same, which are not, and what that does to the cluster.

Takes outcomes one by one and keeps counts, so its size does not depend on how many there are. Plain values for JSON
are in docs/json-outputs.md.
"""

from __future__ import annotations

import heapq
import itertools
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from typing import Any

from wharfinger.model.pod import Pod
from wharfinger.replaying.comparing import Compared, DecisionSaid, Sameness
from wharfinger.replaying.recorded import worker_of
from wharfinger.replaying.shadow import MadeAgain
from wharfinger.replaying.unreplayable import Lack, Unreplayable

EXAMPLES = 5
"""Pods that stand for all that lack the same."""
SHOWN = 100
"""Pods that differ most."""
WORKLOADS = 1000
"""Workloads that are told apart; others are one."""
REASONS = 200
OTHERS = "others"
SECONDS = 60
"""Of a step of packing over time."""

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

    def to_plain(self) -> dict[str, float | None]:
        """The means, from 0 to 1; None where there was no placement."""
        return {
            "recorded": round(self.recorded / self.recorded_count, 4) if self.recorded_count else None,
            "again": round(self.again / self.again_count, 4) if self.again_count else None,
        }


@dataclass(slots=True)
class Report:
    """Give it every outcome."""

    told: tuple[str, ...] = ()
    """What was changed, for people; empty = nothing."""
    counts: Counter[str] = field(default_factory=Counter)
    profiles: dict[str, Counter[str]] = field(default_factory=dict)
    workloads: dict[str, Counter[str]] = field(default_factory=dict)
    differs: Counter[str] = field(default_factory=Counter)
    lacks: dict[Lack, int] = field(default_factory=dict)
    examples: dict[Lack, list[tuple[str, str]]] = field(default_factory=dict)
    reasons: Counter[tuple[str, str]] = field(default_factory=Counter)
    """Sameness and message, of pods that are newly refused, newly placed or refused otherwise."""
    software: Counter[str] = field(default_factory=Counter)
    """Decisions by the digest of what decided; empty for earlier releases."""
    packing: Fullness = field(default_factory=Fullness)
    over_time: dict[int, Fullness] = field(default_factory=dict)
    """By the minute, since 1970, in which the run began."""
    _most: list[tuple[int, int, int, dict[str, Any]]] = field(default_factory=list)
    _order: itertools.count[int] = field(default_factory=itertools.count)

    @property
    def decisions(self) -> int:
        """All of them."""
        return self.counts.total()

    @property
    def same_share(self) -> float:
        """Of those that could be made again, from 0 to 1; 1 where there was none."""
        made = self.decisions - self.counts["unreplayable"]
        return self.counts[Sameness.SAME] / made if made else 1.0

    @property
    def packed(self) -> float | None:
        """How full the nodes that are chosen again are, from 0 to 1; None where none is."""
        return self.packing.to_plain()["again"]

    def add(self, outcome: MadeAgain) -> None:
        """Take one in."""
        found = outcome.again.found
        verdict = "unreplayable" if isinstance(found, Unreplayable) else str(found.verdict)
        self.counts[verdict] += 1
        self.profiles.setdefault(outcome.computation.profile_name, Counter())[verdict] += 1
        self._workload(outcome.again.pod, outcome.again.key.namespace)[verdict] += 1
        self.software[_software(outcome)] += 1
        if isinstance(found, Unreplayable):
            self._lacking(outcome, found)
        else:
            self._compared(outcome, found)

    def _workload(self, pod: Pod | None, namespace: str) -> Counter[str]:
        owner = (
            f"{pod.controller[0]}/{pod.controller[1]}" if pod is not None and pod.controller else "pods of their own"
        )
        name = f"{namespace}: {owner}"
        if name not in self.workloads and len(self.workloads) >= WORKLOADS:
            name = OTHERS
        return self.workloads.setdefault(name, Counter())

    def _lacking(self, outcome: MadeAgain, found: Unreplayable) -> None:
        self.lacks[found.lack] = self.lacks.get(found.lack, 0) + 1
        examples = self.examples.setdefault(found.lack, [])
        if len(examples) < EXAMPLES:
            examples.append((str(outcome.again.key), found.detail))

    def _compared(self, outcome: MadeAgain, found: Compared) -> None:
        self.differs.update(found.differs)
        self.packing.add(*outcome.fill)
        self.over_time.setdefault(int(outcome.run.started // SECONDS), Fullness()).add(*outcome.fill)
        verdict = found.verdict
        if verdict is Sameness.SAME:
            return
        if verdict in (Sameness.REFUSED, Sameness.PLACED, Sameness.OTHERWISE):
            reason = str(verdict), found.again.message or found.recorded.message
            if reason not in self.reasons and len(self.reasons) >= REASONS:
                reason = str(verdict), OTHERS
            self.reasons[reason] += 1
        self._keep(outcome, found)

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

    def to_plain(self) -> dict[str, Any]:
        """All of it, but for what only the caller knows."""
        return {
            "change": list(self.told),
            "decisions": self.decisions,
            "summary": _counted(self.counts),
            "sameShare": round(self.same_share, 6),
            "differs": dict(self.differs.most_common()),
            "unreplayable": [
                {
                    "lack": str(lack),
                    "decisions": count,
                    "examples": [{"pod": pod, "detail": detail} for pod, detail in self.examples[lack]],
                }
                for lack, count in sorted(self.lacks.items(), key=lambda entry: -entry[1])
            ],
            "profiles": {name: _counted(counts) for name, counts in sorted(self.profiles.items())},
            "workloads": [
                {"workload": name, **_counted(counts)}
                for name, counts in sorted(self.workloads.items(), key=_changed, reverse=True)
            ],
            "reasons": [
                {"verdict": verdict, "message": message, "decisions": count}
                for (verdict, message), count in self.reasons.most_common()
            ],
            "packing": self.packing.to_plain(),
            "packingOverTime": [
                {"time": _minute(minute), **packing.to_plain()} for minute, packing in sorted(self.over_time.items())
            ],
            "pods": self.pods,
        }


def _counted(counts: Mapping[str, int]) -> dict[str, int]:
    return {str(name): counts.get(str(name), 0) for name in COUNTED}


def _changed(entry: tuple[str, Counter[str]]) -> int:
    return entry[1].total() - entry[1][Sameness.SAME]


def _software(outcome: MadeAgain) -> str:
    life = worker_of(outcome.computation)
    return life.partition("-")[0] if outcome.computation.incarnation else ""


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


def _minute(minute: int) -> str:
    return datetime.fromtimestamp(minute * SECONDS, UTC).isoformat().replace("+00:00", "Z")
