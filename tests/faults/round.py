"""One round: a site, its users, its faults, a time to settle, the judgement."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from random import Random

from temporalio.client import Client

from tests.faults import decisions, ending
from tests.faults.driver import Driver
from tests.faults.ending import End
from tests.faults.judge import Judge, Violation
from tests.faults.kubelet import Kubelet
from tests.faults.nemesis import Nemesis
from tests.faults.pulse import Pulse
from tests.faults.recorder import Recorder
from tests.faults.schedule import Fault, draw
from tests.faults.settling import settle
from tests.faults.site import running
from tests.integration.gateway import Gateway
from wharfinger.etcd import keys


@dataclass(frozen=True, slots=True)
class Plan:
    """What a round is made of; with the seed, all of its faults."""

    seed: int
    seconds: float
    """That faults strike."""
    workers: int = 2
    every: float = 2.5
    """Seconds between faults, on average."""
    longest: float = 60.0
    """Seconds of a fault, at most."""
    stretch: float = 1.0
    """How many times as long as usual they last."""
    cohorts: bool = True
    """Whether workers may decide and commit many pods together."""
    requeue: bool = False
    """Whether workers requeue the pods of nodes that are gone."""
    only: tuple[Fault, ...] = ()
    """These faults, instead of drawn ones."""

    @property
    def schedule(self) -> tuple[Fault, ...]:
        if self.only:
            return self.only
        return draw(self.seed, self.seconds, self.workers, every=self.every, longest=self.longest, stretch=self.stretch)

    @property
    def options(self) -> tuple[str, ...]:
        """Of every worker."""
        requeue = ("--lost-pods", "requeue", "--lost-after", "1s") if self.requeue else ()
        return (*(() if self.cohorts else ("--cohorts", "off")), *requeue)


def plan_for_soak(seed: int) -> Plan:
    """Rounds of different lengths, with two workers or three; in some, few faults last up to a minute.

    One in four has an attempt for every single pod, and in another one in four the pods of lost nodes are requeued.
    """
    requeue = Random(f"requeue {seed}").random() < 0.25
    rng = Random(f"plan {seed}")
    cohorts = rng.random() > 0.25
    workers = rng.choice((2, 2, 3))
    if rng.random() < 0.15:
        return Plan(seed, 100, workers, every=8, stretch=4, cohorts=cohorts, requeue=requeue)
    return Plan(seed, rng.uniform(30, 75), workers, rng.uniform(1.2, 4.0), cohorts=cohorts, requeue=requeue)


@dataclass(slots=True)
class Result:
    """What became of a round."""

    seed: int
    faults: int = 0
    revisions: int = 0
    binds: int = 0
    evictions: int = 0
    requeued: int = 0
    excused: int = 0
    dated: int = 0
    """Decisions for nodes that were made again, read from their histories."""
    compactions: int = 0
    beats: int = 0
    settled: float = 0.0
    """Seconds it took after the last fault."""
    last: list[str] = field(default_factory=list)
    """What was done last."""
    seconds: float = 0.0
    end: dict[str, int] = field(default_factory=dict)
    strays: list[str] = field(default_factory=list)
    """Chains that no pod needs and that no worker has ended yet."""
    breakdowns: list[str] = field(default_factory=list)
    """Servers that ended by themselves, and were started again."""
    violations: list[str] = field(default_factory=list)


def play(plan: Plan, folder: Path, say: Callable[[str], object] = lambda _: None) -> Result:
    """Play a round on a new folder; what it leaves there tells the story of a violation."""
    began = time.monotonic()
    result = Result(plan.seed, faults=len(plan.schedule))
    (folder / "schedule.txt").write_text("".join(f"{fault}\n" for fault in plan.schedule))
    with running(folder, plan.workers, *plan.options) as site:
        recorder = Recorder(site.etcd_url, folder / "history.jsonl")
        recorder.start()
        driver = Driver(site.etcd_url, recorder, plan.seed, losing=plan.requeue)
        kubelet = Kubelet(site.etcd_url, recorder, plan.seed, collects=not plan.requeue)
        nemesis = Nemesis(site, recorder, plan.seed)
        try:
            site.start_workers()
            with Pulse(site.workers, nemesis.timeline):
                driver.begin()
                driver.start()
                kubelet.start()
                say("faults")
                nemesis.run(plan.schedule, plan.seconds)
                driver.stop()
                kubelet.jobs_end = False
                say("settling")
                settling = settle(recorder, site.temporal_address, nemesis.watch_over)
                result.settled, result.last = settling.seconds, settling.last
                kubelet.stop()
            say("judging")
            end = End(recorder.latest(keys.ROOT))
            result.strays = asyncio.run(_strays(end, site.temporal_address))
            unproven = recorder.prove(Gateway(site.etcd_url))
            judge = Judge(nemesis.timeline.known_since).take_all(recorder.revisions)
            dated = asyncio.run(decisions.outdated(judge.on_new_nodes, site.etcd_url, site.temporal_address))
        finally:
            recorder.stop()
    (folder / "struck.json").write_text(json.dumps(nemesis.timeline.struck))
    result.revisions, result.binds, result.excused = recorder.read, judge.binds, judge.excused
    result.dated, result.evictions, result.requeued = dated.read, judge.evictions, judge.requeues.count
    result.breakdowns = nemesis.breakdowns
    result.compactions, result.beats = nemesis.compactions, kubelet.beats
    result.end = dict(ending.counts(end))
    violations = [
        *(Violation("record", 0, text) for text in unproven),
        *(Violation("worker", 0, text) for text in nemesis.deaths),
        *judge.violations,
        *dated.violations,
        *settling.violations,
    ]
    result.violations = [str(violation) for violation in violations]
    result.seconds = round(time.monotonic() - began, 1)
    (folder / "result.json").write_text(json.dumps(asdict(result), indent=1))
    return result


async def _strays(end: End, temporal: str) -> list[str]:
    return await ending.strays(end, await Client.connect(temporal))
