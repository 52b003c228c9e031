"""What becomes of calls and watches when etcd dies, hangs, moves or forgets."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress

import pytest

from tests.conftest import free_port
from tests.etcd.conftest import Spoken, StartEtcd
from tests.etcd.etcd_process import EtcdProcess
from tests.etcd.lease_times import with_time_enough
from tests.patience import patient
from wharfinger.errors import RevisionWentBack, Unavailable
from wharfinger.etcd.etcd import EtcdStore
from wharfinger.etcd.store import Event, KeyValue, Store, WatchBatch
from wharfinger.settings import EtcdSettings


def hasty(spoken: Callable[..., EtcdSettings], *urls: str, deadline: float = 1.5) -> EtcdSettings:
    """Settings for servers that will not answer."""
    return spoken(endpoints=urls, connect_timeout=0.3, attempt_timeout=0.6, deadline=deadline, watch_idle=1.2)


async def put_surely(store: Store, key: str, value: bytes) -> int:
    """Put, and after a lost answer look whether it happened; answers how often that was."""
    doubts = 0
    while True:
        try:
            await store.put(key, value)
        except Unavailable as error:
            if not error.maybe_applied:
                continue
            doubts += 1
            kv = await get_surely(store, key)
            if kv is None or kv.value != value:
                continue
        return doubts


async def get_surely(store: Store, key: str) -> KeyValue | None:
    """Get, as often as it takes until etcd answers."""
    while True:
        with suppress(Unavailable):
            return (await store.get(key)).kv


async def collect(batches: AsyncIterator[WatchBatch], last: bytes) -> list[Event]:
    """All events until one with the value `last`."""
    events: list[Event] = []
    async for batch in batches:
        assert {event.kv.mod_revision for event in batch.events} <= {batch.revision}
        events += batch.events
        if any(event.kv.value == last for event in batch.events):
            break
    return events


async def test_a_watch_through_two_kills_loses_nothing_and_doubles_nothing(
    start_etcd: StartEtcd, spoken: Spoken
) -> None:
    etcd = start_etcd()
    async with EtcdStore(spoken(endpoints=(etcd.url,), deadline=patient(30))) as store:
        start = (await store.get("/a")).revision + 1

        async def write() -> None:
            for number in range(1000):
                await put_surely(store, f"/{number % 10}", b"%d" % number)

        async def kill_twice() -> None:
            for number in (250, 600):
                while (await store.get("/0")).revision < start + number:
                    await asyncio.sleep(0.01)
                await asyncio.to_thread(etcd.kill)
                await asyncio.to_thread(etcd.start)

        async with store.watch("/", start) as batches:
            writing = asyncio.gather(write(), kill_twice())
            events = await asyncio.wait_for(collect(batches, b"999"), patient(60))
            await writing
        async with store.watch("/", start) as batches:
            history = await collect(batches, b"999")

    assert events == history
    assert [event.kv.mod_revision for event in events] == list(range(start, start + len(events)))
    assert list(dict.fromkeys(int(event.kv.value) for event in events)) == list(range(1000))


async def test_stopped_etcd_leaves_a_write_in_doubt_and_the_watch_resumes(
    start_etcd: StartEtcd, spoken: Spoken
) -> None:
    etcd = start_etcd()
    async with EtcdStore(spoken.of(etcd)) as store:
        revision = await store.put("/a", b"1")
    async with EtcdStore(hasty(spoken, etcd.url)) as store, store.watch("/", revision) as batches:
        await collect(batches, b"1")
        etcd.pause()
        began = time.monotonic()
        with pytest.raises(Unavailable) as write:
            await store.put("/a", b"2")
        with pytest.raises(Unavailable) as read:
            await store.get("/a")
        took = time.monotonic() - began
        await asyncio.sleep(0.5)  # the watch has found its stream silent and knocks in vain
        etcd.resume()
        await put_surely(store, "/a", b"3")
        events = await asyncio.wait_for(collect(batches, b"3"), patient(20))

    assert write.value.maybe_applied
    assert not read.value.maybe_applied
    assert took < 10.0  # 0.6 + 1.5 s, where those who are in no haste wait for 5 + 10 s
    assert [event.kv.value for event in events] in ([b"2", b"3"], [b"3"])


async def test_an_etcd_restored_to_an_older_state_is_noticed(start_etcd: StartEtcd, spoken: Spoken) -> None:
    etcd = start_etcd()
    async with EtcdStore(spoken.of(etcd)) as store:
        for number in range(5):
            revision = await store.put("/a", b"%d" % number)
        async with store.watch("/", revision) as batches:
            await collect(batches, b"4")
            etcd.kill()
            etcd.wipe()
            etcd.start()
            with pytest.raises(RevisionWentBack):
                await collect(batches, b"never")  # notices of progress may have come before the end
        with pytest.raises(RevisionWentBack):
            await store.get("/a")


async def test_a_dead_endpoint_is_passed_over_by_calls_watches_and_leases(
    steady_etcd: EtcdProcess, spoken: Spoken
) -> None:
    settings = spoken(endpoints=(f"http://127.0.0.1:{free_port()}", steady_etcd.url))
    for first in ("write", "watch"):
        async with EtcdStore(settings) as store:
            if first == "write":
                await store.put("/dead-endpoint", b"1")
            async with store.watch("/dead-endpoint", 0) as batches:
                waiting = asyncio.ensure_future(collect(batches, b"2"))
                while not waiting.done():
                    await store.put("/dead-endpoint", b"2")
                    await asyncio.wait([waiting], timeout=0.05)

    async def story(ttl: int) -> None:
        async with EtcdStore(settings) as store:
            lease = await store.grant_lease(ttl)
            await asyncio.sleep(1.2 * ttl)  # renewed at least twice, through a connection that met the dead one first
            assert not lease.lost

    await with_time_enough(steady_etcd, 2, story)


async def test_refused_connection_means_that_nothing_was_written(steady_etcd: EtcdProcess, spoken: Spoken) -> None:
    async with EtcdStore(hasty(spoken, f"http://127.0.0.1:{free_port()}", deadline=0.3)) as store:
        with pytest.raises(
            Unavailable, match=r"does not answer at http://127\.0\.0\.1:\d+: Connection refused"
        ) as refused:
            await store.put("/a", b"1")

    assert not refused.value.maybe_applied


@asynccontextmanager
async def strange_server(answer: bytes | None) -> AsyncIterator[str]:
    """Reads a request, answers something (or never), hangs up."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(65536)
        if answer is None:
            await reader.read()
        else:
            writer.write(answer)
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()


STRANGE_ANSWERS = {
    "hangs up": b"",
    "never answers": None,
    "is no etcd": b"HTTP/1.1 404 Not Found\r\nContent-Length: 4\r\n\r\nnope",
    "is a proxy in trouble": b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 2\r\n\r\n{}",
    "redirects": b"HTTP/1.1 307 Temporary Redirect\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n",
    "answers no object": b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n[]",
    "breaks off": b'HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n{"header":',
    "changes its leader": b"HTTP/1.1 503 Unavailable\r\nContent-Length: 50\r\n\r\n"
    b'{"code":14,"message":"etcdserver: leader changed"}',
}


@pytest.mark.parametrize("answer", STRANGE_ANSWERS.values(), ids=STRANGE_ANSWERS.keys())
async def test_reads_leave_a_senseless_server_and_writes_to_it_are_in_doubt(
    steady_etcd: EtcdProcess, answer: bytes | None
) -> None:
    async with strange_server(answer) as url:
        async with EtcdStore(hasty(EtcdSettings, url, steady_etcd.url, deadline=3.0)) as store:
            with pytest.raises(Unavailable) as refused:
                await store.put("/strange", b"1")
        async with EtcdStore(hasty(EtcdSettings, url, steady_etcd.url, deadline=patient(20))) as store:
            assert (await store.get("/strange")).kv is None
        async with EtcdStore(hasty(EtcdSettings, url, steady_etcd.url)) as store, store.watch("/strange", 0) as batches:
            async with asyncio.timeout(patient(20)):
                progress = await anext(batches)  # from the sound one
            assert progress.events == ()

    assert refused.value.maybe_applied


async def test_watch_that_is_up_to_date_gets_progress(steady_etcd: EtcdProcess, spoken: Spoken) -> None:
    async with EtcdStore(spoken.of(steady_etcd)) as store:
        revision = await store.put("/quiet/a", b"1")
        async with store.watch("/quiet/", revision + 1) as batches, asyncio.timeout(patient(20)):
            assert await anext(batches) == WatchBatch(revision)
            after = await store.put("/quiet/b", b"2")
            while not (batch := await anext(batches)).events:
                pass

    assert batch.revision == after
    assert [event.kv.key for event in batch.events] == ["/quiet/b"]


async def test_an_answer_without_a_revision_is_not_believed() -> None:
    async with (
        strange_server(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}") as url,
        EtcdStore(hasty(EtcdSettings, url)) as store,
    ):
        with pytest.raises(Unavailable, match="no etcd"):
            await store.get("/a")


async def test_proxies_of_the_environment_are_not_obeyed(
    steady_etcd: EtcdProcess, monkeypatch: pytest.MonkeyPatch, spoken: Spoken
) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, f"http://127.0.0.1:{free_port()}")
    store = await EtcdStore.connect(spoken(endpoints=(steady_etcd.url,)))

    assert (await store.get("/proxied")).kv is None
    await store.close()


@pytest.mark.parametrize("fault", ["kill", "pause"])
async def test_three_members_carry_on_without_the_one_we_were_talking_to(
    three_members: list[EtcdProcess], fault: str, spoken: Spoken
) -> None:
    settings = spoken(
        endpoints=tuple(member.url for member in three_members),
        attempt_timeout=1.0,
        watch_idle=1.5,
        deadline=patient(30),
    )
    async with EtcdStore(settings) as store:
        start = await store.put("/0", b"-1")

        async def write() -> int:
            return sum([await put_surely(store, f"/{number % 7}", b"%d" % number) for number in range(300)])

        async with store.watch("/", start) as batches:
            collecting = asyncio.ensure_future(collect(batches, b"299"))
            writing = asyncio.ensure_future(write())
            while (await store.get("/0")).revision < start + 100:
                await asyncio.sleep(0.005)
            getattr(three_members[0], fault)()
            doubts = await asyncio.wait_for(writing, patient(40))
            events = await asyncio.wait_for(collecting, patient(40))
        async with store.watch("/", start) as batches:
            history = await collect(batches, b"299")
        three_members[1].kill()
        with pytest.raises(Unavailable):
            await asyncio.wait_for(store.put("/a", b"no quorum"), patient(40))

    assert doubts < 100  # a few, while the others agree on who leads: most were never in doubt
    assert events == history
    assert list(dict.fromkeys(int(event.kv.value) for event in events)) == list(range(-1, 300))
