"""What a placement delivers: identities of objects, selectors of objects, and overrides that change them per member.

Names of fields are KubeFleet's. `spec.placement_fields` and `spec.placement_override_fields` read these from
objects. `deciding.selecting`, `deciding.overriding` and `deciding.enveloping` decide by them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NamedTuple

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
