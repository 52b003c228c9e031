"""What a profile comes to: defaults, merging, expansion, and its written form."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.framework.config.configurations import completed, order, problems, profile, with_args
from wharfinger.framework.catalog import Catalog, CatalogEntry
from wharfinger.framework.plugins.builtin import catalog
from wharfinger.framework.profiles import load_configuration, load_profiles
from wharfinger.objects.model.pod import Pod

DEFAULTS = [entry.name for entry in catalog()]
GUARD = "UnsupportedFeatures"


def named(*names: str) -> list[dict[str, str]]:
    return [{"name": name} for name in names]


class Fifo:
    name = "Fifo"

    def queue_key(self, pod: Pod, arrival: float) -> float:
        return arrival


WITH_FIFO = Catalog([*catalog(), CatalogEntry("Fifo", Fifo)])


class TestDefaults:
    def test_nothing_is_the_default_profile(self) -> None:
        default = completed({})
        assert default.scheduler_name == "default-scheduler"
        assert list(default.multi_point) == DEFAULTS
        assert default.weights["TaintToleration"] == 3
        assert default.percentage is None

    @pytest.mark.parametrize(
        "config",
        [
            {"profiles": [{}]},
            {"profiles": []},
            profile({}),
            {"profiles": None},
            profile({"multiPoint": {"enabled": None}, "score": None}, pluginConfig=None),
            with_args("NodeResourcesFit", {"scoringStrategy": {"resources": None}}),
            with_args(
                "NodeResourcesFit",
                {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "NodeResourcesFitArgs"},
            ),
            with_args("NodeResourcesFit", {"scoringStrategy": {"resources": [{"name": "cpu"}, {"name": "memory"}]}}),
            profile({point: {} for point in ("placementGenerate", "placementScore", "preBind")}),
            {"parallelism": 3, "leaderElection": {"leaderElect": False}, "extenders": []},
        ],
        ids=str,
    )
    def test_omitted_and_irrelevant_fields_change_no_profile(self, config: dict[str, Any]) -> None:
        assert completed(config).digest() == completed({}).digest()


class TestWrittenForm:
    CONFIGS = (
        {},
        profile(
            {"multiPoint": {"enabled": named("NodePorts")}, "score": {"disabled": named("NodeAffinity")}},
            schedulerName="other",
        ),
        profile({"multiPoint": {"disabled": named(GUARD, "NodePorts")}}, percentageOfNodesToScore=0),
        profile({"multiPoint": {"disabled": named("*"), "enabled": named("DefaultBinder", "PrioritySort")}}),
        profile({"multiPoint": {"disabled": named("*"), "enabled": named("PrioritySort", GUARD, "DefaultBinder")}}),
        profile({"filter": {"enabled": named("NodeResourcesFit"), "disabled": named("*")}}),
        profile({"score": {"enabled": [{"name": "NodeAffinity", "weight": 9}]}}),
        {"percentageOfNodesToScore": 40, "profiles": [{"schedulerName": "a"}]},
        with_args(
            "NodeResourcesFit",
            {
                "scoringStrategy": {
                    "type": "RequestedToCapacityRatio",
                    "requestedToCapacityRatio": {"shape": [{"utilization": 0, "score": 3}]},
                }
            },
        ),
        with_args(
            "NodeAffinity",
            {
                "addedAffinity": {
                    "preferredDuringSchedulingIgnoredDuringExecution": [
                        {"weight": 5, "preference": {"matchExpressions": [{"key": "a", "operator": "Exists"}]}}
                    ]
                }
            },
        ),
    )

    @pytest.mark.parametrize("config", CONFIGS, ids=str)
    def test_a_completed_profile_completes_to_itself(self, config: dict[str, Any]) -> None:
        first = completed(config)
        again = completed(json.loads(first.canonical()))
        assert again.canonical() == first.canonical()
        assert again.digest() == first.digest()

    @pytest.mark.parametrize("config", CONFIGS, ids=str)
    def test_a_completed_profile_runs_the_same_plugins(self, config: dict[str, Any]) -> None:
        assert order(json.loads(completed(config).canonical())) == order(config)

    def test_it_does_not_depend_on_the_defaults_of_the_day(self) -> None:
        later = Catalog([*catalog(), CatalogEntry("NewerDefault", Fifo)])
        kept = json.loads(completed({}).canonical())
        assert completed(kept, later).names == completed({}).names

    @pytest.mark.parametrize(
        "config",
        [
            profile(schedulerName="a"),
            profile(percentageOfNodesToScore=0),
            profile({"multiPoint": {"disabled": named("NodePorts")}}),
            profile({"multiPoint": {"enabled": [{"name": "NodeAffinity", "weight": 3}]}}),
            with_args("NodeResourcesFit", {"ignoredResources": ["example.com/gpu"]}),
        ],
        ids=str,
    )
    def test_what_changes_decisions_changes_the_digest(self, config: dict[str, Any]) -> None:
        assert completed(config).digest() != completed({}).digest()

    def test_the_whole_configuration_reads_back_as_it_is_shown(self) -> None:
        config = {
            "parallelism": 4,
            "leaderElection": {"leaseDuration": "1m30s", "renewDeadline": "1500ms", "retryPeriod": "1s"},
            "clientConnection": {"qps": 12.5},
            "podMaxBackoffSeconds": 30,
            "percentageOfNodesToScore": 50,
            "profiles": [{"schedulerName": "a"}, {"schedulerName": "b", "percentageOfNodesToScore": 10}],
        }
        shown = load_configuration(config, catalog=catalog()).configuration.document()
        again = load_configuration(shown, catalog=catalog()).configuration
        assert again.document() == shown
        assert shown["leaderElection"]["leaseDuration"] == "1m30s"
        assert shown["leaderElection"]["renewDeadline"] == "1.5s"
        assert [each["percentageOfNodesToScore"] for each in shown["profiles"]] == [50, 10]
        assert json.loads(json.dumps(shown)) == shown


class TestSampling:
    @pytest.mark.parametrize(
        ("whole", "own", "expected"),
        [(None, None, None), (0, None, 0), (30, None, 30), (30, 0, 0), (None, 100, 100)],
    )
    def test_a_profiles_own_percentage_beats_the_files(
        self, whole: int | None, own: int | None, expected: int | None
    ) -> None:
        config = {"percentageOfNodesToScore": whole, **profile(percentageOfNodesToScore=own)}
        assert completed(config).percentage == expected


class TestMerging:
    def test_a_disabled_default_is_gone(self) -> None:
        found = completed(profile({"multiPoint": {"disabled": named("NodePorts")}}))
        assert "NodePorts" not in found.names

    def test_a_default_enabled_again_keeps_its_place_and_takes_the_weight(self) -> None:
        found = completed(profile({"multiPoint": {"enabled": [{"name": "TaintToleration", "weight": 7}]}}))
        assert list(found.multi_point) == DEFAULTS
        assert found.weights["TaintToleration"] == 7

    @pytest.mark.parametrize("weight", [{}, {"weight": 0}, {"weight": None}], ids=str)
    def test_a_weight_that_is_left_out_or_zero_is_one(self, weight: dict[str, Any]) -> None:
        again = {"enabled": [{"name": "NodeAffinity", **weight}]}
        assert completed(profile({"multiPoint": again})).weights["NodeAffinity"] == 1

    def test_the_weight_at_the_score_point_beats_that_of_multi_point(self) -> None:
        points = {name: {"enabled": [{"name": "NodeAffinity", "weight": weight}]} for name, weight in WEIGHTS}
        assert completed(profile(points)).weights["NodeAffinity"] == 5

    def test_enabled_wins_over_disabled(self) -> None:
        both = {"disabled": named("NodePorts"), "enabled": named("NodePorts")}
        found = completed(profile({"multiPoint": both}))
        assert found.multi_point[-1] == "NodePorts"

    def test_a_star_disables_all_and_what_is_enabled_stands_in_the_order_given(self) -> None:
        chosen = ["DefaultBinder", "NodeResourcesFit", "PrioritySort"]
        found = completed(profile({"multiPoint": {"disabled": named("*"), "enabled": named(*chosen)}}))
        assert list(found.names) == [GUARD, *chosen]

    def test_what_does_not_exist_here_can_be_disabled(self) -> None:
        names = ("GangScheduling", "DynamicResources", "EBSLimits", "SomebodysPlugin")
        config = profile({"multiPoint": {"disabled": named(*names)}, "reserve": {"disabled": named(*names)}})
        assert list(completed(config).multi_point) == DEFAULTS

    def test_weights_that_overflow_together_are_refused(self) -> None:
        heavy = Catalog([*catalog(), CatalogEntry("Heavy", Fifo, weight=2**62)])
        assert problems({}, heavy) == [
            "profiles[0].plugins: the score weights are too large together",
            "profiles[0]: plugin Heavy calls itself Fifo; both names must be the same",
        ]


WEIGHTS = (("multiPoint", 3), ("score", 5))


class TestRefusalOfWhatIsNotSupported:
    @pytest.mark.parametrize("point", ["multiPoint", "preFilter"])
    def test_a_star_leaves_it_in_the_profile(self, point: str) -> None:
        everything = {"disabled": named("*"), "enabled": named("PrioritySort", "DefaultBinder")}
        config = profile({point: everything if point == "multiPoint" else {"disabled": named("*")}})
        assert GUARD in order(config)["preFilter"]

    @pytest.mark.parametrize("point", ["multiPoint", "preFilter"])
    def test_its_own_name_disables_it(self, point: str) -> None:
        config = profile({point: {"disabled": named("*" if point == "preFilter" else "NodePorts", GUARD)}})
        assert GUARD not in order(config)["preFilter"]


class TestExpansion:
    def test_a_star_at_a_point_leaves_what_is_named_there(self) -> None:
        at = order(profile({"score": {"disabled": named("*"), "enabled": named("NodeAffinity")}}))
        assert at["score"] == ("NodeAffinity",)
        assert "NodeResourcesFit" in at["filter"]

    def test_plugins_named_at_a_point_run_before_those_of_multi_point(self) -> None:
        default = order({})["filter"]
        at = order(profile({"filter": {"enabled": named("NodeResourcesFit", "NodeName")}}))
        rest = [name for name in default if name not in ("NodeResourcesFit", "NodeName")]
        assert list(at["filter"]) == ["NodeResourcesFit", "NodeName", *rest]

    def test_what_is_named_at_a_point_only_runs_behind_the_rest(self) -> None:
        at = order(
            profile(
                {"multiPoint": {"disabled": named("NodeName")}, "filter": {"enabled": named("NodeName", "NodePorts")}}
            )
        )
        assert at["filter"][0] == "NodePorts"
        assert at["filter"][-1] == "NodeName"

    def test_a_point_can_be_disabled_for_one_plugin(self) -> None:
        at = order(profile({"score": {"disabled": named("TaintToleration")}}))
        assert "TaintToleration" not in at["score"]
        assert "TaintToleration" in at["filter"]

    @pytest.mark.parametrize("point", ["preFilter", "filter", "preScore", "score"])
    def test_a_plugin_may_be_named_wherever_kube_schedulers_own_takes_part(self, point: str) -> None:
        at = order(profile({point: {"enabled": named("NodeResourcesFit")}}))
        assert at.keys() == order({}).keys()
        assert sorted(at[point]) == sorted(order({})[point])

    def test_a_plugin_cannot_stand_where_it_does_nothing(self) -> None:
        misplaced = {"enabled": named("PrioritySort")}
        assert problems(profile({"filter": misplaced, "score": misplaced})) == [
            f"profiles[0].plugins.{point}.enabled[0].name: PrioritySort does not serve this extension point"
            " (it serves queueSort)"
            for point in ("filter", "score")
        ]


class TestSeveralProfiles:
    def test_they_have_names_and_plugins_of_their_own(self) -> None:
        config = {
            "profiles": [
                {"schedulerName": "a"},
                {"schedulerName": "b", "plugins": {"score": {"disabled": named("*")}}},
            ]
        }
        made = load_profiles(config, catalog=catalog())
        assert list(made) == ["a", "b"]
        assert made["a"].digest != made["b"].digest

    def test_all_sort_the_queue_alike(self) -> None:
        sets = {"a": "Fifo", "b": "PrioritySort"}
        profiles = [
            {"schedulerName": name, "plugins": {"multiPoint": {"disabled": named(other)}}}
            for name, other in sets.items()
        ]
        assert problems({"profiles": profiles}, WITH_FIFO) == [
            "profiles[1].plugins.queueSort: Fifo sorts the queue, but PrioritySort in profiles[0]:"
            " all profiles must sort it alike"
        ]
        alike = [{**each, "plugins": {"multiPoint": {"disabled": named("PrioritySort")}}} for each in profiles]
        assert list(load_profiles({"profiles": alike}, catalog=WITH_FIFO)) == ["a", "b"]

    def test_one_plugin_sorts_the_queue_and_one_plugin_binds(self) -> None:
        config = profile({"bind": {"disabled": named("*")}})
        assert problems(config, WITH_FIFO) == [
            "profiles[0].plugins.queueSort: exactly one plugin must be enabled here, found PrioritySort, Fifo",
            "profiles[0].plugins.bind: at least one plugin must be enabled here",
        ]
        assert problems(profile({"multiPoint": {"disabled": named("PrioritySort")}})) == [
            "profiles[0].plugins.queueSort: exactly one plugin must be enabled here, found none"
        ]
