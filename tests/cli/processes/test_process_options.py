"""The options about lost pods and taints, as another process is told them."""

from __future__ import annotations

import pytest

from wharfinger.cli.processes.process_options import LostPodsChoice, node_eviction_arguments, node_evictions
from wharfinger.errors import UsageError
from wharfinger.settings import NodeEvictionSettings


def test_options_become_settings() -> None:
    assert node_evictions(LostPodsChoice.REQUEUE, "1m30s", True) == NodeEvictionSettings("requeue", 90.0, True)


@pytest.mark.parametrize("text", ["5", "", "0s", "25h", "-5m", "soon"])
def test_duration_that_is_none_or_out_of_bounds_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="--lost-after"):
        node_evictions(LostPodsChoice.REPORT, text, False)


def test_defaults_are_not_handed_on_to_instances_of_earlier_releases() -> None:
    assert node_eviction_arguments(LostPodsChoice.REPORT, "300s", False) == ()
    handed_on = node_eviction_arguments(LostPodsChoice.REQUEUE, "1m", True)
    assert handed_on == ("--lost-pods=requeue", "--lost-after=1m", "--taint-eviction")
