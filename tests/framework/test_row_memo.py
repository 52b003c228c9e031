"""Numbers kept row by row: derived anew where a row changed, and nowhere else."""

from __future__ import annotations

from tests.framework.objects import node, pod, snapshot
from wharfinger.framework.node_info import NodeInfo
from wharfinger.framework.row_memo import RowMemo, Tally

ZONE = "zone"
FOUR = snapshot(*(node(f"n{number}", labels={ZONE: "ab"[number % 2]}) for number in range(4)), n1=[pod("old")])


class Counter:
    """How many pods a node has, and how often that was asked."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def __call__(self, info: NodeInfo) -> int:
        self.asked.append(info.node.name)
        return len(info.pods)


def test_only_changed_rows_are_counted_again() -> None:
    counter = Counter()
    tally = Tally(counter)
    assert tally.rows(FOUR).tolist() == [0, 1, 0, 0]
    counter.asked.clear()
    assert tally.rows(FOUR.place(pod("new"), "n3")).tolist() == [0, 1, 0, 1]
    assert counter.asked == ["n3"]
    assert tally.rows(FOUR).tolist() == [0, 1, 0, 0]


def test_what_was_handed_out_stays_true() -> None:
    tally = Tally(Counter())
    before, sums = tally.rows(FOUR), tally.sums(FOUR, ZONE)
    after = FOUR.place(pod("new"), "n0")
    assert (tally.rows(after).tolist(), tally.sums(after, ZONE).tolist()) == ([1, 1, 0, 0], [0, 1, 1])
    assert (before.tolist(), sums.tolist()) == ([0, 1, 0, 0], [0, 0, 1])


def test_sums_follow_a_node_into_another_domain() -> None:
    tally = Tally(Counter())
    tally.sums(FOUR, ZONE)
    moved = FOUR.with_nodes_changed({1: FOUR.rows[1].with_node(node("n1", labels={ZONE: "a"}))})
    labels = moved.label(ZONE)
    assert tally.sums(moved, ZONE)[labels.code("a")] == 1
    assert tally.sums(moved, ZONE)[labels.code("b")] == 0


def test_other_nodes_are_counted_from_nothing() -> None:
    tally = Tally(Counter())
    tally.rows(FOUR)
    smaller = FOUR.resized({0}, [NodeInfo.of(node("n9"), [pod("x"), pod("y")])])
    assert tally.rows(smaller).tolist() == [1, 0, 0, 2]


def test_a_heart_beat_moves_no_row() -> None:
    memo = RowMemo()
    memo.moved(FOUR)
    beaten = FOUR.with_pods_changed({0: FOUR.rows[0].with_node(node("n0", labels={ZONE: "a"}, mod_revision=7))})
    moved = memo.moved(beaten)
    assert moved is not None
    assert moved.tolist() == []
