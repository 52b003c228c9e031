"""Objects of placement: every rule, all mistakes at once, and the fields without effect."""

from __future__ import annotations

from typing import Any

import pytest

from wharfinger.errors import InvalidConfiguration
from wharfinger.placement.spec.placement import check_placement_change, check_placement_object

POLICY = "spec.policy."
REQUIRED = f"{POLICY}affinity.clusterAffinity.requiredDuringSchedulingIgnoredDuringExecution.clusterSelectorTerms"
PREFERRED = f"{POLICY}affinity.clusterAffinity.preferredDuringSchedulingIgnoredDuringExecution"


def placement(policy: Any = None, **spec: Any) -> dict[str, Any]:
    selectors = [{"group": "", "version": "v1", "kind": "Namespace", "name": "shop"}]
    given = {} if policy is None else {"policy": policy}
    return {
        "apiVersion": "placement.kubernetes-fleet.io/v1beta1",
        "kind": "ClusterResourcePlacement",
        "metadata": {"name": "web"},
        "spec": {"resourceSelectors": selectors, **given, **spec},
    }


def member(**spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "cluster.kubernetes-fleet.io/v1",
        "kind": "MemberCluster",
        "metadata": {"name": "east"},
        "spec": spec,
    }


def of(kind: str, **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "placement.kubernetes-fleet.io/v1",
        "kind": f"ClusterResourcePlacement{kind}",
        "metadata": {"name": "web"},
        "spec": spec,
    }


def pick_n(**policy: Any) -> dict[str, Any]:
    return placement({"placementType": "PickN", "numberOfClusters": 2, **policy})


def affine(*required: Any, preferred: Any = ()) -> dict[str, Any]:
    return {
        "affinity": {
            "clusterAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {"clusterSelectorTerms": list(required)},
                "preferredDuringSchedulingIgnoredDuringExecution": list(preferred),
            }
        }
    }


def comparing(**requirement: Any) -> dict[str, Any]:
    return {"propertySelector": {"matchExpressions": [requirement]}}


def problems(obj: dict[str, Any]) -> list[str]:
    try:
        check_placement_object(obj)
    except InvalidConfiguration as error:
        return list(error.problems)
    return []


@pytest.mark.parametrize(
    "obj",
    [
        placement(),
        placement({}),
        placement({"placementType": "PickAll", "tolerations": [{"operator": "Exists"}]}),
        placement({"placementType": "PickFixed", "clusterNames": ["east", "west.2"]}),
        pick_n(numberOfClusters=0),
        pick_n(
            **affine(
                {"labelSelector": {"matchLabels": {"env": "prod"}}},
                comparing(
                    name="resources.kubernetes-fleet.io/available-ephemeral-storage", operator="Ge", values=["1Gi"]
                ),
                comparing(name="example.com/a/b", operator="Ne", values=["-0.5"]),
                preferred=[
                    {"weight": -100, "preference": {"propertySorter": {"name": "cost", "sortOrder": "Ascending"}}}
                ],
            ),
            topologySpreadConstraints=[{"topologyKey": "region"}, {"topologyKey": "example.com/zone", "maxSkew": 3}],
            tolerations=[{"key": "a", "value": "b", "effect": "NoSchedule"}, {"key": "a", "operator": "Exists"}],
        ),
        {**placement(), "kind": "ResourcePlacement", "apiVersion": "placement.kubernetes-fleet.io/v1"},
        placement(strategy={"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "100%", "maxSurge": 0}}),
        placement(strategy={"applyStrategy": {"type": "ServerSideApply", "serverSideApplyConfig": {"force": True}}}),
        member(),
        member(taints=[{"key": "a", "effect": "NoSchedule"}], identity={"kind": "User", "name": "x"}),
        of("Eviction", placementName="web", clusterName="east"),
        of("DisruptionBudget", minAvailable="50%"),
        of("DisruptionBudget", maxUnavailable=1),
    ],
)
def test_what_kubefleet_admits_is_valid(obj: dict[str, Any]) -> None:
    assert problems(obj) == []


@pytest.mark.parametrize(
    ("obj", "told"),
    [
        ({**placement(), "apiVersion": "placement.kubernetes-fleet.io/v2"}, "apiVersion: must be"),
        ({**placement(), "metadata": {}}, "metadata.name: is missing"),
        ({**placement(), "metadata": {"name": "x" * 64}}, "metadata.name: is longer than 63 characters"),
        (placement(colour="red"), "spec.colour: unknown field"),
        (placement(resourceSelectors=[]), "spec.resourceSelectors: is missing"),
        (placement(resourceSelectors=[{"version": "v1"}]), "spec.resourceSelectors[0].kind: is missing"),
        (
            placement(resourceSelectors=[{"version": "v1", "kind": "Namespace", "name": "a", "labelSelector": {}}]),
            "spec.resourceSelectors[0].labelSelector: must be absent where there is a name",
        ),
        (placement(revisionHistoryLimit=0), "spec.revisionHistoryLimit: Input should be greater than or equal to 1"),
        (placement({"placementType": "PickSome"}), f"{POLICY}placementType: Input should be 'PickAll', 'PickN' or"),
        (placement({"numberOfClusters": 2}), f"{POLICY}numberOfClusters: must be absent for PickAll; it is for PickN"),
        (placement({"placementType": "PickN"}), f"{POLICY}numberOfClusters: is missing; PickN needs it"),
        (pick_n(numberOfClusters=-1), f"{POLICY}numberOfClusters: Input should be greater than or equal to 0"),
        (pick_n(numberOfClusters="2"), f"{POLICY}numberOfClusters: Input should be a valid integer"),
        (pick_n(clusterNames=["a"]), f"{POLICY}clusterNames: must be absent for PickN"),
        (
            placement({"placementType": "PickFixed", "clusterNames": ["a"], "tolerations": [{"operator": "Exists"}]}),
            f"{POLICY}tolerations: must be absent for PickFixed",
        ),
        (
            placement({"placementType": "PickFixed", "clusterNames": ["a", "b", "a"]}),
            f"{POLICY}clusterNames: a is named twice",
        ),
        (
            placement({"placementType": "PickFixed", "clusterNames": ["../a"]}),
            f"{POLICY}clusterNames[0]: must be a member's name",
        ),
        (
            placement({"placementType": "PickFixed", "clusterNames": [f"c{at}" for at in range(101)]}),
            f"{POLICY}clusterNames: ",
        ),
        (pick_n(topologySpreadConstraints=[{}]), f"{POLICY}topologySpreadConstraints[0].topologyKey: is missing"),
        (
            pick_n(topologySpreadConstraints=[{"topologyKey": "a"}, {"topologyKey": "a", "maxSkew": 2}]),
            f"{POLICY}topologySpreadConstraints: a has two constraints",
        ),
        (
            pick_n(topologySpreadConstraints=[{"topologyKey": "a", "maxSkew": 0}]),
            f"{POLICY}topologySpreadConstraints[0].maxSkew: Input should be greater than or equal to 1",
        ),
        (pick_n(tolerations=[{"key": "a", "operator": "Exists", "value": "b"}]), f"{POLICY}tolerations[0].value: must"),
        (pick_n(tolerations=[{"value": "b"}]), f"{POLICY}tolerations[0].key: is missing; only Exists takes any key"),
        (pick_n(tolerations=[{"key": "a", "effect": "NoExecute"}]), f"{POLICY}tolerations[0].effect: Input should be"),
        (pick_n(tolerations=[{"key": "a"}, {"key": "a"}]), f"{POLICY}tolerations: a is there twice"),
        (pick_n(**affine(*[{}] * 11)), f"{REQUIRED}: "),
        (
            pick_n(**affine({"labelSelector": {"matchLabels": {"a/b/c": "d"}}})),
            f"{REQUIRED}[0].labelSelector.matchLabels",
        ),
        (
            pick_n(**affine({"labelSelector": {"matchExpressions": [{"key": "a", "operator": "In"}]}})),
            f"{REQUIRED}[0].labelSelector.matchExpressions[0].values: is missing; In needs some",
        ),
        (
            pick_n(
                **affine({"labelSelector": {"matchExpressions": [{"key": "a", "operator": "Gt", "values": ["1"]}]}})
            ),
            f"{REQUIRED}[0].labelSelector.matchExpressions[0].operator: Input should be 'In', 'NotIn'",
        ),
        (
            pick_n(**affine(comparing(name="a", operator="Like", values=["1"]))),
            f"{REQUIRED}[0].propertySelector.matchExpressions[0].operator: Input should be 'Gt', 'Ge'",
        ),
        (
            pick_n(**affine(comparing(name="a", operator="Ge", values=["many"]))),
            f"{REQUIRED}[0].propertySelector.matchExpressions[0].values[0]: 'many' is no quantity",
        ),
        (
            pick_n(**affine(comparing(name="a", operator="Ge", values=["1", "2"]))),
            f"{REQUIRED}[0].propertySelector.matchExpressions[0].values: ",
        ),
        (
            pick_n(**affine(comparing(name="resources.kubernetes-fleet.io/spare-cpu", operator="Ge", values=["1"]))),
            f"{REQUIRED}[0].propertySelector.matchExpressions[0].name: must be resources.kubernetes-fleet.io/",
        ),
        (
            pick_n(**affine({"propertySorter": {"name": "a", "sortOrder": "Ascending"}})),
            f"{REQUIRED}[0].propertySorter: is only for what is preferred",
        ),
        (
            pick_n(**affine(preferred=[{"weight": 101, "preference": {}}])),
            f"{PREFERRED}[0].weight: Input should be less",
        ),
        (pick_n(**affine(preferred=[{"preference": {}}])), f"{PREFERRED}[0].weight: is missing"),
        (
            pick_n(**affine(preferred=[{"weight": 1, "preference": {"propertySorter": {"name": "a"}}}])),
            f"{PREFERRED}[0].preference.propertySorter.sortOrder: is missing",
        ),
        (
            pick_n(**affine(preferred=[{"weight": 1, "preference": comparing(name="a", operator="Ge", values=["1"])}])),
            f"{PREFERRED}[0].preference.propertySelector: is only for what is required",
        ),
        (
            placement({**affine(preferred=[{"weight": 1, "preference": {}}])}),
            f"{PREFERRED}: must be absent for PickAll",
        ),
        (
            placement(strategy={"type": "External", "rollingUpdate": {}}),
            "spec.strategy.rollingUpdate: must be absent when the type is External",
        ),
        (
            placement(strategy={"rollingUpdate": {"maxSurge": "101%"}}),
            "spec.strategy.rollingUpdate.maxSurge: must be a number of clusters, or a percentage from 0% to 100%",
        ),
        (
            placement(strategy={"applyStrategy": {"serverSideApplyConfig": {"force": True}}}),
            "spec.strategy.applyStrategy.serverSideApplyConfig: is only for the type ServerSideApply",
        ),
        (
            placement(strategy={"reportBackStrategy": {"type": "Mirror"}}),
            "spec.strategy.reportBackStrategy.destination: is missing; Mirror needs it",
        ),
        (member(taints=[{"key": "a"}]), "spec.taints[0].effect: is missing"),
        (member(taints=[{"key": "a", "effect": "NoExecute"}]), "spec.taints[0].effect: Input should be 'NoSchedule'"),
        (member(taints=[{"key": "a", "effect": "NoSchedule"}] * 2), "spec.taints: a is there twice"),
        (member(heartbeatPeriodSeconds=601), "spec.heartbeatPeriodSeconds: Input should be less than or equal to 600"),
        (
            {**member(), "apiVersion": "placement.kubernetes-fleet.io/v1"},
            "apiVersion: must be cluster.kubernetes",
        ),
        (
            placement(strategy={"rollingUpdate": {"maxSurge": "0%", "maxUnavailable": 0}}),
            "spec.strategy.rollingUpdate.maxUnavailable: may not be 0 where maxSurge is 0",
        ),
        (of("Eviction", placementName="web"), "spec.clusterName: is missing"),
        (of("DisruptionBudget"), "spec: needs exactly one of maxUnavailable and minAvailable"),
        (of("DisruptionBudget", maxUnavailable=1, minAvailable=1), "spec: needs exactly one of"),
        (
            of("DisruptionBudget", minAvailable="1.5%"),
            "spec.minAvailable: must be a number of clusters",
        ),
        ({"kind": "Pod"}, "kind: is none of ClusterResourcePlacement, ResourcePlacement, MemberCluster"),
    ],
)
def test_one_mistake_is_told_in_one_line_with_its_path(obj: dict[str, Any], told: str) -> None:
    (line,) = problems(obj)
    assert line.startswith(told)
    assert "\n" not in line


def test_all_mistakes_are_told_at_once() -> None:
    found = problems(
        pick_n(
            colour="red",
            clusterNames=["A"],
            tolerations=[{"value": 3}, {}],
            topologySpreadConstraints=[{"maxSkew": "one"}],
            **affine(comparing(operator="Ge", values=["1"])),
        )
    )
    assert [line.partition(": ")[0] for line in found] == [
        f"{POLICY}clusterNames[0]",
        f"{POLICY}topologySpreadConstraints[0].maxSkew",
        f"{POLICY}tolerations[0].value",
        f"{POLICY}colour",
        f"{POLICY}topologySpreadConstraints[0].topologyKey",
        f"{POLICY}tolerations[0].key",
        f"{POLICY}tolerations[1].key",
        f"{REQUIRED}[0].propertySelector.matchExpressions[0].name",
    ]


def test_ten_thousand_label_selectors_are_refused_in_one_line_each() -> None:
    many = [{"key": "a b", "operator": "In", "values": ["c"]}] * 10_000
    found = problems(pick_n(**affine({"labelSelector": {"matchExpressions": many}})))
    assert len(found) <= 101
    assert sum(map(len, found)) < 100_000


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        (placement({}), placement(), "spec.policy: may not be removed once it is set"),
        (placement(), pick_n(), f"{POLICY}placementType: may not change; it is PickAll"),
        (pick_n(), placement({}), f"{POLICY}placementType: may not change; it is PickN"),
        (placement(strategy={"type": "External"}), placement(), "spec.strategy.type: may not change from External"),
        (
            of("Eviction", placementName="web", clusterName="a"),
            of("Eviction", placementName="web", clusterName="b"),
            "spec.clusterName: may not change; it is a",
        ),
    ],
)
def test_what_may_not_change_is_told(old: dict[str, Any], new: dict[str, Any], told: str) -> None:
    with pytest.raises(InvalidConfiguration) as caught:
        check_placement_change(old, new)
    (line,) = caught.value.problems
    assert line.startswith(told)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (placement(), placement({})),
        (pick_n(), pick_n(numberOfClusters=5)),
        (pick_n(tolerations=[{"operator": "Exists"}]), pick_n()),
        (placement(), placement(strategy={"type": "External"})),
        (member(), member(taints=[{"key": "a", "effect": "NoSchedule"}])),
    ],
)
def test_everything_else_may_change(old: dict[str, Any], new: dict[str, Any]) -> None:
    check_placement_change(old, new)


@pytest.mark.parametrize("finalizers", ["mine", [1], {"a": "b"}, 7])
def test_finalizers_are_a_list_of_texts(finalizers: Any) -> None:
    for obj in (member(), placement()):
        obj["metadata"]["finalizers"] = finalizers
        assert problems(obj) == ["metadata.finalizers: is no list of texts"]
        obj["metadata"]["finalizers"] = ["example.com/mine"]
        assert problems(obj) == []


def test_fields_without_effect_are_told() -> None:
    strategy = {"reportBackStrategy": {"type": "Mirror", "destination": "WorkAPI"}}
    notes = check_placement_object(placement(strategy=strategy, statusReportingScope="NamespaceAccessible"))
    assert [note.split()[0] for note in notes] == ["spec.strategy.reportBackStrategy", "spec.statusReportingScope"]
    assert check_placement_object(placement()) == ()


def paths(obj: dict[str, Any], **how: bool) -> list[str]:
    """Of the fields that are told to have no effect."""
    return [note.split(" has no effect: ")[0] for note in check_placement_object(obj, **how)]


def test_fields_of_a_member_without_effect_are_told() -> None:
    spec = {"identity": {"name": "x"}, "heartbeatPeriodSeconds": 60, "deleteOptions": {"validationMode": "Skip"}}
    status = {"properties": {"cost": {"value": "1"}}, "resourceUsage": {}, "agentStatus": [], "observedGeneration": 1}
    written = {**member(**spec), "status": status}
    written["metadata"]["finalizers"] = ["kubernetes-fleet.io/work-cleanup", "example.com/mine"]
    of_spec = ["spec.identity", "spec.heartbeatPeriodSeconds", "spec.deleteOptions", "metadata.finalizers[0]"]
    assert paths(written) == [*of_spec, *(f"status.{name}" for name in status)]
    assert paths(written, reads_status=True) == [*of_spec, "status.observedGeneration"]


def test_fields_of_a_placement_without_effect_are_told() -> None:
    strategy = {"applyStrategy": {"type": "ReportDiff", "whenToApply": "Always", "comparisonOption": "FullComparison"}}
    written = placement(strategy=strategy) | {"status": {"observedResourceIndex": "1"}}
    selectors = [
        {"group": "", "version": "v1", "kind": kind, "name": "a", "selectionScope": "NamespaceOnly"}
        for kind in ("Namespace", "PersistentVolume")
    ]
    written["spec"]["resourceSelectors"] = selectors
    assert paths(written) == [
        "spec.resourceSelectors[1].selectionScope",
        "spec.strategy.applyStrategy.whenToApply",
        "status",
    ]


@pytest.mark.parametrize(
    ("obj", "told"),
    [
        (placement({"placementType": "PickM", "numberOfClusters": 2}), ["placementType: Input should be"]),
        (
            placement({"placementType": "PickM", "tolerations": [{}], "clusterNames": ["a", "a"]}),
            ["placementType: Input should be", "clusterNames: a is named twice", "tolerations[0].key: is missing"],
        ),
        (
            placement({"placementType": "PickAll", "tolerations": [{"operator": "Exits"}]}),
            ["tolerations[0].operator: Input should be"],
        ),
    ],
)
def test_nothing_is_told_of_a_type_that_nobody_wrote(obj: dict[str, Any], told: list[str]) -> None:
    found = problems(obj)

    assert len(found) == len(told)
    assert all(line.startswith(f"{POLICY}{start}") for line, start in zip(found, told, strict=True)), found


def test_nothing_is_told_of_a_strategy_type_that_nobody_wrote() -> None:
    apply = {"type": "ServerApply", "serverSideApplyConfig": {"force": True}}
    (found,) = problems(placement(strategy={"applyStrategy": apply}))

    assert found.startswith("spec.strategy.applyStrategy.type: Input should be")
