"""Reading configurations: defaults, merging, and everything that is wrong at once."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from wharfinger.config.load import load
from wharfinger.errors import ConfigurationError
from wharfinger.framework.catalog import Catalog, Entry
from wharfinger.model.pod import Pod
from wharfinger.plugins.builtin import catalog
from wharfinger.profiles import load_profiles

DEFAULTS = [entry.name for entry in catalog()]
WEIGHTED = {"TaintToleration": 3, "NodeAffinity": 2}


def profile(plugins: dict[str, Any] | None = None, **fields: Any) -> dict[str, Any]:
    return {"profiles": [{**({"plugins": plugins} if plugins is not None else {}), **fields}]}


def completed(config: dict[str, Any]) -> Any:
    return load(config, catalog()).profiles[0]


def problems(config: dict[str, Any]) -> list[str]:
    with pytest.raises(ConfigurationError) as raised:
        load(config, catalog())
    return str(raised.value).split("; ")


class TestDefaults:
    def test_nothing_is_the_default_profile(self) -> None:
        default = load(None, catalog()).profiles[0]
        assert default.scheduler_name == "default-scheduler"
        assert list(default.multi_point) == DEFAULTS
        assert {name: weight for name, weight in default.weights.items() if weight != 1} == WEIGHTED

    @pytest.mark.parametrize(
        "config",
        [
            {},
            {"profiles": [{}]},
            profile({}),
            {"profiles": None},
            profile({"multiPoint": {"enabled": None}, "score": None}, pluginConfig=None),
            profile(pluginConfig=[{"name": "NodeResourcesFit", "args": {"scoringStrategy": {"resources": None}}}]),
        ],
        ids=["empty", "profile", "plugins", "null profiles", "null plugins", "null arguments"],
    )
    def test_what_is_left_out_changes_nothing(self, config: dict[str, Any]) -> None:
        assert completed(config).digest() == completed({"kind": "KubeSchedulerConfiguration"}).digest()

    def test_a_completed_configuration_completes_to_itself(self) -> None:
        affinity = {
            "preferredDuringSchedulingIgnoredDuringExecution": [
                {"weight": 5, "preference": {"matchExpressions": [{"key": "a", "operator": "Exists"}]}}
            ]
        }
        strategy = {
            "type": "RequestedToCapacityRatio",
            "requestedToCapacityRatio": {"shape": [{"utilization": 0, "score": 3}]},
        }
        first = completed(
            profile(
                {"multiPoint": {"enabled": [{"name": "NodePorts"}]}, "score": {"disabled": [{"name": "NodeAffinity"}]}},
                schedulerName="other",
                pluginConfig=[
                    {"name": "NodeAffinity", "args": {"addedAffinity": affinity}},
                    {"name": "NodeResourcesFit", "args": {"scoringStrategy": strategy}},
                ],
            )
        )
        again = completed(json.loads(first.canonical()))
        assert again.canonical() == first.canonical()
        assert again.digest() == first.digest()

    def test_equal_profiles_have_equal_digests_however_they_are_written(self) -> None:
        args = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "NodeResourcesFitArgs"}
        assert (
            completed(profile(pluginConfig=[{"name": "NodeResourcesFit", "args": args}])).digest()
            == completed({}).digest()
        )


class TestMerging:
    def test_a_disabled_default_is_gone(self) -> None:
        found = completed(profile({"multiPoint": {"disabled": [{"name": "NodePorts"}]}}))
        assert "NodePorts" not in found.names

    def test_a_default_enabled_again_keeps_its_place_and_takes_the_weight(self) -> None:
        found = completed(profile({"multiPoint": {"enabled": [{"name": "TaintToleration", "weight": 7}]}}))
        assert list(found.multi_point) == DEFAULTS
        assert found.weights["TaintToleration"] == 7

    def test_a_weight_that_is_left_out_is_one(self) -> None:
        assert completed(profile({"multiPoint": {"enabled": [{"name": "NodeAffinity"}]}})).weights["NodeAffinity"] == 1

    def test_a_star_disables_all_and_what_is_enabled_stands_in_the_order_given(self) -> None:
        chosen = ["DefaultBinder", "NodeResourcesFit", "PrioritySort"]
        found = completed(
            profile({"multiPoint": {"disabled": [{"name": "*"}], "enabled": [{"name": name} for name in chosen]}})
        )
        assert list(found.names) == chosen

    def test_what_is_named_at_one_point_counts_there_only(self) -> None:
        made = load_profiles(profile({"score": {"disabled": [{"name": "*"}], "enabled": [{"name": "NodeAffinity"}]}}))
        at = made["default-scheduler"].at
        assert at["score"] == ("NodeAffinity",)
        assert "NodeResourcesFit" in at["filter"]

    def test_what_is_named_at_a_point_runs_there_before_the_rest(self) -> None:
        made = load_profiles(profile({"filter": {"enabled": [{"name": "NodeResourcesFit"}]}}))
        assert made["default-scheduler"].at["filter"][0] == "NodeResourcesFit"

    def test_a_plugin_cannot_stand_where_it_does_nothing(self) -> None:
        misplaced = {"enabled": [{"name": "PrioritySort"}]}
        with pytest.raises(ConfigurationError) as raised:
            load_profiles(profile({"filter": misplaced, "score": misplaced}))
        assert str(raised.value).split("; ") == [
            "profile default-scheduler: plugins.filter.enabled[0].name: PrioritySort does not serve it",
            "profile default-scheduler: plugins.score.enabled[0].name: PrioritySort does not serve it",
        ]

    def test_several_profiles_have_names_and_plugins_of_their_own(self) -> None:
        config = {
            "profiles": [
                {"schedulerName": "a"},
                {"schedulerName": "b", "plugins": {"score": {"disabled": [{"name": "*"}]}}},
            ]
        }
        made = load_profiles(config)
        assert list(made) == ["a", "b"]
        assert made["a"].digest != made["b"].digest

    def test_all_profiles_sort_the_queue_alike(self) -> None:
        known = Catalog([*catalog(), Entry("Fifo", Fifo)])
        disabled = [{"name": "PrioritySort"}]
        sets = {"a": "Fifo", "b": "PrioritySort"}
        profiles = [
            {"schedulerName": name, "plugins": {"multiPoint": {"disabled": [{"name": other}]}}}
            for name, other in sets.items()
        ]
        with pytest.raises(ConfigurationError, match="profiles a and b: all profiles must have the same queueSort"):
            load_profiles({"profiles": profiles}, catalog=known)
        alike = [{**each, "plugins": {"multiPoint": {"disabled": disabled}}} for each in profiles]
        assert list(load_profiles({"profiles": alike}, catalog=known)) == ["a", "b"]


class Fifo:
    name = "Fifo"

    def queue_key(self, pod: Pod, arrival: float) -> float:
        return arrival


class TestProblems:
    def test_all_are_told_at_once_with_their_paths(self) -> None:
        args = {"scoringStrategy": {"resources": [{"name": "cpu", "weight": 101}]}, "oops": 1}
        found = problems(
            {"profiles": [{"pluginConfig": [{"name": "NodeResourcesFit", "args": args}, {"name": "Nobody"}]}]}
        )
        assert [problem.partition(": ")[0] for problem in found] == [
            "profiles[0].pluginConfig[0].args.scoringStrategy.resources[0].weight",
            "profiles[0].pluginConfig[0].args.oops",
            "profiles[0].pluginConfig[1].name",
        ]

    def test_a_malformed_part_does_not_hide_what_else_is_wrong(self) -> None:
        plugins = {"score": {"enabled": [{"name": "Nobody"}]}}
        config = [{"name": "NodeResourcesFit", "args": {"oops": 1}}]
        found = problems({"oops": 1, "profiles": [{"plugins": plugins, "pluginConfig": config}, {"oops": 1}]})
        assert [problem.partition(": ")[0] for problem in found] == [
            "profiles[1].oops",
            "oops",
            "profiles[0].plugins.score.enabled[0].name",
            "profiles[0].pluginConfig[0].args.oops",
        ]

    def test_arguments_without_defaults_are_asked_for(self) -> None:
        class Args(BaseModel):
            rack: str

        demanding = Catalog([*catalog(), Entry("Racks", lambda _: None, Args)])  # type: ignore[arg-type, return-value]
        with pytest.raises(ConfigurationError, match=r"profiles\[0\]\.pluginConfig\.rack: Racks: Field required"):
            load({}, demanding)

    @pytest.mark.parametrize(
        ("config", "expected"),
        [
            ({"apiVersion": "v2"}, "apiVersion: "),
            ({"leaderElection": {}}, "leaderElection: is not supported by this version"),
            (profile(percentageOfNodesToScore=5), "profiles[0].percentageOfNodesToScore: is not supported"),
            ({"profile": []}, "profile: unknown field"),
            ({"profiles": []}, "profiles: at least one profile is needed"),
            (
                {"profiles": [{"schedulerName": "a"}, {"schedulerName": "a"}]},
                "profiles[1].schedulerName: a is the name",
            ),
            ({"profiles": [{"schedulerName": "a"}, {}]}, "profiles[1].schedulerName: is needed"),
            (profile({"filter": {"enabled": [{"name": "X"}]}}), "profiles[0].plugins.filter.enabled[0].name: there is"),
            (
                profile({"filter": {"enabled": [{"name": "NodeName"}] * 2}}),
                "profiles[0].plugins.filter.enabled: plugin",
            ),
            (
                profile(pluginConfig=[{"name": "NodeName", "args": {"a": 1}}]),
                "profiles[0].pluginConfig[0].args: plugin",
            ),
            (profile(pluginConfig=[{"name": "NodeAffinity"}] * 2), "profiles[0].pluginConfig[1].name: arguments of"),
        ],
        ids=str,
    )
    def test_each_has_a_reason(self, config: dict[str, Any], expected: str) -> None:
        assert problems(config)[0].startswith(expected)

    @pytest.mark.parametrize(
        ("plugin", "args", "reason"),
        [
            ("NodeResourcesFit", {"scoringStrategy": {"type": "RequestedToCapacityRatio"}}, "shape is required"),
            (
                "NodeResourcesFit",
                {
                    "scoringStrategy": {
                        "requestedToCapacityRatio": {
                            "shape": [{"utilization": 5, "score": 1}, {"utilization": 5, "score": 2}]
                        }
                    }
                },
                "strictly increasing",
            ),
            ("NodeResourcesFit", {"ignoredResourceGroups": ["a/b"]}, "contain '/'"),
            ("NodeResourcesBalancedAllocation", {"resources": [{"name": "cpu", "weight": 2}]}, "must be 1"),
            (
                "NodeAffinity",
                {
                    "addedAffinity": {
                        "requiredDuringSchedulingIgnoredDuringExecution": {
                            "nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "In"}]}]
                        }
                    }
                },
                "operator In needs values",
            ),
        ],
        ids=["shape", "order", "group", "weight", "values"],
    )
    def test_arguments_follow_kube_schedulers_rules(self, plugin: str, args: dict[str, Any], reason: str) -> None:
        assert reason in "; ".join(problems(profile(pluginConfig=[{"name": plugin, "args": args}])))


class TestFiles:
    def test_yaml_and_json_are_read(self, tmp_path: Path) -> None:
        (tmp_path / "a.yaml").write_text("profiles:\n- schedulerName: mine\n")
        (tmp_path / "a.json").write_text('{"profiles": [{"schedulerName": "mine"}]}')
        for name in ("a.yaml", "a.json"):
            assert load(tmp_path / name, catalog()).profiles[0].scheduler_name == "mine"

    def test_an_empty_file_means_the_defaults(self, tmp_path: Path) -> None:
        (tmp_path / "a.yaml").write_text("")
        assert load(str(tmp_path / "a.yaml"), catalog()).profiles[0].digest() == completed({}).digest()

    @pytest.mark.parametrize(
        ("content", "reason"),
        [
            ("- 1", "is not a mapping"),
            ("a: [", "neither YAML nor JSON"),
            ("a: 2026-99-99", "neither YAML nor JSON"),
            ("[" * 100_000, "neither YAML nor JSON"),
        ],
        ids=["list", "syntax", "date", "depth"],
    )
    def test_what_is_no_configuration_is_told(self, tmp_path: Path, content: str, reason: str) -> None:
        (tmp_path / "a.yaml").write_text(content)
        with pytest.raises(ConfigurationError, match=reason):
            load(tmp_path / "a.yaml", catalog())

    def test_a_file_that_is_not_there_is_told(self, tmp_path: Path) -> None:
        with pytest.raises(ConfigurationError, match="No such file"):
            load(tmp_path / "none.yaml", catalog())
