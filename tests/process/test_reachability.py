"""Whether Temporal answers: silence counts, a refusal does not."""

from __future__ import annotations

from temporalio.service import RPCError, RPCStatusCode

from tests.clock import Clock
from wharfinger.process.connecting import Reachability


class Probe:
    def __init__(self) -> None:
        self.status: RPCStatusCode | None = None

    async def __call__(self) -> None:
        if self.status is not None:
            raise RPCError("told so", self.status, b"")


async def test_temporal_is_unreachable_after_patience_until_the_first_answer() -> None:
    probe, clock, changes = Probe(), Clock(), []
    reachability = Reachability(probe, patience=10, clock=clock, changed=lambda: changes.append(1))
    probe.status = RPCStatusCode.UNAVAILABLE
    clock.advance(9)
    await reachability.ask()
    assert reachability.reachable

    clock.advance(1)
    await reachability.ask()
    assert not reachability.reachable

    probe.status = None
    await reachability.ask()
    assert reachability.reachable
    assert len(changes) == 2


async def test_a_refusal_is_an_answer() -> None:
    probe, clock = Probe(), Clock()
    reachability = Reachability(probe, patience=10, clock=clock, changed=lambda: None)
    probe.status = RPCStatusCode.PERMISSION_DENIED
    clock.advance(100)
    await reachability.ask()

    assert reachability.reachable
