"""Which faults strike when: drawn from a seed, so that the same seed strikes the same blows."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from random import Random


class Kind(StrEnum):
    """What can go wrong."""

    KILL_WORKER = "kill-worker"
    """SIGKILL; another one takes its place at the end."""
    STOP_WORKER = "stop-worker"
    """SIGSTOP, SIGCONT at the end: it wakes up in a world that went on."""
    DRAIN_WORKER = "drain-worker"
    """SIGTERM; another one takes its place at the end."""
    KILL_ETCD = "kill-etcd"
    STOP_ETCD = "stop-etcd"
    KILL_TEMPORAL = "kill-temporal"
    STOP_TEMPORAL = "stop-temporal"
    CUT_ETCD = "cut-etcd"
    """Between one worker and etcd: connections end, new ones too."""
    STALL_ETCD = "stall-etcd"
    """... nothing passes, and all of it arrives at the end."""
    DEAF_ETCD = "deaf-etcd"
    """... requests pass, answers never come: what was committed is in doubt."""
    WATCH_ETCD = "watch-etcd"
    """... only what is watched comes late."""
    CUT_TEMPORAL = "cut-temporal"
    STALL_TEMPORAL = "stall-temporal"
    DEAF_TEMPORAL = "deaf-temporal"
    COMPACT = "compact"
    """etcd forgets what was: a watch that is behind is cancelled, and must list again."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One blow."""

    at: float
    """Seconds after the beginning."""
    seconds: float
    kind: Kind
    worker: int = 0
    """Which one, where one is meant."""

    @property
    def end(self) -> float:
        return self.at + self.seconds

    @property
    def what(self) -> str:
        """What it strikes; only one blow at a time strikes the same."""
        action, _, target = self.kind.partition("-")
        if action in ("cut", "stall", "deaf", "watch"):
            return f"{target} of worker {self.worker}"
        return f"worker {self.worker}" if target == "worker" else target or "compaction"

    def __str__(self) -> str:
        whom = f" {self.worker}" if "worker" in self.what else ""
        return f"{self.at:.1f}-{self.end:.1f} {self.kind}{whom}"


_KINDS: dict[Kind, tuple[int, float, float]] = {
    Kind.KILL_WORKER: (3, 0.5, 4),
    Kind.STOP_WORKER: (4, 1, 14),
    Kind.DRAIN_WORKER: (1, 2, 6),
    Kind.KILL_ETCD: (2, 0.1, 3),
    Kind.STOP_ETCD: (2, 0.3, 7),
    Kind.KILL_TEMPORAL: (1, 0.5, 4),
    Kind.STOP_TEMPORAL: (2, 0.5, 12),
    Kind.CUT_ETCD: (2, 0.1, 6),
    Kind.STALL_ETCD: (3, 0.5, 12),
    Kind.DEAF_ETCD: (3, 0.3, 8),
    Kind.WATCH_ETCD: (3, 1, 14),
    Kind.CUT_TEMPORAL: (1, 0.1, 6),
    Kind.STALL_TEMPORAL: (2, 0.5, 12),
    Kind.DEAF_TEMPORAL: (1, 0.5, 8),
    Kind.COMPACT: (4, 0.0, 0.0),
}
"""How often each is drawn, and for how many seconds. Leases of the tests last 3 s; calls to etcd give up after 5 s and
10 s, watches after 20 s, a worker without Temporal withdraws after 10 s."""


def draw(
    seed: int, seconds: float, workers: int, *, every: float = 2.5, longest: float = 60.0, stretch: float = 1.0
) -> tuple[Fault, ...]:
    """Faults that are all over after so many seconds; on average one begins every `every` seconds.

    `longest`: no fault lasts longer; `stretch`: they last so many times as long as usual.
    """
    rng = Random(f"faults {seed}")
    kinds, weights = list(_KINDS), [weight for weight, _, _ in _KINDS.values()]
    busy: dict[str, float] = {}
    found: list[Fault] = []
    now = 0.0
    while (now := now + rng.expovariate(1 / every)) < seconds - 0.5:
        kind = rng.choices(kinds, weights)[0]
        _, shortest, most = _KINDS[kind]
        fault = Fault(
            round(now, 1),
            round(min(rng.uniform(shortest, most) * stretch, longest, seconds - now), 1),
            kind,
            rng.randrange(workers),
        )
        if busy.get(fault.what, 0.0) < fault.at:
            busy[fault.what] = fault.end + 0.5
            found.append(fault)
    return tuple(found)
