"""What becomes of calls in flight when their store is closed or their task is cancelled."""

from __future__ import annotations

import asyncio
import time

import pytest

from tests.conftest import free_port
from tests.etcd.conftest import Spoken, StartEtcd
from wharfinger.errors import Unavailable
from wharfinger.etcd.etcd import EtcdStore


async def test_closing_ends_a_call_that_waits_for_etcd_to_come_back(spoken: Spoken) -> None:
    store = EtcdStore(spoken(endpoints=(f"http://127.0.0.1:{free_port()}",), deadline=300.0))
    call = asyncio.ensure_future(store.get("/a"))
    await asyncio.sleep(0.3)
    began = time.monotonic()

    await store.close()

    with pytest.raises(Unavailable):
        await call
    assert time.monotonic() - began < 30.0  # of the 300 s that the call may take


async def test_closing_ends_a_call_that_etcd_does_not_answer(start_etcd: StartEtcd, spoken: Spoken) -> None:
    etcd = start_etcd()
    store = EtcdStore(spoken(endpoints=(etcd.url,), attempt_timeout=300.0, deadline=300.0))
    await store.put("/a", b"1")
    etcd.pause()
    call = asyncio.ensure_future(store.put("/a", b"2"))
    await asyncio.sleep(0.3)

    await store.close()

    with pytest.raises(Unavailable) as refused:
        await asyncio.wait_for(call, 30.0)
    assert refused.value.maybe_applied


async def test_call_whose_task_is_cancelled_ends_at_once(start_etcd: StartEtcd, spoken: Spoken) -> None:
    etcd = start_etcd()
    async with EtcdStore(spoken(endpoints=(etcd.url,), attempt_timeout=300.0, deadline=300.0)) as store:
        await store.put("/a", b"1")
        etcd.pause()
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(store.get("/a"), 0.3)
        etcd.resume()
        assert (await store.get("/a")).kv is not None
