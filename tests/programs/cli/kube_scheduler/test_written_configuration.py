"""`--write-config-to`: the file is kube-scheduler's but for documented lines, and both read it again as it is."""

from __future__ import annotations

import copy
import stat
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cli.shell import Shell
from tests.programs.cli.kube_scheduler.command_lines import written_by_real
from wharfinger.framework.profiles import load_configuration
from wharfinger.programs.cli.written_configuration import as_yaml, written_document

SHAPE = [{"utilization": 0, "score": 0}, {"utilization": 100, "score": 10}]
TERMS = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "disk", "operator": "In", "values": ["ssd"]}]}]}


def args(name: str, **fields: Any) -> dict[str, Any]:
    return {"name": name, "args": fields}


CONFIGURATIONS: dict[str, dict[str, Any]] = {
    "default": {},
    "connection and election": {
        "clientConnection": {"qps": 12.5, "burst": 7, "contentType": "application/json"},
        "leaderElection": {"leaseDuration": "30s", "renewDeadline": "20s", "retryPeriod": "3s", "resourceName": "mine"},
        "podInitialBackoffSeconds": 2,
        "podMaxBackoffSeconds": 20,
        "parallelism": 32,
        "enableProfiling": False,
        "delayCacheUntilActive": True,
    },
    "no election": {"leaderElection": {"leaderElect": False}, "percentageOfNodesToScore": 30},
    "several profiles": {
        "profiles": [
            {"schedulerName": "default-scheduler"},
            {
                "schedulerName": "packing",
                "percentageOfNodesToScore": 55,
                "pluginConfig": [
                    args("NodeResourcesFit", scoringStrategy={"type": "MostAllocated", "resources": [{"name": "cpu"}]})
                ],
            },
            {"schedulerName": "no-scoring", "plugins": {"score": {"disabled": [{"name": "*"}]}}},
        ]
    },
    "plugins by multiPoint": {
        "profiles": [
            {
                "plugins": {
                    "multiPoint": {
                        "disabled": [{"name": "ImageLocality"}, {"name": "VolumeZone"}],
                        "enabled": [{"name": "NodeAffinity", "weight": 7}, {"name": "NodePorts"}],
                    }
                }
            }
        ]
    },
    "few plugins": {
        "profiles": [
            {
                "plugins": {
                    "multiPoint": {
                        "disabled": [{"name": "*"}],
                        "enabled": [{"name": "PrioritySort"}, {"name": "DefaultBinder"}, {"name": "NodeResourcesFit"}],
                    }
                }
            }
        ]
    },
    "plugins at points": {
        "profiles": [
            {
                "plugins": {
                    "score": {
                        "disabled": [{"name": "NodeResourcesFit"}, {"name": "VolumeBinding"}],
                        "enabled": [{"name": "NodeResourcesFit", "weight": 3}, {"name": "TaintToleration"}],
                    },
                    "postFilter": {"disabled": [{"name": "*"}]},
                    "filter": {"enabled": [{"name": "NodeName"}]},
                }
            }
        ]
    },
    "arguments of plugins": {
        "profiles": [
            {
                "pluginConfig": [
                    args("VolumeBinding", bindTimeoutSeconds=30),
                    args("InterPodAffinity", hardPodAffinityWeight=10, ignorePreferredTermsOfExistingPods=True),
                    args("DefaultPreemption", minCandidateNodesPercentage=20, minCandidateNodesAbsolute=50),
                    args("NodeAffinity", addedAffinity={"requiredDuringSchedulingIgnoredDuringExecution": TERMS}),
                    args(
                        "PodTopologySpread",
                        defaultingType="List",
                        defaultConstraints=[
                            {"maxSkew": 2, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway"}
                        ],
                    ),
                    args(
                        "NodeResourcesFit",
                        ignoredResources=["example.com/foo"],
                        ignoredResourceGroups=["example.org"],
                        scoringStrategy={
                            "type": "RequestedToCapacityRatio",
                            "resources": [{"name": "memory", "weight": 3}],
                            "requestedToCapacityRatio": {"shape": SHAPE},
                        },
                    ),
                    args("NodeResourcesBalancedAllocation", resources=[{"name": "cpu"}]),
                ]
            }
        ]
    },
    "extenders": {
        "extenders": [
            {
                "urlPrefix": "http://one:8888/scheduler",
                "filterVerb": "filter",
                "prioritizeVerb": "prioritize",
                "weight": 5,
                "managedResources": [{"name": "example.com/foo", "ignoredByScheduler": True}],
            },
            {
                "urlPrefix": "https://two:8888/scheduler",
                "bindVerb": "bind",
                "preemptVerb": "preempt",
                "enableHTTPS": True,
                "httpTimeout": "7s",
                "nodeCacheCapable": True,
                "ignorable": True,
                "tlsConfig": {"insecure": True, "serverName": "two.example.com"},
            },
        ]
    },
}
ONLY_THERE = ("DynamicResources",)
"""Plugins that kube-scheduler has and wharfinger does not."""


def file_of(folder: Path, kubeconfig: str, row: str) -> Path:
    content = copy.deepcopy(CONFIGURATIONS[row])
    content.setdefault("clientConnection", {})["kubeconfig"] = kubeconfig
    head = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    path = folder / "config.yaml"
    path.write_text(yaml.safe_dump({**head, **content}))
    return path


def without_documented_lines(document: dict[str, Any], ours: dict[str, Any]) -> dict[str, Any]:
    """What kube-scheduler writes, without the lines of docs/kube-scheduler.md in which ours differs."""
    found = copy.deepcopy(document)
    if "percentageOfNodesToScore" not in ours and found["percentageOfNodesToScore"] == 0:
        found.pop("percentageOfNodesToScore")  # absent here: every node
    managed = [
        resource["name"]
        for extender in document.get("extenders", ())
        for resource in extender.get("managedResources", ())
        if resource.get("ignoredByScheduler")
    ]
    for profile in found["profiles"]:
        everywhere = profile["plugins"]["multiPoint"]
        everywhere["enabled"] = [one for one in everywhere["enabled"] if one["name"] not in ONLY_THERE]
        profile["pluginConfig"] = [one for one in profile["pluginConfig"] if one["name"] not in ONLY_THERE]
        for config in profile["pluginConfig"]:
            if managed and config["name"] == "NodeResourcesFit":
                assert config["args"].pop("ignoredResources") == managed  # here they stay with the extender
    return found


def written(shell: Shell, *arguments: str) -> dict[str, Any]:
    target = shell.folder / "written.yaml"
    found = shell("kube-scheduler", *arguments, f"--write-config-to={target}")
    assert (found.code, found.out) == (0, ""), found.err
    document: dict[str, Any] = yaml.safe_load(target.read_text())
    return document


@pytest.mark.servers
@pytest.mark.parametrize("row", CONFIGURATIONS)
def test_document_is_that_of_the_real_one(outside: Shell, kubeconfig: str, row: str) -> None:
    config = file_of(outside.folder, kubeconfig, row)

    theirs = written_by_real(config, outside.folder / "theirs.yaml")
    ours = written(outside, f"--config={config}")

    assert ours == without_documented_lines(theirs, ours)


@pytest.mark.servers
@pytest.mark.parametrize("row", CONFIGURATIONS)
def test_real_one_reads_our_file_as_the_one_it_came_from(outside: Shell, kubeconfig: str, row: str) -> None:
    config = file_of(outside.folder, kubeconfig, row)
    written(outside, f"--config={config}")

    again = written_by_real(outside.folder / "written.yaml", outside.folder / "again.yaml")

    assert again == written_by_real(config, outside.folder / "theirs.yaml")


@pytest.mark.servers
def test_lines_of_the_default_are_spelt_as_the_real_one_spells_them(outside: Shell, kubeconfig: str) -> None:
    written_by_real(file_of(outside.folder, kubeconfig, "default"), outside.folder / "theirs.yaml")
    written(outside, "--kubeconfig", kubeconfig)

    theirs = (outside.folder / "theirs.yaml").read_text().splitlines()
    ours = (outside.folder / "written.yaml").read_text().splitlines()

    assert [line for line in ours if line not in theirs] == []
    assert len(theirs) - len(ours) == 9


@pytest.mark.parametrize("row", CONFIGURATIONS)
def test_our_file_gives_the_same_configuration_again(outside: Shell, kubeconfig: str, row: str) -> None:
    config = file_of(outside.folder, kubeconfig, row)
    written(outside, f"--config={config}")
    first, second = load_configuration(config), load_configuration(outside.folder / "written.yaml")

    without = {"profiles": (), "enable_contention_profiling": False}  # written as kube-scheduler completes it
    settings = [one.configuration.settings.model_copy(update=without) for one in (first, second)]
    assert settings[0] == settings[1]
    assert [profile.digest for profile in second.profiles.values()] == [
        profile.digest for profile in first.profiles.values()
    ]
    assert written_document(second) == written_document(first)


def test_flags_are_written_as_the_configuration(outside: Shell, kubeconfig: str) -> None:
    found = written(
        outside, "--kubeconfig", kubeconfig, "--kube-api-qps=7.5", "--kube-api-burst=9", "--leader-elect=false",
        "--leader-elect-lease-duration=1m30s", "--leader-elect-resource-name=mine", "--profiling=false",
        "--contention-profiling=false", "--kube-api-content-type=application/json",
    )  # fmt: skip

    assert found["clientConnection"] == {
        "acceptContentTypes": "",
        "burst": 9,
        "contentType": "application/json",
        "kubeconfig": kubeconfig,
        "qps": 7.5,
    }
    assert found["leaderElection"]["leaderElect"] is False
    assert found["leaderElection"]["leaseDuration"] == "1m30s"
    assert found["leaderElection"]["resourceName"] == "mine"
    assert (found["enableProfiling"], found["enableContentionProfiling"]) == (False, False)


def test_config_outranks_deprecated_flags_but_not_those_of_election(outside: Shell, kubeconfig: str) -> None:
    config = file_of(outside.folder, kubeconfig, "connection and election")
    found = outside(
        "kube-scheduler", f"--config={config}", "--kubeconfig=/nowhere", "--kube-api-qps=99", "--kube-api-burst=99",
        "--profiling=true", "--leader-elect-resource-name=flags", f"--write-config-to={outside.folder / 'written'}",
    )  # fmt: skip

    document = yaml.safe_load((outside.folder / "written").read_text())
    assert found.code == 0
    assert (document["clientConnection"]["kubeconfig"], document["clientConnection"]["qps"]) == (kubeconfig, 12.5)
    assert document["enableProfiling"] is False
    assert document["leaderElection"]["resourceName"] == "flags"
    assert document["leaderElection"]["leaseDuration"] == "30s"
    assert "--kube-api-qps has no effect: --config is given" in found.err


def test_plugins_of_ours_are_written_only_where_they_were_named(outside: Shell, kubeconfig: str) -> None:
    found = written(outside, "--kubeconfig", kubeconfig)
    names = [one["name"] for one in found["profiles"][0]["plugins"]["multiPoint"]["enabled"]]
    named = load_configuration(
        {"profiles": [{"plugins": {"multiPoint": {"enabled": [{"name": "UnsupportedFeatures"}]}}}]}
    )

    assert "UnsupportedFeatures" not in names
    assert {"name": "UnsupportedFeatures", "weight": 0} in written_document(named)["profiles"][0]["plugins"][
        "multiPoint"
    ]["enabled"]


def test_file_is_for_its_owner_alone_and_replaced_whole(outside: Shell, kubeconfig: str) -> None:
    target = outside.folder / "written.yaml"
    target.write_text("old\n" * 1000)
    target.chmod(0o644)

    written(outside, "--kubeconfig", kubeconfig)

    assert "old" not in target.read_text()
    assert stat.S_IMODE(target.stat().st_mode) == 0o600


def test_new_file_is_readable_by_its_owner_alone(outside: Shell, kubeconfig: str) -> None:
    written(outside, "--kubeconfig", kubeconfig)

    assert stat.S_IMODE((outside.folder / "written.yaml").stat().st_mode) == 0o600


def test_file_that_cannot_be_written_is_one_line_and_code_1(outside: Shell, kubeconfig: str) -> None:
    target = outside.folder / "none" / "file"

    found = outside("kube-scheduler", "--kubeconfig", kubeconfig, f"--write-config-to={target}")

    assert found.code == 1
    assert found.err.splitlines()[-1] == (
        f"error: --write-config-to: cannot write {target} (No such file or directory)"
    )


def test_nothing_is_written_when_something_is_wrong(outside: Shell, kubeconfig: str) -> None:
    target = outside.folder / "written.yaml"
    wrong = (f"--tls-cert-file={outside.folder}/none", f"--tls-private-key-file={outside.folder}/none")

    found = outside("kube-scheduler", "--kubeconfig", kubeconfig, *wrong, f"--write-config-to={target}")

    assert found.code == 1
    assert str(outside.folder / "none") in found.err
    assert not target.exists()


def test_keys_of_extenders_are_written_to_the_file_alone() -> None:
    tls = {"certData": "Y2VydA==", "keyData": "a2V5"}
    extender = {"urlPrefix": "https://one", "filterVerb": "f", "enableHTTPS": True, "tlsConfig": tls}
    configured = load_configuration({"extenders": [extender]})

    assert written_document(configured)["extenders"][0]["tlsConfig"] == tls
    assert written_document(configured, secrets=False)["extenders"][0]["tlsConfig"] == {"certData": "Y2VydA=="}


@pytest.mark.parametrize("text", ["", "true", "12", "*", "null", "plain", "1e3", "a: b", "0x10", "~", "2026-01-01"])
def test_text_stays_text(text: str) -> None:
    assert yaml.safe_load(as_yaml({"field": text})) == {"field": text}
