"""Holding the Lease: client-go's rules, seen from one worker, with kube-scheduler as its rival."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from tests.clock import Clock
from wharfinger.apiserver.client import LEASES
from wharfinger.errors import UpstreamUnavailable
from wharfinger.kubernetes.effects.copying import ApiWentBack
from wharfinger.kubernetes.effects.election import Election, HoldState
from wharfinger.settings import ElectionSettings
from wharfinger.testing.memory_upstream import MemoryUpstream

NAME, NAMESPACE, OURS, RIVAL = "kube-scheduler", "kube-system", "test_1", "master-1_7d9a2c1e"


class Booth:
    """One worker's election, its clock, and the Lease."""

    def __init__(
        self, api: MemoryUpstream | None = None, identity: str = OURS, *, lease_duration: float = 15.0
    ) -> None:
        self.api = api if api is not None else MemoryUpstream()
        self.clock = Clock()
        self.client = self.api.client()
        terms = ElectionSettings(name=NAME, namespace=NAMESPACE, lease_duration=lease_duration)
        self.election = Election(self.client, terms, identity, clock=self.clock, utc_now=self.utc_now)

    def utc_now(self) -> datetime:
        return datetime.fromtimestamp(1_772_000_000 + self.clock() + 0.25, UTC)

    @property
    def spec(self) -> dict[str, Any]:
        found = self.api.find(LEASES, NAME, namespace=NAMESPACE)
        assert found is not None
        return found["spec"]

    def put(self, **spec: Any) -> None:
        self.api.put(LEASES, {"metadata": {"name": NAME, "namespace": NAMESPACE}, "spec": spec})

    def rival(self, renewed: str = "2019-01-01T00:00:00.000000Z", seconds: int = 15, holder: str = RIVAL) -> None:
        """As client-go writes it."""
        self.put(
            holderIdentity=holder,
            leaseDurationSeconds=seconds,
            acquireTime="2019-01-01T00:00:00.000000Z",
            renewTime=renewed,
            leaseTransitions=3,
        )


@pytest.fixture
def booth() -> Booth:
    return Booth()


async def test_a_missing_lease_is_created_as_client_go_does(booth: Booth) -> None:
    assert await booth.election.attempt() is HoldState.HELD
    assert booth.spec == {
        "holderIdentity": OURS,
        "leaseDurationSeconds": 15,
        "acquireTime": "2026-02-25T06:30:00.250000Z",
        "renewTime": "2026-02-25T06:30:00.250000Z",
        "leaseTransitions": 0,
    }


async def test_a_lease_hardly_longer_than_its_renewal_is_whole_seconds() -> None:
    """The configuration allows it, as kube-scheduler's does."""
    booth = Booth(lease_duration=10.5)
    assert await booth.election.attempt() is HoldState.HELD
    assert booth.spec["leaseDurationSeconds"] == 10


async def test_renewing_moves_only_the_time_of_renewal(booth: Booth) -> None:
    await booth.election.attempt()
    before = booth.spec
    booth.clock.advance(2)
    assert await booth.election.attempt() is HoldState.HELD
    assert booth.spec == before | {"renewTime": "2026-02-25T06:30:02.250000Z"}


async def test_another_worker_of_the_installation_renews_at_once(booth: Booth) -> None:
    await booth.election.attempt()
    other = Booth(booth.api)
    other.clock.advance(5)
    assert await other.election.attempt() is HoldState.HELD
    assert booth.spec["leaseTransitions"] == 0
    assert booth.spec["acquireTime"] == "2026-02-25T06:30:00.250000Z"


@pytest.mark.parametrize("year", ["2019", "2026", "2033"])
async def test_another_holder_keeps_it_for_its_duration_by_our_clock(booth: Booth, year: str) -> None:
    """However far its own clock is off."""
    booth.rival(f"{year}-02-25T06:30:00.000000Z")
    assert await booth.election.attempt() is HoldState.ANOTHERS
    assert booth.election.holder == RIVAL
    booth.clock.advance(14.9)
    assert await booth.election.attempt() is HoldState.ANOTHERS
    booth.clock.advance(0.2)
    assert await booth.election.attempt() is HoldState.HELD
    assert booth.spec["holderIdentity"] == OURS
    assert booth.spec["leaseTransitions"] == 4
    assert booth.spec["acquireTime"] == booth.spec["renewTime"] == "2026-02-25T06:30:15.350000Z"


async def test_each_change_of_the_record_begins_the_wait_anew(booth: Booth) -> None:
    for second in range(0, 60, 10):
        booth.rival(f"2019-01-01T00:00:{second:02}.000000Z")
        assert await booth.election.attempt() is HoldState.ANOTHERS
        booth.clock.advance(10)
    booth.clock.advance(5)
    assert await booth.election.attempt() is HoldState.HELD


async def test_the_record_says_how_long_its_holder_keeps_it(booth: Booth) -> None:
    booth.rival(seconds=60)
    await booth.election.attempt()
    booth.clock.advance(59)
    assert await booth.election.attempt() is HoldState.ANOTHERS
    booth.clock.advance(1)
    assert await booth.election.attempt() is HoldState.HELD


async def test_a_released_lease_is_taken_at_once(booth: Booth) -> None:
    booth.rival(seconds=1, holder="")
    assert await booth.election.attempt() is HoldState.HELD
    assert (booth.spec["leaseDurationSeconds"], booth.spec["leaseTransitions"]) == (15, 4)


async def test_release_writes_what_client_go_writes(booth: Booth) -> None:
    await booth.election.attempt()
    booth.clock.advance(3)
    await booth.election.release()
    now = "2026-02-25T06:30:03.250000Z"
    assert booth.spec == {
        "holderIdentity": "",
        "leaseDurationSeconds": 1,
        "acquireTime": now,
        "renewTime": now,
        "leaseTransitions": 0,
    }


async def test_anothers_lease_is_never_released(booth: Booth) -> None:
    await booth.election.release()
    assert booth.api.find(LEASES, NAME, namespace=NAMESPACE) is None
    booth.rival()
    await booth.election.release()
    assert booth.spec["holderIdentity"] == RIVAL


async def test_fields_that_we_do_not_know_are_kept(booth: Booth) -> None:
    booth.put(holderIdentity="", strategy="OldestEmulationVersion")
    await booth.election.attempt()
    assert booth.spec["strategy"] == "OldestEmulationVersion"


async def test_two_that_create_it_at_once_have_one_holder(booth: Booth) -> None:
    booth.client.before_request = lambda one: booth.rival() if one.verb == "create" else None
    assert await booth.election.attempt() is HoldState.MOVED
    booth.client.before_request = None
    assert await booth.election.attempt() is HoldState.ANOTHERS
    assert booth.election.holder == RIVAL


async def test_two_that_take_it_at_once_have_one_holder(booth: Booth) -> None:
    booth.rival(seconds=1, holder="")
    booth.client.before_request = lambda one: booth.rival() if one.verb == "update" else None
    assert await booth.election.attempt() is HoldState.MOVED
    assert booth.spec["holderIdentity"] == RIVAL


async def test_a_lease_that_may_not_be_written_is_a_trouble(booth: Booth) -> None:
    fault = booth.client.faults.forbid("create", LEASES)
    assert await booth.election.attempt() is HoldState.REFUSED
    assert "kube-system/kube-scheduler cannot be held: 403" in booth.election.trouble
    fault.end()
    assert await booth.election.attempt() is HoldState.HELD
    assert booth.election.trouble == ""
    booth.client.faults.forbid("get", LEASES)
    assert await booth.election.attempt() is HoldState.REFUSED


async def test_no_answer_is_raised(booth: Booth) -> None:
    booth.client.faults.disconnect()
    with pytest.raises(UpstreamUnavailable):
        await booth.election.attempt()


async def test_a_renewal_whose_answer_is_lost_is_renewed_again(booth: Booth) -> None:
    await booth.election.attempt()
    booth.client.faults.lose_answers(verb="update")
    with pytest.raises(UpstreamUnavailable):
        await booth.election.attempt()
    assert await booth.election.attempt() is HoldState.HELD


async def test_a_lease_of_the_past_is_raised_once(booth: Booth) -> None:
    backup = booth.api.backup()
    await booth.election.attempt()
    await booth.election.attempt()
    booth.clock.advance(2)
    await booth.election.attempt()
    booth.api.restore(backup)
    booth.rival(holder="")
    with pytest.raises(ApiWentBack):
        await booth.election.attempt()
    assert await booth.election.attempt() is HoldState.HELD
