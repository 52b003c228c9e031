"""Overrides as they are written: which objects are changed on which members, and how (`config.placement`).

Names, limits and rules are KubeFleet's. That no two overrides select one object is looked at when one is applied.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Annotated, ClassVar, Literal

from pydantic import Field, JsonValue

from wharfinger.config.errors import Problem
from wharfinger.config.placement_fields import ObjectFields, ResourceSelectorFields
from wharfinger.config.placement_policy_fields import SelectorFields, Text
from wharfinger.config.placement_problems import BecauseOf
from wharfinger.framework.args import ConfigPart

MOST = 20
"""Selectors of an override, its rules, and patches of a rule."""
_UNCHANGED = {"kind": "type metadata", "apiVersion": "type metadata", "status": "the status"}


class PlacementRefFields(ConfigPart):
    """For which placement an override is."""

    name: Annotated[Text, Field(max_length=255)] = ""
    """Of the placement."""
    scope: Literal["Cluster", "Namespaced"] = "Cluster"
    """Whether it is a ClusterResourcePlacement."""


class JsonPatchFields(ConfigPart):
    """One change."""

    op: Literal["add", "remove", "replace"] | None = None
    """What is done at the path."""
    path: Text = ""
    """Where: a JSON pointer."""
    value: JsonValue = None
    """For `add` and `replace`."""


class OverrideRuleFields(ConfigPart):
    """What is changed on some members."""

    cluster_selector: SelectorFields | None = None
    """Which; absent = none, without terms = all."""
    override_type: Literal["JSONPatch", "Delete"] = "JSONPatch"
    """Whether the object is changed, or left out."""
    json_patch_overrides: tuple[JsonPatchFields, ...] = Field(default=(), max_length=MOST)
    """For `JSONPatch`."""


class OverridePolicyFields(ConfigPart):
    """How objects are changed."""

    override_rules: tuple[OverrideRuleFields, ...] = Field(default=(), max_length=MOST)
    """In order: the last one that changes a field counts."""


class NamedSelectorFields(ConfigPart):
    """One object of a namespace."""

    group: Text = ""
    """API group, empty for the core one."""
    version: Text = ""
    """Of the API."""
    kind: Text = ""
    """Of the object."""
    name: Text = ""
    """Its name."""


class ClusterOverrideSpecFields(ConfigPart):
    """What is changed of objects without a namespace."""

    placement: PlacementRefFields | None = None
    """Absent = whatever places them."""
    cluster_resource_selectors: tuple[ResourceSelectorFields, ...] = Field(default=(), max_length=MOST)
    """Which, by name."""
    policy: OverridePolicyFields | None = None
    """How."""

    where: ClassVar = "spec.clusterResourceSelectors"

    @property
    def selected(self) -> Sequence[ResourceSelectorFields]:
        """The selectors; `where` is their path."""
        return self.cluster_resource_selectors


class OverrideSpecFields(ConfigPart):
    """What is changed of objects of the namespace."""

    placement: PlacementRefFields | None = None
    """Absent = whatever places them."""
    resource_selectors: tuple[NamedSelectorFields, ...] = Field(default=(), max_length=MOST)
    """Which."""
    policy: OverridePolicyFields | None = None
    """How."""

    where: ClassVar = "spec.resourceSelectors"

    @property
    def selected(self) -> Sequence[NamedSelectorFields]:
        """The selectors; `where` is their path."""
        return self.resource_selectors


class ClusterOverrideFields(ObjectFields):
    """A ClusterResourceOverride."""

    spec: ClusterOverrideSpecFields = ClusterOverrideSpecFields()
    """What is changed."""


class OverrideFields(ObjectFields):
    """A ResourceOverride."""

    spec: OverrideSpecFields = OverrideSpecFields()
    """What is changed."""


def override_problems(fields: ConfigPart) -> Iterator[Problem]:
    """What is wrong with the fields of an override together."""
    assert isinstance(fields, ClusterOverrideFields | OverrideFields), "of these kinds"
    spec = fields.spec
    selectors, where = spec.selected, spec.where
    if isinstance(spec, ClusterOverrideSpecFields):
        for index, selector in enumerate(spec.cluster_resource_selectors):
            if selector.label_selector is not None:
                yield f"{where}[{index}].labelSelector", "is not supported; objects are overridden by name"
        if spec.placement is not None and spec.placement.scope == "Namespaced":
            yield "spec.placement.scope", "must be Cluster: it cannot be for a ResourcePlacement"
    if not selectors:
        yield where, "is missing"
    for index, one in enumerate(selectors):
        for name in ("version", "kind", "name"):
            if not getattr(one, name):
                yield f"{where}[{index}].{name}", "is missing"
    for again, count in Counter((one.group, one.version, one.kind, one.name) for one in selectors).items():
        if count > 1:
            yield where, f"{'/'.join(part for part in again if part)} is there twice"
    if spec.placement is not None and not spec.placement.name:
        yield "spec.placement.name", "is missing"
    if spec.policy is None or not spec.policy.override_rules:
        yield "spec.policy.overrideRules" if spec.policy is not None else "spec.policy", "is missing"
    for index, rule in enumerate(spec.policy.override_rules if spec.policy is not None else ()):
        yield from _rule(rule, f"spec.policy.overrideRules[{index}].")


def _rule(rule: OverrideRuleFields, where: str) -> Iterator[Problem]:
    terms = rule.cluster_selector.cluster_selector_terms if rule.cluster_selector is not None else ()
    for index, term in enumerate(terms):
        path = f"{where}clusterSelector.clusterSelectorTerms[{index}]."
        if term.property_selector is not None:
            yield f"{path}propertySelector", "is not supported; members are selected by labels"
        if term.property_sorter is not None:
            yield f"{path}propertySorter", "is not supported; members are selected by labels"
        if term.label_selector is None:
            yield f"{path}labelSelector", "is missing"
    patches = rule.json_patch_overrides
    if rule.override_type == "Delete" and patches:
        yield f"{where}jsonPatchOverrides", BecauseOf(f"{where}overrideType", "must be absent for Delete")
    if rule.override_type == "JSONPatch" and not patches:
        yield f"{where}jsonPatchOverrides", BecauseOf(f"{where}overrideType", "is missing")
    for index, patch in enumerate(patches):
        path = f"{where}jsonPatchOverrides[{index}]."
        if patch.op is None:
            yield f"{path}op", "is missing"
        wrong = _wrong_path(patch.path)
        if wrong:
            yield f"{path}path", wrong
        if patch.op == "remove" and patch.value is not None:
            yield f"{path}value", "must be absent for remove"


def _wrong_path(path: str) -> str:
    """Why nothing may be changed there; empty when it may."""
    if not path:
        return "is missing"
    if not path.startswith("/"):
        return "must begin with a slash"
    first, *rest = path.split("/")[1:]
    if first in _UNCHANGED:
        return f"{_UNCHANGED[first]} cannot be overridden"
    if first == "metadata" and (not rest or rest[0] not in ("annotations", "labels")):
        return "of the metadata, only annotations and labels can be overridden"
    if not all(part.strip() for part in (first, *rest)):
        return "has an empty part"
    return ""
