"""Fields of valid objects of placement that have no effect: accepted, because objects of KubeFleet have them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from wharfinger.framework.args import ConfigPart
from wharfinger.framework.config.errors import Problem
from wharfinger.objects.model.placement_kinds import KUBEFLEET_FINALIZERS
from wharfinger.placement.spec.placement_fields import MemberFields, PlacementFields, RolloutStrategyFields

_MEMBER = {
    "identity": "the credentials of a member are in the files of its agent",
    "heartbeat_period_seconds": "the lease of the member's agent is its heart-beat",
    "delete_options": "a member that leaves gives up its placements first",
}
_REPORTED = {
    "agentStatus": "the lease of the member's agent, and what it reports, count",
    "conditions": "the member's agent reports them",
    "namespaces": "the member's agent reports them",
    "properties": "the member's agent reports them",
    "resourceUsage": "the member's agent reports it",
}
"""Fields of a member's status that are decided by where it is read."""
_ONLY_APPLIED = ("when_to_apply", "when_to_take_over", "allow_co_ownership")


def without_effect(written: Mapping[str, Any], fields: ConfigPart, reads_status: bool) -> Iterator[Problem]:
    """Path and reason of each. `reads_status`: whether a member's status in the file is decided by."""
    if isinstance(fields, MemberFields):
        for name, why in _MEMBER.items():
            if name in fields.spec.model_fields_set:
                yield f"spec.{_spelled(fields.spec, name)}", why
    if isinstance(fields, PlacementFields):
        yield from _placement(fields)
    metadata = written.get("metadata")
    finalizers = metadata.get("finalizers") if isinstance(metadata, Mapping) else None
    for index, one in enumerate(finalizers or ()):
        if str(one).startswith(KUBEFLEET_FINALIZERS):
            yield f"metadata.finalizers[{index}]", "KubeFleet's finalizers are not waited for"
    status = written.get("status")
    if isinstance(fields, MemberFields) and isinstance(status, Mapping):
        yield from _status(status, reads_status)
    elif status:
        yield "status", "it is computed when it is asked for"


def _placement(fields: PlacementFields) -> Iterator[Problem]:
    for index, selector in enumerate(fields.spec.resource_selectors):
        is_namespace = (selector.group, selector.kind) == ("", "Namespace")
        if "selection_scope" in selector.model_fields_set and not is_namespace:
            yield f"spec.resourceSelectors[{index}].selectionScope", "it is for namespaces only"
    yield from _strategy(fields.spec.strategy)
    if fields.spec.status_reporting_scope != "ClusterScopeOnly":
        yield "spec.statusReportingScope", "a status is computed when it is asked for"


def _strategy(strategy: RolloutStrategyFields) -> Iterator[Problem]:
    applied, back = strategy.apply_strategy, strategy.report_back_strategy
    if applied is not None and applied.type == "ReportDiff":
        for name in _ONLY_APPLIED:
            if name in applied.model_fields_set:
                yield f"spec.strategy.applyStrategy.{_spelled(applied, name)}", "ReportDiff applies nothing"
    if back is not None and back.type != "Disabled":
        yield "spec.strategy.reportBackStrategy", "nothing is reported back"


def _status(status: Mapping[str, Any], reads_status: bool) -> Iterator[Problem]:
    for name in status:
        if name not in _REPORTED:
            yield f"status.{name}", "no decision reads it"
        elif not reads_status:
            yield f"status.{name}", _REPORTED[name]


def _spelled(model: ConfigPart, name: str) -> str:
    return type(model).model_fields[name].alias or name
