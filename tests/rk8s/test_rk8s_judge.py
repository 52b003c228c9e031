"""The judge must find each kind of mistake, or it proves nothing."""

from __future__ import annotations

import pytest

from tests.faults.history import Change, Revision
from tests.rk8s import rk8s_documents as docs
from tests.rk8s.rk8s_judge import PENDING, Rk8sJudge
from wharfinger.etcd import keys


def story(*changes: tuple[str, bytes]) -> list[Revision]:
    """A revision for each change, after one with a node of one core and a pod of it."""
    first = [("nodes/n1", docs.document(docs.node("n1", cpu="1"))), ("pods/a", docs.document(docs.pod("a", cpu="1")))]
    return [
        Revision(at, 0.0, (Change(f"{keys.ROOT}{key}", value, 3 if key == "pods/a" else at, at),))
        for at, (key, value) in enumerate([*first, *changes], start=2)
    ]


def bind(name: str, node: str = "n1", **more: str) -> list[tuple[str, bytes]]:
    raw = docs.document(docs.pod(name, cpu="1", **more))
    return [(f"pods/{name}", raw.replace(PENDING, f"\n  node_name: {node}\n".encode()))]


@pytest.mark.parametrize(
    ("changes", "violated"),
    [
        ([], ["pending"]),
        (bind("a"), ["record"]),
        (bind("a", "n9"), ["bound-once", "record"]),
        ([*bind("a"), ("pods/a", docs.document(docs.pod("a", cpu="1")))], ["record", "bound-once", "pending"]),
        (bind("a", owner="x"), ["bytes", "record"]),
        ([("pods/b", docs.document(docs.pod("b", cpu="1"))), *bind("a"), *bind("b")], ["record", "record", "room"]),
        ([*bind("a"), ("wharfinger.dev/attempts/default/a", b"{}")], ["record", "left-over"]),
    ],
)
def test_the_judge_finds(changes: list[tuple[str, bytes]], violated: list[str]) -> None:
    found = Rk8sJudge().take_all(story(*changes)).violations

    assert [one.split(" at ")[0].split(":")[0] for one in found] == violated
