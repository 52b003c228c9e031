"""Objects of placement as they are written: placements, members, evictions, budgets (`spec.placement`).

Every field has a default, so that what is malformed can be taken out and the rest looked at
(`framework.config.validation`). Names, limits and defaults are KubeFleet's.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal

from pydantic import Field, PlainValidator, ValidationInfo, WithJsonSchema

from wharfinger.framework.config.validation import STORED, Boolean, ConfigPart, Integer, Problem, stored
from wharfinger.objects.model.quantities import IntOrPercent
from wharfinger.placement.model.delivery import DeliverySpec, ResourceSelector, RolloutBudget, SelectionScope
from wharfinger.placement.spec.placement_policy_fields import (
    LabelKey,
    LabelSelectorFields,
    LabelValue,
    PolicyFields,
    Text,
    Unread,
    label_problems,
)

_PERCENT = re.compile(r"(100|[0-9]{1,2})%", re.ASCII)
_ANY_PERCENT = re.compile(r"[0-9]{1,9}%", re.ASCII)
_LARGEST = 2**31 - 1


def _int_or_percent(written: object, info: ValidationInfo) -> IntOrPercent:
    if isinstance(written, int) and not isinstance(written, bool) and 0 <= written <= _LARGEST:
        return IntOrPercent(written)
    if isinstance(written, str) and (_ANY_PERCENT if info.context == STORED else _PERCENT).fullmatch(written):
        return IntOrPercent(int(written[:-1]), percent=True)
    raise ValueError("must be a number of clusters, or a percentage from 0% to 100%")


IntOrPercentField = Annotated[
    IntOrPercent, PlainValidator(_int_or_percent), WithJsonSchema({"anyOf": [{"type": "integer"}, {"type": "string"}]})
]


class ResourceSelectorFields(ConfigPart):
    """Which objects are placed."""

    group: Text = ""
    """API group, empty for the core one."""
    version: Text = ""
    """Of the API."""
    kind: Text = ""
    """Of the objects."""
    name: Text = ""
    """One object; absent = all of the kind."""
    label_selector: LabelSelectorFields | None = None
    """All of the kind with these labels."""
    selection_scope: Literal["NamespaceOnly", "NamespaceWithResources", "NamespaceWithResourceSelectors"] = (
        "NamespaceWithResources"
    )
    """Whether a namespace comes with what is in it."""

    @property
    def value(self) -> ResourceSelector:
        """The selector."""
        labels = self.label_selector.value if self.label_selector is not None else None
        scope = SelectionScope(self.selection_scope)
        return ResourceSelector(self.group, self.version, self.kind, self.name, labels, scope)


class RollingUpdateConfigFields(ConfigPart):
    """How many members change at a time."""

    max_unavailable: IntOrPercentField = IntOrPercent(25, percent=True)
    """Members that may be without the placement."""
    max_surge: IntOrPercentField = IntOrPercent(25, percent=True)
    """Members beyond those that are wanted."""
    unavailable_period_seconds: Annotated[Integer, Field(ge=0, le=_LARGEST)] = 60
    """Seconds after which what cannot be tracked counts as available."""


class ServerSideApplyFields(ConfigPart):
    """How server-side apply is done."""

    force: Boolean = False
    """Whether fields of others are taken over."""


class ApplyStrategyFields(ConfigPart):
    """How objects are applied on members."""

    comparison_option: Literal["PartialComparison", "FullComparison"] = "PartialComparison"
    """Which fields count as a difference."""
    when_to_apply: Literal["Always", "IfNotDrifted"] = "Always"
    """Whether what others changed is changed back."""
    type: Literal["ClientSideApply", "ServerSideApply", "ReportDiff"] = "ClientSideApply"
    """How, or only tell the differences."""
    allow_co_ownership: Boolean = False
    """Whether others may own the object, too."""
    server_side_apply_config: ServerSideApplyFields | None = None
    """For `ServerSideApply`."""
    when_to_take_over: Literal["Always", "IfNoDiff", "Never"] = "Always"
    """Whether what is there already is taken over."""

    @property
    def complete(self) -> dict[str, Any]:
        """How objects are applied, as works have it."""
        server_side = self.server_side_apply_config
        return {
            "type": self.type,
            "comparisonOption": self.comparison_option,
            "whenToApply": self.when_to_apply,
            "whenToTakeOver": self.when_to_take_over,
            "allowCoOwnership": self.allow_co_ownership,
            "force": server_side is not None and server_side.force,
        }


class DeleteStrategyFields(ConfigPart):
    """What happens to objects on members when the placement is deleted."""

    propagation_policy: Literal["Abandon", "Delete"] = "Delete"
    """Whether they stay."""


class ReportBackFields(ConfigPart):
    """Whether the status of objects on members is reported back."""

    type: Literal["Disabled", "Mirror"] = "Disabled"
    """Whether it is."""
    destination: Literal["OriginalResource", "WorkAPI"] | None = None
    """Where to."""


class RolloutStrategyFields(ConfigPart):
    """How a placement is rolled out."""

    type: Literal["RollingUpdate", "External"] = "RollingUpdate"
    """By itself, or by update runs."""
    rolling_update: RollingUpdateConfigFields | None = None
    """How many members change at a time."""
    apply_strategy: ApplyStrategyFields | None = None
    """How objects are applied on members."""
    delete_strategy: DeleteStrategyFields | None = None
    """What happens on members when the placement is deleted."""
    report_back_strategy: Annotated[ReportBackFields | None, Unread] = None
    """Whether their status is reported back."""


class PlacementSpecFields(ConfigPart):
    """What goes where, and how."""

    resource_selectors: tuple[ResourceSelectorFields, ...] = Field(default=(), max_length=100)
    """Which objects are placed."""
    policy: PolicyFields | None = None
    """Which members are wanted; absent = all."""
    strategy: RolloutStrategyFields = RolloutStrategyFields()
    """How it is rolled out."""
    revision_history_limit: Annotated[Integer, Field(ge=1, le=1000)] = 10
    """Former policies and contents that are kept."""
    status_reporting_scope: Literal["ClusterScopeOnly", "NamespaceAccessible"] = "ClusterScopeOnly"
    """Where the status can be read."""


class TaintFields(ConfigPart):
    """A taint of a member."""

    key: LabelKey = ""
    """Its name."""
    value: LabelValue = ""
    """Its value."""
    effect: Literal["NoSchedule"] | None = None
    """The only one there is."""


class DeleteOptionsFields(ConfigPart):
    """How a member may be deleted."""

    validation_mode: Literal["Skip", "Strict"] = "Strict"
    """Whether what still lies there forbids it."""


class MemberSpecFields(ConfigPart):
    """What the hub knows of a member."""

    identity: dict[str, Any] = Field(default_factory=dict)
    """Who its agent is, in KubeFleet."""
    heartbeat_period_seconds: Annotated[Integer, Field(ge=1, le=600)] = 60
    """How often its agent is heard, in KubeFleet."""
    taints: tuple[TaintFields, ...] = Field(default=(), max_length=100)
    """Keep placements away that do not tolerate them."""
    delete_options: DeleteOptionsFields | None = None
    """How it may be deleted."""


class EvictionSpecFields(ConfigPart):
    """What leaves which member."""

    placement_name: Annotated[Text, Field(max_length=255)] = ""
    """Of a ClusterResourcePlacement."""
    cluster_name: Annotated[Text, Field(max_length=255)] = ""
    """Of the member."""


class BudgetSpecFields(ConfigPart):
    """How many members evictions leave."""

    max_unavailable: IntOrPercentField | None = None
    """Members that may be without the placement."""
    min_available: IntOrPercentField | None = None
    """Members that must have it."""


class ObjectFields(ConfigPart):
    """What all objects have."""

    api_version: Text = ""
    """Group and version."""
    kind: Text = ""
    """Of the object."""
    metadata: dict[str, Any] = Field(default_factory=dict)
    """As of any object."""
    status: dict[str, Any] = Field(default_factory=dict)
    """Of KubeFleet; nothing reads a placement's."""


class PlacementFields(ObjectFields):
    """A ClusterResourcePlacement, or a ResourcePlacement."""

    spec: PlacementSpecFields = PlacementSpecFields()
    """What goes where, and how."""


class MemberFields(ObjectFields):
    """A MemberCluster."""

    spec: MemberSpecFields = MemberSpecFields()
    """What the hub knows of it."""


class EvictionFields(ObjectFields):
    """A ClusterResourcePlacementEviction."""

    spec: EvictionSpecFields = EvictionSpecFields()
    """What leaves which member."""


class BudgetFields(ObjectFields):
    """A ClusterResourcePlacementDisruptionBudget."""

    spec: BudgetSpecFields = BudgetSpecFields()
    """How many members evictions leave."""


def spelled(model: ConfigPart, name: str) -> str:
    """A field's name as it is written."""
    return type(model).model_fields[name].alias or name


def immutable(was: ConfigPart, becomes: ConfigPart, *names: str) -> Iterator[Problem]:
    """That these fields of a specification may not change, where they do."""
    for name in names:
        before = getattr(was, name)
        if before != getattr(becomes, name):
            yield f"spec.{spelled(was, name)}", f"may not change; it is {before or 'empty'}"


class _DeliveryFields(ConfigPart):
    resource_selectors: tuple[ResourceSelectorFields, ...] = ()
    strategy: RolloutStrategyFields = RolloutStrategyFields()


def stored_selectors(spec: Mapping[str, Any]) -> tuple[ResourceSelector, ...]:
    """`spec.resourceSelectors` of a stored placement. Raises `InvalidObject`, naming the field."""
    return tuple(one.value for one in _delivery(spec, "resourceSelectors").resource_selectors)


def stored_delivery(spec: Mapping[str, Any]) -> tuple[DeliverySpec, bool]:
    """How a stored placement is delivered, and whether its objects stay when it is deleted.

    Raises `InvalidObject`, naming the field.
    """
    fields = _delivery(spec, "resourceSelectors", "strategy")
    strategy, rolling = fields.strategy, fields.strategy.rolling_update or RollingUpdateConfigFields()
    period = float(rolling.unavailable_period_seconds)
    delivery = DeliverySpec(
        budget=RolloutBudget(rolling.max_unavailable, rolling.max_surge, period),
        strategy=(strategy.apply_strategy or ApplyStrategyFields()).complete,
        external=strategy.type == "External",
        selectors=tuple(one.value for one in fields.resource_selectors),
    )
    return delivery, strategy.delete_strategy is not None and strategy.delete_strategy.propagation_policy == "Abandon"


def _delivery(spec: Mapping[str, Any], *names: str) -> _DeliveryFields:
    return stored({name: spec.get(name) for name in names}, _DeliveryFields, "spec.", _selector_problems)


def _selector_problems(fields: _DeliveryFields) -> Iterator[Problem]:
    for index, one in enumerate(fields.resource_selectors):
        yield from label_problems(one.label_selector, f"resourceSelectors[{index}].labelSelector.")
