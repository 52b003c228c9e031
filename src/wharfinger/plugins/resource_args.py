"""Arguments of the plugins that look at resources: NodeResourcesFit and NodeResourcesBalancedAllocation."""

from __future__ import annotations

from enum import StrEnum
from itertools import pairwise
from typing import Annotated

from pydantic import AfterValidator, Field, field_validator, model_validator

from wharfinger.framework.args import ConfigPart, Integer, PluginArgs
from wharfinger.model.names import is_qualified_name
from wharfinger.model.node import CPU, MEMORY


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
