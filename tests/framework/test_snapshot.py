"""Snapshots: what is shared, what is new, and what a column answers."""

from __future__ import annotations

import numpy as np
import pytest

from wharfinger.framework.columns import Rows
from wharfinger.framework.interned import Interned
from wharfinger.framework.node_info import NodeInfo
from wharfinger.testing.builders import node, pod, snapshot

THREE = snapshot(node("b", labels={"zone": "1"}), node("a"), node("c"), a=[pod("x", cpu=100)])


def test_placing_a_pod_makes_a_new_snapshot() -> None:
    placed = THREE.place(pod("y", cpu=50, create_revision=2), "a")
    assert placed.requested("cpu").tolist() == [0, 150, 0]
    assert placed.requested("pods").tolist() == [0, 2, 0]
    assert THREE.requested("cpu").tolist() == [0, 100, 0]
    assert placed.node_columns is THREE.node_columns


def test_placing_on_a_node_that_is_not_there_is_an_error() -> None:
    with pytest.raises(KeyError):
        THREE.place(pod(), "z")


def test_a_resource_no_node_offers_is_zero_everywhere() -> None:
    assert THREE.allocatable("example.com/gpu").tolist() == [0, 0, 0]
    placed = THREE.place(pod("y", extended={"example.com/gpu": 2}), "c")
    assert placed.requested("example.com/gpu").tolist() == [0, 0, 0]
    offered = placed.with_nodes_changed({0: placed.rows[0].with_node(node("a", extended={"example.com/gpu": 8}))})
    assert offered.requested("example.com/gpu").tolist() == [0, 0, 2]
    assert THREE.requested("example.com/gpu").tolist() == [0, 0, 0]


def test_one_node_alone() -> None:
    alone = THREE.only("a")
    assert alone.names == ("a",)
    assert alone.requested("cpu").tolist() == [100]
    assert alone.revision == THREE.revision
    assert len(THREE.only("z")) == 0


def test_names_are_found_by_row_and_by_alphabet() -> None:
    assert THREE.names == ("b", "a", "c")
    assert THREE.index["c"] == 2
    assert THREE.node_columns.names.sorted_names == ("a", "b", "c")
    assert "a" in THREE
    assert THREE.node("z") is None


def test_a_label_that_is_absent_has_the_plain_code() -> None:
    zone = THREE.label("zone")
    assert zone.map(lambda value: value == "1", np.bool_).tolist() == [True, False, False]
    assert zone.code("1") > 0
    assert zone.code("9") == -1
    assert THREE.label("nobody-has-it").plain


def test_any_number_of_label_keys_may_be_asked_for() -> None:
    """Columns are dropped when there are too many, and made again when they are asked for again."""
    keys = {f"key-{number}": "x" for number in range(500)}
    nodes = snapshot(node("a", labels={"zone": "1", **keys}))
    first = nodes.label("zone")
    assert nodes.label("zone") is first
    for key in keys:
        assert not nodes.label(key).plain
    assert nodes.label("zone") is not first
    assert nodes.label("zone").values[nodes.label("zone").codes[0]] == "1"


def test_keys_that_no_node_has_share_a_column() -> None:
    """A pod may name thousands of them."""
    nodes = snapshot(node("a", labels={"zone": "1"}), node("b"))
    assert nodes.label("disk") is nodes.label("gen")
    assert nodes.label("disk").plain
    labelled = nodes.with_nodes_changed({1: nodes.rows[1].with_node(node("b", labels={"disk": "ssd"}))})
    assert labelled.label("disk").codes.tolist() == [0, 1]
    larger = nodes.resized({0}, [NodeInfo.of(node("c", labels={"disk": "ssd"}))])
    assert larger.label("disk").codes.tolist() == [0, 1]


def test_questions_are_asked_once_per_distinct_value() -> None:
    asked: list[str] = []
    column = Interned.of(["", "x", "x", "y", "x"], "")
    assert column.map(lambda value: asked.append(value) or len(value), np.int64).tolist() == [0, 1, 1, 1, 1]
    assert asked == ["", "x", "y"]


def test_table_with_values_of_no_node_is_built_again() -> None:
    column = Interned.of(["", ""], "")
    for number in range(5000):
        column = column.replaced({0: f"value-{number}"})
    assert len(column.values) < 1100
    assert column.values[column.codes[0]] == "value-4999"


def test_replacing_rows_leaves_the_original_alone() -> None:
    rows = Rows(range(200))
    changed = rows.replaced({0: -1, 199: -2})
    assert list(rows) == list(range(200))
    assert (changed[0], changed[1], changed[199]) == (-1, 1, -2)
    assert len(changed) == 200
