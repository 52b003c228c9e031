"""Placements: what a user wishes, what was decided, and evictions.

P, the reference of a placement, is `cluster/<name>` or `ns/<namespace>/<name>`. Names of fields are KubeFleet's.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from wharfinger.objects.model.quantities import IntOrPercent
from wharfinger.objects.model.selectors import LabelSelector, Toleration


class PlacementType(StrEnum):
    """How many members a policy wants."""

    PICK_ALL = "PickAll"
    PICK_N = "PickN"
    PICK_FIXED = "PickFixed"


class PropertyOperator(StrEnum):
    """How a property is compared with a value."""

    GT = "Gt"
    GE = "Ge"
    EQ = "Eq"
    NE = "Ne"
    LT = "Lt"
    LE = "Le"


@dataclass(frozen=True, slots=True)
class PropertyRequirement:
    """A comparison of a member's property with a quantity."""

    name: str
    operator: str
    """One of `PropertyOperator`; anything else cannot be evaluated."""
    values: tuple[str, ...]
    """Exactly one can be evaluated."""


@dataclass(frozen=True, slots=True)
class ClusterTerm:
    """Members with these labels, and these properties. None requires nothing."""

    labels: LabelSelector | None = None
    properties: tuple[PropertyRequirement, ...] = ()


@dataclass(frozen=True, slots=True)
class PropertySorter:
    """Members with more (Descending) or less (Ascending) of a property get more of the weight."""

    name: str
    order: str


@dataclass(frozen=True, slots=True)
class ClusterPreference:
    """A weighted preference: for members with these labels, all of the weight, or as much as the sorter gives."""

    weight: int
    labels: LabelSelector | None = None
    sorter: PropertySorter | None = None


@dataclass(frozen=True, slots=True)
class ClusterSpread:
    """How evenly the chosen members are spread over the values of a label."""

    key: str
    max_skew: int = 1
    hard: bool = True
    """DoNotSchedule; else ScheduleAnyway."""


@dataclass(frozen=True, slots=True)
class PlacementPolicy:
    """Which members are wanted. The default wants all."""

    type: PlacementType = PlacementType.PICK_ALL
    number: int | None = None
    """For PickN."""
    names: tuple[str, ...] = ()
    """For PickFixed."""
    required: tuple[ClusterTerm, ...] = ()
    """One of them must match; without any, every member does."""
    preferred: tuple[ClusterPreference, ...] = ()
    tolerations: tuple[Toleration, ...] = ()
    spread: tuple[ClusterSpread, ...] = ()

    @property
    def wanted(self) -> int | None:
        """How many members; None = all that are accepted."""
        return len(set(self.names)) if self.type is PlacementType.PICK_FIXED else self.number


class MemberScores(NamedTuple):
    """What a member scored, the most important first. They are compared in this order."""

    spread: int = 0
    affinity: int = 0


class PlacementRef(NamedTuple):
    """Names a placement."""

    namespace: str
    """Empty for one of the whole cluster."""
    name: str

    def __str__(self) -> str:
        return f"ns/{self.namespace}/{self.name}" if self.namespace else f"cluster/{self.name}"

    @classmethod
    def parse(cls, reference: str) -> PlacementRef:
        """Of P; whether the names can be names is not looked at."""
        scope, _, rest = reference.partition("/")
        namespace, _, name = rest.partition("/") if scope == "ns" else ("", "", rest)
        return cls(namespace, name)


@dataclass(frozen=True, slots=True)
class Placement:
    """A placement, as far as it is decided on."""

    ref: PlacementRef
    generation: int
    policy: PlacementPolicy = field(default_factory=PlacementPolicy)
    identity: int = 0
    """The create revision of its object."""
    deleting: bool = False


@dataclass(frozen=True, slots=True)
class ChosenMember:
    """A member that a decision names."""

    name: str
    identity: int
    policy: int
    """Number of the policy under which it was chosen, or chosen again."""
    scores: MemberScores | None
    """None for PickFixed, which scores no member."""
    reason: str


def lives(chosen: Iterable[ChosenMember]) -> set[tuple[str, int]]:
    """Names and identities of the chosen."""
    return {(one.name, one.identity) for one in chosen}


@dataclass(frozen=True, slots=True)
class MemberVerdict:
    """Why a member is not chosen."""

    name: str
    plugin: str
    """Who refused it; empty for one that was scored and not picked, and for a name that is no member's."""
    code: str
    reason: str
    scores: MemberScores | None = None
    """Of one that was scored."""


@dataclass(frozen=True, slots=True)
class PolicyCondition:
    """Whether the policy is fulfilled."""

    status: bool
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class PlacementDecision:
    """The whole choice for one placement: every member is chosen, or has a verdict."""

    policy: int
    """Number of the policy that was judged by."""
    generation: int
    """Of the placement."""
    number: int | None
    """How many members PickN wants; None for the other types."""
    chosen: tuple[ChosenMember, ...]
    """By name."""
    verdicts: tuple[MemberVerdict, ...]
    """Those that were scored first, the best first; then the refused by name."""
    condition: PolicyCondition
    deviations: frozenset[str] = frozenset()
    """Which of the deviations from KubeFleet's scheduler mattered: names such as D1 (`deciding.deviations`)."""

    @property
    def names(self) -> Mapping[str, ChosenMember]:
        """The chosen by name."""
        return {one.name: one for one in self.chosen}


@dataclass(frozen=True, slots=True)
class PlacementBudget:
    """How many members may be unavailable, or must be available; exactly one of the two is said."""

    max_unavailable: IntOrPercent | None = None
    min_available: IntOrPercent | None = None


@dataclass(frozen=True, slots=True)
class Eviction:
    """A user's wish that a placement leaves a member."""

    name: str
    placement: PlacementRef
    cluster: str


@dataclass(frozen=True, slots=True)
class EvictionOutcome:
    """How an eviction ended. It is written once."""

    valid: bool
    executed: bool
    message: str
