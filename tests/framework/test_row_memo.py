"""Tallies: numbers per node that follow snapshots, and their sums over domains."""

from __future__ import annotations

import numpy as np

from wharfinger.framework.node_info import NodeInfo
from wharfinger.framework.row_memo import DomainSums
from wharfinger.framework.snapshot import Snapshot
from wharfinger.testing.builders import node, pod


class Counting:
    """Counts a node's pods, and the nodes it was asked for."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def __call__(self, info: NodeInfo) -> int:
        self.asked.append(info.node.name)
        return len(info.pods)


def three_nodes(*pods_on: int) -> Snapshot:
    zones = ("a", "b", "a")
    return Snapshot.of(
        NodeInfo.of(node(f"n{row}", labels={"zone": zones[row]}), [pod(f"p{row}-{each}") for each in range(number)])
        for row, number in enumerate(pods_on)
    )


def by_zone(tally: DomainSums, snapshot: Snapshot, among: np.ndarray | None = None) -> dict[str | None, int]:  # type: ignore[type-arg]
    values = snapshot.label("zone").values
    sums = tally.sums(snapshot, "zone", among).tolist()
    return {value: count for value, count in zip(values, sums, strict=False) if value is not None}


def test_only_rows_that_changed_are_counted_again() -> None:
    count = Counting()
    tally = DomainSums(count)
    before = three_nodes(1, 2, 3)
    assert tally.rows(before).tolist() == [1, 2, 3]
    count.asked.clear()
    after = before.place(pod("new"), "n1")
    assert tally.rows(after).tolist() == [1, 3, 3]
    assert tally.rows(before).tolist() == [1, 2, 3]
    assert count.asked == ["n1", "n1"]


def test_what_was_handed_out_stays_true() -> None:
    tally = DomainSums(Counting())
    before = three_nodes(1, 2, 3)
    rows, sums = tally.rows(before), tally.sums(before, "zone")
    tally.sums(before.place(pod("new"), "n1"), "zone")
    assert rows.tolist() == [1, 2, 3]
    assert sums.tolist() == [0, 4, 2]


def test_sums_follow_the_rows_that_take_part() -> None:
    tally = DomainSums(Counting())
    snapshot = three_nodes(1, 2, 3)
    among = np.array([True, True, False])
    assert by_zone(tally, snapshot) == {"a": 4, "b": 2}
    assert by_zone(tally, snapshot, among) == {"a": 1, "b": 2}
    for place in ("n2", "n1", "n0"):
        snapshot = snapshot.place(pod(f"on-{place}"), place)
        tally.rows(snapshot)
    assert by_zone(tally, snapshot) == {"a": 6, "b": 3}
    assert by_zone(tally, snapshot, among) == {"a": 2, "b": 3}


def test_sums_are_made_anew_when_a_node_moves_to_another_domain() -> None:
    tally = DomainSums(Counting())
    snapshot = three_nodes(1, 2, 3)
    assert by_zone(tally, snapshot) == {"a": 4, "b": 2}
    moved = snapshot.with_nodes_changed({0: snapshot.rows[0].with_node(node("n0", labels={"zone": "c"}))})
    assert by_zone(tally, moved) == {"a": 3, "b": 2, "c": 1}
    assert by_zone(tally, snapshot) == {"a": 4, "b": 2, "c": 0}  # the table of values only grows


def test_nodes_that_stay_are_not_counted_again_when_others_come_and_go() -> None:
    count = Counting()
    tally = DomainSums(count)
    snapshot = three_nodes(1, 2, 3)
    tally.rows(snapshot)
    count.asked.clear()
    added = NodeInfo.of(node("n3", labels={"zone": "b"}), [pod("p3")])
    resized = snapshot.resized([0], [added])
    assert tally.rows(resized).tolist() == [2, 3, 1]
    assert by_zone(tally, resized) == {"a": 3, "b": 3}
    assert count.asked == ["n3"]


def test_the_sums_kept_are_bounded() -> None:
    tally = DomainSums(Counting())
    snapshot = three_nodes(1, 2, 3)
    masks = [np.array([True, True, number % 2 == 0]) for number in range(20)]
    for _ in range(2):
        for number, among in enumerate(masks):
            assert by_zone(tally, snapshot, among) == {"a": 4 if number % 2 == 0 else 1, "b": 2}
    assert len(tally._sums) <= 8


def test_a_snapshot_without_nodes_has_no_numbers() -> None:
    tally = DomainSums(Counting())
    assert tally.rows(Snapshot.of(())).tolist() == []
    assert tally.rows(three_nodes(1, 2, 3)).tolist() == [1, 2, 3]
    assert tally.rows(Snapshot.of(())).tolist() == []
