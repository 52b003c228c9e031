"""When pods leave tainted nodes, and how many nodes may be cleared."""

from __future__ import annotations

import pytest

from wharfinger.objects.model.node_evictions import admission, leaves, leaves_at, recently
from wharfinger.objects.model.selectors import Taint, Toleration

FLAKY, FULL = Taint("flaky", "", "NoExecute"), Taint("full", "disk", "NoExecute")


def tolerating(key: str, seconds: int | None = None, **more: str) -> Toleration:
    return Toleration(key, "Exists", effect="NoExecute", seconds=seconds, **more)


@pytest.mark.parametrize(
    ("tolerations", "at"),
    [
        pytest.param((), 0.0, id="tolerates nothing"),
        pytest.param((tolerating("flaky", 300),), 0.0, id="tolerates one of two"),
        pytest.param((tolerating("flaky"), tolerating("full")), None, id="tolerates both without end"),
        pytest.param((tolerating("flaky", 300), tolerating("full")), 1300.0, id="one of them for some time"),
        pytest.param((tolerating("flaky", 300), tolerating("full", 100)), 1200.0, id="the first end counts"),
        pytest.param((tolerating("flaky", 0), tolerating("full")), 0.0, id="for no time"),
        pytest.param((tolerating("flaky", -5), tolerating("full")), 0.0, id="for less than no time"),
        pytest.param((tolerating("", 60), tolerating("flaky")), 1060.0, id="of each taint the first match counts"),
        pytest.param((tolerating(""), tolerating("flaky", 60)), None, id="and no later one"),
    ],
)
def test_pod_leaves_as_kubernetes_evicts(tolerations: tuple[Toleration, ...], at: float | None) -> None:
    assert leaves_at(tolerations, {FLAKY: 1000.0, FULL: 1100.0}) == at
    assert leaves(tolerations, (FLAKY, FULL)) == (at is not None)


def test_nothing_counts_before_the_pod_was_bound() -> None:
    assert leaves_at((tolerating("flaky", 300),), {FLAKY: 1000.0}, bound_at=5000.0) == 5300.0


def test_node_without_taints_keeps_every_pod() -> None:
    assert leaves_at((), {}) is None


@pytest.mark.parametrize(("known", "allowed"), [(1, 1), (19, 1), (20, 2), (100, 10)])
def test_a_tenth_of_the_nodes_is_admitted_and_at_least_one(known: int, allowed: int) -> None:
    admitted: dict[str, float] = {}
    for number in range(known):
        found = admission(admitted, f"n{number}", now=float(number), window=1000.0, known=known)
        admitted = dict(found.admitted)

    assert len(admitted) == allowed
    assert admission(admitted, "n0", now=500.0, window=1000.0, known=known).wait == 0
    if known > allowed:
        assert admission(admitted, "later", now=500.0, window=1000.0, known=known).wait == 500.0


def test_admissions_end_with_the_window_and_wrong_clocks_block_no_node() -> None:
    assert recently({"old": 0.0, "new": 900.0, "ahead": 1e9}, now=1000.0, window=500.0) == {"new": 900.0}
