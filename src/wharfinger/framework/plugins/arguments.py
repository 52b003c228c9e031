"""Arguments of the built-in plugins, as a profile's `pluginConfig` gives them."""

from __future__ import annotations

from enum import StrEnum
from itertools import pairwise
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, Field, field_validator, model_validator

from wharfinger.framework.config.validation import Boolean, ConfigPart, Integer
from wharfinger.objects.model.names import is_label_value, is_qualified_name
from wharfinger.objects.model.node import CPU, MEMORY
from wharfinger.objects.model.selectors import (
    NodeSelectorTerm,
    Operator,
    PreferredTerm,
    Requirement,
    SpreadConstraint,
    parse_integer,
)


class PluginArgs(ConfigPart):
    """Base of a plugin's arguments.

    `apiVersion` and `kind`, which Kubernetes writes beside them, are no fields: the reader of a configuration checks
    and removes them.
    """


def _resource(name: str) -> str:
    if not is_qualified_name(name):
        raise ValueError(f"{name!r} is no name of a resource")
    return name


def _group(name: str) -> str:
    if "/" in name or not is_qualified_name(name):
        raise ValueError(f"{name!r} is no resource group: a resource's name up to its slash, which can't contain '/'")
    return name


class ResourceWeight(ConfigPart):
    """A resource and what it counts in the mean."""

    name: str = Field(min_length=1)
    weight: Integer = Field(default=1, ge=1, le=100)

    @field_validator("weight", mode="before")
    @classmethod
    def _missing_is_one(cls, weight: object) -> object:
        # As kube-scheduler completes it: a weight of zero is one that was not given.
        return 1 if weight == 0 and weight is not False else weight


CPU_AND_MEMORY = (ResourceWeight(name=CPU), ResourceWeight(name=MEMORY))


class ShapePoint(ConfigPart):
    """A point of the broken line from use to score."""

    utilization: Integer = Field(ge=0, le=100)
    """Percent of the allocatable."""
    score: Integer = Field(ge=0, le=10)


class RequestedToCapacityRatio(ConfigPart):
    """The line, by its points."""

    shape: tuple[ShapePoint, ...] = Field(min_length=1)

    @field_validator("shape")
    @classmethod
    def _increasing(cls, shape: tuple[ShapePoint, ...]) -> tuple[ShapePoint, ...]:
        for before, after in pairwise(shape):
            if after.utilization <= before.utilization:
                raise ValueError("utilization values must be strictly increasing")
        return shape


class StrategyType(StrEnum):
    """How use becomes a score."""

    LEAST_ALLOCATED = "LeastAllocated"
    MOST_ALLOCATED = "MostAllocated"
    REQUESTED_TO_CAPACITY_RATIO = "RequestedToCapacityRatio"


class ScoringStrategy(ConfigPart):
    """Strategy and the resources it looks at."""

    type: StrategyType = StrategyType.LEAST_ALLOCATED
    resources: tuple[ResourceWeight, ...] = CPU_AND_MEMORY
    requested_to_capacity_ratio: RequestedToCapacityRatio | None = None

    @field_validator("resources")
    @classmethod
    def _default_when_empty(cls, resources: tuple[ResourceWeight, ...]) -> tuple[ResourceWeight, ...]:
        return resources or CPU_AND_MEMORY

    @model_validator(mode="after")
    def _shape_where_needed(self) -> ScoringStrategy:
        if self.type is StrategyType.REQUESTED_TO_CAPACITY_RATIO and self.requested_to_capacity_ratio is None:
            raise ValueError("requestedToCapacityRatio: shape is required by this strategy")
        return self


class NodeResourcesFitArgs(PluginArgs):
    """What is ignored when fitting, and how nodes are scored."""

    ignored_resources: tuple[Annotated[str, AfterValidator(_resource)], ...] = ()
    """Extended resources that are not looked at."""
    ignored_resource_groups: tuple[Annotated[str, AfterValidator(_group)], ...] = ()
    """Groups (the part before the slash) of extended resources that are not looked at."""
    scoring_strategy: ScoringStrategy = ScoringStrategy()


class NodeResourcesBalancedAllocationArgs(PluginArgs):
    """Between which resources use is to be balanced."""

    resources: tuple[ResourceWeight, ...] = CPU_AND_MEMORY

    @field_validator("resources")
    @classmethod
    def _weights_are_one(cls, resources: tuple[ResourceWeight, ...]) -> tuple[ResourceWeight, ...]:
        names = [resource.name for resource in resources]
        for resource in resources:
            if names.count(resource.name) > 1:
                raise ValueError(f"resource {resource.name} is named twice")
            if resource.weight != 1:
                raise ValueError(f"weight of {resource.name} must be 1")
        return resources or CPU_AND_MEMORY


class InterPodAffinityArgs(PluginArgs):
    """What the terms of pods that are placed already count when nodes are scored."""

    hard_pod_affinity_weight: Integer = Field(default=1, ge=0, le=100)
    """What it counts that a placed pod's required affinity selects the pod to be placed."""
    ignore_preferred_terms_of_existing_pods: Boolean = False
    """Leave out the placed pods' terms, unless the pod to be placed prefers something itself."""


class DefaultPreemptionArgs(PluginArgs):
    """How many nodes are tried out before the best of them is chosen."""

    min_candidate_nodes_percentage: Integer = Field(default=10, ge=0, le=100)
    """Of the nodes where evicting may help."""
    min_candidate_nodes_absolute: Integer = Field(default=100, ge=0)

    @model_validator(mode="after")
    def _some(self) -> Self:
        if not self.min_candidate_nodes_percentage and not self.min_candidate_nodes_absolute:
            raise ValueError("minCandidateNodesPercentage and minCandidateNodesAbsolute cannot both be zero")
        return self

    def wanted(self, nodes: int) -> int:
        """How many candidates are looked for among so many nodes."""
        return min(nodes, max(nodes * self.min_candidate_nodes_percentage // 100, self.min_candidate_nodes_absolute))


class VolumeBindingArgs(PluginArgs):
    """How long a bind waits for volumes."""

    bind_timeout_seconds: Integer = Field(default=600, ge=0, le=2**63 - 1)
    shape: Any = Field(default=None, exclude=True)
    """Means something only with a feature gate of kube-scheduler that is off by default, and not built here."""

    @field_validator("shape")
    @classmethod
    def _no_shape(cls, shape: Any) -> Any:
        if shape is not None:
            raise ValueError("unexpected field: nodes are not scored by their storage capacity here; remove it")
        return shape


_LISTS = (Operator.IN, Operator.NOT_IN)
_BOUNDS = (Operator.GT, Operator.LT)


class NodeSelectorRequirement(ConfigPart):
    """One expression over labels; which values it needs depends on the operator."""

    key: str
    operator: Operator
    values: tuple[str, ...] = ()

    @field_validator("key")
    @classmethod
    def _is_a_label_key(cls, key: str) -> str:
        if not is_qualified_name(key):
            raise ValueError(f"{key!r} is no label key")
        return key

    @model_validator(mode="after")
    def _values_fit(self) -> Self:
        wrong = [value for value in self.values if not is_label_value(value)]
        if wrong:
            raise ValueError(f"no label has the value {wrong[0]!r}")
        if self.operator in _LISTS and not self.values:
            raise ValueError(f"operator {self.operator.value} needs values")
        if self.operator in _BOUNDS and (len(self.values) != 1 or parse_integer(self.values[0]) is None):
            raise ValueError(f"operator {self.operator.value} needs exactly one whole number")
        if self.operator in (Operator.EXISTS, Operator.DOES_NOT_EXIST) and self.values:
            raise ValueError(f"operator {self.operator.value} takes no values")
        return self

    def to_model(self) -> Requirement:
        """As selectors know it."""
        return Requirement(self.key, self.operator, self.values)


class NodeFieldRequirement(ConfigPart):
    """An expression over the node's name, the only field there is."""

    key: Literal["metadata.name"]
    operator: Literal[Operator.IN, Operator.NOT_IN]
    values: tuple[str, ...]

    @field_validator("values")
    @classmethod
    def _one(cls, values: tuple[str, ...]) -> tuple[str, ...]:
        if len(values) != 1:
            raise ValueError("must be exactly one")
        return values

    def to_model(self) -> Requirement:
        """As selectors know it."""
        return Requirement(self.key, self.operator, self.values)


class NodeSelectorTermArgs(ConfigPart):
    """Requirements, ANDed; an empty term matches nothing."""

    match_expressions: tuple[NodeSelectorRequirement, ...] = ()
    match_fields: tuple[NodeFieldRequirement, ...] = ()

    def to_model(self) -> NodeSelectorTerm:
        """As selectors know it."""
        return NodeSelectorTerm(
            tuple(requirement.to_model() for requirement in self.match_expressions),
            tuple(requirement.to_model() for requirement in self.match_fields),
        )


class NodeSelectorArgs(ConfigPart):
    """Terms, ORed."""

    node_selector_terms: tuple[NodeSelectorTermArgs, ...] = Field(min_length=1)


class PreferredTermArgs(ConfigPart):
    """A weighted preference."""

    weight: Integer = Field(ge=1, le=100)
    preference: NodeSelectorTermArgs


class AddedAffinity(ConfigPart):
    """A `v1.NodeAffinity`."""

    required: NodeSelectorArgs | None = Field(default=None, alias="requiredDuringSchedulingIgnoredDuringExecution")
    preferred: tuple[PreferredTermArgs, ...] = Field(
        default=(), alias="preferredDuringSchedulingIgnoredDuringExecution"
    )


class NodeAffinityArgs(PluginArgs):
    """`addedAffinity`: ANDed to the affinity of every pod of the profile."""

    added_affinity: AddedAffinity | None = None

    def required_terms(self) -> tuple[NodeSelectorTerm, ...] | None:
        """The added required terms, ORed; None = no requirement."""
        if self.added_affinity is None or self.added_affinity.required is None:
            return None
        return tuple(term.to_model() for term in self.added_affinity.required.node_selector_terms)

    def preferred_terms(self) -> tuple[PreferredTerm, ...]:
        """The added preferences."""
        if self.added_affinity is None:
            return ()
        return tuple(PreferredTerm(term.weight, term.preference.to_model()) for term in self.added_affinity.preferred)


HOSTNAME = "kubernetes.io/hostname"
ZONE = "topology.kubernetes.io/zone"
SYSTEM_DEFAULTS = (
    SpreadConstraint(max_skew=3, topology_key=HOSTNAME, hard=False),
    SpreadConstraint(max_skew=5, topology_key=ZONE, hard=False),
)
"""What `System` means."""
_HARD = "DoNotSchedule"
_HONOR = "Honor"
_INT32 = 2**31 - 1


class DefaultConstraint(ConfigPart):
    """A `v1.TopologySpreadConstraint` whose selector is worked out for each pod."""

    max_skew: Integer = Field(ge=1, le=_INT32)
    topology_key: str
    when_unsatisfiable: Literal["DoNotSchedule", "ScheduleAnyway"]
    min_domains: Integer | None = Field(default=None, ge=1, le=_INT32)
    node_affinity_policy: Literal["Honor", "Ignore"] = "Honor"
    node_taints_policy: Literal["Honor", "Ignore"] = "Ignore"
    match_label_keys: tuple[str, ...] = ()
    """May be written and means nothing: the selector that is worked out takes its place too."""
    label_selector: Any = Field(default=None, exclude=True)

    @field_validator("topology_key")
    @classmethod
    def _is_a_label_key(cls, key: str) -> str:
        if not key:
            raise ValueError("must not be empty")
        if not is_qualified_name(key):
            raise ValueError(f"{key!r} is no label key")
        return key

    @field_validator("label_selector")
    @classmethod
    def _no_selector(cls, selector: Any) -> Any:
        if selector is not None:
            raise ValueError("a default constraint has no selector: it is worked out for each pod")
        return selector

    def to_model(self) -> SpreadConstraint:
        """As pods have them; the selector is missing still."""
        return SpreadConstraint(
            self.max_skew,
            self.topology_key,
            self.when_unsatisfiable == _HARD,
            min_domains=self.min_domains or 1,
            honor_node_affinity=self.node_affinity_policy == _HONOR,
            honor_node_taints=self.node_taints_policy == _HONOR,
        )


class PodTopologySpreadArgs(PluginArgs):
    """`defaultingType` System, or List with `defaultConstraints` (perhaps none)."""

    default_constraints: tuple[DefaultConstraint, ...] = ()
    defaulting_type: Literal["System", "List"] = "System"

    @field_validator("default_constraints")
    @classmethod
    def _not_twice(cls, constraints: tuple[DefaultConstraint, ...]) -> tuple[DefaultConstraint, ...]:
        seen: set[tuple[str, str]] = set()
        for constraint in constraints:
            identity = constraint.topology_key, constraint.when_unsatisfiable
            if identity in seen:
                raise ValueError(f"{identity[0]} is there twice with {identity[1]}")
            seen.add(identity)
        return constraints

    @model_validator(mode="after")
    def _list_or_system(self) -> PodTopologySpreadArgs:
        if self.system and self.default_constraints:
            raise ValueError("defaultConstraints need defaultingType List")
        return self

    @property
    def system(self) -> bool:
        """Whether the built-in defaults hold."""
        return self.defaulting_type == "System"

    def constraints(self) -> tuple[SpreadConstraint, ...]:
        """The default constraints, without selectors."""
        return SYSTEM_DEFAULTS if self.system else tuple(each.to_model() for each in self.default_constraints)
