"""A world whose decisions are recorded as workflows would record them, and replayed from its store's history."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.scheduling.world import CLUSTER, PROFILES, Hand, World
from wharfinger.etcd import keys
from wharfinger.replay.archive.spool import Spool
from wharfinger.replay.changes import ProfileChange
from wharfinger.replay.recorded import DecidedRun, Unreplayable
from wharfinger.replay.report.report import Report
from wharfinger.replay.shadow import MadeAgain, Shadow
from wharfinger.scheduling.contracts.cohort_scheduling import CohortPod, PlacedMany
from wharfinger.scheduling.contracts.scheduling import Placed, Refused
from wharfinger.scheduling.reading.comparing import Compared


@dataclass
class Stage:
    """Decides, binds and records in a world."""

    world: World
    runs: list[DecidedRun] = field(default_factory=list)

    async def keep_profiles(self) -> None:
        """As workers do at their start."""
        for profile in PROFILES.values():
            await self.world.store.put(keys.profile(profile.digest), profile.configuration)

    def _id(self) -> dict[str, Any]:
        return {"run_id": f"run-{len(self.runs)}", "started": float(len(self.runs)), "tenant": "common"}

    async def alone(self, hand: Hand, name: str, *, bind: bool = True) -> Placed | Refused:
        """An attempt of the pod's own."""
        outcome = await hand.place(name)
        assert isinstance(outcome, Placed | Refused)
        run = DecidedRun(
            kind="lone", workflow_id=f"pod/{name}", namespace="default", name=name, lone=outcome, **self._id()
        )
        self.runs.append(run)
        if isinstance(outcome, Refused):
            await hand.record(
                name,
                message=outcome.message,
                rejectors=outcome.rejectors,
                revision=outcome.computation.revision,
                nominated_node=outcome.nominated_node,
                victims=outcome.victims,
            )
        elif bind:
            await hand.bind(name, outcome.to_commit())
        return outcome

    async def together(self, hand: Hand, *names: str, bind: bool = True) -> PlacedMany:
        """A cohort."""
        placed = await hand.place_many(*names)
        pods = tuple(CohortPod(namespace="default", name=name) for name in names)
        self.runs.append(DecidedRun(kind="cohort", workflow_id="cohort", many=placed, pods=pods, **self._id()))
        if bind and placed.seats:
            await hand.bind_many(placed)
        if placed.turned_away:
            await hand.record_many(placed)
        return placed

    async def gang(self, hand: Hand, name: str = "team", *, bind: bool = True) -> PlacedMany:
        """A gang of the namespace default."""
        placed = await hand.place_gang(name)
        self.runs.append(
            DecidedRun(kind="gang", workflow_id="gang", namespace="default", name=name, many=placed, **self._id())
        )
        if bind and placed.seats:
            await hand.bind_many(placed, whole=True, domain=placed.domain)
        return placed

    async def replay(self, change: ProfileChange | None = None, runs: Sequence[DecidedRun] | None = None) -> Replayed:
        """Decide all of it again."""
        spool = Spool()
        for run in self.runs if runs is None else runs:
            spool.add(run)
        replayed = Replayed(Report())
        change = change or ProfileChange()
        shadow = Shadow(self.world.store, spool, spool.units(), change, CLUSTER)
        await shadow.run(replayed.add)
        spool.close()
        return replayed


@dataclass
class Replayed:
    """The report, and every outcome."""

    report: Report
    outcomes: list[MadeAgain] = field(default_factory=list)

    def add(self, outcome: MadeAgain) -> None:
        self.outcomes.append(outcome)
        self.report.add(outcome)

    @property
    def compared(self) -> dict[str, Compared]:
        """By name of the pod, the last one."""
        return {one.again.key.name: one.again.found for one in self.outcomes if isinstance(one.again.found, Compared)}

    @property
    def lacking(self) -> dict[str, Unreplayable]:
        return {
            one.again.key.name: one.again.found for one in self.outcomes if isinstance(one.again.found, Unreplayable)
        }

    @property
    def strange(self) -> list[Any]:
        """What is not the same, for the message of an assertion."""
        return [
            (str(one.again.key), one.again.found if isinstance(one.again.found, Compared) else str(one.again.found))
            for one in self.outcomes
            if not isinstance(one.again.found, Compared) or one.again.found.differs
        ]
