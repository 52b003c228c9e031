"""Short storms, each on a seed, judged from etcd's own history; `make soak` plays long ones.

A violation that was ever found leaves its seed here.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.faults.round import Plan, play
from tests.faults.schedule import Fault, Kind

pytestmark = [pytest.mark.servers, pytest.mark.timeout(240)]

STORMS = [Plan(seed=11, seconds=12, every=1.2, longest=5), Plan(seed=12, seconds=12, every=1.2, longest=5)]


@pytest.mark.parametrize("plan", STORMS, ids=lambda plan: f"seed {plan.seed}")
def test_a_storm_breaks_nothing(plan: Plan, tmp_path: Path) -> None:
    result = play(plan, tmp_path)

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
