"""The contract of `ScheduleCohort` and its activities: many pods decided together, committed in few transactions.

A gang is a cohort whose members are bound in one transaction, or none of them. What many pods share is stored once and
referred to by its index, so that a cohort of 200 pods stays far below Temporal's limits. `ScheduleAttempt` has its own
activities (`wharfinger.scheduling.contracts.scheduling`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from datetime import timedelta
from typing import Any, Literal

from pydantic import Field
from temporalio import activity
from temporalio.common import RetryPolicy, SearchAttributeKey

from wharfinger.objects.model.gang import MOST_TOGETHER
from wharfinger.process.contract import Contract, Sparse
from wharfinger.process.names import SEARCH_PODS, FailureType
from wharfinger.scheduling.contracts.attempts import AttemptTimings, Wake
from wharfinger.scheduling.contracts.computation import Computation, LateVerdict, PluginRefusal, ScoredNode
from wharfinger.scheduling.contracts.eviction import Victim

PODS_KEY = SearchAttributeKey.for_keyword_list(SEARCH_PODS)

MOST_PODS = MOST_TOGETHER
"""Pods in one cohort, at most."""
MOST_BYTES = 400_000
"""Of what a cohort's input may come to as JSON: its decisions are about three times that, and Temporal takes 2 MiB."""


class CohortPod(Contract):
    """One pod of a cohort."""

    namespace: str
    name: str
    uid: str = ""
    revision: int = 0
    """A revision of etcd that the deciding worker must have seen of it."""
    attempt: int = 1
    """Number of this try among the pod's attempts, for its record."""
    recorded: bool = False
    """Whether it has an attempt record, which its bind deletes."""
    chained: bool = False
    """Whether a chain of its own is parked: its record goes on naming that."""
    record_revision: int | None = None
    """Mod revision of its record, 0 without one: a newer one is left as it is. None = not known, it is overwritten."""
    woken_by: str = ""
    """For the explanation: why the dispatcher started this pod; empty when it was new, or an event woke it."""
    wake: Wake | None = None
    """For the explanation: the event by which the pod was woken since its last attempt."""


class GangName(Contract):
    """A pod group whose members are placed together."""

    namespace: str
    name: str


class Turn(Contract):
    """Which of a dispatcher's cohorts this is: one is decided after the other, in order of priority."""

    dispatcher: str
    """The worker process that formed it."""
    number: int


class CohortInput(Contract):
    """Which pods to place, in this order; or which gang, whose members are looked up when it is decided."""

    pods: tuple[CohortPod, ...] = Field(default=(), max_length=MOST_PODS)
    gang: GangName | None = None
    revision: int = 0
    """For a gang: a revision of etcd that the deciding worker must have seen."""
    woken_by: str = ""
    """For the explanation: why the dispatcher formed it."""
    turn: Turn | None = None
    timings: AttemptTimings = AttemptTimings()


class CohortResult(Contract):
    """How many pods a cohort bound, and what became of the others."""

    outcome: Literal["bound", "refused", "contended", "gone"]
    """`bound`: all that were still to be placed; otherwise what hindered the rest."""
    bound: int = 0
    refused: int = 0
    contended: int = 0
    skipped: int = 0
    gone: dict[str, int] = Field(default_factory=dict)
    """How many pods were not to be placed any more, by why: `bound` (by another run), or a `GoneReason`."""
    detail: str = ""
    """For a gang that ends as `gone`: one line with why no member is to be placed."""
    attempt: int = 1


def cohort_retry() -> RetryPolicy:
    """The retry policy of a cohort without a gang: none, because its pods come back by the queue at once."""
    return RetryPolicy(
        maximum_attempts=1,
        non_retryable_error_types=[FailureType.WRONG_ID.value, FailureType.INVALID_INPUT.value],
    )


# --- place_many -----------------------------------------------------------------------------------


class PlaceManyInput(Contract):
    """Input of `place_many`."""

    pods: tuple[CohortPod, ...] = ()
    gang: GangName | None = None
    revision: int = 0
    turn: Turn | None = None
    workflow_id: str
    run_id: str


class Stretch(Contract):
    """Pods decided without anything else happening in between: on one snapshot, each seeing those before it."""

    first_seat: int
    """How many seats had been taken before: a decision of this stretch saw the seats from there up to its own."""
    computation: Computation
    """What they have in common; `feasible` and `micros` are of the stretch's first decision and of all of them."""


class Reasons(Contract):
    """Why plugins refused nodes; many pods have the same."""

    refusals: tuple[PluginRefusal, ...] = ()
    rejectors: tuple[str, ...] = ()
    """Of pods that were refused: the plugins that refused first on some node, sorted."""
    message: str = ""
    """Of pods that were refused: the FailedScheduling text in kube-scheduler's words."""


class Seat(Contract):
    """A pod's place on a node: decided, and assumed there."""

    namespace: str
    name: str
    uid: str
    create_revision: int
    pod_revision: int
    node: str
    score: int | None = None
    """Total; None when only one node was feasible."""
    plugins: dict[str, int] = Field(default_factory=dict)
    """The chosen node's weighted score of each plugin."""
    others: dict[str, int] = Field(default_factory=dict)
    """The runners-up and their totals, best first."""
    feasible: int = 0
    reasons: int | None = None
    """Index of why other nodes were refused; None = none was."""
    stretch: int = 0
    attempt: int = 1
    recorded: bool = False
    chained: bool = False
    record_revision: int | None = None
    plugin_data: dict[str, Any] = Field(default_factory=dict)

    def to_commit(self) -> Seat:
        """What `bind_many` needs of it; the rest is in the history already."""
        return self.model_copy(update={"plugins": {}, "reasons": None, "score": None})


class TurnedAway(Sparse):
    """A pod for which there is no node now."""

    namespace: str
    name: str
    uid: str
    create_revision: int
    pod_revision: int
    reasons: int
    """Index of why."""
    after_seat: int = 0
    """How many seats had been taken when it was decided."""
    stretch: int = 0
    attempt: int = 1
    chained: bool = False
    record_revision: int | None = None
    own_attempt: bool = False
    """Whether an attempt of its own may help at once (it could preempt, or only assumed pods are in the way)."""
    nominated_node: str = ""
    """For a gang's member: where it will fit once the victims are gone."""
    victims: tuple[Victim, ...] = ()
    victim_count: int = 0
    victims_digest: str = ""
    """Of a lone pod's many victims, as in `Refused`."""
    late: LateVerdict | None = None
    """Who refused the node that was chosen for it, and with it the whole gang of a member; None = no node was."""


class Skipped(Contract):
    """A pod that was not decided: it is no longer pending by this worker's cache, or not in it yet."""

    namespace: str
    name: str
    reason: str
    gone: str = ""
    """When there is nothing to place any more: `bound`, or a `GoneReason`. Empty = the pod may still be pending."""


class SeatRanking(Sparse):
    """What the decision of a lone pod tells beyond its seat."""

    nodes: tuple[ScoredNode, ...] = ()
    """The chosen node and the runners-up with the score of each plugin, best first."""
    passed_over: ScoredNode | None = None
    """As in `Placed`."""

    @property
    def others(self) -> dict[str, int]:
        """The runners-up and their totals, best first."""
        return {one.node: one.total for one in self.nodes[1:]}


class PlacedMany(Contract):
    """The decisions of a cohort. Of a gang: no seat; or seats for all members that it needs, and its surplus ones.

    Surplus members without a seat are turned away.
    """

    seats: tuple[Seat, ...] = ()
    turned_away: tuple[TurnedAway, ...] = ()
    skipped: tuple[Skipped, ...] = ()
    reasons: tuple[Reasons, ...] = ()
    stretches: tuple[Stretch, ...] = ()
    rankings: tuple[SeatRanking, ...] = ()
    """Of a small cohort: one for each seat, for the explanation; empty for others."""
    domain: str = ""
    """For a gang with topology keys: the domain that was chosen, as in `Computation.domain`."""
    only_assumed: bool = False
    """For a gang: without the pods that are only assumed it would fit."""
    leaving: float = 0.0
    """For a gang: seconds until earlier victims, which it waits for, are overdue; 0 = it waits for none."""

    @property
    def decided(self) -> list[Seat | TurnedAway]:
        """The pods that were decided."""
        return [*self.seats, *self.turned_away]

    @property
    def revision(self) -> int:
        """Of the first snapshot; 0 = nothing was decided."""
        return self.stretches[0].computation.revision if self.stretches else 0


# --- bind_many ------------------------------------------------------------------------------------


class BindManyInput(Contract):
    """Input of `bind_many`: the seats to commit."""

    seats: tuple[Seat, ...]
    computations: tuple[Computation, ...]
    """By the seats' `stretch`: revision and profile of each; overlays are left out."""
    whole: bool = False
    """All in one transaction, or none."""
    domain: str = ""
    """For a gang with topology keys: the labels that all nodes must have still, as in `Computation.domain`."""
    workflow_id: str
    run_id: str


class BoundPod(Contract):
    """A pod that is on its node now."""

    namespace: str
    name: str
    node: str
    revision: int
    notes: tuple[str, ...] = ()
    """What happened on the way, for the explanation."""


class Unbound(Contract):
    """A pod that could not be committed."""

    namespace: str
    name: str
    uid: str = ""
    create_revision: int = 0
    kind: Literal["contended", "rejected", "gone"]
    plugin: str = ""
    """Of `rejected`: whose refusal it is."""
    message: str = ""
    reason: str = ""
    """Of `gone`: `bound`, or a `GoneReason`."""


class BoundMany(Contract):
    """What became of the seats."""

    bound: tuple[BoundPod, ...] = ()
    unbound: tuple[Unbound, ...] = ()
    transactions: int = 0


# --- record_many ----------------------------------------------------------------------------------

RecordReason = Literal["Unschedulable", "Contended"]


class RecordManyInput(Contract):
    """Input of `record_many`: pods that wait now, with what their conditions and records say."""

    turned_away: tuple[TurnedAway, ...]
    reasons: tuple[Reasons, ...]
    revision: int = 0
    """The snapshot's."""
    reason: RecordReason = "Unschedulable"
    gang: GangName | None = None
    """Then the records name the gang's chain, which stays open."""
    workflow_id: str
    run_id: str


class RecordedMany(Contract):
    """The records are written, or say the same already."""

    recorded: int = 0
    gone: int = 0
    gone_reasons: dict[str, int] = Field(default_factory=dict)
    """How many of `gone`, by `bound` or `GoneReason`; empty when the worker is of a release before 0.2."""
    revision: int = 0
    """Of etcd, at or past the last record's."""
    lapsed: tuple[str, ...] = ()
    """Members (`namespace/name`) whose nomination would not help any more: nothing was nominated for them."""
    record_revisions: dict[str, int] = Field(default_factory=dict)
    """For a gang: mod revision of each nominated member's record, by `namespace/name`."""


class CohortScheduling(ABC):
    """Activities of a cohort, by their registered names."""

    @activity.defn(name="place_many")
    @abstractmethod
    async def place_many(self, request: PlaceManyInput) -> PlacedMany:
        """Decide the pods in order on this worker's evolving snapshot, and assume them there (local activity).

        A pod whose plugins fail is turned away: an attempt of its own reports it, and tries again.
        """

    @activity.defn(name="bind_many")
    @abstractmethod
    async def bind_many(self, request: BindManyInput) -> BoundMany:
        """Commit the seats in as few transactions as etcd's limits allow; safe to run again.

        Fails with `Unavailable` when etcd did not answer for some of them; running it again finds those that are bound.
        """

    @activity.defn(name="record_many")
    @abstractmethod
    async def record_many(self, request: RecordManyInput) -> RecordedMany:
        """Write condition, nomination and record of each pod that waits now. Safe to run again."""


COHORT_COMMIT_TIMEOUT = timedelta(seconds=8)
"""Start-to-close of `bind_many` and `record_many`."""
COHORT_COMMIT_DEADLINE = timedelta(seconds=25)
"""Schedule-to-close: after it the cohort is given up, and the dispatcher, which saw no outcome in etcd, starts anew."""
