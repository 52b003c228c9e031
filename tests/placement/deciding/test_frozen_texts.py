"""Digests in etcd stay those of the first release, whatever the code calls its classes and fields."""

from __future__ import annotations

import hashlib
from dataclasses import fields, is_dataclass, make_dataclass
from enum import StrEnum
from typing import Any

import pytest

from tests.placement.policies import POLICIES
from wharfinger.objects.model.selectors import LabelSelector, Operator, Requirement, Toleration
from wharfinger.placement.deciding import frozen_texts
from wharfinger.placement.deciding.frozen_texts import policy_text, selection_text
from wharfinger.placement.model.delivery import ResourceSelector, SelectionScope
from wharfinger.placement.model.placement import (
    ClusterPreference,
    ClusterSpread,
    ClusterTerm,
    PlacementPolicy,
    PlacementType,
    PropertyRequirement,
    PropertySorter,
)
from wharfinger.placement.spec.placements import policy_from_mapping
from wharfinger.placement.state.seen import policy_digest

DIGESTS = {
    "none": "90b0652e7d9a02ba32fcbcb867b20035",
    "all": "90b0652e7d9a02ba32fcbcb867b20035",
    "fixed": "0ac57fca9690460f3b4274e297e0286b",
    "one fixed": "f99f2f03c1e6e6f9ad4d074b9abd7a2e",
    "some": "b43377c77f6648c922708fd392eedcc5",
    "full": "002d13435f8ffd4ceda3f5ac3a9e4093",
}
"""As 0.1.0 and the builds after it computed them."""
SELECTORS = (
    ResourceSelector("apps", "v1", "Deployment", "it's"),
    ResourceSelector(
        "",
        "v1",
        "Namespace",
        "",
        LabelSelector((Requirement("a", Operator.IN, ("x", "y")),)),
        SelectionScope.WITH_SELECTED,
    ),
)
KEYS = (("/registry/namespaces/web", 7), ("/registry/pods/a", 8))
WRITTEN = {
    PlacementPolicy: "type number names required preferred tolerations spread",
    ClusterTerm: "labels properties",
    PropertyRequirement: "name operator values",
    ClusterPreference: "weight labels sorter",
    PropertySorter: "name order",
    ClusterSpread: "key max_skew hard",
    LabelSelector: "requirements",
    Requirement: "key operator values",
    Toleration: "key operator value effect seconds",
    ResourceSelector: "group version kind name labels scope",
}


def renamed(value: Any) -> Any:
    """The same value, of classes that have other names."""
    if isinstance(value, StrEnum):
        return StrEnum("Renamed", [(f"NEW_{one.name}", one.value) for one in type(value)])(value.value)
    if isinstance(value, tuple):
        return tuple(map(renamed, value))
    if is_dataclass(value):
        names = [one.name for one in fields(value)]
        return make_dataclass("Renamed", names)(*(renamed(getattr(value, name)) for name in names))
    return value


@pytest.mark.parametrize("name", POLICIES)
def test_digests_of_policies_are_those_of_earlier_builds(name: str) -> None:
    policy = policy_from_mapping({"policy": POLICIES[name]})
    assert policy_digest(policy) == DIGESTS[name]
    assert policy_text(renamed(policy)) == policy_text(policy)


@pytest.mark.parametrize(
    ("selectors", "keys", "digest"),
    [
        (SELECTORS, KEYS, "5744f24f9cf0aab0"),
        (SELECTORS[:1], KEYS[:1], "76477c32bae5a80a"),
        ((), (), "068ba53caf4bb89b"),
    ],
)
def test_stamps_of_selections_are_those_of_earlier_builds(
    selectors: tuple[ResourceSelector, ...], keys: tuple[tuple[str, int], ...], digest: str
) -> None:
    text = selection_text(selectors, keys)
    assert hashlib.sha256(text.encode()).hexdigest()[:16] == digest
    assert selection_text(renamed(selectors), keys) == text


def test_every_field_and_word_has_its_text() -> None:
    """A field that is added has to be written where it differs from its default: see the decision record."""
    assert {kind: " ".join(one.name for one in fields(kind)) for kind in WRITTEN} == WRITTEN
    assert frozen_texts._TYPES.keys() == {one.value for one in PlacementType}
    assert frozen_texts._OPERATORS.keys() == {one.value for one in Operator}
    assert frozen_texts._SCOPES.keys() == {one.value for one in SelectionScope}
