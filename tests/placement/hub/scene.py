"""A hub that reconciles what it has seen of a store in memory, and a starter that notes what it starts."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from tests.placement.scene import HubScene
from wharfinger.placement.contracts.placements import StreamRevisions
from wharfinger.placement.hub.placement_controller import APART, PlacementController
from wharfinger.process.parts import ProcessParts

ALL = {"placementType": "PickAll"}


@dataclass
class Starter:
    """Notes what is started."""

    started: list[str] = field(default_factory=list)
    causes: list[str] = field(default_factory=list)
    failures: int = 0

    async def start(self, reference: str, seen: StreamRevisions, cause: str) -> None:
        assert seen.members
        if self.failures:
            self.failures -= 1
            raise RuntimeError("no answer")
        self.started.append(reference)
        self.causes.append(cause)


@dataclass
class ReconcilingScene(HubScene):
    """A hub that reconciles what it has seen; attempts are carried out by `settle` only."""

    starter: Starter = field(default_factory=Starter)

    def __post_init__(self) -> None:
        super().__post_init__()
        process = ProcessParts(self.store, clock=self.clock)
        self.controller = PlacementController(process, self.view, self.starter.start, me="h1")

    async def reconciled(self) -> list[str]:
        """See and reconcile; what was started by that."""
        before = len(self.starter.started)
        self.controller.note(await self.see())
        await self.controller.reconcile_due()
        for _ in range(3):
            await asyncio.sleep(0)
        return self.starter.started[before:]

    async def settle(self) -> None:
        """Carry out what is started, until nothing is."""
        for _ in range(20):
            started = await self.reconciled()
            for reference in started:
                decided = self.decide(reference)
                if decided.action != "nothing":
                    await self.commit(decided, reference)
            if not started and not await self.reconciled():
                return
            self.clock.advance(APART * 2)
        raise AssertionError("it does not settle")
