"""A worker that is stopped in the very middle of a bind, while the world goes on, and then continued.

Its transaction is caught on the way (or the answer to it); then the worker is stopped, its lease runs out, its pods are
deleted and made again, others take the room. What was caught is let go only after that.
"""

from __future__ import annotations

import base64
import json
import signal
import time
from enum import StrEnum
from pathlib import Path
from typing import Any

from tests.faults.judge import GROUP, MIN_AVAILABLE, Judge, Violation
from tests.faults.proxy import Trap
from tests.faults.recorder import Recorder
from tests.faults.round import Result
from tests.faults.settling import settle
from tests.faults.site import LEASE_TTL, Site, WorkerSite, running
from tests.faults.story import node, pod
from tests.faults.timeline import Timeline
from tests.faults.writer import Writer, key_of
from tests.integration.dev_tree import wait_until
from tests.integration.gateway import PODS, Gateway
from wharfinger.etcd import keys

BAIT = base64.b64encode(keys.BINDINGS.encode())[: len(keys.BINDINGS) // 3 * 4]
"""How the key of a binding version begins on its way through etcd's JSON gateway: only binds write it."""
AFTER = 40
"""Pods that come once the worker goes on."""


class Company(StrEnum):
    """Who is bound in the transaction that is caught."""

    ALONE = "alone"
    COHORT = "cohort"
    GANG = "gang"

    def pods(self, name: str, life: int = 1) -> list[dict[str, Any]]:
        """So many that the one node there is has room for just them."""
        labels = {GROUP: name, MIN_AVAILABLE: str(SIZES[self])} if self is Company.GANG else {}
        found = [pod(f"{name}-{number:02}", labels=labels) for number in range(SIZES[self])]
        for each in found:
            each["metadata"]["uid"] += f"-{life}"
        return found


SIZES = {Company.ALONE: 1, Company.COHORT: 30, Company.GANG: 5}
"""Pods; workers make cohorts of 24 or more."""


def play(folder: Path, *, seconds: float, answer: bool, company: Company, seed: int = 0) -> Result:
    """Stop a worker for so long in the middle of a bind; `answer`: etcd has done it and the worker does not know."""
    began = time.monotonic()
    with running(folder, 2) as site:
        recorder = Recorder(site.etcd_url, folder / "history.jsonl")
        recorder.start()
        try:
            site.start_workers()
            since = time.time()
            _story(site, seconds=seconds, answer=answer, company=company)
            timeline = Timeline([(since, time.time() + 30)])  # however long it took: the worker was away in it
            settling = settle(recorder, site.temporal_address, lambda: None)
            unproven = recorder.prove(Gateway(site.etcd_url))
        finally:
            recorder.stop()
        ended = [each.process.name for each in site.workers if each.process.exit_code is not None]
    (folder / "struck.json").write_text(json.dumps(timeline.struck))
    judge = Judge(timeline.known_since).take_all(recorder.revisions)
    violations = [
        *judge.violations,
        *settling.violations,
        *(Violation("record", 0, text) for text in unproven),
        *(Violation("worker", 0, f"{name} ended by itself") for name in ended),
    ]
    return Result(
        seed=seed,
        faults=1,
        revisions=recorder.read,
        binds=judge.binds,
        settled=settling.seconds,
        last=settling.last,
        seconds=round(time.monotonic() - began, 1),
        violations=[str(violation) for violation in violations],
    )


def _story(site: Site, *, seconds: float, answer: bool, company: Company) -> None:
    writer, gateway = Writer(site.etcd_url), Gateway(site.etcd_url)
    traps = {worker: Trap(BAIT, answer) for worker in site.workers}
    for worker, trap in traps.items():
        worker.to_etcd.lay(trap)
    writer.create(node("only", cpu=f"{600 * SIZES[company]}m", pods="110"))
    first = company.pods("first")
    writer.create(*first)
    wait_until(lambda: any(trap.sprung.is_set() for trap in traps.values()), 20, "a bind on its way")
    caught = next(worker for worker, trap in traps.items() if trap.sprung.is_set())
    caught.process.signal(signal.SIGSTOP)
    stopped = time.monotonic()
    for worker in site.workers:
        worker.to_etcd.lay(None)
    if answer:
        wait_until(lambda: any(_bound(gateway, first)), 10, "the transaction went through")
    _take_its_place(gateway, writer, company, seconds)
    time.sleep(max(0.0, stopped + seconds - time.monotonic()))
    _go_on(caught, traps[caught])
    after = [pod(f"after-{number:02}", cpu="100m") for number in range(AFTER)]
    # Room for those that wait too: their order is not promised.
    writer.create(*(node(f"n{number}", cpu="16", pods="40") for number in range(3)))
    writer.create(*after)
    wait_until(lambda: all(_bound(gateway, after)), 40, "life goes on")


def _take_its_place(gateway: Gateway, writer: Writer, company: Company, seconds: float) -> None:
    """The pods are gone, or in another life; others get the room that they were promised."""
    for each in company.pods("first"):
        gateway.delete(key_of(each))
    second = company.pods("second")
    writer.create(*second)
    wait_until(lambda: all(_bound(gateway, second)), max(seconds, LEASE_TTL + 30), "the other worker takes over")
    writer.create(*company.pods("first", life=2))


def _go_on(worker: WorkerSite, trap: Trap) -> None:
    """What was caught reaches etcd, or the worker, and then the worker finds out that it was away."""
    worker.to_etcd.release(trap)
    time.sleep(0.5)
    worker.process.signal(signal.SIGCONT)


def _bound(gateway: Gateway, pods: list[dict[str, Any]]) -> list[bool]:
    """Which of these pods are."""
    there = gateway.objects(f"{PODS}default/")
    return [bool(there.get(key_of(each), {"spec": {}})["spec"].get("nodeName")) for each in pods]
