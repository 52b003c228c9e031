"""The options about lost pods and taints, as another process is told them."""

from __future__ import annotations

import pytest

from wharfinger.cli.processes.process_options import (
    EvictionChoice,
    LostPodsChoice,
    eviction_of,
    node_eviction_arguments,
    node_evictions,
)
from wharfinger.errors import UsageError
from wharfinger.model.formats import ClusterFormat
from wharfinger.settings import NodeEvictionSettings

KUBERNETES, RK8S = ClusterFormat.KUBERNETES, ClusterFormat.RK8S


def test_options_become_settings() -> None:
    assert node_evictions(KUBERNETES, LostPodsChoice.REQUEUE, "1m30s", True) == NodeEvictionSettings(
        "requeue", 90.0, True
    )


@pytest.mark.parametrize("text", ["5", "", "0s", "25h", "-5m", "soon"])
def test_duration_that_is_none_or_out_of_bounds_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="--lost-after"):
        node_evictions(KUBERNETES, LostPodsChoice.REPORT, text, False)


def test_defaults_are_not_handed_on_to_instances_of_earlier_releases() -> None:
    assert node_eviction_arguments(KUBERNETES, LostPodsChoice.REPORT, "300s", False) == ()
    handed_on = node_eviction_arguments(KUBERNETES, LostPodsChoice.REQUEUE, "1m", True)
    assert handed_on == ("--lost-pods=requeue", "--lost-after=1m", "--taint-eviction")


def test_clusters_of_rk8s_requeue_lost_pods_after_half_a_minute() -> None:
    assert node_evictions(RK8S, None, None, False) == NodeEvictionSettings("requeue", 30.0, False)
    assert node_evictions(RK8S, LostPodsChoice.REPORT, "5m", True) == NodeEvictionSettings("report", 300.0, True)
    assert node_eviction_arguments(RK8S, LostPodsChoice.REQUEUE, None, False) == ()
    assert node_eviction_arguments(RK8S, LostPodsChoice.REPORT, "5m", False) == (
        "--lost-pods=report",
        "--lost-after=5m",
    )


def test_pods_of_rk8s_are_evicted_at_once_for_they_carry_no_mark() -> None:
    assert eviction_of(RK8S, None) is EvictionChoice.IMMEDIATE
    assert eviction_of(KUBERNETES, None) is EvictionChoice.GRACEFUL
    with pytest.raises(UsageError, match="--eviction graceful: pods of rk8s carry no mark"):
        eviction_of(RK8S, EvictionChoice.GRACEFUL)
