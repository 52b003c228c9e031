"""The right to bind: how long `active` may live by the terms of the Lease, and when it counts."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

from wharfinger.apiserver.client import REQUEST_DEADLINE
from wharfinger.errors import UpstreamUnavailable
from wharfinger.etcd import keys
from wharfinger.etcd.store import Read
from wharfinger.scheduling.contracts import promise_records
from wharfinger.scheduling.effects.binding.right_to_bind import ENDS_LATE, FRESH, SHORTEST_TTL, ActiveTerms, RightToBind
from wharfinger.scheduling.model.promises import KubernetesSide, MayBind
from wharfinger.settings import ElectionSettings
from wharfinger.testing import MemoryStore

TERMS = [
    (15.0, 10.0, 2.0),
    (40.0, 30.0, 3.0),
    (10.0, 6.0, 2.0),
    (15.0, 14.0, 2.0),
    (12.9, 10.0, 1.0),
    (9.0, 6.0, 2.0),
    (9.0, 3.0, 1.0),
]


@pytest.mark.parametrize("terms", TERMS)
def test_last_bind_ends_before_the_lease(terms: tuple[float, float, float]) -> None:
    """Also where `active` was kept alive at the last moment and its holder then lost etcd."""
    lives = ActiveTerms.of(ElectionSettings(lease_duration=terms[0], renew_deadline=terms[1], retry_period=terms[2]))
    kept = max(age / 100 for age in range(1500) if lives.may_keep(age / 100, lives.ttl))
    gone = kept + lives.ttl / 3 + lives.ttl + ENDS_LATE
    assert gone <= lives.ended_by + 1e-6
    assert lives.gone_after <= min(terms[1], lives.ended_by)
    assert lives.ended_by + FRESH + REQUEST_DEADLINE <= int(terms[0])


@pytest.mark.parametrize("terms", TERMS)
def test_lease_that_is_renewed_within_a_second_lets_bind(terms: tuple[float, float, float]) -> None:
    """However short the time is in which it has to be renewed."""
    lives = ActiveTerms.of(ElectionSettings(lease_duration=terms[0], renew_deadline=terms[1], retry_period=terms[2]))
    assert lives.may_put(1.0, lives.ttl)


def test_usual_terms_leave_four_seconds_of_lease() -> None:
    assert ActiveTerms.of(ElectionSettings()) == ActiveTerms(gone_after=10.0, ended_by=10.5, ttl=4.0)


@pytest.mark.parametrize(("terms", "ttl"), [((10.0, 6.0, 2.0), 2.0), ((12.0, 8.0, 2.0), 3.0), ((60.0, 40.0, 2.0), 4.0)])
def test_shorter_lease_has_shorter_active(terms: tuple[float, float, float], ttl: float) -> None:
    lives = ActiveTerms.of(ElectionSettings(lease_duration=terms[0], renew_deadline=terms[1], retry_period=terms[2]))
    assert lives.ttl == ttl >= SHORTEST_TTL


async def test_active_counts_only_after_a_sign_of_an_importer() -> None:
    """It may be a backup's, whose holder is gone."""
    store, side = MemoryStore(), KubernetesSide()
    await store.put(keys.ACTIVE, promise_records.stored(MayBind("here")))
    right = RightToBind(store, clock=lambda: 1.0, side=side)
    with pytest.raises(UpstreamUnavailable, match="no importer has given a sign"):
        await right.confirm()
    side.signed = True
    await right.confirm()


async def test_active_counts_half_a_second_after_a_read() -> None:
    store, now = MemoryStore(), [1.0]
    await store.put(keys.ACTIVE, promise_records.stored(MayBind("here")))
    right = RightToBind(store, clock=lambda: now[0])
    await right.confirm()
    await store.delete(keys.ACTIVE)
    now[0] += FRESH
    await right.confirm()
    now[0] += 0.01
    with pytest.raises(UpstreamUnavailable, match="does not hold the Lease"):
        await right.confirm()


class SlowReads(MemoryStore):
    """Each of the next reads of one key takes some seconds, after etcd has answered it."""

    def __init__(self, now: list[float], *seconds: float) -> None:
        super().__init__()
        self._now = now
        self._seconds = list(seconds)
        self.answered: Callable[[], Awaitable[object]] | None = None
        """Happens while the first answer is on its way."""

    async def get(self, key: str, *, revision: int = 0) -> Read:
        read = await super().get(key, revision=revision)
        self._now[0] += self._seconds.pop(0) if self._seconds else 0.0
        answered, self.answered = self.answered, None
        if answered is not None:
            await answered()
        return read


async def test_read_that_took_longer_than_it_counts_is_made_again() -> None:
    """The process stood still while the answer was on its way, and the holder deleted `active` meanwhile."""
    now = [1.0]
    store = SlowReads(now, 10.0)
    await store.put(keys.ACTIVE, promise_records.stored(MayBind("here")))
    store.answered = lambda: store.delete(keys.ACTIVE)
    with pytest.raises(UpstreamUnavailable, match="does not hold the Lease"):
        await RightToBind(store, clock=lambda: now[0]).confirm()


async def test_etcd_that_is_too_slow_gives_no_right() -> None:
    now = [1.0]
    store = SlowReads(now, 0.6, 0.6, 0.6)
    await store.put(keys.ACTIVE, promise_records.stored(MayBind("here")))
    with pytest.raises(UpstreamUnavailable, match=r"etcd takes more than 0\.5 s"):
        await RightToBind(store, clock=lambda: now[0]).confirm()
