"""A worker stopped in the middle of a bind, and one whose watch stalls, do no harm.

Shorter than in `make soak`: leases of 3 s run out all the same, and etcd's calls are given up.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.faults import stopped
from tests.faults.round import Plan, play
from tests.faults.schedule import Fault, Kind

pytestmark = pytest.mark.timeout(180)


@pytest.mark.parametrize("answer", [False, True], ids=["request on its way", "answer on its way"])
def test_a_worker_stopped_in_the_middle_of_a_bind_does_no_harm(tmp_path: Path, answer: bool) -> None:
    assert stopped.play(tmp_path, seconds=8, answer=answer).violations == []


def test_a_worker_whose_watch_stalls_does_no_harm(tmp_path: Path) -> None:
    stall = Fault(2, 8, Kind.WATCH_ETCD, worker=0)
    forget = Fault(9, 0, Kind.COMPACT)

    result = play(Plan(7, 11, only=(stall, forget)), tmp_path)

    assert result.violations == []
    assert result.binds > 50
    assert result.compactions == 1
