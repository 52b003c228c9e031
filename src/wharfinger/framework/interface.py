"""The extension points: one Protocol each. A plugin is any object with a `name` that has some of these methods.

Order of one decision::

    pre_enqueue | queue_key | pre_filter, filter, (post_filter) | pre_score, score, normalize
                | reserve, permit | pre_bind, bind, post_bind          (unreserve undoes reserve)

Filter and Score come in two forms: over all nodes at once (`filter`, `score`; arrays by row of the snapshot), or one
node at a time (`filter_node`, `score_node`); the runner loops over the latter.

Rules for every method: no I/O, no waiting, same answer for same input. Only PreBind and Bind may do I/O and wait, where
they are asynchronous (`async_plugins`). Refusing is an answer; raising means that the plugin is broken, and fails the
attempt with `PluginError`.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cache
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, TypeVar, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from wharfinger.framework.columns import IntColumn, RowNumbers
from wharfinger.framework.cycle_state import CycleState
from wharfinger.framework.extenders.extender_verdicts import CandidateVictims, PreemptionVerdicts
from wharfinger.framework.node_info import NodeInfo
from wharfinger.framework.snapshot import Snapshot
from wharfinger.framework.status import SKIP, SUCCESS, Status
from wharfinger.framework.verdicts import Verdicts
from wharfinger.objects.model.events import Action, ClusterEvent, Resource
from wharfinger.objects.model.pod import Pod

if TYPE_CHECKING:
    from typing_extensions import TypeIs

T = TypeVar("T")

MAX_NODE_SCORE = 100
"""Scores lie in 0..100 after normalisation, before weights."""

_LARGEST_FACTOR = (2**63 - 1) // MAX_NODE_SCORE

RowSelection: TypeAlias = "slice | NDArray[np.intp]"
"""Which rows are scored: `column[rows]` picks them. A full slice when every node is feasible, for speed."""


def offers(plugin: object, protocol: type[T]) -> TypeIs[T]:
    """Whether the plugin has every method of one of the protocols below.

    As `isinstance` by Python 3.11, which needs 20 microseconds for it; that of later ones does not see what an object
    has by `__getattr__`.
    """
    return all(getattr(plugin, name, None) is not None for name in _asked(protocol))  # type: ignore[arg-type] # a class can be hashed


@cache
def _asked(protocol: type[object]) -> tuple[str, ...]:
    return tuple(name for name in vars(protocol) if not name.startswith("_"))


@runtime_checkable
class Plugin(Protocol):
    """What every plugin has."""

    @property
    def name(self) -> str:
        """As configurations, records and messages name it."""


@runtime_checkable
class PreEnqueue(Protocol):
    """May the pod enter the active queue at all?"""

    def pre_enqueue(self, pod: Pod) -> Status:
        """Success, or a refusal that keeps the pod out until an event helps."""


@runtime_checkable
class QueueSort(Protocol):
    """The order of the active queue; a profile has exactly one."""

    def queue_key(self, pod: Pod, arrival: float) -> Any:
        """A sort key, smallest first. `arrival`: when the pod entered the queue."""


@dataclass(frozen=True, slots=True)
class PreFilterResult:
    """Answer of PreFilter."""

    status: Status = SUCCESS
    """Skip leaves out this plugin's Filter for this pod."""
    nodes: frozenset[str] | None = None
    """Only these can be feasible; None = no such knowledge."""


PASSES = PreFilterResult()
"""The plugin's Filter is called for the pod."""
SKIPS = PreFilterResult(SKIP)
"""The plugin's Filter is left out for the pod."""


@runtime_checkable
class PreFilter(Protocol):
    """Looks at the pod once, before the nodes."""

    def pre_filter(self, state: CycleState, pod: Pod, snapshot: Snapshot) -> PreFilterResult:
        """Prepare (`state.write`), skip, refuse the pod altogether, or name the only possible nodes."""


@runtime_checkable
class Selective(Protocol):
    """A plugin with a PreFilter that would answer Skip for most pods; those are not even passed to it."""

    def concerns(self, pod: Pod) -> bool:
        """Whether the plugin may have anything to say about the pod; reads nothing but the pod, and is cheap.

        Plugins that share one function have it called once a decision.
        """


@runtime_checkable
class Filter(Protocol):
    """Which nodes can take the pod, all at once."""

    def filter(self, state: CycleState, pod: Pod, snapshot: Snapshot) -> Verdicts | None:
        """Verdicts by row; None = every node passes."""


@runtime_checkable
class NodeFilter(Protocol):
    """Which nodes can take the pod, one at a time."""

    def filter_node(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status:
        """Success or a refusal."""


@dataclass(frozen=True, slots=True)
class PreemptionTurn:
    """Where a decision stands with the extenders that have a word in preemption."""

    answer: PreemptionVerdicts | None = None
    """What they left of the candidates; None = they were not asked."""
    to_be_asked: bool = False
    """Whether they are asked next: the plugin then names its candidates, and chooses none."""


NOT_ASKED = PreemptionTurn()
"""No extender has a word in preemption, or they are taken to allow everything."""


class Trial(Protocol):
    """A search that found no node, and whether a node would do if its pods were others."""

    @property
    def snapshot(self) -> Snapshot:
        """What was searched."""

    def refusal(self, row: int) -> Status:
        """The first refusal of that row's node."""

    def resolvable(self) -> RowNumbers:
        """Rows refused for what other pods do there (Unschedulable), in ascending order: evicting may help."""

    def fits(self, row: int, info: NodeInfo) -> Status:
        """Every filter's answer if that row were `info`: the first refusal, or success.

        Pods nominated to the node with the same or a higher priority are reckoned with, as in every decision.
        """

    @property
    def turn(self) -> PreemptionTurn:
        """What extenders were asked about, and are to be."""

    @property
    def alike(self) -> Hashable | None:
        """The same for all pods that get the same answers of `fits`: what was found out of a node can be kept for it.

        None when the answers depend on more than the node and the pods nominated to it.
        """


@dataclass(frozen=True, slots=True)
class PostFilterResult:
    """Answer of PostFilter."""

    status: Status
    """Success: a way was found; otherwise its reasons are added to the message."""
    nominated_node: str | None = None
    """Where the pod will fit once the victims are gone."""
    victims: tuple[Pod, ...] = ()
    """The pods to evict, most important first."""
    candidates: tuple[CandidateVictims, ...] = ()
    """What extenders are to be asked about before a node is chosen; empty where they are not."""


@runtime_checkable
class PostFilter(Protocol):
    """Called when no node is feasible."""

    def post_filter(self, state: CycleState, pod: Pod, trial: Trial) -> PostFilterResult:
        """Success ends the round of PostFilters, as do a refusal for good and a failure; Unschedulable goes on."""


@runtime_checkable
class PreScore(Protocol):
    """Looks at the pod and the feasible nodes once, before scoring."""

    def pre_score(self, state: CycleState, pod: Pod, snapshot: Snapshot, rows: RowSelection) -> Status:
        """Success, or Skip to leave out this plugin's Score for this pod."""


@runtime_checkable
class Score(Protocol):
    """How good the feasible nodes are, all at once."""

    def score(self, state: CycleState, pod: Pod, snapshot: Snapshot, rows: RowSelection) -> IntColumn:
        """An int64 per selected row; 0..100 unless `normalize` brings it there."""


@runtime_checkable
class NodeScore(Protocol):
    """How good a feasible node is, one at a time."""

    def score_node(self, state: CycleState, pod: Pod, node: NodeInfo) -> int:
        """0..100 unless `normalize` brings it there."""


@runtime_checkable
class Normalize(Protocol):
    """Brings raw scores into 0..100, seeing those of all feasible nodes."""

    def normalize(
        self, state: CycleState, pod: Pod, scores: IntColumn, snapshot: Snapshot, rows: RowSelection
    ) -> IntColumn:
        """The final scores, in the order given."""


class Normalization(Enum):
    """kube-scheduler's DefaultNormalizeScore, which a plugin may name as `normalization` instead of writing it."""

    HIGHEST = "highest"
    """The highest raw score becomes 100."""
    LOWEST = "lowest"
    """The highest raw score becomes 0, and 0 becomes 100."""

    def apply(self, scores: IntColumn) -> IntColumn:
        """Raw scores (none below 0) to 0..100."""
        highest = int(scores.max()) if len(scores) else 0
        if highest == 0:
            return scores if self is Normalization.HIGHEST else np.full_like(scores, MAX_NODE_SCORE)
        if highest > _LARGEST_FACTOR:
            scores = (scores.astype(object) * MAX_NODE_SCORE // highest).astype(np.int64)  # the product is beyond int64
            return scores if self is Normalization.HIGHEST else MAX_NODE_SCORE - scores
        scaled: IntColumn = scores * MAX_NODE_SCORE // highest
        return scaled if self is Normalization.HIGHEST else MAX_NODE_SCORE - scaled

    @property
    def of_zeros(self) -> int:
        """What every score becomes where all raw scores are 0."""
        return 0 if self is Normalization.HIGHEST else MAX_NODE_SCORE


@runtime_checkable
class Reserve(Protocol):
    """Keeps the plugin's own books for a chosen node."""

    def reserve(self, state: CycleState, pod: Pod, node_name: str) -> Status:
        """Success, or a refusal that undoes the placement.

        `state.snapshot` has the node as the decision saw it. What is carried is recorded, and shown by `explain`.
        """

    def unreserve(self, state: CycleState, pod: Pod, node_name: str) -> None:
        """Undo; must be safe to call again, and where `reserve` never ran."""


@dataclass(frozen=True, slots=True)
class Permission:
    """Answer of Permit."""

    status: Status = SUCCESS
    """Success, a refusal, or Wait."""
    timeout: float = 0.0
    """Seconds a waiting pod is held at most."""


PERMITTED = Permission()


@runtime_checkable
class Permit(Protocol):
    """Allows, refuses or delays a placement."""

    def permit(self, state: CycleState, pod: Pod, node_name: str) -> Permission:
        """The last word before binding."""


@runtime_checkable
class PreBind(Protocol):
    """Last preparations, on the binding side: perhaps on another worker, with nothing but what was carried."""

    def pre_bind(self, state: CycleState, pod: Pod, node_name: str) -> Status:
        """Success, or a refusal that undoes the placement. May run again after a crash."""


@runtime_checkable
class Bind(Protocol):
    """Who binds; a profile needs at least one."""

    def bind(self, state: CycleState, pod: Pod, node_name: str) -> Status:
        """Success: the transaction may go out. Skip: the next one is asked."""


@runtime_checkable
class PostBind(Protocol):
    """Called after the pod is bound."""

    def post_bind(self, state: CycleState, pod: Pod, node_name: str) -> None:
        """For information; the answer is ignored."""


@runtime_checkable
class Local(Protocol):
    """A plugin whose node forms (`filter_node`, `score_node`) read nothing but the pod and that one node.

    Its answers are kept, and asked again only for nodes that changed. Its PreFilter and PreScore, if it has any, read
    nothing but the pod, and are asked once for all pods with equal signatures. The state that the node forms are
    given lives as long as the answers: what was worked out of the pod may be kept in it. It may have the column forms
    too, for many nodes at once; both must say the same. A score that must be normalised names a `Normalization`.
    """

    def signature(self, pod: Pod) -> Hashable:
        """Everything the node forms read of the pod: pods with equal signatures get equal answers."""


Hint: TypeAlias = "Callable[[Pod, ClusterEvent], bool]"
"""Whether the event may help this waiting pod, which the hint's plugin had refused."""


@dataclass(frozen=True, slots=True)
class EventHint:
    """A kind of event a plugin wants to hear of, and which of those help."""

    resource: Resource
    actions: Action
    helps: Hint | None = None
    """None = every such event."""
    beyond: bool = False
    """A case that kube-scheduler forgets; left out where the question is what it would do."""


@runtime_checkable
class QueueingHints(Protocol):
    """Which events may make a pod schedulable that this plugin refused; without it, every event does."""

    def queueing_hints(self) -> Sequence[EventHint]:
        """Asked once, when the profile is made."""
