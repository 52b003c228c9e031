"""Agents that do at once what works say, or leave it, as a test wants: nothing is applied anywhere."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from wharfinger.etcd.store import Compare, Put, Store
from wharfinger.placement.contracts import placement_keys
from wharfinger.placement.contracts.delivery_records import ResultRecord, WorkRecord


@dataclass
class Obedient:
    """What they answer."""

    holding: set[str] = field(default_factory=set)
    """Members on which what is to go does not."""

    async def answer(self, store: Store) -> None:
        """Answer every work once."""
        for kv in [kv async for page in store.list(placement_keys.work.prefix) for kv in page.items]:
            reference, _, member = kv.key.removeprefix(placement_keys.work.prefix).rpartition("/")
            work = WorkRecord.model_validate_json(kv.value)
            if work.want != "present" and member in self.holding:
                continue
            there = work.want == "present"
            said = ResultRecord(
                counter=work.counter, identity=work.identity, applied=there, available=there, gone=not there
            )
            key = placement_keys.result(reference, member)
            found = (await store.get(key)).kv
            if found is None or ResultRecord.model_validate_json(found.value) != said:
                await store.txn([Compare(kv.key, "mod", kv.mod_revision)], [Put(key, said.to_bytes())])

    @asynccontextmanager
    async def at_work(self, store: Store) -> AsyncIterator[Obedient]:
        """They answer during the block."""

        async def answer_all() -> None:
            while True:
                await self.answer(store)
                await asyncio.sleep(0.02)

        task = asyncio.create_task(answer_all())
        try:
            yield self
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
