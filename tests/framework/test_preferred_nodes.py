"""Whose nodes are whose: every node is one worker's, little moves, and a decision pays nothing for it."""

from __future__ import annotations

import time

import numpy as np
import pytest

from wharfinger.framework.columns import NodeNames
from wharfinger.framework.node_info import NodeInfo
from wharfinger.framework.preferred_nodes import PreferredNodes, owned
from wharfinger.testing.builders import node, snapshot

MEMBERS = ("common/0", "common/1", "common/2", "common/3")
NAMES = NodeNames(f"node-{number}" for number in range(4000))


def shared(members: tuple[str, ...] = MEMBERS, me: str | None = "common/0", margin: int = 2) -> PreferredNodes:
    preferred_nodes = PreferredNodes(margin)
    preferred_nodes.share(members, me)
    return preferred_nodes


def test_every_node_is_exactly_one_workers() -> None:
    shares = np.array([owned(NAMES, MEMBERS, member) for member in MEMBERS])

    assert (shares.sum(axis=0) == 1).all()
    assert all(900 < share < 1100 for share in shares.sum(axis=1))


def test_preferred_nodes_are_equal_on_every_machine_and_release() -> None:
    """Decisions are recorded with the members only."""
    shares = [owned(NAMES, reversed(MEMBERS), member) for member in MEMBERS]

    assert [next(n for n, share in enumerate(shares) if share[row]) for row in range(10)] == [
        3,
        1,
        0,
        0,
        2,
        1,
        0,
        2,
        0,
        0,
    ]


def test_only_the_nodes_of_a_worker_that_leaves_move() -> None:
    rest = tuple(member for member in MEMBERS if member != "common/3")
    left = owned(NAMES, MEMBERS, "common/3")
    for member in rest:
        before, after = owned(NAMES, MEMBERS, member), owned(NAMES, rest, member)
        assert (after & ~before <= left).all()
        assert (before <= after).all()


@pytest.mark.parametrize(
    "preferred_nodes",
    [
        shared(("common/0",)),
        shared(margin=0),
        shared(me=None),
        shared(me="common/9"),
        shared((), None),
        PreferredNodes(2),
    ],
    ids=["alone", "switched off", "withdrawn", "not among them", "nobody", "never told"],
)
def test_worker_alone_prefers_no_node(preferred_nodes: PreferredNodes) -> None:
    assert preferred_nodes.preference(snapshot(node("a"), node("b"))) is None


def test_the_nodes_are_looked_at_again_when_they_or_the_workers_change() -> None:
    preferred_nodes, some = shared(), snapshot(*(node(f"n{number}") for number in range(20)))
    first = preferred_nodes.preference(some)
    assert first is not None
    assert first.preferred.tolist() == owned(some.node_columns.names, MEMBERS, "common/0").tolist()

    assert preferred_nodes.preference(some.at(2)) is first
    larger = preferred_nodes.preference(some.resized(set(), [NodeInfo.of(node("n20"))]))
    assert larger is not None
    assert len(larger.preferred) == 21
    preferred_nodes.share(MEMBERS[:2], "common/0")
    fewer = preferred_nodes.preference(some)
    assert fewer is not None
    assert fewer.preferred.sum() > first.preferred.sum()


def test_sharing_many_nodes_among_many_workers_is_quick() -> None:
    """Whenever a worker comes or goes, between two decisions."""
    names, members = NodeNames(f"node-{number}" for number in range(5000)), [f"common/{n}" for n in range(64)]
    owned(names, members, "common/0")
    began = time.thread_time()
    owned(names, members, "common/0")
    assert time.thread_time() - began < 0.1
