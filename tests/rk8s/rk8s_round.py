"""A round with rk8s: SIGKILL of a worker, of Temporal and of etcd amid 300 pods, judged by etcd's own history."""

from __future__ import annotations

import time
from pathlib import Path
from random import Random

from tests.faults.recorder import Recorder
from tests.faults.round import Result
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


def play(folder: Path, *, cohorts: bool, seed: int = 0) -> Result:
    """Kill each of them once; which one first comes from the seed, and 0 is worker, Temporal, etcd."""
    began = time.monotonic()
    with running(folder, 2, "--format", "rk8s", "--cohorts", "auto" if cohorts else "off") as site:
        gateway = Gateway(site.etcd_url)
        recorder = Recorder(site.etcd_url, folder / "history.jsonl")
        recorder.start()
        pending: list[int] = []
        """Pods that waited when something was killed."""
        victims = [site.workers[0].process, site.temporal, site.etcd]
        if seed:
            Random(f"victims {seed}").shuffle(victims)
        try:
            gateway.put_all(
                {f"{keys.NODES}n{one}": docs.document(docs.node(f"n{one}", cpu="8")) for one in range(NODES)}
            )
            site.start_workers()
            for turn, victim in enumerate(victims):
                _put(gateway, range(turn * STRUCK, (turn + 1) * STRUCK))
                assert recorder.until(lambda at=turn: _bound(recorder) > at * STRUCK, patient(60)), "the first is bound"
                pending.append((turn + 1) * STRUCK - _bound(recorder))
                _kill(victim)
            assert recorder.until(lambda: _bound(recorder) == PODS, patient(120)), f"{PODS} pods are bound"
            assert recorder.until(lambda: not recorder.latest(keys.ATTEMPTS), patient(30)), "no attempt record is left"
            unproven = recorder.prove(gateway)
            judge = Rk8sJudge().take_all(recorder.revisions)
        finally:
            recorder.stop()
    # One transaction may have bound the last pods of a cohort; on other seeds the machine may have been as fast.
    assert cohorts or seed or all(pending)
    return Result(
        seed,
        faults=len(victims),
        revisions=recorder.read,
        binds=len(judge.bound),
        seconds=round(time.monotonic() - began, 1),
        violations=[*unproven, *judge.violations],
    )


def _bound(recorder: Recorder) -> int:
    return sum(one.value is not None and PENDING not in one.value for one in recorder.latest(keys.PODS))


def _put(gateway: Gateway, numbers: range) -> None:
    """In one transaction, so that they are all pending when the first one is bound."""
    pods = {f"p{number:03}": docs.pod(f"p{number:03}", cpu="500m", memory="64Mi") for number in numbers}
    gateway.put_all({f"{keys.PODS}{name}": docs.document(one) for name, one in pods.items()})


def _kill(process: Process) -> None:
    """SIGKILL; its successor starts at once, as a supervisor does it."""
    process.kill()
    process.start()
    process.wait_up(60)
