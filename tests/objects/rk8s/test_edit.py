"""A bind changes `node_name` in a document of rk8s, and no other byte."""

from __future__ import annotations

import pytest

from tests.objects.rk8s.samples import POD, RUNNING, SMALLEST, changed
from wharfinger.errors import InvalidObject
from wharfinger.objects.rk8s.documents import bind_pod, parse_pod

HEAD = "apiVersion: v1\nkind: Pod\nmetadata: {name: x}\n"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (f"{HEAD}spec:\n  node_name: null\n", f"{HEAD}spec:\n  node_name: w1\n"),
        (f"{HEAD}spec:\n  node_name:\n", f"{HEAD}spec:\n  node_name: w1\n"),
        (f"{HEAD}spec:\n  node_name:   # not yet\n", f"{HEAD}spec:\n  node_name: w1   # not yet\n"),
        (f"{HEAD}spec:\n  node_name: # a colon: here\n", f"{HEAD}spec:\n  node_name: w1 # a colon: here\n"),
        (f"{HEAD}spec:\n  node_name: ''   \n", f"{HEAD}spec:\n  node_name: w1   \n"),
        (f"{HEAD}spec:\n    volumes: []\n", f"{HEAD}spec:\n    node_name: w1\n    volumes: []\n"),
        (f"{HEAD}spec:\r\n  volumes: []\r\n", f"{HEAD}spec:\r\n  node_name: w1\r\n  volumes: []\r\n"),
        (f"{HEAD}spec: {{}}\n", f'{HEAD}spec: {{node_name: "w1"}}\n'),
        (f"{HEAD}spec: {{node_name: , volumes: []}}", f'{HEAD}spec: {{node_name: "w1" , volumes: []}}'),
        (f"{HEAD}spec: {{ volumes: []}}", f'{HEAD}spec: {{node_name: "w1",  volumes: []}}'),
        (f"# größer 🎈\n{HEAD}spec:\n  node_name: ~\n", f"# größer 🎈\n{HEAD}spec:\n  node_name: w1\n"),
        (
            '{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}, "spec": {"node_name": null}}',
            '{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}, "spec": {"node_name": "w1"}}',
        ),
        (
            '{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}, "spec": {}}',
            '{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}, "spec": {"node_name": "w1"}}',
        ),
    ],
)
def test_the_name_alone_is_written_wherever_it_belongs(before: str, after: str) -> None:
    assert bind_pod(before.encode(), "w1").decode() == after


def test_the_writers_own_layout_is_kept() -> None:
    assert bind_pod(POD.encode(), "worker1") == changed(POD, "node_name: null", "node_name: worker1")


def test_tags_and_times_of_other_writers_stay_as_they_are() -> None:
    waiting = (POD[: POD.index("status:")] + RUNNING).encode()

    assert bind_pod(waiting, "worker1") == waiting.replace(b"node_name: null", b"node_name: worker1")


@pytest.mark.parametrize("name", ["1e3", "0x10", "no", "true", "10.5", "Node-A", "null"])
def test_a_name_that_looks_like_something_else_is_quoted(name: str) -> None:
    bound = bind_pod(SMALLEST.replace("{}\n", "\n  volumes: []\n").encode(), name)

    assert f'node_name: "{name}"'.encode() in bound
    assert parse_pod(bound)["spec"]["nodeName"] == name


def test_a_name_that_stands_elsewhere_is_left_alone() -> None:
    trap = 'env:\n    - {name: a, value: "\n  node_name: null\n  "}'
    document = changed(POD, "env: null", trap).decode()

    bound = bind_pod(document.encode(), "worker1").decode()

    assert bound == document.replace("spec:\n  node_name: null", "spec:\n  node_name: worker1")


def test_a_key_in_the_long_form_is_found() -> None:
    bound = bind_pod(f"{HEAD}spec:\n  ? node_name\n  : null\n  ? volumes\n  : []\n".encode(), "w1")

    assert parse_pod(bound)["spec"]["nodeName"] == "w1"


@pytest.mark.parametrize(
    ("document", "why"),
    [
        (f"{HEAD}spec:\n  node_name: other\n", "names node 'other' already"),
        (f"{HEAD}spec: null\n", "spec is no mapping"),
        (HEAD, "spec is no mapping"),
        ("[]", "spec is no mapping"),
    ],
)
def test_what_cannot_be_bound_is_refused(document: str, why: str) -> None:
    with pytest.raises(InvalidObject, match=why):
        bind_pod(document.encode(), "w1")
