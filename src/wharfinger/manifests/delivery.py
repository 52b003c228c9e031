"""Reads from a placement how it is delivered: `spec.strategy`, complete with KubeFleet's defaults."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from wharfinger.errors import InvalidObject
from wharfinger.manifests.contents import selectors_from_mapping
from wharfinger.manifests.fields import boolean, integer, mapping, share, text
from wharfinger.model.delivery import QUARTER, DeliverySpec, RolloutBudget

_STRATEGY: Mapping[str, tuple[str, ...]] = {
    "type": ("ClientSideApply", "ServerSideApply", "ReportDiff"),
    "comparisonOption": ("PartialComparison", "FullComparison"),
    "whenToApply": ("Always", "IfNotDrifted"),
    "whenToTakeOver": ("Always", "IfNoDiff", "Never"),
}
"""What may be said of applying; the first is the default."""


def delivery_from_mapping(spec: Mapping[str, Any]) -> DeliverySpec:
    """How a placement is delivered. Raises `InvalidObject`, naming the field."""
    strategy = mapping(spec, "strategy", "spec.")
    rolling = mapping(strategy, "rollingUpdate", "spec.strategy.")
    where = "spec.strategy.rollingUpdate."
    period = integer(rolling, "unavailablePeriodSeconds", where, low=0, high=2**31 - 1)
    return DeliverySpec(
        budget=RolloutBudget(
            max_unavailable=share(rolling, "maxUnavailable", where, low=0) or QUARTER,
            max_surge=share(rolling, "maxSurge", where, low=0) or QUARTER,
            unavailable_period=60.0 if period is None else float(period),
        ),
        strategy=apply_strategy(mapping(strategy, "applyStrategy", "spec.strategy.")),
        external=text(strategy, "type", "spec.strategy.") == "External",
        selectors=selectors_from_mapping(spec),
    )


def apply_strategy(written: Mapping[str, Any]) -> dict[str, Any]:
    """How objects are applied, complete. Raises `InvalidObject`, naming the field."""
    where = "spec.strategy.applyStrategy."
    found: dict[str, Any] = {}
    for key, values in _STRATEGY.items():
        said = text(written, key, where) or values[0]
        if said not in values:
            raise InvalidObject(f"{where}{key} {said[:40]!r} is none of {', '.join(values)}")
        found[key] = said
    found["allowCoOwnership"] = bool(boolean(written, "allowCoOwnership", where))
    server_side = mapping(written, "serverSideApplyConfig", where)
    found["force"] = bool(boolean(server_side, "force", f"{where}serverSideApplyConfig."))
    return found
