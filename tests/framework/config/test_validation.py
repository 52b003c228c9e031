"""Everything that is wrong with a configuration, at once, each with the path of its field."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from pydantic import BaseModel, model_validator

from tests.framework.config.configurations import completed, paths, problems, profile, with_args
from wharfinger.framework.catalog import Catalog, CatalogEntry
from wharfinger.framework.plugins.arguments import PluginArgs
from wharfinger.framework.plugins.builtin import catalog


def racks_of(model: type[PluginArgs]) -> Callable[[PluginArgs], object]:
    """A plugin of another package that takes arguments of that model."""

    class Racks:
        name = "Racks"

        def __init__(self, args: PluginArgs) -> None:
            self.args = model.model_validate(args.model_dump())

    return Racks


class TestAllAtOnce:
    def test_arguments_and_names(self) -> None:
        args = {"scoringStrategy": {"resources": [{"name": "cpu", "weight": 101}]}, "oops": 1}
        found = problems(profile(pluginConfig=[{"name": "NodeResourcesFit", "args": args}, {"name": "Nobody"}]))
        assert paths(found) == [
            "profiles[0].pluginConfig[0].args.scoringStrategy.resources[0].weight",
            "profiles[0].pluginConfig[0].args.oops",
            "profiles[0].pluginConfig[1].name",
        ]

    def test_a_malformed_part_does_not_hide_what_else_is_wrong(self) -> None:
        config = {
            "oops": 1,
            "parallelism": 0,
            "profiles": [
                {
                    "schedulerName": "a",
                    "percentageOfNodesToScore": 101,
                    "plugins": {
                        "score": {"enabled": [{"name": "Nobody"}, {"name": "NodeAffinity", "weight": -1}]},
                        "filter": {"enabled": [{"weight": 1}]},
                        "queueSort": {"disabled": [{"name": "*"}]},
                    },
                    "pluginConfig": [{"name": "NodeResourcesFit", "args": {"oops": 1}}],
                },
                {"schedulerName": "a", "oops": 1},
                7,
            ],
        }
        assert sorted(paths(problems(config))) == sorted(
            [
                "oops",
                "parallelism",
                "profiles[0].percentageOfNodesToScore",
                "profiles[0].plugins.score.enabled[0].name",
                "profiles[0].plugins.score.enabled[1].weight",
                "profiles[0].plugins.filter.enabled[0].name",
                "profiles[0].plugins.queueSort",
                "profiles[0].pluginConfig[0].args.oops",
                "profiles[1].schedulerName",
                "profiles[1].oops",
                "profiles[2]",
            ]
        )

    def test_missing_plugins_are_reported_with_the_other_problems(self) -> None:
        plugins = {"bind": {"disabled": [{"name": "*"}]}, "filter": {"enabled": [{"name": "PrioritySort"}]}}
        found = problems({"podInitialBackoffSeconds": 20, **profile(plugins, pluginConfig=[{"name": "Nobody"}])})
        assert paths(found) == [
            "podMaxBackoffSeconds",
            "profiles[0].pluginConfig[0].name",
            "profiles[0].plugins.filter.enabled[0].name",
            "profiles[0].plugins.bind",
        ]

    @pytest.mark.parametrize("config", [{"profiles": 3}, {"profiles": {"a": 1}}, {3: 4}, {"profiles": [[]]}], ids=str)
    def test_whatever_is_written_comes_to_an_end(self, config: dict[str, Any]) -> None:
        assert problems(config)


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({"apiVersion": "kubescheduler.config.k8s.io/v1beta3"}, "apiVersion: write kubescheduler.config.k8s.io/v1: "),
        ({"apiVersion": "kubescheduler.config.k8s.io/v2"}, "apiVersion: Input should be 'kubescheduler"),
        ({"kind": "Pod"}, "kind: "),
        ({"profile": []}, "profile: unknown field"),
        ({"pod_max_backoff_seconds": 30}, "pod_max_backoff_seconds: unknown field"),
        ({"leaderElection": {"leader_elect": False}}, "leaderElection.leader_elect: unknown field"),
        (profile(scheduler_name="a"), "profiles[0].scheduler_name: unknown field"),
        (profile({"multi_point": {}}), "profiles[0].plugins.multi_point: unknown field"),
        (
            with_args("NodeResourcesFit", {"scoring_strategy": {"type": "MostAllocated"}}),
            "profiles[0].pluginConfig[0].args.scoring_strategy: unknown field",
        ),
        ({"profiles": 3}, "profiles: Input should be a list, not 3"),
        ({"parallelism": 0}, "parallelism: "),
        ({"parallelism": "16"}, 'parallelism: Input should be a valid integer, not "16"'),
        ({"enableProfiling": "yes"}, "enableProfiling: "),
        ({"percentageOfNodesToScore": 101}, "percentageOfNodesToScore: "),
        ({"percentageOfNodesToScore": -1}, "percentageOfNodesToScore: "),
        (profile(percentageOfNodesToScore=101), "profiles[0].percentageOfNodesToScore: "),
        ({"podInitialBackoffSeconds": 0}, "podInitialBackoffSeconds: "),
        ({"podInitialBackoffSeconds": 11}, "podMaxBackoffSeconds: must be at least podInitialBackoffSeconds (11)"),
        ({"podInitialBackoffSeconds": 5, "podMaxBackoffSeconds": 4}, "podMaxBackoffSeconds: must be at least"),
        ({"clientConnection": {"burst": -1}}, "clientConnection.burst: "),
        ({"leaderElection": {"leaseDuration": "10s"}}, "leaderElection.leaseDuration: must be greater than renew"),
        ({"leaderElection": {"renewDeadline": "2400ms"}}, "leaderElection.renewDeadline: must be greater than 1.2 x"),
        ({"leaderElection": {"retryPeriod": "10s"}}, "leaderElection.renewDeadline: must be greater than 1.2 x"),
        ({"leaderElection": {"retryPeriod": "-1s"}}, "leaderElection.retryPeriod: must be greater than zero"),
        ({"leaderElection": {"leaseDuration": 15}}, "leaderElection.leaseDuration: is no duration, such as 15s"),
        ({"leaderElection": {"resourceLock": "endpoints"}}, "leaderElection.resourceLock: must be leases"),
        ({"extenders": "http://x"}, "extenders: Input should be a list"),
        ({"extenders": [{"url": "http://x"}]}, "extenders[0].url: unknown field"),
        (
            profile({"placementScore": {"enabled": [{"name": "NodeResourcesFit"}]}}),
            "profiles[0].plugins.placementScore: placement of pod groups is not supported",
        ),
        ({"profiles": [{"schedulerName": "a"}, {"schedulerName": "a"}]}, "profiles[1].schedulerName: a is the name"),
        ({"profiles": [{"schedulerName": "a"}, {}]}, "profiles[1].schedulerName: is needed"),
        (profile({"filter": {"enabled": [{"name": "X"}]}}), "profiles[0].plugins.filter.enabled[0].name: there is no"),
        (
            profile({"multiPoint": {"enabled": [{"name": "CinderLimits"}]}}),
            "profiles[0].plugins.multiPoint.enabled[0].name: plugin CinderLimits was removed",
        ),
        (
            profile({"multiPoint": {"enabled": [{"name": "DynamicResources"}]}}),
            "profiles[0].plugins.multiPoint.enabled[0].name: plugin DynamicResources of kube-scheduler does not exist",
        ),
        (
            with_args("VolumeBinding", {"shape": [{"utilization": 0, "score": 10}]}),
            "profiles[0].pluginConfig[0].args.shape: unexpected field",
        ),
        (
            with_args("VolumeBinding", {"bindTimeoutSeconds": -1}),
            "profiles[0].pluginConfig[0].args.bindTimeoutSeconds: ",
        ),
        (with_args("DynamicResources", {}), "profiles[0].pluginConfig[0].name: plugin DynamicResources of kube"),
        (
            profile({"filter": {"enabled": [{"name": "NodeName"}] * 2}}),
            "profiles[0].plugins.filter.enabled: named more than once: NodeName",
        ),
        (
            profile({"score": {"enabled": [{"name": "NodeAffinity", "weight": 2**31}]}}),
            "profiles[0].plugins.score.enabled[0].weight: ",
        ),
        (with_args("NodeName", {"a": 1}), "profiles[0].pluginConfig[0].args: plugin NodeName takes no arguments"),
        (profile(pluginConfig=[{"name": "NodeAffinity"}] * 2), "profiles[0].pluginConfig[1].name: arguments of"),
        (
            with_args("NodeAffinity", {"kind": "NodeResourcesFitArgs"}),
            "profiles[0].pluginConfig[0].args.kind: must be NodeAffinityArgs",
        ),
    ],
    ids=str,
)
def test_each_has_a_path_and_a_reason(config: dict[str, Any], expected: str) -> None:
    (found,) = problems(config)
    assert found.startswith(expected)


@pytest.mark.parametrize(
    "config",
    [
        {"clientConnection": {"qps": -1, "kubeconfig": "/etc/kubernetes/scheduler.conf", "burst": 0}},
        {"leaderElection": {"leaderElect": False, "leaseDuration": "1s", "resourceLock": "endpoints"}},
        {"leaderElection": {"leaseDuration": "0s", "resourceName": ""}},
        {"podInitialBackoffSeconds": 86_400, "podMaxBackoffSeconds": 86_400},
        {"delayCacheUntilActive": True, "enableContentionProfiling": False, "enableProfiling": False},
        profile({"bind": {"disabled": [{"name": "A"}, {"name": "A"}]}}),
    ],
    ids=str,
)
def test_what_kube_scheduler_takes_is_taken(config: dict[str, Any]) -> None:
    assert completed(config).digest() == completed({}).digest() or "profiles" in config


class TestArguments:
    SHAPE = "requestedToCapacityRatio"
    STRATEGY = "profiles[0].pluginConfig[0].args.scoringStrategy"
    AFFINITY = "profiles[0].pluginConfig[0].args.addedAffinity"

    @pytest.mark.parametrize(
        ("strategy", "path", "reason"),
        [
            ({"type": "Fullest"}, ".type", "Input should be"),
            ({"type": "RequestedToCapacityRatio"}, "", "shape is required"),
            ({SHAPE: {"shape": []}}, f".{SHAPE}.shape", "at least 1"),
            ({SHAPE: {"shape": [{"utilization": 101, "score": 1}]}}, f".{SHAPE}.shape[0].utilization", "100"),
            ({SHAPE: {"shape": [{"utilization": 1, "score": 11}]}}, f".{SHAPE}.shape[0].score", "10"),
            ({SHAPE: {"shape": [{"utilization": 5, "score": 1}] * 2}}, f".{SHAPE}.shape", "strictly increasing"),
            ({"resources": [{"name": "cpu", "weight": 101}]}, ".resources[0].weight", "100"),
            ({"resources": [{"name": "cpu", "weight": -1}]}, ".resources[0].weight", "1"),
        ],
        ids=str,
    )
    def test_of_the_scoring_strategy(self, strategy: dict[str, Any], path: str, reason: str) -> None:
        (found,) = problems(with_args("NodeResourcesFit", {"scoringStrategy": strategy}))
        where, _, said = found.partition(": ")
        assert where == self.STRATEGY + path
        assert reason in said

    @pytest.mark.parametrize(
        ("plugin", "args", "path"),
        [
            ("NodeResourcesFit", {"ignoredResourceGroups": ["fine.io", "a/b"]}, "ignoredResourceGroups[1]"),
            ("NodeResourcesFit", {"ignoredResources": ["no name"]}, "ignoredResources[0]"),
            ("NodeResourcesBalancedAllocation", {"resources": [{"name": "cpu", "weight": 2}]}, "resources"),
            ("NodeResourcesBalancedAllocation", {"resources": [{"name": "cpu"}] * 2}, "resources"),
            ("DefaultPreemption", {"minCandidateNodesPercentage": 101}, "minCandidateNodesPercentage"),
            ("DefaultPreemption", {"minCandidateNodesAbsolute": -1}, "minCandidateNodesAbsolute"),
            ("PodTopologySpread", {"defaultingType": "Other"}, "defaultingType"),
            ("InterPodAffinity", {"hardPodAffinityWeight": 101}, "hardPodAffinityWeight"),
            ("InterPodAffinity", {"hardPodAffinityWeight": "1"}, "hardPodAffinityWeight"),
            ("InterPodAffinity", {"ignorePreferredTermsOfExistingPods": 1}, "ignorePreferredTermsOfExistingPods"),
        ],
        ids=str,
    )
    def test_of_other_plugins(self, plugin: str, args: dict[str, Any], path: str) -> None:
        assert paths(problems(with_args(plugin, args))) == [f"profiles[0].pluginConfig[0].args.{path}"]

    @pytest.mark.parametrize(
        ("term", "reason"),
        [
            ({"matchExpressions": [{"key": "a", "operator": "In"}]}, "operator In needs values"),
            ({"matchExpressions": [{"key": "a", "operator": "Gt", "values": ["x"]}]}, "needs exactly one whole"),
            ({"matchExpressions": [{"key": "a", "operator": "Exists", "values": ["x"]}]}, "takes no values"),
            ({"matchExpressions": [{"key": "a b", "operator": "Exists"}]}, "'a b' is no label key"),
            ({"matchExpressions": [{"key": "a", "operator": "In", "values": ["-"]}]}, "no label has the value '-'"),
            ({"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["a", "b"]}]}, "exactly one"),
            ({"matchFields": [{"key": "metadata.uid", "operator": "In", "values": ["a"]}]}, "metadata.name"),
        ],
        ids=str,
    )
    def test_of_the_added_affinity(self, term: dict[str, Any], reason: str) -> None:
        required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
        (found,) = problems(with_args("NodeAffinity", {"addedAffinity": required}))
        assert found.startswith(f"{self.AFFINITY}.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0]")
        assert reason in found

    def test_without_defaults_are_asked_for(self) -> None:
        class Args(BaseModel):
            rack: str

        demanding = Catalog([*catalog(), CatalogEntry("Racks", lambda _: None, Args)])  # type: ignore[arg-type, return-value]
        assert problems({}, demanding) == ["profiles[0].pluginConfig.rack: Racks: Field required"]

    @pytest.mark.parametrize("written", [{"pluginConfig": [{"name": "Racks", "args": {"rack": "r1"}}]}, {}])
    def test_any_exception_of_an_arguments_model_becomes_one_problem(self, written: dict[str, Any]) -> None:
        class Args(BaseModel):
            rack: str = "r0"

            @model_validator(mode="before")
            @classmethod
            def known(cls, _: object) -> object:
                raise TypeError("no longer so")

        broken = Catalog([*catalog(), CatalogEntry("Racks", lambda _: None, Args)])  # type: ignore[arg-type, return-value]
        (found,) = problems(profile({}, **written), broken)
        assert found.endswith("plugin Racks could not check its arguments: TypeError: no longer so")

    def test_of_plugins_that_are_not_enabled_are_checked_and_dropped(self) -> None:
        off = {"multiPoint": {"disabled": [{"name": "NodeAffinity"}]}}
        assert "NodeAffinity" not in completed(profile(off, pluginConfig=[{"name": "NodeAffinity", "args": {}}])).args
        wrong = problems(profile(off, pluginConfig=[{"name": "NodeAffinity", "args": {"oops": 1}}]))
        assert paths(wrong) == ["profiles[0].pluginConfig[0].args.oops"]

    @pytest.mark.parametrize("kind", ["RacksArgs", "Anything"])
    def test_of_a_foreign_plugin_may_name_any_group_and_kind(self, kind: str) -> None:
        """Both are removed before the plugin's own model, which forbids unknown fields, reads the rest."""

        class Args(PluginArgs):
            rack: str = "r0"

        foreign = Catalog([*catalog(), CatalogEntry("Racks", racks_of(Args), Args, origin="racks")])
        written = {"apiVersion": "example.com/v1", "kind": kind, "rack": "r1"}
        assert completed(with_args("Racks", written), foreign).args["Racks"] == Args(rack="r1")

    def test_of_a_foreign_plugin_reach_its_own_field_named_kind(self) -> None:
        class Args(PluginArgs):
            kind: str = "of wood"

        foreign = Catalog([*catalog(), CatalogEntry("Racks", racks_of(Args), Args, origin="racks")])
        written = {"apiVersion": "example.com/v1", "kind": "of steel"}
        assert completed(with_args("Racks", written), foreign).args["Racks"] == Args(kind="of steel")
