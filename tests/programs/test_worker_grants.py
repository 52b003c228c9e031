"""`wharfinger worker --instance` as a process: drained, fenced off, cut off, and taken over from by a newer one."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import AsyncIterator, Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from tests import forked
from tests.conftest import EtcdServer, TemporalServer, free_port
from tests.integration.gateway import Gateway, audit
from tests.integration.worker_process import mistakes
from tests.patience import patient
from tests.programs.conftest import Site
from wharfinger.etcd import keys
from wharfinger.etcd.store import KeyValue
from wharfinger.fleet.contracts.fleet_records import stored
from wharfinger.fleet.model.fleet import Grant
from wharfinger.process.records import InstanceRecord

WORKER = (*forked.COMMAND, "worker", "--lease-ttl", "4", "--cohorts", "off")

pytestmark = pytest.mark.timeout(120)

HANDOVERS = 3
"""Tries: a process may stand still for a while on a busy machine, whatever it hands over."""


class Instance:
    """One process and its log."""

    def __init__(self, process: asyncio.subprocess.Process, log: Path) -> None:
        self.process = process
        self.log = log

    @property
    def said(self) -> str:
        return self.log.read_text(errors="replace")

    async def code(self, seconds: float = 20.0) -> int:
        return await asyncio.wait_for(self.process.wait(), patient(seconds))


class Hand:
    """What an actor and an agent would do for slot 0 of the common pool."""

    def __init__(self, site: Site, etcd: EtcdServer, temporal: TemporalServer, folder: Path) -> None:
        self.site = site
        self.gateway = Gateway(etcd.url)
        self._options = ("--etcd", etcd.url, "--temporal", temporal.address)
        self._folder = folder
        self._stack = contextlib.AsyncExitStack()

    async def __aenter__(self) -> Hand:
        await self._stack.__aenter__()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()

    def lock(self, incarnation: int) -> Path:
        return self._folder / f"{incarnation}.lock"

    async def grant(self, incarnation: int, **fields: Any) -> None:
        record = Grant(**{"revision": incarnation, "host": "here", **fields})
        await self.site.store.put(keys.grant("common", 0, incarnation), stored(record))

    async def revoke(self, incarnation: int) -> None:
        assert await self.site.store.delete(keys.grant("common", 0, incarnation))

    async def start(self, incarnation: int, *options: str) -> Instance:
        log = self._folder / f"{incarnation}-{free_port()}.log"
        own = ("--instance", f"common/0/{incarnation}", "--instance-revision", str(incarnation))
        lock = ("--instance-lock", str(self.lock(incarnation)), "--health-port", "0")
        with log.open("wb") as out:
            process = await asyncio.create_subprocess_exec(
                *WORKER, *own, *lock, *self._options, *options, stdout=out, stderr=out, env=forked.variables()
            )
        self._stack.push_async_callback(_end, process)
        return Instance(process, log)

    async def kv(self, incarnation: int) -> KeyValue | None:
        return (await self.site.store.get(keys.instance("common", "0", incarnation))).kv

    async def record(self, incarnation: int) -> InstanceRecord | None:
        kv = await self.kv(incarnation)
        return InstanceRecord.model_validate_json(kv.value) if kv is not None else None

    async def until(self, incarnation: int, state: str | None, seconds: float = 30.0) -> None:
        """Until the registration is in this state; None = gone."""
        async with asyncio.timeout(patient(seconds)):
            while True:
                found = await self.record(incarnation)
                if (found.state if found is not None else None) == state:
                    return
                await asyncio.sleep(0.05)

    async def until_waiting_for(self, incarnation: int, what: str, seconds: float = 30.0) -> InstanceRecord:
        """Until a newcomer's registration says that it waits for this; it is written again when that changes."""
        async with asyncio.timeout(patient(seconds)):
            while True:
                found = await self.record(incarnation)
                if found is not None and (found.state, found.waiting_for) == ("starting", what):
                    return found
                await asyncio.sleep(0.05)

    async def ready(self, incarnation: int) -> Instance:
        """Granted, started, ready."""
        await self.grant(incarnation)
        started = await self.start(incarnation)
        await self.until(incarnation, "ready")
        return started

    def end_lease(self, kv: KeyValue) -> None:
        with contextlib.suppress(RuntimeError):  # it is over already
            self.gateway.call("/lease/revoke", {"ID": str(kv.lease)})


async def _end(process: asyncio.subprocess.Process) -> None:
    if process.returncode is None:
        process.kill()
    await process.wait()


@pytest.fixture
async def hand(
    site: Site, etcd_server: EtcdServer, temporal_server: TemporalServer, tmp_path: Path
) -> AsyncIterator[Hand]:
    async with Hand(site, etcd_server, temporal_server, tmp_path) as hand:
        yield hand


async def test_drain_grant_ends_the_process_with_exit_code_0(hand: Hand) -> None:
    worker = await hand.ready(1)
    async with asyncio.timeout(patient(20)):
        while (found := await hand.record(1)) is None:  # it has lost its lease for a moment
            await asyncio.sleep(0.05)
    assert (found.revision, found.pid) == ("1", worker.process.pid)

    await hand.grant(1, want="drain")
    assert await worker.code() == 0
    assert await hand.record(1) is None
    assert "drained" in worker.said
    assert "Traceback" not in worker.said


async def test_deleted_grant_ends_the_process_with_exit_code_3_and_one_line(hand: Hand) -> None:
    worker = await hand.ready(1)
    await hand.revoke(1)
    assert await worker.code() == 3
    assert await hand.record(1) is None
    assert worker.said.count("grant_deleted") == 1
    assert "Traceback" not in worker.said


@pytest.mark.usefixtures("site")
@pytest.mark.parametrize(("meanwhile", "code"), [("deleted", 3), ("drained", 0)])
async def test_a_late_create_finds_no_grant_and_leaves_no_trace(hand: Hand, meanwhile: str, code: int) -> None:
    await hand.grant(1, want="drain")
    if meanwhile == "deleted":
        await hand.revoke(1)
    revision = hand.gateway.revision()
    worker = await hand.start(1, "--temporal", f"127.0.0.1:{free_port()}")  # it needs no Temporal to learn it
    assert await worker.code() == code
    assert worker.said.count("programs.grants grant_") == 1
    assert hand.gateway.revision() == revision


async def test_newcomer_without_temporal_reports_that_it_waits_for_it(hand: Hand) -> None:
    await hand.grant(1)
    worker = await hand.start(1, "--temporal", f"127.0.0.1:{free_port()}")
    found = await hand.until_waiting_for(1, "temporal: has not answered yet")
    assert found.host == "here"

    await hand.grant(1, want="drain")
    assert await worker.code() == 0
    assert await hand.record(1) is None
    assert "Traceback" not in worker.said


async def test_a_lost_lease_is_followed_by_another_registration_under_the_grant(hand: Hand) -> None:
    worker = await hand.ready(1)
    async with asyncio.timeout(patient(20)):
        while (before := await hand.kv(1)) is None:
            await asyncio.sleep(0.05)
        hand.end_lease(before)
        while (now := await hand.kv(1)) is None or now.lease == before.lease:
            await asyncio.sleep(0.05)
    await hand.until(1, "ready")
    assert worker.process.returncode is None


async def test_a_process_that_lost_lease_and_grant_never_registers_again(hand: Hand) -> None:
    worker = await hand.ready(1)
    worker.process.send_signal(signal.SIGSTOP)  # it is cut off, and sleeps through both
    try:
        first = hand.gateway.revision() + 1
        await hand.revoke(1)
        if (kv := await hand.kv(1)) is not None:  # else its lease is over already
            hand.end_lease(kv)
        assert await hand.record(1) is None
    finally:
        worker.process.send_signal(signal.SIGCONT)
    assert await worker.code() == 3
    last = hand.gateway.revision()
    told = [value for _, _, value in hand.gateway.history(keys.INSTANCES, first, last) if value is not None]
    assert told == []


async def test_a_second_process_of_the_same_incarnation_leaves_with_exit_code_4(hand: Hand) -> None:
    await hand.ready(1)
    second = await hand.start(1)
    assert await second.code() == 4
    assert second.said.count("\n") == 1
    assert "is locked" in second.said
    await hand.until(1, "ready")


async def test_a_surge_hands_the_slot_over_while_pods_flow(hand: Hand) -> None:
    """Nothing is lost or bound twice, and no pod waits for longer than the two seconds of the hold and a little."""
    site = hand.site
    for number in range(4):
        await site.node(f"n{number}", cpu="100", pods=10_000)  # pods come for as long as it takes
    workers = [await hand.ready(1)]
    first = hand.gateway.revision() + 1
    put: dict[str, float] = {}
    bound: dict[str, float] = {}
    flowing = True
    loop = asyncio.get_running_loop()

    async def flow() -> None:
        while flowing:
            name = f"p{len(put)}"
            await site.pod(name, cpu="10m")
            put[name] = loop.time()
            await asyncio.sleep(0.1)

    async def follow() -> None:
        async with site.store.watch(keys.PODS, first) as batches:
            async for batch in batches:
                for event in batch.events:
                    if b'"nodeName"' in event.kv.value:
                        bound.setdefault(event.kv.key.rpartition("/")[2], loop.time())

    async def until(holds: Callable[[], object], seconds: float) -> None:
        async with asyncio.timeout(patient(seconds)):
            while not holds():
                await asyncio.sleep(0.05)

    async def slowest_of(meanwhile: Coroutine[Any, Any, None]) -> float:
        """How long the pods that come during something wait, at most."""
        calm = set(put)
        await meanwhile
        came = put.keys() - calm
        await until(lambda: came <= bound.keys(), 20)
        return max(bound[name] - put[name] for name in came)

    async def hand_over() -> None:
        workers.append(await hand.ready(len(workers) + 1))
        await asyncio.sleep(4)
        await hand.grant(len(workers) - 1, want="drain")
        assert await workers[-2].code() == 0
        assert mistakes(workers[-2].said) == []
        await asyncio.sleep(2)

    following, flowing_task = asyncio.create_task(follow()), asyncio.create_task(flow())
    try:
        await until(lambda: len(bound) > 20, 20)  # it held them for two seconds itself
        usual = await slowest_of(asyncio.sleep(2))
        slowest: list[float] = []
        while len(slowest) < HANDOVERS and not any(one < 5 + 2 * usual for one in slowest):
            slowest.append(await slowest_of(hand_over()))
        flowing = False
        await flowing_task
        await until(lambda: len(bound) == len(put), 20)
    finally:
        following.cancel()
        flowing_task.cancel()

    assert min(slowest) < 5 + 2 * usual, (usual, slowest)
    verdict = audit(hand.gateway, first)
    assert verdict.doubled == []
    assert len(verdict.bound) == len(put)
