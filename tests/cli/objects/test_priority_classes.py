"""PriorityClasses on the command line: apply, get, describe, pending and delete, on a real etcd."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.cli.objects.test_objects import put
from tests.cli.shell import Shell
from wharfinger.etcd import keys
from wharfinger.objects.model.pod import PodKey
from wharfinger.scheduling.cli.explain import held_back
from wharfinger.testing.memory_store import MemoryStore


@pytest.fixture(autouse=True)
def _no_classes(shell: Shell) -> Iterator[None]:
    """Classes have no namespace: other tests must not meet those of one."""
    yield
    listed = shell("get", "pc", "-o", "json").json
    for obj in listed["items"] if listed else ():
        shell("delete", "pc", obj["metadata"]["name"])


def priority_class(name: str, value: object, **fields: Any) -> dict[str, Any]:
    metadata = {"name": name}
    return {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": metadata,
        "value": value,
        **fields,
    }


def test_classes_are_applied_shown_described_and_deleted(shell: Shell) -> None:
    high = priority_class("high", 1000, preemptionPolicy="Never", description="for those in a hurry")
    objects = [shell.pod("web", priorityClassName="high"), high]

    assert shell("apply", "-f", shell.file(objects)).out.splitlines() == [
        "priorityclass/high created",
        f"pod/{shell.namespace}/web created",
    ]
    rows = [line.split() for line in shell("get", "priorityclasses").out.splitlines()]
    assert rows[0] == ["NAME", "VALUE", "GLOBAL-DEFAULT", "PREEMPTIONPOLICY", "AGE", "REASON"]
    assert rows[1][:4] == ["high", "1000", "false", "Never"]
    described = shell("describe", "pc", "high").out
    assert "Value:            1000" in described
    assert "Description:      for those in a hurry" in described
    assert "1 pending, 0 bound" in described
    pod = shell("describe", "pod", f"{shell.namespace}/web").out
    assert "Priority:         1000" in pod
    assert "Priority class:   high" in pod

    assert shell("delete", "pc", "high").out == "priorityclass/high deleted\n"


@pytest.mark.parametrize(
    ("name", "value", "fields", "reason"),
    [
        ("high", 2**31, {}, "value"),
        ("high", "5", {}, "value"),
        ("high", 1_000_000_001, {}, "value: Forbidden: maximum allowed value of a user defined priority is 1000000000"),
        ("system-mine", 1, {}, "names with 'system-' prefix are reserved for system use only"),
        ("high", 1, {"preemptionPolicy": "Always"}, 'preemptionPolicy: Unsupported value: "Always"'),
    ],
)
def test_apply_refuses_classes_that_an_api_server_refuses(
    shell: Shell, name: str, value: object, fields: dict[str, Any], reason: str
) -> None:
    ran = shell("apply", "-f", shell.file([priority_class(name, value, **fields)]))

    assert ran.code == 1
    assert reason in ran.err
    assert shell("get", "pc").err == "no priorityclasses found\n"


def test_apply_refuses_a_second_global_default(shell: Shell) -> None:
    first, second = (priority_class(name, 1, globalDefault=True) for name in ("first", "second"))

    ran = shell("apply", "-f", shell.file([first, second]))

    assert ran.out == "priorityclass/first created\n"
    assert "PriorityClass first is the default, of which there is one only" in ran.err
    assert shell("apply", "-f", shell.file([{**first, "value": 2}])).out == "priorityclass/first configured\n"


def test_a_class_that_is_invalid_in_etcd_is_listed_as_such(shell: Shell, url: str) -> None:
    key = keys.stored("priorityclasses", "", "high")
    put(url, key, json.dumps(priority_class("high", 10**10)).encode())

    assert "Invalid" in shell("get", "pc").out
    (found,) = shell("get", "pc", "--invalid", "-o", "json").json
    assert found["key"] == key
    assert found["reason"].startswith("value")


def test_of_two_defaults_the_higher_one_is_described_as_not_counting(shell: Shell, url: str) -> None:
    for name, value in (("base", 1), ("more", 5)):
        obj = priority_class(name, value, globalDefault=True)
        put(url, keys.stored("priorityclasses", "", name), json.dumps(obj).encode())
    shell("apply", "-f", shell.file([shell.pod("web")]))

    assert "true, but base counts: its value is lower" in shell("describe", "pc", "more").out
    assert "Priority:         1\n" in shell("describe", "pod", f"{shell.namespace}/web").out


def test_every_command_shows_a_pod_whose_class_does_not_exist(shell: Shell) -> None:
    shell("apply", "-f", shell.file([shell.pod("web", priorityClassName="high")]))
    reason = "no PriorityClass with name high was found, or it is invalid"

    (group,) = shell("pending", "-n", shell.namespace, "-o", "json").json
    assert (group["reason"], group["message"]) == ("SchedulingGated", f"held back: {reason}")
    assert f"Held back:        {reason}" in shell("describe", "pod", f"{shell.namespace}/web").out
    assert "Gated" in shell("get", "pods", "-n", shell.namespace).out

    shell("apply", "-f", shell.file([priority_class("high", 5)]))
    (group,) = shell("pending", "-n", shell.namespace, "-o", "json").json
    assert group["reason"] == "NotTried"


async def test_explain_names_the_missing_class_of_a_held_pod() -> None:
    store, key = MemoryStore(), PodKey("default", "web")
    obj = {"metadata": {"name": "web"}, "spec": {"priorityClassName": "high"}}
    await store.put(keys.pod(*key), json.dumps(obj).encode())

    assert await held_back(store, key) == "held back: no PriorityClass with name high was found, or it is invalid"

    await store.put(keys.stored("priorityclasses", "", "high"), json.dumps(priority_class("high", 5)).encode())
    assert await held_back(store, key) == ""
