"""`--validate` of apply, simulate and capacity."""

from __future__ import annotations

import pytest

from tests.cli.shell import Shell

UNKNOWN = "spec.dnsPolcy: unknown field; did you mean dnsPolicy?"


def test_apply_refuses_all_unknown_and_duplicate_fields_and_continues(shell: Shell) -> None:
    container = {"name": "c", "image": "x", "resources": {"request": {"cpu": "1"}}}
    misspelt = shell.pod("misspelt", node_name="n1", containers=[container])
    wrong = shell.pod("wrong", brandNew=1, priority="high")
    twice = f"""
---
apiVersion: v1
kind: Pod
metadata: {{name: twice, namespace: {shell.namespace}}}
spec:
  nodeName: n1
  nodeName: n2
  containers: [{{name: c, image: x}}]
---
apiVersion: v1
kind: Service
metadata: {{name: service, namespace: {shell.namespace}}}
spec: {{Selector: {{app: web}}}}
"""
    answer = shell(
        "apply", "-f", shell.file([misspelt, wrong, shell.pod("good")]), "-f", shell.file(twice, "twice.yaml")
    )

    assert answer.code == 1
    assert answer.out == f"pod/{shell.namespace}/good created\n"
    space = shell.namespace
    assert set(answer.err.splitlines()) == {
        f"error: pod/{space}/misspelt: spec.node_name: unknown field; did you mean nodeName?",
        f"error: pod/{space}/misspelt: spec.containers[0].resources.request: unknown field; did you mean requests?",
        f"error: pod/{space}/wrong: spec.brandNew: unknown field",
        f'error: pod/{space}/wrong: spec.priority: Invalid value: "high": must be an integer of 32 bits',
        f"error: pod/{space}/twice: spec.nodeName: duplicate field (again at line 8)",
        f"error: service/{space}/service: spec.Selector: unknown field; did you mean selector?",
    }
    assert shell("get", "pod", "misspelt", "-n", space).code == 1


@pytest.mark.parametrize("word", ["strict", "true"])
def test_apply_validates_strictly_when_asked_so(shell: Shell, word: str) -> None:
    answer = shell("apply", "-f", shell.file([shell.pod("a", dnsPolcy="x")]), f"--validate={word}", "-o", "json")
    assert answer.code == 1
    assert answer.json == [{"object": f"pod/{shell.namespace}/a", "result": "refused", "reason": UNKNOWN}]


def test_apply_warns_or_ignores_when_asked_so(shell: Shell) -> None:
    file = shell.file([shell.pod("a", dnsPolcy="x")])
    warned = shell("apply", "-f", file, "--validate=warn")
    assert (warned.code, warned.out) == (0, f"pod/{shell.namespace}/a created\n")
    assert warned.err == f"warning: pod/{shell.namespace}/a: {UNKNOWN}\n"
    for word in ("ignore", "false"):
        ignored = shell("apply", "-f", file, f"--validate={word}")
        assert (ignored.code, ignored.out, ignored.err) == (0, f"pod/{shell.namespace}/a unchanged\n", "")
    twice = '{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": {"a": "1", "a": "2"}}'
    ignored = shell("apply", "-f", shell.file(twice), "-n", shell.namespace, "--validate=ignore")
    assert (ignored.code, ignored.err) == (0, "")
    assert shell("get", "cm", "c", "-n", shell.namespace, "-o", "json").json["data"] == {"a": "2"}


def test_apply_never_stores_a_pod_that_would_be_invalid(shell: Shell) -> None:
    answer = shell("apply", "-f", shell.file([shell.pod("a", node_name="n1")]), "--validate=ignore")
    assert answer.code == 1
    assert "spec.node_name: unknown field; did you mean nodeName?" in answer.err


def test_another_word_is_used_wrongly(outside: Shell) -> None:
    answer = outside("apply", "-f", outside.file([]), "--validate=perhaps")
    assert answer.code == 2
    assert "'perhaps' is none of strict, warn, ignore, true, false" in answer.err


EXISTS = "spec.tolerations[0].operator: Invalid value: \"v\": value must be empty when `operator` is 'Exists'"


def test_apply_refuses_what_an_api_server_refuses(shell: Shell) -> None:
    bad = shell.pod("bad", tolerations=[{"key": "k", "operator": "Exists", "value": "v"}])

    answer = shell("apply", "-f", shell.file([bad, shell.pod("good")]))

    assert (answer.code, answer.out) == (1, f"pod/{shell.namespace}/good created\n")
    assert answer.err == f"error: pod/{shell.namespace}/bad: {EXISTS}\n"


@pytest.mark.parametrize("command", ["simulate", "capacity"])
def test_what_if_commands_refuse_what_an_api_server_refuses(outside: Shell, command: str) -> None:
    bad = outside.pod("bad", tolerations=[{"key": "k", "operator": "Exists", "value": "v"}])
    file = outside.file([bad, outside.node()])

    for validate in ("strict", "ignore"):
        answer = outside(command, "-f", file, f"--validate={validate}")
        assert (answer.code, answer.err) == (2, f"error: {file}: Pod default/bad: {EXISTS}\n")


def test_what_an_api_server_took_is_decided_with_a_note(outside: Shell) -> None:
    taken = outside.pod("taken", tolerations=[{"key": "k", "operator": "Exists", "value": "v"}])
    taken["metadata"] |= {"uid": "u", "resourceVersion": "1"}

    answer = outside("simulate", "-f", outside.file([taken, outside.node()]))

    assert answer.code == 0
    assert "an API server of Kubernetes 1.36 would refuse 1 of the objects that come from a cluster" in answer.out
    assert f"Pod default/taken: {EXISTS}" in answer.out


@pytest.mark.parametrize("command", ["simulate", "capacity"])
def test_what_if_commands_refuse_unknown_fields_of_given_objects(outside: Shell, command: str) -> None:
    pod, node = outside.pod("web", dnsPolcy="x"), outside.node()
    node["spec"] = {"podCidr": "10.0.0.0/24"}
    file = outside.file([pod, node])
    refused = outside(command, "-f", file)
    assert refused.code == 2
    assert f"Pod default/web: {UNKNOWN}" in refused.err
    assert "spec.podCidr: unknown field; did you mean podCIDR?" in refused.err
    warned = outside(command, "-f", file, "--validate=warn")
    assert warned.code == 0
    assert f"warning: Pod default/web: {UNKNOWN}" in warned.err
    ignored = outside(command, "-f", file, "--validate=ignore")
    assert (ignored.code, ignored.out, ignored.err) == (0, warned.out, "")


def test_misspelt_templates_are_refused_by_simulate(outside: Shell) -> None:
    container = {"name": "c", "image": "e/x:1", "resources": {"request": {"cpu": "1"}}}
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web"},
        "spec": {
            "replicas": 2,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [container]}},
        },
    }
    file = outside.file([deployment, outside.node()])
    where = "spec.template.spec.containers[0].resources.request: unknown field; did you mean requests?"
    assert where in outside("simulate", "-f", file).err
    ignored = outside("simulate", "-f", file, "--validate=ignore")  # its pods cannot be read either
    assert ignored.code == 2
    assert "resources.request: unknown field; did you mean requests?" in ignored.err
