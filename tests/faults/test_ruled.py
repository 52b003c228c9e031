"""Rules across nodes hold at every revision while workers and etcd are killed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.faults import ruled

pytestmark = [pytest.mark.servers, pytest.mark.timeout(240)]


def test_three_workers_of_six_namespaces_are_killed_and_break_no_rule(tmp_path: Path) -> None:
    result = ruled.play(tmp_path, seed=1, seconds=12)

    assert result.violations == []
    assert result.excused == 0
    assert result.binds > 300
    assert result.faults > 4
