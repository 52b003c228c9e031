"""What a placement delivers, what it has on its members, and the steps that bring there what was decided: facts only.

*Chosen* is the decision's, *delivered* the work's, *available* the result's. `deciding.rolling` decides the steps;
`contracts.delivery_records` keeps works and results. Names of fields of selectors and overrides are KubeFleet's.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Literal, NamedTuple

from wharfinger.objects.model.quantities import IntOrPercent
from wharfinger.objects.model.selectors import LabelSelector
from wharfinger.placement.model.placement import PlacementRef


class ObjectId(NamedTuple):
    """Identifies an object of a cluster."""

    group: str
    """API group, empty for the core one."""
    version: str
    kind: str
    namespace: str
    """Empty for a cluster-scoped object."""
    name: str

    @property
    def api_version(self) -> str:
        """As objects contain it: `apps/v1`, or `v1` for the core group."""
        return f"{self.group}/{self.version}" if self.group else self.version

    def __str__(self) -> str:
        place = f"{self.namespace}/{self.name}" if self.namespace else self.name
        return f"{self.api_version} {self.kind} {place}"

    @classmethod
    def of(cls, obj: Mapping[str, Any]) -> ObjectId:
        """The identity of an object. A field that is absent, or no text, is empty."""
        metadata = obj.get("metadata")
        if not isinstance(metadata, Mapping):
            metadata = {}
        group, _, version = _text(obj, "apiVersion").rpartition("/")
        return cls(group, version, _text(obj, "kind"), _text(metadata, "namespace"), _text(metadata, "name"))


class SelectionScope(StrEnum):
    """What comes with a selected namespace."""

    ALONE = "NamespaceOnly"
    WITH_RESOURCES = "NamespaceWithResources"
    """All objects in it."""
    WITH_SELECTED = "NamespaceWithResourceSelectors"
    """The objects in it that other selectors of the placement select."""


@dataclass(frozen=True, slots=True)
class ResourceSelector:
    """Selects objects of one kind: by name, by labels, or all of them."""

    group: str
    version: str
    kind: str
    name: str = ""
    """Wins over `labels`."""
    labels: LabelSelector | None = None
    """None selects all."""
    scope: SelectionScope = SelectionScope.WITH_RESOURCES
    """For namespaces only."""


@dataclass(frozen=True, slots=True)
class OverridePatch:
    """One operation of a JSON patch."""

    op: str
    """`add`, `remove` or `replace`."""
    path: str
    """A JSON pointer."""
    value: Any = None
    """Any JSON value. Unused by `remove`."""


@dataclass(frozen=True, slots=True)
class OverrideRule:
    """Changes objects, or leaves them out, on the members that it matches."""

    terms: tuple[LabelSelector, ...] | None
    """Labels of members, ORed. None matches no member; an empty tuple matches all."""
    delete: bool = False
    """Whether the objects are left out."""
    patches: tuple[OverridePatch, ...] = ()

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Whether the rule holds for a member with these labels."""
        return self.terms is not None and (not self.terms or any(term.matches(labels) for term in self.terms))


@dataclass(frozen=True, slots=True)
class Override:
    """A ClusterResourceOverride, or a ResourceOverride."""

    name: str
    namespace: str
    """Empty for a ClusterResourceOverride."""
    placement: PlacementRef | None
    """None = it applies to all placements."""
    selectors: tuple[ObjectId, ...]
    """Objects, all in the override's namespace. A Namespace stands for everything in it, too."""
    rules: tuple[OverrideRule, ...]

    @property
    def source(self) -> str:
        """What messages call it: `name`, or `namespace/name`."""
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


def _text(obj: Mapping[str, Any], key: str) -> str:
    value = obj.get(key)
    return value if isinstance(value, str) else ""


Want = Literal["present", "absent", "release"]
"""What a member shall do with the objects: have them, delete them, or keep them as nobody's."""


QUARTER = IntOrPercent(25, percent=True)


@dataclass(frozen=True, slots=True)
class RolloutBudget:
    """How many members change at a time. The defaults are KubeFleet's."""

    max_unavailable: IntOrPercent = QUARTER
    max_surge: IntOrPercent = QUARTER
    unavailable_period: float = 60.0
    """Seconds after which what cannot be tracked counts as ready."""


@dataclass(frozen=True, slots=True)
class DeliverySpec:
    """How a placement is delivered."""

    budget: RolloutBudget = field(default_factory=RolloutBudget)
    strategy: Mapping[str, Any] = field(default_factory=dict)
    """How objects are applied, complete: as `ApplyStrategyFields.complete` of `spec.placement_fields` makes it."""
    external: bool = False
    """Whether update runs deliver it."""
    selectors: tuple[ResourceSelector, ...] = ()


@dataclass(frozen=True, slots=True)
class MemberDelivery:
    """How a placement stands on one member."""

    member: str
    chosen: bool = False
    want: Want | None = None
    """Of its work; None = it has none."""
    there: bool = True
    """Whether the member that the work is for is there: not gone, and not joined anew since."""
    current: bool = True
    """Whether the work has the wanted contents and overrides."""
    same_strategy: bool = True
    """Whether the work has the wanted apply strategy."""
    reachable: bool = True
    available: bool = False
    """Whether its result says so of these contents."""
    untrackable: bool = False
    """Whether that is said of what cannot be tracked."""
    failed: bool = False
    passing: bool = False
    """Whether the cause of the failure may end."""
    reported: bool = False
    """Whether only differences are reported, and they were."""
    gone: bool = False
    """Whether nothing is there any more."""
    outrun: bool = False
    """Whether the member has seen a later work than this: the hub was restored from a backup."""
    applied: bool = False
    """Whether its result says that all was applied."""
    unchanged: float = 0.0
    """Seen seconds for which it has been as it is: available, or applied and not available."""
    leaving: bool = False
    yields: bool = False
    """Whether it leaves or is drained: what comes in its place comes first."""


class StepKind(StrEnum):
    """What is done about one member."""

    ADD = "add"
    UPDATE = "update"
    STRATEGY = "strategy"
    """Only another apply strategy."""
    REMOVE = "remove"
    DROP = "drop"
    """Work and result go: nothing is there, or the member is another one."""


@dataclass(frozen=True, slots=True)
class RolloutStep:
    """One member whose work changes."""

    member: str
    kind: StepKind
    want: Want = "present"
    ready: bool = False
    """Whether it takes a member away that is counted on."""
    free: bool = False
    """Whether it is done beyond the budget, because the member was not available."""


@dataclass(frozen=True, slots=True)
class RolloutSteps:
    """What follows now."""

    steps: tuple[RolloutStep, ...] = ()
    held: tuple[str, ...] = ()
    """Members that wait for the budget."""
    waiting: tuple[str, ...] = ()
    """Reachable members whose result is awaited."""
    away: tuple[str, ...] = ()
    """Members without an agent whose result is awaited."""
    failed: tuple[str, ...] = ()
    timer: float | None = None
    """Seconds until a member counts as ready by itself, where that lets something go on."""
    target: int = 0
    ready: int = 0
    floor: int = 0
    ceiling: int = 0

    @property
    def settled(self) -> bool:
        """Whether everything is where it shall be, and said to be."""
        return not (self.steps or self.held or self.waiting or self.away or self.failed)
