"""A pod of a lost node is made anew: the same document, unbound, with a uid and a status of its own."""

from __future__ import annotations

import pytest

from tests.objects.rk8s.samples import POD, RUNNING, SMALLEST, changed
from wharfinger.errors import InvalidObject
from wharfinger.objects.rk8s.edit import bind_pod, made_anew
from wharfinger.objects.rk8s.tree import decoded, parse

UID = "11111111-2222-3333-4444-555555555555"
NOW = "2026-05-01T00:00:00Z"
HEAD = "apiVersion: v1\nkind: Pod\nmetadata: {name: x}\n"
STATUS = (
    '{"podIP": null, "containerStatuses": [], "phase": "Pending", "conditions": null, "message": null, '
    '"reason": null, "start_time": null}'
)
BOUND = bind_pod((POD[: POD.index("status:")] + RUNNING).encode(), "worker1")


def anew(raw: bytes) -> bytes:
    found = made_anew(raw, uid=UID, now=NOW)
    assert found is not None
    return found


def test_all_but_node_uid_time_and_status_stays_byte_for_byte() -> None:
    before = BOUND.decode()
    expected = before.replace("node_name: worker1", "node_name: null")
    expected = expected.replace("uid: 5f0c2f6e-7d7b-4f7a-9a56-0d5f3f0a9a11", f'uid: "{UID}"')
    expected = expected.replace("creationTimestamp: 2026-04-28T12:00:00.123456789Z", f'creationTimestamp: "{NOW}"')
    expected = f"{expected[: expected.index('status:')]}status: {STATUS}\n"

    assert anew(BOUND).decode() == expected


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (f"{HEAD}spec:\n  node_name: w1\n", f"{HEAD}spec:\n  node_name: null\n"),
        (f"{HEAD}spec: {{node_name: w1, volumes: []}}\n", f"{HEAD}spec: {{node_name: null, volumes: []}}\n"),
        (f'{HEAD}spec:\n  "node_name": "w1" # here\n', f'{HEAD}spec:\n  "node_name": null # here\n'),
        (f"{HEAD}status:\n  phase: Failed\nspec: {{}}\n", f"{HEAD}status: {STATUS}\nspec: {{}}\n"),
        (f"{HEAD}spec: {{}}\nstatus: null\n", f"{HEAD}spec: {{}}\nstatus: {STATUS}\n"),
        (f"# größer 🎈\n{HEAD}spec:\n  node_name: w1\n", f"# größer 🎈\n{HEAD}spec:\n  node_name: null\n"),
        (f"{HEAD}spec: {{}}\nstatus:", f"{HEAD}spec: {{}}\nstatus: {STATUS}"),
    ],
)
def test_every_layout_keeps_its_other_bytes(before: str, after: str) -> None:
    assert anew(before.encode()).decode() == after


def test_json_stays_json() -> None:
    raw = b'{"apiVersion":"v1","kind":"Pod","metadata":{"name":"x","uid":"u"},"spec":{"node_name":"w1"},"status":{}}'

    found = parse(decoded(anew(raw)))

    assert found["spec"] == {"node_name": None}
    assert found["metadata"] == {"name": "x", "uid": UID}
    assert found["status"]["phase"] == "Pending"


def test_the_smallest_pod_is_its_own_successor() -> None:
    assert anew(SMALLEST.encode()) == SMALLEST.encode()


def test_a_pod_that_its_controller_replaces_is_not_made_anew() -> None:
    owner = "ownerReferences: [{apiVersion: v1, kind: ReplicaSet, name: web, uid: u, controller: true}]"

    assert made_anew(changed(POD, "ownerReferences: null", owner), uid=UID, now=NOW) is None


def test_a_pod_whose_deletion_was_asked_for_is_not_made_anew() -> None:
    leaving = changed(POD, "deletionTimestamp: null", "deletionTimestamp: 2026-04-28T12:00:10Z")

    assert made_anew(leaving, uid=UID, now=NOW) is None


@pytest.mark.parametrize("raw", [b"", b"[]", b"\xff", b"kind: Pod", b"kind: Node\napiVersion: v1\n"])
def test_what_is_no_pod_is_refused(raw: bytes) -> None:
    with pytest.raises(InvalidObject):
        made_anew(raw, uid=UID, now=NOW)
