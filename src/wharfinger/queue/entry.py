"""The queue's entry of one pod, and the parts it can be in."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from wharfinger.model.gang import Gang
from wharfinger.model.pod import Pod, PodKey
from wharfinger.model.refusal import Refusal

SEEN = "seen"
"""Why a pod is started that is new."""
CHAIN_GONE = "chain gone"
"""Why a waiting pod is started anew: its record names a chain that is not there any more."""
UNCONFIRMED = "unconfirmed"
"""Why a pod is started again: etcd showed no outcome of the start before."""
RUN_FAILED = "run failed"
"""Why a pod is started again: the run of its group failed."""
UNANSWERED = "etcd did not answer"
"""Why a pod is started again: the run of its group failed, by no fault of its pods."""
START_FAILED = "start failed"
"""Why a pod is started again: Temporal did not accept the start of its group."""
LEVEL = "level"
"""Why a waiting pod is started again, slowly and for ever."""


class Part(StrEnum):
    """The four parts of the queue; a pod is in exactly one of them."""

    GATED = "gated"
    ACTIVE = "active"
    IN_FLIGHT = "in-flight"
    WAITING = "waiting"


@dataclass(frozen=True, slots=True)
class Reason:
    """What made a waiting pod a candidate; for the explanation."""

    event: str
    object: str = ""
    plugin: str = ""


@dataclass(slots=True, eq=False)
class Entry:
    """One life of a pod in the queue. Changed by the queue only."""

    pod: Pod
    """As last seen."""
    since: float
    """Clock seconds at which the pod could first be started here: when it was seen, or when its gates opened."""
    arrival: float
    """Orders pods of equal priority, clock seconds: when it was last ungated, or a start was not confirmed in time."""
    part: Part
    cause: str
    """Why it is to be started: `seen`, `take-over`, `unconfirmed`, `chain gone`, ..."""
    woken_by: Reason | None = None
    """What it was woken by last; it counts while `cause` is its event."""
    refusal: Refusal | None = None
    """Its record, as last seen; None when it has none."""
    number: int = 0
    """Orders pods that arrived at one moment; a pod that comes back keeps it, and so its place."""
    not_before: float = 0.0
    """Clock seconds before which it is not started (a gained pod's owner must be unchanged a while)."""
    refused_at: float = 0.0
    """Clock seconds at which its record was first seen here: its back-off runs from then on."""
    started_at: float | None = None
    """Clock seconds of the last start that Temporal accepted; None while the start is on its way."""
    gate: str = ""
    """The PreEnqueue plugin that holds it back, or what its gang lacks; for gated pods."""
    unopened: bool = False
    """Whether it has been gated since it was first seen."""
    group: str = ""
    """The group in flight in which it counts, see `queue.window`; empty when it counts in none."""
    cohort: str = ""
    """The cohort or gang that was last started for it and others; empty when it was started by itself."""
    gang: Gang | None = None
    """What it is placed as one of; None when it is placed by itself."""
    together: bool = False
    """Woken while its chain is parked, to be placed by a cohort only; until it is bound or refused again."""
    woken: bool = False
    """Whether a chain without any record in etcd was woken, see `SchedulingQueue.may_be_parked`."""
    own_chain: bool = False
    """Whether a start of its own chain was accepted: should a cohort bind the pod, that may be parked unbeknown."""
    alone: bool = False
    """Not to be put into a group: one could not be started with it, or two gave no outcome for it."""
    set_apart: int = 0
    """How often that was found. After the first time, it joins groups again once its own attempt has a record."""
    start_failed: int | None = None
    """`Window.acceptances` when the start of this pod alone failed last; None after a start that was accepted."""

    @property
    def key(self) -> PodKey:
        """The pod's key."""
        return self.pod.key

    @property
    def chained(self) -> bool:
        """Whether a chain of its own is parked, as far as is known here."""
        return self.refusal is not None and self.refusal.parked and self.cause != CHAIN_GONE

    @property
    def chainless(self) -> bool:
        """Whether it has a record, and no chain."""
        return self.refusal is not None and not self.refusal.parked

    @property
    def record_revision(self) -> int:
        """Mod revision of its record, 0 when it has none."""
        return self.refusal.record_revision if self.refusal is not None else 0
