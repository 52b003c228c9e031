"""Arguments of NodeAffinity: an affinity that the profile adds to every pod."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, field_validator, model_validator

from wharfinger.framework.args import ConfigPart, Integer, PluginArgs
from wharfinger.model.names import is_label_value, is_qualified_name
from wharfinger.model.selectors import NodeSelectorTerm, Operator, PreferredTerm, Requirement, parse_integer

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
