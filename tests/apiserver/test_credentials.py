"""When credentials are read again, by whom, and what holds when that fails."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

import pytest

from tests.apiserver.kubeconfigs import SECRET
from tests.clock import Clock
from wharfinger.apiserver.credentials import (
    RETRY_AFTER,
    SETTLING,
    ApiClocks,
    ApiIdentity,
    HeldIdentity,
    RenewedCredentials,
)
from wharfinger.errors import UpstreamDenied


@dataclass
class Numbered:
    """A source whose tokens are numbered; it can fail, and wait until the test lets it go on."""

    made: HeldIdentity = field(default_factory=lambda: HeldIdentity(ApiIdentity()))
    """But for the token."""
    title: str = "numbered"
    reads: int = 0
    failing: str = ""
    gate: asyncio.Event = field(default_factory=asyncio.Event)
    same: bool = False

    def __post_init__(self) -> None:
        self.gate.set()

    async def read(self) -> HeldIdentity:
        self.reads += 1
        number = self.reads
        await self.gate.wait()
        if self.failing:
            raise UpstreamDenied(self.failing)
        token = "same" if self.same else str(number)
        return HeldIdentity(ApiIdentity(token), self.made.reread_after, self.made.renew_at, self.made.expires_at)


@dataclass
class Scene:
    """Credentials from a numbered source, with clocks."""

    source: Numbered
    clock: Clock = field(default_factory=Clock)
    now: Clock = field(default_factory=lambda: Clock(50_000.0))

    def __post_init__(self) -> None:
        self.credentials = RenewedCredentials(self.source, ApiClocks(self.clock, self.now))

    async def token(self) -> str:
        return (await self.credentials.current()).token


async def background() -> None:
    """Let the tasks that are ready go on."""
    for _ in range(5):
        await asyncio.sleep(0)


async def together(count: int, call: Callable[[], Awaitable[str]]) -> list[str | BaseException]:
    return await asyncio.gather(*(call() for _ in range(count)), return_exceptions=True)


async def test_identity_without_end_is_read_once() -> None:
    scene = Scene(Numbered())

    assert [await scene.token(), await scene.token()] == ["1", "1"]
    scene.clock.advance(1e9)
    assert await scene.token() == "1"


async def test_parallel_calls_share_one_read() -> None:
    scene = Scene(Numbered())
    scene.source.gate.clear()
    calls = asyncio.gather(*(scene.token() for _ in range(50)))
    await background()
    scene.source.gate.set()

    assert set(await calls) == {"1"}
    assert scene.source.reads == 1


async def test_cancelled_caller_leaves_the_read_to_the_others() -> None:
    scene = Scene(Numbered())
    scene.source.gate.clear()
    first, second = asyncio.ensure_future(scene.token()), asyncio.ensure_future(scene.token())
    await background()

    first.cancel()
    await background()
    scene.source.gate.set()

    assert await second == "1"
    assert first.cancelled()
    assert scene.source.reads == 1


async def test_identity_is_read_again_when_it_is_due() -> None:
    scene = Scene(Numbered(HeldIdentity(ApiIdentity(), reread_after=60)))
    assert await scene.token() == "1"

    scene.clock.advance(59.9)
    assert await scene.token() == "1"
    scene.clock.advance(0.1)

    assert await together(3, scene.token) == ["2", "2", "2"]


async def test_failed_read_that_was_due_leaves_the_old_one(caplog: pytest.LogCaptureFixture) -> None:
    scene = Scene(Numbered(HeldIdentity(ApiIdentity(), reread_after=60)))
    await scene.token()
    scene.source.failing = "gone"
    scene.clock.advance(60)

    assert [await scene.token(), await scene.token()] == ["1", "1"]
    assert scene.source.reads == 2
    assert "credentials_not_renewed effect=old_ones_stay_in_use source='numbered' error='gone'" in caplog.text
    scene.source.failing = ""
    scene.clock.advance(RETRY_AFTER)
    assert await scene.token() == "3"


async def test_refused_identity_is_read_again_before_its_next_use() -> None:
    scene = Scene(Numbered())
    await scene.token()

    scene.credentials.refused()

    assert await together(3, scene.token) == ["2", "2", "2"]


async def test_refusals_of_one_identity_cause_one_read() -> None:
    """Fifty requests are under way with the old token; each comes back with 401, some after the new one is there."""
    scene = Scene(Numbered())
    await scene.token()

    scene.credentials.refused()
    scene.credentials.refused()
    assert await scene.token() == "2"
    scene.clock.advance(SETTLING - 0.1)
    scene.credentials.refused()
    assert await scene.token() == "2"

    scene.clock.advance(0.1)
    scene.credentials.refused()
    assert await scene.token() == "3"


async def test_refusal_after_a_read_that_was_due_counts() -> None:
    scene = Scene(Numbered(HeldIdentity(ApiIdentity(), reread_after=60)))
    await scene.token()
    scene.clock.advance(60)
    assert await scene.token() == "2"

    scene.credentials.refused()

    assert await scene.token() == "3"


async def test_refused_identity_is_not_used_when_reading_fails(caplog: pytest.LogCaptureFixture) -> None:
    scene = Scene(Numbered())
    await scene.token()
    scene.source.failing = "gone"
    scene.credentials.refused()

    with pytest.raises(UpstreamDenied, match=r"^gone$"):
        await scene.token()
    assert "effect=requests_fail" in caplog.text


async def test_failing_source_is_read_every_few_seconds_only() -> None:
    scene = Scene(Numbered(failing="broken"))

    failures = [*await together(20, scene.token), *await together(20, scene.token)]

    assert {str(failure) for failure in failures} == {"broken"}
    assert all(isinstance(failure, UpstreamDenied) for failure in failures)
    assert scene.source.reads == 1
    scene.source.failing = ""
    scene.clock.advance(RETRY_AFTER)
    assert await scene.token() == "2"


async def test_identity_is_renewed_before_it_expires_without_waiting() -> None:
    scene = Scene(Numbered(HeldIdentity(ApiIdentity(), renew_at=50_100, expires_at=50_160)))
    await scene.token()
    scene.source.made = HeldIdentity(ApiIdentity())
    scene.now.advance(100)
    scene.source.gate.clear()

    assert [await scene.token(), await scene.token()] == ["1", "1"]
    await background()
    assert [await scene.token(), scene.source.reads] == ["1", 2]
    scene.source.gate.set()
    await background()

    assert await scene.token() == "2"


async def test_expired_identity_is_waited_for() -> None:
    scene = Scene(Numbered(HeldIdentity(ApiIdentity(), expires_at=50_160)))
    await scene.token()
    scene.now.advance(160)

    assert await scene.token() == "2"


async def test_failed_early_renewal_is_tried_again_until_the_end() -> None:
    scene = Scene(Numbered(HeldIdentity(ApiIdentity(), renew_at=50_100, expires_at=50_160)))
    await scene.token()
    scene.source.failing = "broken"
    scene.now.advance(100)

    for _ in range(3):
        assert await scene.token() == "1"
        await background()
    assert scene.source.reads == 2
    scene.clock.advance(RETRY_AFTER)
    await scene.token()
    await background()
    assert scene.source.reads == 3

    scene.now.advance(60)
    with pytest.raises(UpstreamDenied, match="broken"):
        await scene.token()


async def test_unchanged_identity_stays_the_same_object() -> None:
    scene = Scene(Numbered(HeldIdentity(ApiIdentity(), reread_after=60), same=True))
    first = await scene.credentials.current()
    scene.clock.advance(60)

    assert await scene.credentials.current() is first
    assert scene.source.reads == 2


def test_no_identity_shows_its_secrets() -> None:
    held = HeldIdentity(ApiIdentity(SECRET, "alice", SECRET, SECRET.encode(), SECRET.encode()))

    assert SECRET not in repr(held)
    assert held.expires_at == math.inf
