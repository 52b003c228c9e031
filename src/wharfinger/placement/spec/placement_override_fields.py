"""Overrides as they are written: which objects are changed on which members, and how (`spec.placement`).

Names, limits and rules are KubeFleet's. That no two overrides select one object is looked at when one is applied.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, JsonValue

from wharfinger.errors import InvalidObject
from wharfinger.framework.config.validation import BecauseOf, ConfigPart, Problem, stored
from wharfinger.objects.model.placement_kinds import CLUSTER_OVERRIDE, OVERRIDE
from wharfinger.objects.model.selectors import LabelSelector, Operator, Requirement
from wharfinger.placement.model.delivery import ObjectId, Override, OverridePatch, OverrideRule
from wharfinger.placement.model.placement import PlacementRef
from wharfinger.placement.spec.placement_fields import ObjectFields, ResourceSelectorFields
from wharfinger.placement.spec.placement_policy_fields import SelectorFields, Text, label_problems

MOST = 20
"""Selectors of an override, its rules, and patches of a rule."""
_NOTHING = LabelSelector((Requirement("", Operator.IN),))
"""Matches no labels: a term without a label selector."""
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

    @property
    def patch(self) -> OverridePatch:
        """The patch; its `op` is there."""
        return OverridePatch(self.op or "", self.path, None if self.op == "remove" else self.value)


class OverrideRuleFields(ConfigPart):
    """What is changed on some members."""

    cluster_selector: SelectorFields | None = None
    """Which; absent = none, without terms = all."""
    override_type: Literal["JSONPatch", "Delete"] = "JSONPatch"
    """Whether the object is changed, or left out."""
    json_patch_overrides: tuple[JsonPatchFields, ...] = Field(default=(), max_length=MOST)
    """For `JSONPatch`."""

    @property
    def rule(self) -> OverrideRule:
        """The rule."""
        terms = self.cluster_selector.cluster_selector_terms if self.cluster_selector is not None else None
        selectors = [one.label_selector for one in terms or ()]
        deletes = self.override_type == "Delete"
        return OverrideRule(
            tuple(_NOTHING if one is None else one.value for one in selectors) if terms is not None else None,
            deletes,
            () if deletes else tuple(one.patch for one in self.json_patch_overrides),
        )


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


def stored_override(obj: Mapping[str, Any]) -> Override:
    """A stored override of either kind. Raises `InvalidObject`, naming the field."""
    kind = obj.get("kind")
    if kind not in (CLUSTER_OVERRIDE, OVERRIDE):  # a cluster's override that is read as a namespace's has no effect
        raise InvalidObject(f"kind: is {kind!r}, and neither {CLUSTER_OVERRIDE} nor {OVERRIDE}")
    of_cluster = kind == CLUSTER_OVERRIDE
    read = {name: obj.get(name) for name in ("metadata", "spec")}
    fields: ClusterOverrideFields | OverrideFields
    if of_cluster:
        fields = stored(read, ClusterOverrideFields, together=_unreadable)
    else:
        fields = stored(read, OverrideFields, together=_unreadable)
    spec, placement, name = fields.spec, fields.spec.placement, fields.metadata.get("name")
    namespace = "" if of_cluster else fields.metadata.get("namespace") or "default"
    if not isinstance(name, str) or not name or not isinstance(namespace, str):
        raise InvalidObject("metadata.name or metadata.namespace is missing or no text")
    return Override(
        name=name,
        namespace=namespace,
        placement=PlacementRef(namespace if placement.scope == "Namespaced" else "", placement.name)
        if placement is not None
        else None,
        selectors=tuple(ObjectId(one.group, one.version, one.kind, namespace, one.name) for one in spec.selected),
        rules=tuple(one.rule for one in spec.policy.override_rules) if spec.policy is not None else (),
    )


def _unreadable(fields: ClusterOverrideFields | OverrideFields) -> Iterator[Problem]:
    """What must be right although the rest of a rule, as in KubeFleet, may have no effect."""
    for index, rule in enumerate(fields.spec.policy.override_rules if fields.spec.policy is not None else ()):
        where = f"spec.policy.overrideRules[{index}]."
        yield from _label_problems(rule, where)
        for at, patch in enumerate(rule.json_patch_overrides):
            if patch.op is None:
                yield f"{where}jsonPatchOverrides[{at}].op", "is missing"


def _label_problems(rule: OverrideRuleFields, where: str) -> Iterator[Problem]:
    terms = rule.cluster_selector.cluster_selector_terms if rule.cluster_selector is not None else ()
    for index, term in enumerate(terms):
        path = f"{where}clusterSelector.clusterSelectorTerms[{index}].labelSelector."
        yield from label_problems(term.label_selector, path)


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
    yield from _label_problems(rule, where)
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
