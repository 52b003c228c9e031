"""Short rounds of faults, one of each kind, judged from etcd's own history; `make soak` plays long ones on new seeds.

A violation that was ever found leaves its seed here.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.faults import ruled
from tests.faults.round import Plan, play
from tests.faults.schedule import Fault, Kind
from tests.rk8s import rk8s_round

pytestmark = [pytest.mark.servers, pytest.mark.timeout(240)]


def test_a_storm_breaks_nothing(tmp_path: Path) -> None:
    result = play(Plan(seed=11, seconds=12, every=1.2, longest=5), tmp_path)

    assert result.violations == []
    assert result.binds > 50
    assert result.faults > 4


def test_storm_with_lost_nodes_loses_no_pod(tmp_path: Path) -> None:
    """Nodes vanish and come while workers and servers are killed, stopped and cut off."""
    result = play(Plan(seed=13, seconds=25, every=2.0, longest=5, requeue=True), tmp_path)

    assert result.violations == []
    assert result.requeued > 0
    assert result.binds > 50


def test_a_worker_whose_watch_stalls_does_no_harm(tmp_path: Path) -> None:
    stall = Fault(2, 8, Kind.WATCH_ETCD, worker=0)
    forget = Fault(9, 0, Kind.COMPACT)

    result = play(Plan(7, 11, only=(stall, forget)), tmp_path)

    assert result.violations == []
    assert result.binds > 50
    assert result.compactions == 1


def test_three_workers_of_six_namespaces_are_killed_and_break_no_rule(tmp_path: Path) -> None:
    """Rules across nodes hold at every revision while workers and etcd are killed."""
    result = ruled.play(tmp_path, seed=1, seconds=12)

    assert result.violations == []
    assert result.excused == 0
    assert result.binds > 300
    assert result.faults > 4


@pytest.mark.timeout(300)
@pytest.mark.parametrize("cohorts", [True, False])
def test_rk8s_pods_are_neither_lost_nor_bound_twice_nor_overcommitted(tmp_path: Path, *, cohorts: bool) -> None:
    result = rk8s_round.play(tmp_path, cohorts=cohorts)

    assert result.violations == []
    assert result.binds == rk8s_round.PODS
