"""benchmarks/kubernetes_conformance.py from its start to its tables, on real servers and one recorded scenario."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.apiserver import api_server_process
from tests.benchmarks.test_kubernetes_run import processes_that_name, started
from tests.patience import patient
from wharfinger.dev import binaries

pytestmark = [pytest.mark.servers, pytest.mark.timeout(patient(240))]

ALL_EQUAL = ["preemption", *["19"] * 7, "100.00", "%", "0"]
"""Of 19 pods, 13 are bound at once, three preempt, and three are refused."""


def test_both_schedulers_decide_a_scenario_as_it_was_recorded(tmp_path: Path) -> None:
    if api_server_process.missing() or binaries.at_hand(binaries.KUBE_SCHEDULER) is None:
        pytest.skip("no kube-apiserver and kube-scheduler: `make kubernetes-servers` builds them")
    process = started(tmp_path, "kubernetes_conformance.py", "--beside", "--files=preemption", "--seeds=8")
    out, err = process.communicate(timeout=patient(220))

    assert process.returncode == 0, err
    lines = [line.split() for line in out.splitlines() if line]
    assert [line for line in lines if line[0] == "preemption"] == [ALL_EQUAL, ALL_EQUAL]
    assert [line for line in lines if line[0] in ("wharfinger", "kube-scheduler")] == [
        ["wharfinger"],
        ["kube-scheduler"],
    ]
    assert not any(line[0] in ("differs", "apart") for line in lines), out
    assert lines[-1][-3:] == ["3", "of", "3"]
    assert list(processes_that_name(tmp_path)) == []
    assert list(tmp_path.iterdir()) == []
