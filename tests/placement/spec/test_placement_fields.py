"""How a placement is delivered, as read from its object: KubeFleet's defaults, and what cannot be read."""

from __future__ import annotations

from typing import Any

import pytest

from wharfinger.errors import InvalidObject
from wharfinger.objects.model.quantities import IntOrPercent
from wharfinger.placement.model.delivery import DeliverySpec, RolloutBudget
from wharfinger.placement.spec.placement_fields import ApplyStrategyFields, stored_delivery

DEFAULTS = {
    "type": "ClientSideApply",
    "comparisonOption": "PartialComparison",
    "whenToApply": "Always",
    "whenToTakeOver": "Always",
    "allowCoOwnership": False,
    "force": False,
}


def read(**strategy: Any) -> DeliverySpec:
    return stored_delivery({"strategy": strategy})[0]


@pytest.mark.parametrize("spec", [{}, {"strategy": None}, {"strategy": {"rollingUpdate": None, "applyStrategy": {}}}])
def test_what_is_left_out_has_kubefleets_defaults(spec: dict[str, Any]) -> None:
    quarter = IntOrPercent(25, percent=True)
    assert stored_delivery(spec)[0] == DeliverySpec(RolloutBudget(quarter, quarter, 60.0), DEFAULTS, False, ())


@pytest.mark.parametrize(
    ("written", "share"),
    [
        (0, IntOrPercent(0)),
        (3, IntOrPercent(3)),
        ("0%", IntOrPercent(0, percent=True)),
        ("100%", IntOrPercent(100, percent=True)),
    ],
)
def test_a_budget_is_a_number_or_a_percentage(written: int | str, share: IntOrPercent) -> None:
    budget = read(rollingUpdate={"maxUnavailable": written, "maxSurge": written}).budget
    assert (budget.max_unavailable, budget.max_surge) == (share, share)


def test_a_budget_above_all_members_is_read_as_before() -> None:
    budget = read(rollingUpdate={"maxUnavailable": "150%", "maxSurge": "101%"}).budget
    assert (budget.max_unavailable.amount, budget.max_surge.amount) == (150, 101)


def test_an_empty_word_is_the_default_and_an_unread_field_may_be_anything() -> None:
    found = read(
        applyStrategy=dict.fromkeys(("type", "comparisonOption", "whenToApply", "whenToTakeOver"), ""),
        deleteStrategy={"propagationPolicy": ""},
        reportBackStrategy={"type": "Later"},
    )
    assert found.strategy == DEFAULTS
    assert stored_delivery({"strategy": {"reportBackStrategy": "text"}, "policy": 1})[1] is False


@pytest.mark.parametrize("written", [-1, True, "3", "%", "-1%", "1.5%", "a%", 2.5, []])
@pytest.mark.parametrize("field", ["maxUnavailable", "maxSurge"])
def test_a_budget_that_is_neither_names_its_field(field: str, written: Any) -> None:
    with pytest.raises(InvalidObject, match=f"spec.strategy.rollingUpdate.{field}: must be a number of clusters"):
        read(rollingUpdate={field: written})


def test_a_period_may_be_none_at_all() -> None:
    assert read(rollingUpdate={"unavailablePeriodSeconds": 0}).budget.unavailable_period == 0.0
    with pytest.raises(InvalidObject, match="unavailablePeriodSeconds"):
        read(rollingUpdate={"unavailablePeriodSeconds": -1})


def test_only_external_leaves_it_to_update_runs() -> None:
    assert [read(type=kind).external for kind in ("RollingUpdate", "External", "")] == [False, True, False]


def test_an_apply_strategy_is_complete() -> None:
    written = {
        "type": "ServerSideApply",
        "comparisonOption": "FullComparison",
        "whenToApply": "IfNotDrifted",
        "whenToTakeOver": "Never",
        "allowCoOwnership": True,
        "serverSideApplyConfig": {"force": True},
    }
    expected = {**DEFAULTS, **written, "force": True}
    del expected["serverSideApplyConfig"]
    assert ApplyStrategyFields.model_validate(written).complete == expected


@pytest.mark.parametrize(
    ("written", "field"),
    [
        ({"type": "Merge"}, "type"),
        ({"comparisonOption": "Some"}, "comparisonOption"),
        ({"whenToApply": "Never"}, "whenToApply"),
        ({"whenToTakeOver": "Sometimes"}, "whenToTakeOver"),
        ({"allowCoOwnership": "yes"}, "allowCoOwnership"),
        ({"serverSideApplyConfig": {"force": 1}}, "serverSideApplyConfig.force"),
        ({"serverSideApplyConfig": []}, "serverSideApplyConfig"),
    ],
)
def test_a_wrong_apply_strategy_names_its_field(written: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidObject, match=f"spec.strategy.applyStrategy.{field}"):
        read(applyStrategy=written)
