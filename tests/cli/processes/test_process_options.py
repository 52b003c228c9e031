"""The options about lost pods and taints, as another process is told them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from wharfinger.cli.processes.process_options import NodeEvictionOptions, SchedulingOptions, eviction_of
from wharfinger.errors import UsageError
from wharfinger.objects.model.formats import ClusterFormat
from wharfinger.options import arguments
from wharfinger.settings import NodeEvictionSettings

KUBERNETES, RK8S = ClusterFormat.KUBERNETES, ClusterFormat.RK8S


def test_options_become_settings() -> None:
    chosen = NodeEvictionOptions("requeue", "1m30s", taint_eviction=True)
    assert chosen.settings(KUBERNETES) == NodeEvictionSettings("requeue", 90.0, True)


@pytest.mark.parametrize("text", ["5", "", "0s", "25h", "-5m", "soon"])
def test_duration_that_is_none_or_out_of_bounds_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="--lost-after"):
        NodeEvictionOptions("report", text).settings(KUBERNETES)


def test_defaults_are_not_handed_on_to_instances_of_earlier_releases() -> None:
    assert arguments(NodeEvictionOptions("report", "300s").handed_on(KUBERNETES)) == ()
    handed_on = NodeEvictionOptions("requeue", "1m", taint_eviction=True).handed_on(KUBERNETES)
    assert arguments(handed_on) == ("--lost-pods=requeue", "--lost-after=1m", "--taint-eviction")


def test_clusters_of_rk8s_requeue_lost_pods_after_half_a_minute() -> None:
    reported = NodeEvictionOptions("report", "5m")
    assert NodeEvictionOptions().settings(RK8S) == NodeEvictionSettings("requeue", 30.0, False)
    assert reported.settings(RK8S) == NodeEvictionSettings("report", 300.0, False)
    assert arguments(NodeEvictionOptions("requeue").handed_on(RK8S)) == ()
    assert arguments(reported.handed_on(RK8S)) == ("--lost-pods=report", "--lost-after=5m")


def test_pods_of_rk8s_are_evicted_at_once_for_they_carry_no_mark() -> None:
    assert eviction_of(RK8S, None) == "immediate"
    assert eviction_of(KUBERNETES, None) == "graceful"
    with pytest.raises(UsageError, match="--eviction graceful: pods of rk8s carry no mark"):
        eviction_of(RK8S, "graceful")


def test_instances_get_what_is_not_the_default_but_no_configuration() -> None:
    chosen = SchedulingOptions(format=RK8S, config=Path("file"), all_plugins=True, cohorts=False, max_txn_ops=500)

    assert SchedulingOptions().handed_on() == ()
    assert chosen.handed_on() == ("--format=rk8s", "--plugins=all", "--cohorts=off")
    with pytest.raises(UsageError, match="--eviction graceful"):
        replace(chosen, eviction="graceful").handed_on()
