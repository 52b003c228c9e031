"""Three workers bind ruled and plain pods of six namespaces while workers and etcd are killed.

Users only create pods, so nothing excuses a broken rule: `rules_judge` judges etcd's whole history.
"""

from __future__ import annotations

import json
import time
from pathlib import Path
from random import Random
from typing import Any

from tests.faults import ending
from tests.faults.ending import End
from tests.faults.judge import Violation
from tests.faults.nemesis import Nemesis
from tests.faults.population import HOSTNAME, ZONE, ZONES, affinity_term, required
from tests.faults.recorder import Recorder
from tests.faults.round import Result
from tests.faults.rules_judge import RulesJudge
from tests.faults.schedule import Fault, Kind
from tests.faults.settling import settle
from tests.faults.site import running
from tests.faults.story import node, pod
from tests.faults.writer import Away, Background, Writer
from tests.integration.gateway import Gateway
from wharfinger.etcd import keys

RACK = "example.com/rack"
RACKS = 15
PER_RACK = 2
"""Nodes of a rack: the binding versions of nodes do not guard what lies beyond one node."""
SPACES = tuple(f"space-{number}" for number in range(6))
WORKERS = 3
WAVE = {"apart": 1, "host": 1, "spread": 4, "near": 2, "plain": 6}
"""New pods of each namespace in a wave, by their rule; six namespaces together are enough for a cohort."""
BETWEEN = 1.2
"""Seconds between waves."""


def play(folder: Path, *, seed: int, seconds: float) -> Result:
    """Kill for so many seconds while pods come, let all come to rest, and judge."""
    began = time.monotonic()
    schedule = kills(seed, seconds)
    (folder / "schedule.txt").write_text("".join(f"{fault}\n" for fault in schedule))
    with running(folder, WORKERS) as site:
        recorder = Recorder(site.etcd_url, folder / "history.jsonl")
        recorder.start()
        waves = Waves(site.etcd_url, seed)
        nemesis = Nemesis(site, recorder, seed)
        try:
            waves.nodes()
            site.start_workers()
            waves.start()
            nemesis.run(schedule, seconds)
            waves.stop()
            settling = settle(recorder, site.temporal_address, nemesis.watch_over)
            unproven = recorder.prove(Gateway(site.etcd_url))
        finally:
            recorder.stop()
    (folder / "struck.json").write_text(json.dumps(nemesis.timeline.struck))
    judge = RulesJudge().take_all(recorder.revisions)
    violations = [
        *judge.violations,
        *settling.violations,
        *(Violation("record", 0, text) for text in unproven),
        *(Violation("worker", 0, text) for text in nemesis.deaths),
    ]
    return Result(
        seed=seed,
        faults=len(schedule),
        revisions=recorder.read,
        binds=judge.binds,
        excused=judge.excused,
        settled=settling.seconds,
        last=settling.last,
        breakdowns=nemesis.breakdowns,
        end=dict(ending.counts(End(recorder.latest(keys.ROOT)))),
        seconds=round(time.monotonic() - began, 1),
        violations=[str(violation) for violation in violations],
    )


def kills(seed: int, seconds: float) -> tuple[Fault, ...]:
    """A kill every two seconds, of a worker or now and then of etcd; beside them, watches that are late."""
    rng = Random(f"kills {seed}")
    found: list[Fault] = []
    moment = 1.5
    while moment + 2 < seconds:
        kind = rng.choices((Kind.KILL_WORKER, Kind.KILL_ETCD), (4, 1))[0]
        found.append(Fault(moment, round(rng.uniform(0.3, 1.2), 1), kind, rng.randrange(WORKERS)))
        if rng.random() < 0.5:
            found.append(Fault(moment + 0.1, round(rng.uniform(0.5, 1.5), 1), Kind.WATCH_ETCD, rng.randrange(WORKERS)))
        moment += 2.0
    return tuple(found)


class Waves(Background):
    """A thread that creates pods, a wave of all namespaces at a time."""

    def __init__(self, url: str, seed: int) -> None:
        self._rng = Random(f"waves {seed}")
        self._writer = Writer(url)
        super().__init__("waves")

    def nodes(self) -> None:
        """Racks of nodes in three zones."""
        made = []
        for number in range(RACKS * PER_RACK):
            rack = number % RACKS
            each = node(f"n{number:02}", ZONES[rack % len(ZONES)], cpu="64", pods="110")
            each["metadata"]["labels"] |= {RACK: f"rack-{rack}", HOSTNAME: f"n{number:02}"}
            made.append(each)
        self._writer.create(*made)

    def _run(self) -> None:
        number = 0
        while not self._stop.is_set():
            for pods in self._wave(number):
                self._create(pods)
            number += 1
            self._stop.wait(BETWEEN)

    def _wave(self, number: int) -> list[list[dict[str, Any]]]:
        """New pods of each namespace, the namespaces in any order."""
        return [
            [
                pod(f"{kind}-{number}-{each}", space, cpu="50m", labels={"app": kind}, **rules(kind))
                for kind, many in WAVE.items()
                for each in range(many)
            ]
            for space in self._rng.sample(SPACES, len(SPACES))
        ]

    def _create(self, pods: list[dict[str, Any]]) -> None:
        """Until etcd answered; a create that was done and not answered is refused the second time."""
        while not self._stop.is_set():
            try:
                self._writer.create(*pods)
                return
            except Away:
                self._stop.wait(0.1)


def rules(kind: str) -> dict[str, Any]:
    """What a pod of this kind asks for; those that keep apart by rack do so from those of all six namespaces."""
    match kind:
        case "apart":
            return required("podAntiAffinity", affinity_term(RACK, kind, namespaces=list(SPACES)))
        case "host":
            return required("podAntiAffinity", affinity_term(HOSTNAME, kind))
        case "near":
            return required("podAffinity", affinity_term(ZONE, kind))
        case "spread":
            selector = {"matchLabels": {"app": kind}}
            constraint = {"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule"}
            return {"topologySpreadConstraints": [constraint | {"labelSelector": selector}]}
        case _:
            return {}
