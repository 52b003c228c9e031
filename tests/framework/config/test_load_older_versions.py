"""Files for kube-scheduler's v1beta2 and v1beta3: the list of what to change, all at once."""

from __future__ import annotations

from typing import Any

import pytest

from wharfinger.errors import InvalidConfiguration
from wharfinger.framework.profiles import load_configuration

GROUP = "kubescheduler.config.k8s.io"


def problems(config: dict[str, Any]) -> list[str]:
    with pytest.raises(InvalidConfiguration) as refused:
        load_configuration(config)
    return list(refused.value.problems)


def test_a_plain_v1beta3_file_needs_another_version_only() -> None:
    assert problems({"apiVersion": f"{GROUP}/v1beta3", "profiles": [{"schedulerName": "a"}]}) == [
        f"apiVersion: write {GROUP}/v1: Kubernetes 1.29 removed v1beta3"
    ]


def test_all_that_has_to_change_in_a_v1beta3_file_is_listed() -> None:
    config = {
        "apiVersion": f"{GROUP}/v1beta3",
        "parallelismm": 3,
        "profiles": [
            {
                "plugins": {
                    "multiPoint": {"enabled": [{"name": "SelectorSpread", "weight": 2}]},
                    "score": {"disabled": [{"name": "SelectorSpread"}]},
                },
                "pluginConfig": [{"name": "NodeAffinity", "args": {"apiVersion": f"{GROUP}/v1beta3"}}],
            }
        ],
    }
    gone = "plugin SelectorSpread was removed from Kubernetes; PodTopologySpread, which is enabled by default"
    found = problems(config)
    assert found == [
        f"apiVersion: write {GROUP}/v1: Kubernetes 1.29 removed v1beta3",
        f"profiles[0].plugins.multiPoint.enabled[0].name: remove it: {gone}, took its place",
        f"profiles[0].plugins.score.disabled[0].name: remove it: {gone}, took its place",
        f"profiles[0].pluginConfig[0].args.apiVersion: write {GROUP}/v1, or leave it out",
        "parallelismm: unknown field; did you mean parallelism?",
    ]


def test_all_that_has_to_change_in_a_v1beta2_file_is_listed() -> None:
    config = {
        "apiVersion": f"{GROUP}/v1beta2",
        "healthzBindAddress": "0.0.0.0:0",
        "metricsBindAddress": "0.0.0.0:0",
        "profiles": [
            {
                "plugins": {
                    "score": {
                        "enabled": [{"name": "TaintToleration", "weight": 7}],
                        "disabled": [{"name": "NodeAffinity"}],
                    },
                    "filter": {"enabled": [{"name": "NodeLabel"}]},
                },
                "pluginConfig": [{"name": "NodeLabel", "args": {"presentLabels": ["a"]}}],
            }
        ],
    }
    label = "plugin NodeLabel was removed from Kubernetes; NodeAffinity, which is enabled by default, took its place"
    assert problems(config) == [
        f"apiVersion: write {GROUP}/v1: Kubernetes 1.28 removed v1beta2",
        "healthzBindAddress: remove it: the worker takes --bind-address and --health-port instead",
        "metricsBindAddress: remove it: the worker takes --bind-address and --health-port instead",
        "profiles[0].plugins.score: the default weight of InterPodAffinity is 2 in v1, and was 1 in v1beta2: "
        "name it with its weight under enabled, 1 to keep what it was",
        f"profiles[0].plugins.filter.enabled[0].name: remove it: {label}",
        f"profiles[0].pluginConfig[0]: remove it: {label}",
    ]


def test_default_weights_of_v1beta2_are_listed_for_a_file_without_profiles() -> None:
    found = problems({"apiVersion": f"{GROUP}/v1beta2"})
    assert [line.split(" is ")[0] for line in found[1:]] == [
        f"profiles[0].plugins.score: the default weight of {name}"
        for name in ("InterPodAffinity", "NodeAffinity", "TaintToleration")
    ]


def test_a_changed_file_is_valid() -> None:
    """What the list says to do is enough."""
    enabled = [{"name": name, "weight": 1} for name in ("InterPodAffinity", "NodeAffinity", "TaintToleration")]
    old = {"apiVersion": f"{GROUP}/v1beta2", "profiles": [{"plugins": {"score": {"enabled": enabled}}}]}
    assert len(problems(old)) == 1
    (new,) = load_configuration({**old, "apiVersion": f"{GROUP}/v1"}).configuration.profiles
    assert {new.weights[entry["name"]] for entry in enabled} == {1}


@pytest.mark.parametrize(
    "profiles",
    [
        3,
        "x",
        [3],
        [{"plugins": 3}],
        [{"plugins": {"score": 3}}],
        [{"plugins": {"score": {"enabled": 3}}}],
        [{"plugins": {"score": {"enabled": ["x"], "disabled": "x"}}}],
        [{"plugins": {"score": {"enabled": [{"name": ["x"]}]}}}],
        [{"pluginConfig": 3}],
        [{"pluginConfig": [3, {"args": 3}, {"name": {}}]}],
    ],
    ids=str,
)
def test_any_content_of_an_older_file_is_reported_as_problems(profiles: Any) -> None:
    for version in ("v1beta2", "v1beta3"):
        assert len(problems({"apiVersion": f"{GROUP}/{version}", "profiles": profiles})) > 1
