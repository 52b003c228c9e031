"""SIGKILL of a worker, of Temporal and of etcd in the middle of 300 pods of rk8s; judged by etcd's own history."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.faults.recorder import Recorder
from tests.faults.site import Process, running
from tests.integration.gateway import Gateway
from tests.patience import patient
from tests.rk8s import rk8s_documents as docs
from tests.rk8s.rk8s_judge import PENDING, Rk8sJudge
from wharfinger.etcd import keys

NODES = 20
PODS = 300
"""Each of half a core; the nodes have room for twenty more."""
STRUCK = 100
"""Pods put at a time, in the middle of which something is killed."""


def pods_of(recorder: Recorder) -> dict[str, bytes]:
    return {one.key: one.value for one in recorder.latest(keys.PODS) if one.value is not None}


def bound(recorder: Recorder) -> int:
    return sum(PENDING not in value for value in pods_of(recorder).values())


@pytest.mark.servers
@pytest.mark.timeout(300)
@pytest.mark.parametrize("cohorts", ["off", "auto"])
def test_nothing_is_lost_doubled_or_overcommitted(tmp_path: Path, cohorts: str) -> None:
    with running(tmp_path, 2, "--format", "rk8s", "--cohorts", cohorts) as site:
        gateway = Gateway(site.etcd_url)
        recorder = Recorder(site.etcd_url, tmp_path / "history.jsonl")
        recorder.start()
        pending: list[int] = []
        """Pods that waited when something was killed."""
        try:
            gateway.put_all(
                {f"{keys.NODES}n{one}": docs.document(docs.node(f"n{one}", cpu="8")) for one in range(NODES)}
            )
            site.start_workers()
            for turn, victim in enumerate((site.workers[0].process, site.temporal, site.etcd)):
                put(gateway, range(turn * STRUCK, (turn + 1) * STRUCK))
                assert recorder.until(lambda at=turn: bound(recorder) > at * STRUCK, patient(60)), "the first is bound"
                pending.append((turn + 1) * STRUCK - bound(recorder))
                kill(victim)
            assert recorder.until(lambda: bound(recorder) == PODS, patient(120)), f"{PODS} pods are bound"
            assert recorder.until(lambda: not recorder.latest(keys.ATTEMPTS), patient(30)), "no attempt record is left"
            assert recorder.prove(gateway) == []
            judge = Rk8sJudge().take_all(recorder.revisions)
        finally:
            recorder.stop()
    assert judge.violations == []
    assert len(judge.bound) == PODS
    assert cohorts == "auto" or all(pending)  # one transaction may have bound the last pods of a cohort


def put(gateway: Gateway, numbers: range) -> None:
    """In one transaction, so that they are all pending when the first one is bound."""
    pods = {f"p{number:03}": docs.pod(f"p{number:03}", cpu="500m", memory="64Mi") for number in numbers}
    gateway.put_all({f"{keys.PODS}{name}": docs.document(one) for name, one in pods.items()})


def kill(process: Process) -> None:
    """SIGKILL; its successor starts at once, as a supervisor does it."""
    process.kill()
    process.start()
    process.wait_up(60)
