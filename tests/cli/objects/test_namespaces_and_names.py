"""What commands on objects say of namespaces and names that cannot be meant."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.shell import Shell

MISMATCH = 'the namespace from the provided object "{}" does not match the namespace "other"'


@pytest.mark.servers
def test_apply_and_delete_refuse_an_object_of_another_namespace(shell: Shell) -> None:
    namespace = shell.namespace
    unnamed = {**shell.pod("unnamed"), "metadata": {"name": "unnamed"}}
    path = shell.file([shell.pod("named"), unnamed])

    answer = shell("apply", "-f", path, "-n", "other")
    assert (answer.code, answer.out) == (1, "pod/other/unnamed created\n")
    hint = "leave out --namespace, or change metadata.namespace"
    assert answer.err == f"error: {path}: {MISMATCH.format(namespace)} (pod/{namespace}/named): {hint}\n"
    assert shell("get", "pods", "-n", namespace, "-o", "json").json["items"] == []

    assert shell("apply", "-f", shell.file([shell.pod("named")], "named.json"), "-n", namespace).code == 0
    answer = shell("delete", "-f", path, "-n", "other")
    assert (answer.code, answer.out) == (1, "pod/other/unnamed deleted\n")
    assert MISMATCH.format(namespace) in answer.err
    assert shell("get", "pod", "named", "-n", namespace).code == 0


@pytest.mark.servers
def test_namespace_is_no_matter_for_objects_that_have_none(shell: Shell) -> None:
    answer = shell("apply", "-f", shell.file([shell.node()]), "-n", "other")
    assert (answer.code, answer.err) == (0, "")


@pytest.mark.servers
def test_commands_name_the_namespace_in_which_nothing_is_found(shell: Shell) -> None:
    assert shell("get", "pods", "-n", "nosuch").err == "no pods found in namespace nosuch\n"
    assert shell("pending", "-n", "nosuch").err == "no pod in namespace nosuch waits for a node\n"
    lost = shell("pending", "--lost", "-n", "nosuch").err
    assert lost == "no pod in namespace nosuch is bound to a node that does not exist\n"


@pytest.mark.parametrize("address", ["https://host/x.yaml", "http://host/x.yaml"])
@pytest.mark.parametrize("command", ["apply", "delete"])
def test_addresses_are_refused_with_what_reads_them(command: str, address: str, outside: Shell) -> None:
    answer = outside(command, "-f", address)
    expected = f"error: addresses are not read: curl -sSfL {address} | wharfinger ... -f -\n"
    assert (answer.code, answer.out, answer.err) == (2, "", expected)


def test_a_file_that_is_missing_is_named(outside: Shell, tmp_path: Path) -> None:
    assert f"there is no file {tmp_path}/x" in outside("apply", "-f", f"{tmp_path}/x").err


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (["pod", ""], "the name is empty: leave it out for all objects"),
        (["pods", "-n", "A B"], "--namespace 'A B' is no name: it has a slash, a blank or a control character"),
        (["pods", "-n", "a/b"], "--namespace 'a/b' is no name"),
        (["node", "a/b"], "the name 'a/b' is no name"),
        (["pod", "x" * 5000], "has 5000 characters, and 253 are the most"),
        (["pod", "web-1", "-A"], "these exclude each other: --all-namespaces and a name"),
        (["pods", "-A", "-n", "a"], "these exclude each other: --all-namespaces and --namespace"),
        (["pods", "--watch", "--invalid"], "these exclude each other: --watch and --invalid"),
    ],
)
def test_get_refuses_what_cannot_be_meant(line: list[str], reason: str, outside: Shell) -> None:
    answer = outside("get", *line)
    assert (answer.code, answer.out) == (2, "")
    assert answer.err.startswith("error: ")
    assert reason in answer.err
    assert len(answer.err) < 200
