"""What tests of a host's loops share: a runtime of virtual processes, grants, and waiting for what must come."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tests.patience import patient
from wharfinger.etcd import keys
from wharfinger.etcd.store import Store
from wharfinger.fleet.contracts.fleet_records import read_value, stored
from wharfinger.fleet.model.fleet import Exit, Grant
from wharfinger.process.children.runtime import Command, InstanceId

FIRST = InstanceId("common", 0, 1)
SECOND = InstanceId("common", 1, 1)
COMMAND = Command(Path("/bin/instance"), (), {})
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


@asynccontextmanager
async def running(*loops: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    """Run loops for the length of the block; one that fails fails the test."""
    tasks = [asyncio.create_task(loop) for loop in loops]
    try:
        yield
        for task in tasks:
            if task.done():
                task.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def until(true: Callable[[], bool | Awaitable[bool]], seconds: float = 20.0) -> None:
    """Wait for it."""
    async with asyncio.timeout(patient(seconds)):
        while True:
            answer = true()
            if answer if isinstance(answer, bool) else await answer:
                return
            await asyncio.sleep(0.005)


async def grant(store: Store, instance: InstanceId = FIRST, **more: Any) -> None:
    """Put a grant for the host `here`."""
    record = Grant(**{"revision": 1, "host": "here", **more})
    await store.put(keys.grant(*instance), stored(record))


async def revoke(store: Store, instance: InstanceId = FIRST) -> None:
    """Delete a grant."""
    await store.delete(keys.grant(*instance))


async def exit_of(store: Store, instance: InstanceId = FIRST) -> Exit | None:
    """The exit record, if there is one."""
    kv = (await store.get(keys.exited(*instance))).kv
    return read_value(Exit, kv.value) if kv is not None else None
