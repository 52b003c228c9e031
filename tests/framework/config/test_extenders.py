"""Extenders of a KubeSchedulerConfiguration: rules with their paths, defaults, and what is written back."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from tests.framework.config.configurations import completed, paths, problems, with_args
from wharfinger.framework.profiles import load_configuration, load_profiles
from wharfinger.objects.model.extenders import Extender, ExtenderTls
from wharfinger.testing.builders import node, pod, snapshot

URL = "http://extender.kube-system:8888/scheduler"
GPU = "example.com/gpu"
SECRET = base64.b64encode(b"-----BEGIN PRIVATE KEY----- tell nobody").decode()
WHOLE: dict[str, Any] = {
    "urlPrefix": "https://10.0.0.1:8443/api",
    "filterVerb": "filter",
    "preemptVerb": "preempt",
    "prioritizeVerb": "prioritize",
    "weight": 5,
    "bindVerb": "bind",
    "enableHTTPS": True,
    "tlsConfig": {
        "insecure": False,
        "serverName": "extender",
        "certFile": "",
        "keyFile": "",
        "caFile": "/etc/ca.crt",
        "certData": base64.b64encode(b"cert").decode(),
        "keyData": SECRET,
        "caData": "",
    },
    "httpTimeout": "1.5s",
    "nodeCacheCapable": True,
    "managedResources": [
        {"name": GPU, "ignoredByScheduler": True},
        {"name": "example.com/fpga", "ignoredByScheduler": False},
    ],
    "ignorable": True,
}


def config(*extenders: dict[str, Any]) -> dict[str, Any]:
    return {"extenders": list(extenders)}


def made(*extenders: dict[str, Any]) -> tuple[Extender, ...]:
    return load_configuration(config(*extenders)).configuration.extenders


class TestProblems:
    CASES = (
        (config({"urlPrefix": URL, "prioritizeVerb": "p"}), ["extenders[0].weight"]),
        (config({"urlPrefix": URL, "prioritizeVerb": "p", "weight": -1}), ["extenders[0].weight"]),
        (config({"urlPrefix": URL, "weight": "1"}), ["extenders[0].weight"]),
        (config({"urlPrefix": URL, "weight": 2**63}), ["extenders[0].weight"]),
        (config({"urlPrefix": URL, "bindVerb": "a"}, {"urlPrefix": URL, "bindVerb": "b"}), ["extenders"]),
        (
            config({"urlPrefix": URL, "managedResources": [{"name": "kubernetes.io/foo"}, {"name": GPU}]}),
            ["extenders[0].managedResources[0].name"],
        ),
        (config({"managedResources": [{"name": "cpu"}]}), ["extenders[0].managedResources[0].name"]),
        (config({"managedResources": [{"name": "x.kubernetes.io/y"}]}), ["extenders[0].managedResources[0].name"]),
        (config({"managedResources": [{"name": "requests.a/b"}]}), ["extenders[0].managedResources[0].name"]),
        (config({"managedResources": [{"name": "a/b/c"}]}), ["extenders[0].managedResources[0].name"]),
        (config({"managedResources": [{"name": ""}]}), ["extenders[0].managedResources[0].name"]),
        (config({"managedResources": [{}]}), ["extenders[0].managedResources[0].name"]),
        (
            config({"managedResources": [{"name": GPU}]}, {"managedResources": [{"name": GPU}]}),
            ["extenders[1].managedResources[0].name"],
        ),
        (
            config({"managedResources": [{"name": "foo"}, {"name": "foo"}]}),
            ["extenders[0].managedResources[0].name"] + ["extenders[0].managedResources[1].name"] * 2,
        ),
        (config({"urlPrefix": URL}, {"urlPrefix": "extender:80", "filterVerb": "f"}), ["extenders[1].urlPrefix"]),
        (config({"filterVerb": "f"}), ["extenders[0].urlPrefix"]),
        (config({"urlPrefix": "http://[::1", "filterVerb": "f"}), ["extenders[0].urlPrefix"]),
        (config({"urlPrefix": "http://me:secret@host", "filterVerb": "f"}), ["extenders[0].urlPrefix"]),
        (config({"httpTimeout": 30_000_000_000}), ["extenders[0].httpTimeout"]),
        (config({"httpTimeout": "-1s"}), ["extenders[0].httpTimeout"]),
        (config({"enableHTTPS": "yes"}), ["extenders[0].enableHTTPS"]),
        (config({"enableHttps": True}), ["extenders[0].enableHttps"]),
        (config({"tlsConfig": {"caData": "no base64!"}}), ["extenders[0].tlsConfig.caData"]),
        (config({"tlsConfig": {"insecure": True, "caFile": "ca"}}), ["extenders[0].tlsConfig.insecure"]),
        (config({"tlsConfig": {"certFile": "crt"}}), ["extenders[0].tlsConfig.keyFile"]),
        (config({"tlsConfig": {"keyData": "AAAA"}}), ["extenders[0].tlsConfig.certFile"]),
    )

    @pytest.mark.parametrize(("written", "where"), CASES, ids=[json.dumps(written)[:70] for written, _ in CASES])
    def test_each_has_its_path(self, written: dict[str, Any], where: list[str]) -> None:
        assert paths(problems(written)) == where

    def test_all_are_found_at_once_beside_those_of_profiles(self) -> None:
        wrong = {"parallelism": 0, **config({"prioritizeVerb": "p", "managedResources": [{"name": "cpu"}]})}
        assert paths(problems(wrong)) == [
            "parallelism",
            "extenders[0].weight",
            "extenders[0].urlPrefix",
            "extenders[0].managedResources[0].name",
        ]

    def test_reasons_are_in_the_words_of_kube_scheduler(self) -> None:
        wrong = config(
            {"urlPrefix": URL, "prioritizeVerb": "p", "managedResources": [{"name": "kubernetes.io/foo"}]},
            {"urlPrefix": URL, "bindVerb": "a"},
            {"urlPrefix": URL, "bindVerb": "b"},
        )
        assert problems(wrong) == [
            "extenders[0].weight: must have a positive weight applied to it, not 0",
            "extenders[0].managedResources[0].name: kubernetes.io/foo is an invalid extended resource name",
            "extenders: only one extender can implement bind, found 2",
        ]

    def test_no_problem_repeats_a_key(self) -> None:
        wrong = config({"tlsConfig": {"keyData": SECRET + "!", "certData": 5}, "urlPrefix": "http://me:secret@host"})
        assert not [line for line in problems(wrong) if SECRET[:20] in line or "secret@" in line]


class TestDefaults:
    def test_what_is_left_out_is_completed(self) -> None:
        assert made({"urlPrefix": URL}) == (Extender(URL, URL, weight=0, timeout=5.0),)

    def test_a_timeout_of_zero_is_five_seconds(self) -> None:
        assert [one.timeout for one in made({"httpTimeout": "0s"}, {"httpTimeout": "250ms"})] == [5.0, 0.25]

    def test_everything_that_is_written_counts(self) -> None:
        assert made(WHOLE) == (
            Extender(
                name="https://10.0.0.1:8443/api",
                url_prefix="https://10.0.0.1:8443/api",
                filter_verb="filter",
                prioritize_verb="prioritize",
                preempt_verb="preempt",
                bind_verb="bind",
                weight=5,
                https=True,
                tls=ExtenderTls(
                    server_name="extender",
                    ca_file="/etc/ca.crt",
                    cert_data=b"cert",
                    key_data=base64.b64decode(SECRET),
                ),
                timeout=1.5,
                node_cache_capable=True,
                managed=frozenset((GPU, "example.com/fpga")),
                ignored=frozenset((GPU,)),
                ignorable=True,
            ),
        )

    def test_extenders_at_one_url_have_different_names(self) -> None:
        names = [one.name for one in made({"urlPrefix": URL}, {"urlPrefix": "http://b"}, {"urlPrefix": URL})]
        assert names == [URL, "http://b", f"{URL}#2"]

    def test_no_repr_shows_a_key(self) -> None:
        (extender,) = made(WHOLE)
        configuration = load_configuration(config(WHOLE)).configuration
        assert "tell nobody" not in repr(extender) + repr(configuration)

    def test_a_beta_version_has_the_same_extenders(self) -> None:
        old = {"apiVersion": "kubescheduler.config.k8s.io/v1beta3", **config({"urlPrefix": URL, "weight": -1,
                                                                              "prioritizeVerb": "p"})}  # fmt: skip
        assert paths(problems(old)) == ["apiVersion", "extenders[0].weight"]


class TestWrittenForm:
    def test_the_whole_comes_back_as_it_was_written(self) -> None:
        document = load_configuration(config(WHOLE)).configuration.document()
        assert document["extenders"] == [WHOLE]
        again = load_configuration(document).configuration
        assert again.document() == document
        assert again.extenders == made(WHOLE)

    def test_defaults_are_written_out(self) -> None:
        (written,) = load_configuration(config({"urlPrefix": URL})).configuration.document()["extenders"]
        assert (written["httpTimeout"], written["ignorable"], written["managedResources"]) == ("5s", False, [])
        assert "tlsConfig" not in written

    def test_without_extenders_none_are_written(self) -> None:
        assert "extenders" not in load_configuration(config()).configuration.document()

    def test_keys_can_be_left_out_for_people(self) -> None:
        shown = load_configuration(config(WHOLE)).configuration.document(secrets=False)
        assert SECRET not in json.dumps(shown)
        assert shown["extenders"][0]["tlsConfig"]["serverName"] == "extender"

    def test_what_is_stored_with_decisions_holds_no_key_and_decides_alike(self) -> None:
        profile = completed(config(WHOLE))
        stored = profile.canonical()
        assert b"tlsConfig" not in stored
        assert completed(json.loads(stored)).canonical() == stored

    def test_only_what_decides_changes_the_digest(self) -> None:
        one = completed(config(WHOLE)).digest()
        assert completed(config({**WHOLE, "httpTimeout": "9s", "tlsConfig": {"insecure": True}})).digest() == one
        assert completed(config({**WHOLE, "weight": 6})).digest() != one
        assert completed(config()).digest() == completed({}).digest()


class TestIgnoredResources:
    CARD = pod("card", extended={GPU: 1, "example.com/fpga": 1})

    @pytest.mark.parametrize(
        ("ignored", "missing"),
        [([], {"Insufficient example.com/fpga", f"Insufficient {GPU}"}), ([GPU], {"Insufficient example.com/fpga"})],
    )
    def test_the_fit_plugin_leaves_them_to_the_extender(self, ignored: list[str], missing: set[str]) -> None:
        managed = [{"name": name, "ignoredByScheduler": True} for name in ignored]
        profile = load_profiles(config({"urlPrefix": URL, "filterVerb": "f", "managedResources": managed}))
        evaluation = profile["default-scheduler"].evaluate(self.CARD, snapshot(node()))
        assert set(evaluation.refusals["NodeResourcesFit"]) == missing

    def test_those_that_are_written_for_the_plugin_count_too(self) -> None:
        """kube-scheduler forgets these as soon as an extender has any."""
        both = {
            **with_args("NodeResourcesFit", {"ignoredResources": ["example.com/fpga"]}),
            **config({"urlPrefix": URL, "managedResources": [{"name": GPU, "ignoredByScheduler": True}]}),
        }
        assert load_profiles(both)["default-scheduler"].evaluate(self.CARD, snapshot(node())).node == "n1"


@pytest.mark.parametrize(
    ("extender", "path"),
    [
        ({"urlPrefix": URL, "enableHTTPS": True}, "extenders[0].enableHTTPS"),
        ({"urlPrefix": URL, "tlsConfig": {"insecure": True}}, "extenders[0].tlsConfig"),
        ({"urlPrefix": URL, "weight": 3, "filterVerb": "f"}, "extenders[0].weight"),
        ({"urlPrefix": URL, "managedResources": [{"name": GPU}]}, "extenders[0]"),
    ],
)
def test_what_has_no_effect_is_noted(extender: dict[str, Any], path: str) -> None:
    assert path in [where for where, _ in load_configuration(config(extender)).notes()]


def test_an_extender_that_is_used_as_written_has_no_note() -> None:
    assert load_configuration(config(WHOLE)).notes() == []
