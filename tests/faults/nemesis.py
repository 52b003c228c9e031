"""Strikes as the schedule says, and remembers when it really did."""

from __future__ import annotations

import http.client
import logging
import signal
import time
from collections.abc import Callable
from random import Random

from tests.faults.proxy import Mode, Proxy
from tests.faults.recorder import Recorder
from tests.faults.schedule import Fault, Kind
from tests.faults.site import Process, Site
from tests.faults.timeline import Timeline
from tests.integration.gateway import Gateway

log = logging.getLogger(__name__)

DRAIN = 3.0
"""Seconds that a worker still has when its draining is to be over; then it is killed."""
COMPACTION = 3.0
"""Seconds for a compaction: an etcd that is stopped responds to none, and the other faults must end in time."""
MODES = {"cut": Mode.CUT, "stall": Mode.STALL, "deaf": Mode.DEAF, "watch": Mode.WATCH}


class Nemesis:
    """Carries out one schedule, in the thread that starts the processes."""

    def __init__(self, site: Site, recorder: Recorder, seed: int, clock: Callable[[], float] = time.time) -> None:
        self._site = site
        self._recorder = recorder
        self._gateway = Gateway(site.etcd_url, COMPACTION)
        self._rng = Random(f"compactions {seed}")
        self._clock = clock
        self._down: set[Process] = set()
        """Ended by us; a process that ended and is not here ended by itself."""
        self.timeline = Timeline()
        self.deaths: list[str] = []
        """Workers that ended by themselves."""
        self.breakdowns: list[str] = []
        """Servers that did: no fault of ours, but worth to be told."""
        self.compactions = 0

    def run(self, schedule: tuple[Fault, ...], seconds: float) -> None:
        """Strike, and be over after so many seconds: all runs, all ways are open."""
        begin = time.monotonic()
        moments = sorted(
            [(fault.at, 0, number) for number, fault in enumerate(schedule)]
            + [(fault.end, 1, number) for number, fault in enumerate(schedule)]
        )
        began: dict[int, float] = {}
        for at, is_end, number in moments:
            self._sleep_until(begin + at)
            fault = schedule[number]
            log.info("%s %s", "end of" if is_end else "begin", fault)
            if is_end:
                self._end(fault)
                self.timeline.struck.append((began[number], self._clock()))
            else:
                began[number] = self._clock()
                self._begin(fault)
        self._sleep_until(begin + seconds)

    def watch_over(self) -> None:
        """Start again what ended by itself, as any supervisor does, and note it."""
        servers = (self._site.etcd, self._site.temporal)
        for process in (*servers, *(worker.process for worker in self._site.workers)):
            if process not in self._down and process.exit_code is not None:
                text = f"{process.name} ended by itself ({process.exit_code}): {process.said[-500:]}"
                (self.breakdowns if process in servers else self.deaths).append(text)
                process.start()

    def _sleep_until(self, moment: float) -> None:
        while (left := moment - time.monotonic()) > 0:
            self.watch_over()
            time.sleep(min(left, 0.25))

    def _begin(self, fault: Fault) -> None:
        action = fault.kind.partition("-")[0]
        if fault.kind is Kind.COMPACT:
            self._compact()
        elif action in MODES:
            self._way(fault).set(MODES[action])
        else:
            self._strike(self._process(fault), action)

    def _strike(self, process: Process, action: str) -> None:
        if action == "stop":
            process.signal(signal.SIGSTOP)
            return
        self._down.add(process)
        if action == "drain":
            process.signal(signal.SIGTERM)
        else:
            process.kill()

    def _end(self, fault: Fault) -> None:
        action = fault.kind.partition("-")[0]
        if fault.kind is Kind.COMPACT:
            return
        if action in MODES:
            self._way(fault).set(Mode.OPEN)
            return
        process = self._process(fault)
        if action == "stop":
            process.signal(signal.SIGCONT)
            return
        if action == "drain":
            process.end(DRAIN)
        process.start()
        self._down.discard(process)

    def _process(self, fault: Fault) -> Process:
        match fault.kind.partition("-")[2]:
            case "etcd":
                return self._site.etcd
            case "temporal":
                return self._site.temporal
            case _:
                return self._site.workers[fault.worker].process

    def _way(self, fault: Fault) -> Proxy:
        worker = self._site.workers[fault.worker]
        return worker.to_etcd if fault.kind.endswith("etcd") else worker.to_temporal

    def _compact(self) -> None:
        """As far as the record goes, or nearly: what etcd forgets is written down."""
        revision = self._recorder.read - self._rng.choice((0, 0, 10, 100))
        if revision < 2:
            return
        try:
            self._gateway.call("/kv/compaction", {"revision": str(revision)})
            self.compactions += 1
        except (OSError, http.client.HTTPException, RuntimeError, ValueError) as error:
            log.info("no compaction: %s", error)
