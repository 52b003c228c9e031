"""Arguments of NodeAffinity: an affinity that the profile adds to every pod."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from wharfinger.framework.args import ConfigPart, PluginArgs
from wharfinger.model.selectors import NodeSelectorTerm, Operator, PreferredTerm, Requirement, parse_integer

_LISTS = (Operator.IN, Operator.NOT_IN)
_BOUNDS = (Operator.GT, Operator.LT)


class NodeSelectorRequirement(ConfigPart):
    """One expression; which values it needs depends on the operator."""

    key: str = Field(min_length=1)
    operator: Operator
    values: tuple[str, ...] = ()

    @model_validator(mode="after")
    def _values_fit(self) -> NodeSelectorRequirement:
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


class NodeFieldRequirement(NodeSelectorRequirement):
    """An expression over the node's name, the only field there is."""

    key: Literal["metadata.name"] = "metadata.name"
    operator: Literal[Operator.IN, Operator.NOT_IN]


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

    weight: int = Field(ge=1, le=100)
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
