"""Notes of a valid configuration: each field that is accepted without effect, once."""

from __future__ import annotations

from typing import Any

import pytest

from wharfinger.framework.catalog import Catalog
from wharfinger.framework.plugins.builtin import catalog
from wharfinger.framework.profiles import load_configuration

SHAPE = {"shape": [{"utilization": 0, "score": 0}, {"utilization": 100, "score": 10}]}


def notes(config: dict[str, Any]) -> dict[str, str]:
    found = load_configuration(config, catalog=Catalog(catalog())).notes()
    assert len({path for path, _ in found}) == len(found)
    return dict(found)


def profile(**fields: Any) -> dict[str, Any]:
    return {"profiles": [fields]}


def test_a_configuration_whose_fields_all_count_has_no_note() -> None:
    config = {
        "podInitialBackoffSeconds": 2,
        "podMaxBackoffSeconds": 20,
        "percentageOfNodesToScore": 50,
        "profiles": [
            {"schedulerName": "a", "percentageOfNodesToScore": 10},
            {
                "schedulerName": "b",
                "plugins": {
                    "multiPoint": {"enabled": [{"name": "ImageLocality", "weight": 5}], "disabled": [{"name": "*"}]},
                    "queueSort": {"enabled": [{"name": "PrioritySort"}]},
                    "bind": {"enabled": [{"name": "DefaultBinder"}]},
                    "score": {"enabled": [{"name": "NodeAffinity", "weight": 2}]},
                },
                "pluginConfig": [{"name": "NodeAffinity", "args": {}}],
            },
        ],
    }
    assert notes(config) == {}


@pytest.mark.parametrize(
    ("config", "path", "reason"),
    [
        ({"parallelism": 16}, "parallelism", "a decision looks at all nodes at once"),
        ({"leaderElection": {"leaderElect": False}}, "leaderElection", "all workers are active"),
        ({"clientConnection": {"qps": 100}}, "clientConnection", "there is no API server"),
        ({"enableProfiling": False}, "enableProfiling", "no profiling"),
        ({"enableContentionProfiling": False}, "enableContentionProfiling", "no profiling"),
        ({"delayCacheUntilActive": True}, "delayCacheUntilActive", "all workers are active"),
        (
            {"percentageOfNodesToScore": 50, "profiles": [{"percentageOfNodesToScore": 10}]},
            "percentageOfNodesToScore",
            "every profile has its own",
        ),
        (
            profile(plugins={"placementScore": {"disabled": [{"name": "*"}]}}),
            "profiles[0].plugins.placementScore",
            "no plugin places groups",
        ),
        (
            profile(plugins={"score": {"disabled": [{"name": "NodeResourceFit"}]}}),
            "profiles[0].plugins.score.disabled[0]",
            "no profile has a plugin NodeResourceFit; did you mean NodeResourcesFit?",
        ),
        (
            profile(plugins={"multiPoint": {"disabled": [{"name": "DynamicResources"}]}}),
            "profiles[0].plugins.multiPoint.disabled[0]",
            "DynamicResources of kube-scheduler does not exist here",
        ),
        (
            profile(plugins={"filter": {"disabled": [{"name": "ImageLocality"}]}}),
            "profiles[0].plugins.filter.disabled[0]",
            "ImageLocality takes no part at filter",
        ),
        (
            profile(plugins={"multiPoint": {"disabled": [{"name": "ImageLocality", "weight": 3}]}}),
            "profiles[0].plugins.multiPoint.disabled[0].weight",
            "a disabled plugin has no weight",
        ),
        (
            profile(plugins={"multiPoint": {"enabled": [{"name": "NodeName", "weight": 3}]}}),
            "profiles[0].plugins.multiPoint.enabled[0].weight",
            "NodeName gives no score",
        ),
        (
            profile(plugins={"filter": {"enabled": [{"name": "NodeAffinity", "weight": 3}]}}),
            "profiles[0].plugins.filter.enabled[0].weight",
            "weights count at score and multiPoint",
        ),
        (
            profile(
                plugins={
                    "multiPoint": {"enabled": [{"name": "NodeAffinity", "weight": 3}]},
                    "score": {"enabled": [{"name": "NodeAffinity", "weight": 4}]},
                }
            ),
            "profiles[0].plugins.multiPoint.enabled[0].weight",
            "the weight of NodeAffinity at score counts",
        ),
        (
            profile(
                plugins={"multiPoint": {"disabled": [{"name": "NodeAffinity"}]}},
                pluginConfig=[{"name": "NodeAffinity", "args": {}}],
            ),
            "profiles[0].pluginConfig[0]",
            "the profile does not enable NodeAffinity",
        ),
        (
            profile(
                pluginConfig=[
                    {
                        "name": "NodeResourcesFit",
                        "args": {"scoringStrategy": {"type": "MostAllocated", "requestedToCapacityRatio": SHAPE}},
                    }
                ]
            ),
            "profiles[0].pluginConfig[0].args.scoringStrategy.requestedToCapacityRatio",
            "the type is not RequestedToCapacityRatio",
        ),
    ],
)
def test_a_field_without_effect_is_noted_with_its_path(config: dict[str, Any], path: str, reason: str) -> None:
    found = notes(config)
    assert list(found) == [path]
    assert found[path].startswith("has no effect: ")
    assert reason in found[path]


def test_a_point_that_only_kube_schedulers_plugin_serves_is_noted() -> None:
    found = notes(profile(plugins={"preFilter": {"enabled": [{"name": "NodePorts"}]}}))
    served = load_configuration().profiles["default-scheduler"].at["preFilter"]
    assert ("profiles[0].plugins.preFilter.enabled[0]" in found) == ("NodePorts" not in served)
    found = notes(profile(plugins={"preEnqueue": {"enabled": [{"name": "DefaultPreemption"}]}}))
    assert found == {
        "profiles[0].plugins.preEnqueue.enabled[0]": "has no effect: DefaultPreemption takes no part at preEnqueue here"
    }


def test_a_plugin_that_another_profile_has_may_be_disabled_without_a_note() -> None:
    """One file's profiles are often copies of each other."""
    config = {
        "profiles": [
            {"schedulerName": "a", "plugins": {"score": {"disabled": [{"name": "ImageLocality"}]}}},
            {"schedulerName": "b", "plugins": {"score": {"disabled": [{"name": "Imagelocality"}]}}},
        ]
    }
    assert list(notes(config)) == ["profiles[1].plugins.score.disabled[0]"]
