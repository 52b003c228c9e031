"""The policy of a placement as it is written: whom it wants, what may stand where (`spec.placement`).

Names, limits and defaults are KubeFleet's (`placement.kubernetes-fleet.io`, `v1` and `v1beta1`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Annotated, Literal

from pydantic import AfterValidator, BeforeValidator, Field, ValidationInfo

from wharfinger.framework.config.validation import STORED, ConfigPart, Integer, Problem
from wharfinger.objects.model.names import is_dns_subdomain, is_label_value, is_qualified_name
from wharfinger.objects.model.quantities import parse_amount
from wharfinger.objects.model.selectors import LabelSelector, Operator, Requirement
from wharfinger.placement.model.members import RESOURCES, resource_of

MOST_TERMS = 10
MOST_NAMES = 100
LONGEST_NAME = 63
"""Characters of a placement's or a member's name: it is a label's value, too."""
LARGEST = 2**31 - 1


def when_written(check: Callable[[str], str]) -> AfterValidator:
    """A rule for what users write. What is stored is read without it."""

    def checked(text: str, info: ValidationInfo) -> str:
        return text if info.context == STORED else check(text)

    return AfterValidator(checked)


def _unread(written: object, info: ValidationInfo) -> object:
    return None if info.context == STORED else written


def _null_is_empty(written: object, info: ValidationInfo) -> object:
    return "" if written is None and info.context == STORED else written


def _label_key(text: str) -> str:
    if not is_qualified_name(text):
        raise ValueError("must be the key of a label: letters, digits, dashes and dots, perhaps behind a domain")
    return text


def _label_value(text: str) -> str:
    if not is_label_value(text):
        raise ValueError("must be the value of a label: at most 63 letters, digits, dashes, dots and underscores")
    return text


def _member(text: str) -> str:
    if not is_dns_subdomain(text) or len(text) > LONGEST_NAME:
        raise ValueError(f"must be a member's name: at most {LONGEST_NAME} lower case letters, digits, dots, dashes")
    return text


def _property(text: str) -> str:
    """KubeFleet allows several slashes in a name that is not a resource's."""
    if text.startswith(RESOURCES) and resource_of(text) is None:
        raise ValueError(f"must be {RESOURCES}<total, allocatable or available>-<resource>")
    first, *rest = text.split("/")
    if not (rest and is_dns_subdomain(first)) and not is_qualified_name(first):
        raise ValueError("must begin with a domain or a name")
    if not all(is_qualified_name(part) for part in rest):
        raise ValueError("must be names with slashes between them")
    return text


def _quantity(text: str) -> str:
    try:
        parse_amount(text)
    except ValueError:
        raise ValueError(f"{text[:40]!r} is no quantity such as 4, 500m or 2Gi") from None
    return text


Text = Annotated[str, Field(strict=True, max_length=1024)]
LabelKey = Annotated[Text, when_written(_label_key)]
LabelValue = Annotated[Text, when_written(_label_value)]
MemberName = Annotated[Text, AfterValidator(_member)]
PropertyName = Annotated[Text, AfterValidator(_property)]
Quantity = Annotated[Text, AfterValidator(_quantity)]
Unread = BeforeValidator(_unread)
"""Marks a field that hubs do not read: whatever is stored there is not looked at."""


class ExpressionFields(ConfigPart):
    """One requirement on a label."""

    key: LabelKey = ""
    """Of the label."""
    operator: Literal["In", "NotIn", "Exists", "DoesNotExist"] | None = None
    """How the label's value is compared."""
    values: tuple[LabelValue, ...] = Field(default=(), max_length=1000)
    """For `In` and `NotIn`."""


class LabelSelectorFields(ConfigPart):
    """Labels that must be there."""

    match_labels: dict[LabelKey, Annotated[LabelValue, BeforeValidator(_null_is_empty)]] = Field(
        default_factory=dict, max_length=1000
    )
    """Labels and their values."""
    match_expressions: tuple[ExpressionFields, ...] = Field(default=(), max_length=1000)
    """Other requirements."""

    @property
    def value(self) -> LabelSelector:
        """The requirements, where `label_problems` finds nothing wrong. Those of equal selectors are equal."""
        equal = [Requirement(key, Operator.IN, (value,)) for key, value in sorted(self.match_labels.items())]
        others = [Requirement(one.key, Operator(one.operator or ""), one.values) for one in self.match_expressions]
        return LabelSelector((*equal, *others))


def label_problems(selector: LabelSelectorFields | None, where: str) -> Iterator[Problem]:
    """What is wrong with the expressions of a label selector; `where` is its path with the dot."""
    for index, one in enumerate(selector.match_expressions if selector is not None else ()):
        path = f"{where}matchExpressions[{index}]."
        if not one.key:
            yield f"{path}key", "is missing"
        if one.operator is None:
            yield f"{path}operator", "is missing"
        elif one.operator in ("In", "NotIn") and not one.values:
            yield f"{path}values", f"is missing; {one.operator} needs some"
        elif one.operator in ("Exists", "DoesNotExist") and one.values:
            yield f"{path}values", f"must be absent for {one.operator}"


class PropertyFields(ConfigPart):
    """One requirement on a property."""

    name: PropertyName = ""
    """Of the property."""
    operator: Literal["Gt", "Ge", "Eq", "Ne", "Lt", "Le"] | None = None
    """How the property is compared with the value."""
    values: tuple[Quantity, ...] = Field(default=(), max_length=1)
    """Exactly one."""


class PropertySelectorFields(ConfigPart):
    """Properties that must be so."""

    match_expressions: tuple[PropertyFields, ...] = Field(default=(), max_length=100)
    """All of them must hold."""


class PropertySorterFields(ConfigPart):
    """By which property a weight is shared out."""

    name: PropertyName = ""
    """Of the property."""
    sort_order: Literal["Ascending", "Descending"] | None = None
    """`Descending`: the member with the most gets the whole weight."""


class TermFields(ConfigPart):
    """Members with these labels and properties."""

    label_selector: LabelSelectorFields | None = None
    """Labels that must be there."""
    property_selector: Annotated[PropertySelectorFields | None, Unread] = None
    """Properties that must be so; only where it is required."""
    property_sorter: Annotated[PropertySorterFields | None, Unread] = None
    """By which property the weight is shared out; only where it is preferred."""


class SelectorFields(ConfigPart):
    """One of the terms must match."""

    cluster_selector_terms: tuple[TermFields, ...] = Field(default=(), max_length=MOST_TERMS)
    """Which members are accepted."""


class PreferredFields(ConfigPart):
    """A weighted preference."""

    weight: Annotated[Integer, Field(ge=-100, le=100)] | None = None
    """Added to the affinity score of who matches."""
    preference: TermFields | None = None
    """Who matches."""


class ClusterAffinityFields(ConfigPart):
    """Which members are accepted, and which are preferred."""

    required_during_scheduling_ignored_during_execution: SelectorFields | None = None
    """Who is accepted."""
    preferred_during_scheduling_ignored_during_execution: tuple[PreferredFields, ...] = Field(
        default=(), max_length=100
    )
    """Who is preferred."""


class AffinityFields(ConfigPart):
    """Affinity to members."""

    cluster_affinity: ClusterAffinityFields | None = None
    """The only one there is."""


class SpreadFields(ConfigPart):
    """How evenly the chosen members are spread over the values of a label."""

    max_skew: Annotated[Integer, Field(ge=1, le=LARGEST)] = 1
    """How many more than in the smallest domain there may be."""
    topology_key: LabelKey = ""
    """The label whose values are the domains."""
    when_unsatisfiable: Literal["DoNotSchedule", "ScheduleAnyway"] = "DoNotSchedule"
    """Whether a member that would break it is refused, or only liked less."""


class TolerationFields(ConfigPart):
    """A taint that is tolerated."""

    key: Text = ""
    """Of the taint; empty = any, with `Exists`."""
    operator: Literal["Equal", "Exists"] = "Equal"
    """Whether the value counts."""
    value: LabelValue = ""
    """Of the taint."""
    effect: Literal["", "NoSchedule"] = ""
    """Of the taint; empty = any."""


class PolicyFields(ConfigPart):
    """Which members are wanted."""

    placement_type: Literal["PickAll", "PickN", "PickFixed"] = "PickAll"
    """All that are accepted, so many of them, or those that are named."""
    cluster_names: tuple[MemberName, ...] = Field(default=(), max_length=MOST_NAMES)
    """For `PickFixed`."""
    number_of_clusters: Annotated[Integer, Field(ge=0, le=LARGEST)] | None = None
    """For `PickN`."""
    affinity: AffinityFields | None = None
    """For `PickAll` and `PickN`."""
    topology_spread_constraints: tuple[SpreadFields, ...] = Field(default=(), max_length=100)
    """For `PickN`."""
    tolerations: tuple[TolerationFields, ...] = Field(default=(), max_length=100)
    """For `PickAll` and `PickN`."""
