"""The contract of an attempt's activities: the inputs of `ScheduleAttempt`, and the outcomes.

The abstract class is what the workflow calls; `wharfinger.activities` implements it under the same
names. Outcomes are values: only an error is an exception (an `ApplicationError` of a `FailureType`,
which the workflow's retry policy retries). Neighbours: `contracts.attempts` has the workflow's own
input, signals and result; `contracts.computation` how a decision was made.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from datetime import timedelta
from typing import Annotated, Any, Literal

from pydantic import Field, SerializerFunctionWrapHandler, model_serializer
from temporalio import activity
from temporalio.common import RetryPolicy

from wharfinger.process.contract import Contract, Sparse
from wharfinger.scheduling.contracts.attempts import AttemptResult, GoneReason
from wharfinger.scheduling.contracts.computation import Computation, LateVerdict, PluginRefusal, ScoredNode
from wharfinger.scheduling.contracts.eviction import Evicted, EvictInput, Victim
from wharfinger.scheduling.contracts.extenders import (
    NO_ANSWERS,
    AskExtenders,
    ExtenderAnswers,
    ExtendersAnswered,
    ExtendersFailed,
)
from wharfinger.scheduling.contracts.plugin_calls import NO_CALLS, CallsMade, Held, PluginAnswer, PluginStep

# --- place ----------------------------------------------------------------------------------------


class PlaceInput(Contract):
    """Input of `place`."""

    namespace: str
    name: str
    uid: str = ""
    revision: int = 0
    workflow_id: str
    run_id: str
    answers: ExtenderAnswers = NO_ANSWERS
    """What extenders have answered in this attempt so far."""


class PermitWait(Contract):
    """A Permit plugin holds the pod: bind when the signal `permit` allows it."""

    plugin: str
    seconds: float
    """How long at most; then the pod counts as refused by the plugin."""


class Placed(Contract):
    """A node was chosen and the pod assumed there."""

    kind: Literal["placed"] = "placed"
    uid: str
    create_revision: int
    pod_revision: int
    """Mod revision of the pod that was decided for."""
    node: str
    node_revision: int
    score: int | None = None
    """Total; None when only one node was feasible (scoring is skipped)."""
    ranking: tuple[ScoredNode, ...] = ()
    """The chosen node and the runners-up, best first, at most five."""
    passed_over: ScoredNode | None = None
    """What would have been chosen but for `own_nodes`; None = the same node."""
    refusals: tuple[PluginRefusal, ...] = ()
    computation: Computation
    permit: PermitWait | None = None
    """None = bind at once."""
    plugin_data: dict[str, Any] = Field(default_factory=dict)
    """Up to 1 KiB a plugin of JSON that PreBind and Bind of that plugin get to see."""
    bind_seconds: float = 0.0
    """How long the extender that binds the pod may take; 0 = none does."""
    attempts: int = 0
    """The number of the pod's last recorded attempt: groups may have tried it while its chain was parked."""

    def to_commit(self) -> Placed:
        """The part that `bind` needs; the history has the reasons already, with `place`."""
        return self.model_copy(
            update={
                "ranking": tuple(ScoredNode(node=one.node, total=one.total) for one in self.ranking),
                "refusals": (),
                "passed_over": None,
                "computation": self.computation.to_commit(),
                "attempts": 0,
            }
        )


class Refused(Sparse):
    """No node now."""

    kind: Literal["refused"] = "refused"
    uid: str
    create_revision: int
    pod_revision: int
    message: str
    """The FailedScheduling text in kube-scheduler's words."""
    refusals: tuple[PluginRefusal, ...] = ()
    rejectors: tuple[str, ...] = ()
    """Plugins that refused first on some node, or in PreFilter; sorted."""
    only_assumed: bool = False
    """Without the pods that are only assumed it would fit: do not park, try again."""
    nominated_node: str = ""
    """Where the pod will fit once its victims are gone: new, or kept while earlier ones leave; empty = none."""
    victims: tuple[Victim, ...] = ()
    """To be evicted from the nominated node, most important first; the first ones of many."""
    victim_count: int = 0
    """How many there are when not all are listed; `record_refusal` finds the others anew."""
    victims_digest: str = ""
    """Their digest then, to find the same ones (`contracts.eviction.digest`)."""
    leaving: float = 0.0
    """Seconds until earlier victims, which the pod waits for, are overdue; 0 = it waits for none, or too long."""
    late: LateVerdict | None = None
    """Who refused the node that was chosen; None = no node was."""
    attempts: int = 0
    """The number of the pod's last recorded attempt, see `Placed`."""
    computation: Computation


class Gone(Contract):
    """Nothing is left to place, by a linearizable read."""

    kind: Literal["gone"] = "gone"
    reason: Literal["deleted", "bound", "finished", "terminating", "not-ours"]
    node: str | None = None
    """Where it is bound, when that is why."""
    detail: str = ""
    cause: str = ""
    """The reason as results give it (`contracts.attempts.GoneReason`); empty = bound, or of a worker before 0.2."""
    bound_by: str = ""
    """When it is bound: `<workflow id>@<run id>` of the attempt, cohort or gang that bound it, if one did."""

    @property
    def why(self) -> str:
        """`bound`, or one of `GoneReason`."""
        return self.reason if self.reason == "bound" else self.cause or _CAUSES[self.reason]

    @property
    def line(self) -> str:
        """Reason and detail as one line."""
        return " ".join(filter(None, (self.reason, self.detail)))

    def result(self, attempt: int) -> AttemptResult:
        """The result of a chain that ends with this."""
        if self.reason == "bound":
            return AttemptResult(outcome="bound", node=self.node, attempt=attempt, bound_by=self.bound_by)
        return AttemptResult(outcome="gone", attempt=attempt, reason=self.why, detail=self.detail)


_CAUSES: dict[str, str] = {
    "deleted": GoneReason.DELETED,
    "finished": GoneReason.NOT_PENDING,
    "terminating": GoneReason.NOT_PENDING,
    "not-ours": GoneReason.NOT_OURS,
}
"""Where a worker of an earlier release gave no cause."""


PlaceOutcome = Annotated[Placed | Refused | Gone | AskExtenders, Field(discriminator="kind")]


# --- ask_extenders --------------------------------------------------------------------------------


class AskInput(Contract):
    """Input of `ask_extenders`: the question that `place` answered with."""

    namespace: str
    name: str
    ask: AskExtenders


AskOutcome = Annotated[ExtendersAnswered | ExtendersFailed | Gone, Field(discriminator="kind")]


# --- bind and record_refusal ----------------------------------------------------------------------


class BindInput(Contract):
    """Input of `bind`: the placement to commit."""

    namespace: str
    name: str
    placed: Placed
    workflow_id: str
    run_id: str
    attempt: int = 1
    calls: CallsMade | None = None
    """What asynchronous plugins have answered so far; None = none was called."""

    @model_serializer(mode="wrap")
    def _without_calls(self, serialize: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Leave the calls out where there are none: nearly always."""
        written: dict[str, Any] = serialize(self)
        if self.calls is None:
            del written["calls"]
        return written


class Bound(Contract):
    """The pod is on this node, by this try of the bind or an earlier one."""

    kind: Literal["bound"] = "bound"
    node: str
    revision: int
    """Of etcd, at or past the commit."""
    tries: int = 1
    """Transactions sent, the last one included."""
    notes: tuple[str, ...] = ()
    """What happened on the way, for the explanation: `runner-up`, `node moved`, ..."""
    preparing: str = ""
    """What it waits for before the Kubernetes API is told, where one is the store: its volumes. Bind again, later."""


class Contended(Contract):
    """The room was taken; place again."""

    kind: Literal["contended"] = "contended"
    message: str


class Rejected(Contract):
    """The placement can never be committed as it is: the pod waits with this as its refusal."""

    kind: Literal["rejected"] = "rejected"
    plugin: str
    """Whose refusal it is: a PreBind plugin, or the binder when etcd cannot hold the bound pod."""
    message: str


BindOutcome = Annotated[Bound | Held | Contended | Rejected | Gone, Field(discriminator="kind")]


class CallInput(Contract):
    """Input of `call_plugin`: one step of a placement whose room is held."""

    namespace: str
    name: str
    placed: Placed
    step: PluginStep
    calls: CallsMade = NO_CALLS
    workflow_id: str
    run_id: str
    attempt: int = 1


class RefusalInput(Contract):
    """Input of `record_refusal`: the pod's condition, nomination and attempt record."""

    namespace: str
    name: str
    uid: str = ""
    create_revision: int = 0
    pod_revision: int = 0
    attempt: int
    reason: Literal["Unschedulable", "SchedulerError", "Contended"] = "Unschedulable"
    message: str
    rejectors: tuple[str, ...] = ()
    revision: int = 0
    """The snapshot's."""
    nominated_node: str = ""
    """The pod's nomination from now on; empty = none."""
    victims: tuple[Victim, ...] = ()
    """The pods to evict for it; the first ones of many."""
    victim_count: int = 0
    victims_digest: str = ""
    """Both as in `Refused`."""
    reserved_node: str = ""
    """The node of a placement that is given up: its plugins still have to unreserve. Empty = none has to."""
    plugin_data: dict[str, Any] = Field(default_factory=dict)
    """The data of those plugins, as in `Placed`."""
    answers: ExtenderAnswers = NO_ANSWERS
    """Of extenders, by which a nomination was decided; without a nomination they are left out."""
    workflow_id: str
    run_id: str


class Recorded(Contract):
    """The record is written, or had the same content already."""

    kind: Literal["recorded"] = "recorded"
    revision: int
    """Of etcd; the record's mod revision."""
    nominated: bool = True
    """False: evicting the victims would not help any more, or is not needed; nothing was nominated, place again."""


RefusalOutcome = Annotated[Recorded | Gone, Field(discriminator="kind")]


# --- evict ----------------------------------------------------------------------------------------


EvictOutcome = Annotated[Evicted | Gone, Field(discriminator="kind")]


class Scheduling(ABC):
    """Activities of an attempt, by their registered names."""

    @activity.defn(name="place")
    @abstractmethod
    async def place(self, request: PlaceInput) -> PlaceOutcome:
        """Decide on this worker's snapshot and assume the pod there (local activity).

        Answers `AskExtenders` where extenders are to be asked first: then it is called again with their answers.
        Fails with the types `Behind`, `Unavailable`, `SchedulerError`, `WrongWorkflowId`.
        """

    @activity.defn(name="ask_extenders")
    @abstractmethod
    async def ask_extenders(self, request: AskInput) -> AskOutcome:
        """Ask the extenders about nodes or victims; assumes nothing and writes nothing. Safe to run again."""

    @activity.defn(name="bind")
    @abstractmethod
    async def bind(self, request: BindInput) -> BindOutcome:
        """Verify on the chosen node and commit in one transaction. Safe to run again.

        Answers `Held` while asynchronous plugins are to be called: then it is called again with their answers.
        """

    @activity.defn(name="call_plugin")
    @abstractmethod
    async def call_plugin(self, request: CallInput) -> PluginAnswer:
        """Call an asynchronous PreBind or Bind plugin. The plugin must be safe to call again, by its key.

        Fails with the type `PluginFailed` where the plugin raised or was too slow: to be tried again.
        """

    @activity.defn(name="record_refusal")
    @abstractmethod
    async def record_refusal(self, request: RefusalInput) -> RefusalOutcome:
        """Write the PodScheduled=False condition, the nomination and the attempt record. Safe to run again."""

    @activity.defn(name="evict")
    @abstractmethod
    async def evict(self, request: EvictInput) -> EvictOutcome:
        """Mark and delete the victims of a nomination, each in a transaction of its own. Safe to run again."""


PLACE_RETRY = RetryPolicy(maximum_attempts=1)
"""A failed decision fails the run: the chain's own retry shows it and places afresh."""

ASK_LIMIT = 10.0
"""Seconds that `ask_extenders` may take beside the calls, for reading objects and for a busy worker."""

COMMIT_RETRY = RetryPolicy(
    initial_interval=timedelta(milliseconds=500),
    backoff_coefficient=2.0,
    maximum_interval=timedelta(seconds=5),
)
"""Binding, recording, evicting and asking extenders are tried until etcd answers."""
