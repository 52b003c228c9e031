"""Which arguments PodTopologySpread accepts."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from wharfinger.framework.plugins.arguments import SYSTEM_DEFAULTS, PodTopologySpreadArgs
from wharfinger.objects.model.selectors import SpreadConstraint

ZONE = {"maxSkew": 2, "topologyKey": "topology.kubernetes.io/zone", "whenUnsatisfiable": "ScheduleAnyway"}


def listed(*constraints: dict[str, Any]) -> PodTopologySpreadArgs:
    return PodTopologySpreadArgs.model_validate({"defaultingType": "List", "defaultConstraints": constraints})


def test_built_in_defaults_hold_without_arguments() -> None:
    assert PodTopologySpreadArgs().constraints() == SYSTEM_DEFAULTS
    assert PodTopologySpreadArgs.model_validate({"defaultingType": "System"}).system
    assert listed().constraints() == ()


def test_listed_constraints_are_read_in_full() -> None:
    hard = {
        "maxSkew": 1,
        "topologyKey": "rack",
        "whenUnsatisfiable": "DoNotSchedule",
        "minDomains": 3,
        "nodeAffinityPolicy": "Ignore",
        "nodeTaintsPolicy": "Honor",
        "labelSelector": None,
    }
    assert listed(ZONE, hard).constraints() == (
        SpreadConstraint(2, "topology.kubernetes.io/zone", False),
        SpreadConstraint(1, "rack", True, None, 3, honor_node_affinity=False, honor_node_taints=True),
    )


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"maxSkew": 0}, "maxSkew"),
        ({"maxSkew": None}, "maxSkew"),
        ({"minDomains": 0}, "minDomains"),
        ({"topologyKey": ""}, "must not be empty"),
        ({"topologyKey": None}, "topologyKey"),
        ({"topologyKey": "no key"}, "is no label key"),
        ({"topologyKey": "Upper.Case/zone"}, "is no label key"),
        ({"topologyKey": "/zone"}, "is no label key"),
        ({"topologyKey": "a" * 64}, "is no label key"),
        ({"whenUnsatisfiable": "Sometimes"}, "whenUnsatisfiable"),
        ({"whenUnsatisfiable": None}, "whenUnsatisfiable"),
        ({"nodeTaintsPolicy": "Perhaps"}, "nodeTaintsPolicy"),
        ({"labelSelector": {}}, "has no selector"),
        ({"skew": 1}, "Extra inputs"),
    ],
)
def test_a_wrong_constraint_is_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        listed({**ZONE, **change})


def test_no_two_constraints_have_the_same_key_and_strength() -> None:
    assert len(listed(ZONE, {**ZONE, "whenUnsatisfiable": "DoNotSchedule"}).constraints()) == 2
    with pytest.raises(ValidationError, match="is there twice"):
        listed(ZONE, {**ZONE, "maxSkew": 3})


def test_constraints_are_listed_only_with_the_list_type() -> None:
    for kind in ({}, {"defaultingType": "System"}):
        with pytest.raises(ValidationError, match="need defaultingType List"):
            PodTopologySpreadArgs.model_validate({**kind, "defaultConstraints": [ZONE]})
    with pytest.raises(ValidationError, match="defaultingType"):
        PodTopologySpreadArgs.model_validate({"defaultingType": "Some"})
