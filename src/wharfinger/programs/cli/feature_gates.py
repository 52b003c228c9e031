"""The feature gates of Kubernetes 1.36, as kube-scheduler knows them, and what setting one means here.

A gate may be set to its default; where that is a feature that is not built, with a warning. Another value is refused
where the process could not behave so: a feature that is not built cannot be switched on, one that is always on cannot
be switched off, and one that wharfinger implements its own way cannot be switched at all. Gates without a meaning for a
scheduler are accepted, as kube-scheduler does. How gates depend on each other is not checked.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib import resources

from wharfinger.errors import UsageError
from wharfinger.programs.cli.go_types import boolean

COMPONENT = "kube"
ALL_ALPHA, ALL_BETA = "AllAlpha", "AllBeta"
_DRA = "dynamic resource allocation is not built: pods with resource claims wait, and say so"
_ALWAYS = "it is always on here"
_OWN_WAY = "this scheduler has its own way of doing that, which cannot be switched"

NOT_BUILT: Mapping[str, str] = {
    **dict.fromkeys(
        (
            "DRAAdminAccess",
            "DRAConsumableCapacity",
            "DRADeviceBindingConditions",
            "DRADeviceTaintRules",
            "DRADeviceTaints",
            "DRAExtendedResource",
            "DRAListTypeAttributes",
            "DRANodeAllocatableResources",
            "DRAPartitionableDevices",
            "DRAPrioritizedList",
            "DRAResourceClaimDeviceStatus",
            "DRASchedulerFilterTimeout",
            "DRAWorkloadResourceClaims",
            "DynamicResourceAllocation",
        ),
        _DRA,
    ),
    "CoordinatedLeaderElection": "coordinated leader election is not built: leave it out",
    "StorageCapacityScoring": "volumes are not scored by capacity",
    "TaintTolerationComparisonOperators": "tolerations with Lt and Gt are not built",
}
"""By gate: what is not done. It cannot be switched on, unless it is on by default. Switched off it is accepted."""
FIXED: Mapping[str, str] = {
    **dict.fromkeys(
        (
            "ClearingNominatedNodeNameAfterBinding",
            "InPlacePodLevelResourcesVerticalScaling",
            "MatchLabelKeysInPodTopologySpread",
            "MatchLabelKeysInPodTopologySpreadSelectorMerge",
            "PodLevelResources",
        ),
        _ALWAYS,
    ),
    "NodeDeclaredFeatures": f"{_ALWAYS}: disable the plugin of that name in the configuration",
    **dict.fromkeys(
        (
            "GangScheduling",
            "GenericWorkload",
            "NominatedNodeNameForExpectation",
            "OpportunisticBatching",
            "SchedulerAsyncAPICalls",
            "SchedulerAsyncPreemption",
            "SchedulerPopFromBackoffQ",
            "TopologyAwareWorkloadScheduling",
            "WorkloadAwarePreemption",
        ),
        _OWN_WAY,
    ),
}
"""By gate: why another value than the default cannot be had."""


@dataclass(frozen=True, slots=True)
class FeatureGate:
    """One gate."""

    stage: str
    """`alpha`, `beta`, `ga` or `deprecated`."""
    default: bool
    locked: bool = False
    """Whether kube-scheduler, too, accepts its default only."""


def known_gates() -> Mapping[str, FeatureGate]:
    """All gates of the release, by name."""
    text = resources.files(__package__).joinpath("feature_gates.json").read_text(encoding="utf-8")
    return {name: FeatureGate(**fields) for name, fields in json.loads(text)["gates"].items()}


def check_gates(written: Iterable[str]) -> dict[str, bool]:
    """What `--feature-gates` set. Raises `UsageError` in kube-scheduler's words, and with advice where it cannot be."""
    gates = known_gates()
    found: dict[str, bool] = {}
    for entry in written:
        component, colon, rest = entry.rpartition(":")
        if colon and component != COMPONENT:
            raise UsageError(f"--feature-gates: component not registered: {component}")
        name, equals, text = (part.strip() for part in rest.partition("="))
        if not equals:
            raise UsageError(f"--feature-gates: missing bool value for {name}")
        if name not in gates:
            raise UsageError(f"--feature-gates: unrecognized feature gate: {name}")
        try:
            value = boolean(text)
        except ValueError as error:
            raise UsageError(f"--feature-gates: invalid value of {name}={text}, err: {error}") from None
        if value != gates[name].default and (why := verdict(name, gates[name], value)):
            raise UsageError(f"--feature-gates: {why}")
        found[name] = value
    return found


def warnings_of(gates: Mapping[str, bool]) -> list[str]:
    """A line for what is not done although gates that are on ask for it; one for all gates with the same reason."""
    found: dict[str, list[str]] = {}
    for name, value in gates.items():
        if value and name in NOT_BUILT:
            found.setdefault(NOT_BUILT[name], []).append(name)
    return [f"--feature-gates: {', '.join(names)} without effect: {why}" for why, names in found.items()]


def verdict(name: str, gate: FeatureGate, value: bool) -> str:
    """Why a gate cannot have another value than its default; empty where it can."""
    shown = str(value).lower()
    if gate.locked:
        return f"cannot set feature gate {name} to {shown}, feature is locked to {str(gate.default).lower()}"
    if name in (ALL_ALPHA, ALL_BETA):
        return f"{name}={shown} is not available: set the gates that are meant, one by one"
    why = FIXED.get(name, NOT_BUILT.get(name, "") if value else "")
    return f"{name}={shown} is not available: {why}" if why else ""
