"""What a value of the dynamic configuration may say, whose counts, and what it makes of a configuration."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.framework.config.configurations import profile, with_args
from wharfinger.errors import InvalidConfiguration, InvalidObject
from wharfinger.framework.catalog import Catalog, CatalogEntry, why_unknown
from wharfinger.framework.config.dynamic import (
    VALUES,
    CohortValue,
    ProfileValue,
    QueueValue,
    canonical,
    check_alone,
    check_backoff,
    digest,
    is_target,
    read_value,
    targets,
)
from wharfinger.framework.plugins.arguments import PluginArgs
from wharfinger.framework.plugins.builtin import catalog
from wharfinger.framework.profiles import Configured, load_configuration, overlay_configuration
from wharfinger.objects.documents import documents
from wharfinger.objects.model.pod import Pod

DEFAULT = "default-scheduler"
EXAMPLE = Path(__file__).parents[3] / "examples/config/weights.yaml"


def test_the_example_is_a_value_of_the_profiles() -> None:
    value = read_value(ProfileValue, documents.parse(EXAMPLE.read_bytes()))
    assert list(check_alone(value, catalog())) == []
    assert list(value.profiles) == [DEFAULT]


class SortedArgs(PluginArgs):
    backwards: bool = False


class Sorted:
    """Sorts the queue, and can do so in two ways."""

    name = "Sorted"

    def __init__(self, args: SortedArgs) -> None:
        self._backwards = args.backwards

    def queue_key(self, pod: Pod, arrival: float) -> float:
        return -arrival if self._backwards else arrival


SORTED = Catalog([*catalog(), CatalogEntry("Sorted", Sorted, SortedArgs)])
SORTED_CONFIG = profile({"multiPoint": {"disabled": [{"name": "PrioritySort"}]}})


def weights(**said: int) -> ProfileValue:
    return read_value(ProfileValue, {"profiles": {DEFAULT: {"weights": said}}})


def arguments(plugin: str, args: Any) -> ProfileValue:
    said = {"pluginConfig": [{"name": plugin, "args": args}]}
    return read_value(ProfileValue, {"profiles": {DEFAULT: said}})


def problems(kind: str, written: Any) -> tuple[str, ...]:
    with pytest.raises(InvalidConfiguration) as raised:
        read_value(VALUES[kind], written)
    return raised.value.problems


def over(value: ProfileValue, config: dict[str, Any] | None = None, known: Catalog | None = None) -> Configured:
    base = load_configuration(config or {}, catalog=known or catalog())
    return overlay_configuration(base, value, base)


def refused(value: ProfileValue, config: dict[str, Any] | None = None, known: Catalog | None = None) -> tuple[str, ...]:
    with pytest.raises(InvalidConfiguration) as raised:
        over(value, config, known)
    return raised.value.problems


class TestValues:
    @pytest.mark.parametrize(
        ("kind", "written", "problem"),
        [
            ("log", {"level": "loud"}, "level: Input should be 'debug', 'info', 'warning' or 'error'"),
            ("log", {}, "level: Field required"),
            ("log", {"level": "info", "tone": "kind"}, "tone: unknown field"),
            ("queue", {"podInitialBackoffSeconds": 0}, "podInitialBackoffSeconds: Input should be greater than 0"),
            ("queue", {"podMaxBackoffSeconds": "10"}, "podMaxBackoffSeconds: Input should be a valid integer"),
            ("queue", {}, "is empty: `config unset` removes a value"),
            ("queue", [1], "is no mapping"),
            ("cohort", {"cohorts": "sometimes"}, "cohorts: Input should be 'auto' or 'off'"),
            ("cohort", {"cohortMost": 501}, "cohortMost: Input should be less than or equal to 500"),
            ("cohort", {"cohort_most": 100}, "cohort_most: unknown field"),
            ("profile", {"profiles": {}}, "profiles: Dictionary should have at least 1 item"),
            ("profile", {"profiles": {"a": {"weights": {"X": 0}}}}, "profiles.a.weights.X: Input should be greater"),
            ("profile", {"profiles": {"a": {"weights": {"X": True}}}}, "profiles.a.weights.X: Input should be a valid"),
            ("profile", {"profiles": {"a": {"plugins": {}}}}, "profiles.a.plugins: unknown field"),
        ],
    )
    def test_wrong_values_are_reported(self, kind: str, written: Any, problem: str) -> None:
        [told] = problems(kind, written)
        assert told.startswith(problem)

    def test_all_problems_are_reported_at_once(self) -> None:
        assert len(problems("cohort", {"cohortFrom": 1, "parkedChains": -1, "cohort": "auto"})) == 3

    def test_one_that_is_too_large_is_refused(self) -> None:
        [told] = problems("profile", {"profiles": {"a" * 70_000: {}}})
        assert "larger than 64 KiB" in told

    def test_null_means_unsaid(self) -> None:
        assert read_value(CohortValue, {"cohorts": None, "cohortFrom": 30}).cohorts is None

    def test_backoff_is_checked_together_with_the_workers_start_options(self) -> None:
        longest = read_value(QueueValue, {"podMaxBackoffSeconds": 60})

        assert check_backoff(longest, 1, 10) == (1, 60)
        with pytest.raises(InvalidConfiguration, match="must be at least podInitialBackoffSeconds"):
            check_backoff(longest, 100, 200)

    def test_digest_depends_on_the_values_not_on_their_spelling(self) -> None:
        assert digest({"a": 1, "b": [2]}) == digest({"b": [2], "a": 1})
        assert digest({"a": 1}) != digest({"a": True})
        assert canonical({"b": "ä", "a": 1}) == '{"a":1,"b":"ä"}'.encode()
        with pytest.raises(InvalidObject):
            canonical({"a": float("nan")})


class TestTargets:
    def test_an_instance_goes_before_its_tenant(self) -> None:
        assert targets("a", "3") == ("instance/a/3", "tenant/a")
        assert targets("common") == ("tenant/common",)

    @pytest.mark.parametrize("target", ["default", "tenant/common", "tenant/a", "instance/a/0"])
    def test_these_are_some(self, target: str) -> None:
        assert is_target(target)

    @pytest.mark.parametrize(
        "target",
        [
            "",
            "tenant",
            "tenant/",
            "tenant/A",
            "instance/a",
            "instance/a/x",
            "instance/a/07",
            "instance/a/1/2",
            "default/a",
        ],
    )
    def test_these_are_none(self, target: str) -> None:
        assert not is_target(target)


class TestProfiles:
    def test_weights_change_and_nothing_else_does(self) -> None:
        base = load_configuration({}, catalog=catalog())
        made = overlay_configuration(base, weights(NodeResourcesFit=7, ImageLocality=1), base)

        before, after = base.configuration.profiles[0], made.configuration.profiles[0]
        assert {**before.weights, "NodeResourcesFit": 7, "ImageLocality": 1} == after.weights
        assert (after.multi_point, after.args) == (before.multi_point, before.args)
        assert made.profiles[DEFAULT].digest != base.profiles[DEFAULT].digest

    def test_a_weight_at_the_score_point_is_overlaid_too(self) -> None:
        config = profile({"score": {"enabled": [{"name": "NodeResourcesFit", "weight": 3}]}})

        assert over(weights(NodeResourcesFit=9), config).configuration.profiles[0].weights["NodeResourcesFit"] == 9

    def test_what_lies_under_the_digest_makes_the_same_profile(self) -> None:
        made = over(weights(NodeResourcesFit=7))
        found = made.profiles[DEFAULT]
        assert load_configuration(json.loads(found.configuration), catalog=catalog()).profiles[DEFAULT].digest == (
            found.digest
        )

    def test_arguments_take_the_place_of_all_that_the_plugin_had(self) -> None:
        config = with_args("InterPodAffinity", {"hardPodAffinityWeight": 5, "ignorePreferredTermsOfExistingPods": True})
        made = over(arguments("InterPodAffinity", {"hardPodAffinityWeight": 9}), config)

        args = made.configuration.profiles[0].fields()["pluginConfig"]
        [found] = [one["args"] for one in args if one["name"] == "InterPodAffinity"]
        assert (found["hardPodAffinityWeight"], found["ignorePreferredTermsOfExistingPods"]) == (9, False)

    def test_plugins_whose_arguments_stay_are_the_very_same(self) -> None:
        base = load_configuration({}, catalog=catalog())
        made = overlay_configuration(base, arguments("InterPodAffinity", {"hardPodAffinityWeight": 9}), base)

        before = {plugin.name: plugin for plugin in base.profiles[DEFAULT].plugins}
        changed = [plugin.name for plugin in made.profiles[DEFAULT].plugins if plugin is not before[plugin.name]]
        assert changed == ["InterPodAffinity"]

    def test_all_problems_are_reported_with_their_paths(self) -> None:
        value = read_value(
            ProfileValue,
            {
                "profiles": {
                    DEFAULT: {
                        "weights": {"Nonsense": 2},
                        "pluginConfig": [
                            {"name": "InterPodAffinity", "args": {"hardPodAffinityWeight": 101}},
                            {"name": "NodeName", "args": {"a": 1}},
                        ],
                    },
                    "batch": {},
                }
            },
        )

        assert refused(value) == (
            "profiles.batch: there is no such profile (there are default-scheduler)",
            f"profiles.{DEFAULT}.weights.Nonsense: {why_unknown('Nonsense', catalog())}",
            f"profiles.{DEFAULT}.pluginConfig[0].args.hardPodAffinityWeight: "
            "Input should be less than or equal to 100, not 101",
            f"profiles.{DEFAULT}.pluginConfig[1].args: plugin NodeName takes no arguments",
        )

    def test_plugin_that_the_profile_disables_takes_no_weight_or_arguments(self) -> None:
        config = profile({"multiPoint": {"disabled": [{"name": "ImageLocality"}]}})

        [told] = refused(weights(ImageLocality=2), config)
        assert "does not enable this plugin" in told

    def test_how_the_queue_is_sorted_stays_the_templates(self) -> None:
        [told] = refused(arguments("Sorted", {"backwards": True}), SORTED_CONFIG, SORTED)
        assert "may not change how the queue is sorted" in told

    def test_plugins_and_arguments_are_checked_without_a_configuration(self) -> None:
        value = read_value(
            ProfileValue,
            {
                "profiles": {
                    "any": {
                        "weights": {"Nonsense": 1},
                        "pluginConfig": [{"name": "InterPodAffinity", "args": {"hardPodAffinityWeight": -1}}],
                    }
                }
            },
        )
        paths = [path for path, _ in check_alone(value, catalog())]
        assert paths == ["profiles.any.weights.Nonsense", "profiles.any.pluginConfig[0].args.hardPodAffinityWeight"]
