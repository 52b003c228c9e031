"""Arguments of PodTopologySpread: the constraints of pods that have none of their own."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field, field_validator, model_validator

from wharfinger.framework.args import ConfigPart, Integer, PluginArgs
from wharfinger.model.affinity import SpreadConstraint
from wharfinger.model.names import is_qualified_name

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
