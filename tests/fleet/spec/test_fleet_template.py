"""A template's name: equal exactly when the completed templates are."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wharfinger.fleet.spec.fleet import read_template
from wharfinger.framework.config.load import read
from wharfinger.framework.plugins.builtin import catalog

KNOWN = catalog()
KUBE = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
FULL: dict[str, Any] = {
    "version": "v2",
    "environment": {"TZ": "UTC", "LANG": "C"},
    "secrets": [{"name": "b", "version": "1"}, {"name": "a", "version": "7"}],
    "resources": {"memory": "2Gi", "cpu": 2},
    "restartedAt": "2026-01-31T12:00:00Z",
}


def name(template: dict[str, Any]) -> str:
    return read_template(template, KNOWN)[1]


def configured(**fields: Any) -> dict[str, Any]:
    return {"schedulerConfiguration": {**KUBE, **fields}}


def profile(**fields: Any) -> dict[str, Any]:
    return configured(profiles=[fields])


class TestGolden:
    """Names lie nowhere, but every actor must compute the same: a change here is a rollout everywhere."""

    def test_the_empty_template(self) -> None:
        assert name({}) == "576dd83da8cf4c339b7d6ad844f2275300d53b0d17026e93d35e29a9deb60ba0"

    def test_a_template_of_everything_but_a_configuration(self) -> None:
        assert name(FULL) == "e5ce9f56214389c82cb75c7dabf4accd6e60e40c60ce95bab07369a0c94062e8"


class TestEqual:
    @pytest.mark.parametrize(
        ("one", "other"),
        [
            ({}, {"schedulerConfiguration": {}, "environment": {}, "secrets": [], "resources": {}, "version": ""}),
            ({}, {"schedulerConfiguration": None, "environment": None, "secrets": None, "restartedAt": None}),
            ({}, {"resources": {"memory": 0, "cpu": "0"}}),
            (FULL, dict(reversed(FULL.items()))),
            (FULL, {**FULL, "environment": {"LANG": "C", "TZ": "UTC"}, "secrets": FULL["secrets"][::-1]}),
            (FULL, {**FULL, "resources": {"cpu": "2000m", "memory": "2048Mi"}}),
            (FULL, {**FULL, "resources": {"cpu": 2.0, "memory": 2147483648}}),
            (configured(), {"schedulerConfiguration": {"kind": "KubeSchedulerConfiguration"}}),
            (configured(), configured(profiles=[{"schedulerName": "default-scheduler"}])),
            (configured(), configured(parallelism=16, leaderElection={"renewDeadline": "10s"})),
            (configured(leaderElection={"leaseDuration": "1m"}), configured(leaderElection={"leaseDuration": "60s"})),
            (configured(percentageOfNodesToScore=40), profile(percentageOfNodesToScore=40)),
            (
                profile(plugins={"multiPoint": {"disabled": [{"name": "ImageLocality"}]}}),
                profile(plugins={"multiPoint": {"disabled": [{"name": "ImageLocality"}]}, "score": {"enabled": []}}),
            ),
            (
                profile(pluginConfig=[{"name": "InterPodAffinity", "args": {"hardPodAffinityWeight": 1}}]),
                profile(),
            ),
        ],
    )
    def test_spelling_and_written_defaults_do_not_matter(self, one: dict[str, Any], other: dict[str, Any]) -> None:
        assert name(one) == name(other)

    def test_a_configuration_that_is_written_out_is_the_same(self) -> None:
        short = profile(plugins={"score": {"enabled": [{"name": "NodeResourcesFit", "weight": 3}]}})
        found, problems = read(short["schedulerConfiguration"], KNOWN)
        assert not problems
        assert name({"schedulerConfiguration": found.document()}) == name(short)

    @pytest.mark.parametrize(
        ("one", "other"),
        [
            ({}, configured()),  # the agent's own may be another one than the defaults
            (FULL, {**FULL, "version": "v3"}),
            (FULL, {**FULL, "environment": {"TZ": "UTC"}}),
            (FULL, {**FULL, "environment": {"TZ": "UTC", "LANG": "D"}}),
            (FULL, {**FULL, "secrets": [{"name": "b", "version": "2"}, {"name": "a", "version": "7"}]}),
            (FULL, {**FULL, "secrets": [{"name": "b", "version": "7"}, {"name": "a", "version": "1"}]}),
            (FULL, {**FULL, "resources": {"memory": "2G", "cpu": 2}}),
            (FULL, {**FULL, "restartedAt": "2026-01-31T12:00:01Z"}),
            (configured(), configured(podMaxBackoffSeconds=11)),
            (configured(), profile(schedulerName="other")),
            (configured(), profile(plugins={"score": {"enabled": [{"name": "NodeResourcesFit", "weight": 2}]}})),
        ],
    )
    def test_what_makes_another_instance_makes_another_name(self, one: dict[str, Any], other: dict[str, Any]) -> None:
        assert name(one) != name(other)


WORDS = st.sampled_from(["a", "b", "c"])
TEMPLATES = st.fixed_dictionaries(
    {},
    optional={
        "version": st.sampled_from(["", "v1", "v2"]),
        "environment": st.dictionaries(st.sampled_from(["A", "B", "C"]), st.sampled_from(["", "1", "2"]), max_size=3),
        "secrets": st.lists(WORDS, unique=True, max_size=3).map(
            lambda names: [{"name": one, "version": "1"} for one in names]
        ),
        "resources": st.fixed_dictionaries(
            {}, optional={"memory": st.sampled_from([0, 2**30, 2**31]), "cpu": st.integers(1, 4)}
        ),
        "schedulerConfiguration": st.fixed_dictionaries(
            {},
            optional={
                "parallelism": st.sampled_from([8, 16]),
                "podInitialBackoffSeconds": st.sampled_from([1, 2]),
                "profiles": st.lists(
                    st.fixed_dictionaries({}, optional={"percentageOfNodesToScore": st.sampled_from([0, 50])}),
                    max_size=1,
                ),
            },
        ),
    },
)


def reordered(template: dict[str, Any]) -> dict[str, Any]:
    """The same with every mapping the other way round."""

    def turned(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: turned(value[key]) for key in reversed(value)}
        return [turned(inner) for inner in value] if isinstance(value, list) else value

    return turned(template)


def spelled_out(template: dict[str, Any]) -> dict[str, Any]:
    """The same with defaults written."""
    written = copy.deepcopy(template)
    for field, default in (
        ("version", ""),
        ("environment", {}),
        ("secrets", []),
        ("resources", {}),
        ("restartedAt", ""),
    ):
        written.setdefault(field, default)
    for amount in ("memory", "cpu"):
        written["resources"].setdefault(amount, 0)
    configuration = written.get("schedulerConfiguration")
    if configuration:
        for field, default in (*KUBE.items(), ("parallelism", 16), ("podInitialBackoffSeconds", 1)):
            configuration.setdefault(field, default)
    return written


def otherwise_spelled(template: dict[str, Any]) -> dict[str, Any]:
    """The same with amounts spelled another way, and secrets in another order."""
    written = copy.deepcopy(template)
    resources = written.get("resources", {})
    if resources.get("memory"):
        resources["memory"] = f"{resources['memory'] // 2**20}Mi"
    if resources.get("cpu"):
        resources["cpu"] = f"{resources['cpu'] * 1000}m"
    if "secrets" in written:
        written["secrets"].reverse()
    return written


@settings(max_examples=60)
@given(TEMPLATES, st.sampled_from([reordered, spelled_out, otherwise_spelled]))
def test_a_template_that_is_written_another_way_keeps_its_name(
    template: dict[str, Any], rewrite: Callable[[dict[str, Any]], dict[str, Any]]
) -> None:
    assert name(rewrite(template)) == name(template)


@settings(max_examples=60)
@given(TEMPLATES, TEMPLATES)
def test_names_are_equal_only_when_what_is_meant_is(one: dict[str, Any], other: dict[str, Any]) -> None:
    def meant(template: dict[str, Any]) -> object:
        made, _ = read_template(template, KNOWN)
        configuration = None
        if made.configuration:
            found, _ = read(made.configuration, KNOWN)
            settings_ = found.settings.model_dump(exclude={"profiles", "percentage_of_nodes_to_score"})
            configuration = (settings_, [profile.canonical() for profile in found.profiles])
        return made.version, made.environment, set(made.secrets), made.memory, made.cpu, configuration

    assert (name(one) == name(other)) == (meant(one) == meant(other))
