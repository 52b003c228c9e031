"""A value that a real worker dies of is tried once: its slot comes back with the last good one, and says so."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import EtcdServer, TemporalServer
from tests.integration.worker_process import WorkerProcess
from tests.patience import patient
from wharfinger.cli.main import run
from wharfinger.etcd import keys
from wharfinger.etcd.etcd import EtcdStore
from wharfinger.fleet.contracts.fleet_records import stored
from wharfinger.fleet.model.fleet import Grant
from wharfinger.framework.config.dynamic import digest
from wharfinger.process.records import ConfigStatusRecord, InstanceRecord
from wharfinger.settings import EtcdSettings

pytestmark = pytest.mark.timeout(400)

TENANT = "trials"
GOOD, DEADLY = {"level": "info"}, {"level": "debug"}
"""The second one is deadly because the test kills the process that applies it."""
SOON, NEVER = 1.0, 3600.0
"""Seconds of readiness after which a value is proven."""


class Slot:
    """A slot without an agent: grants, processes, and what they say."""

    def __init__(self, store: EtcdStore, folder: Path, options: tuple[str, ...]) -> None:
        self.store = store
        self.folder = folder
        self.options = options
        self.processes: list[WorkerProcess] = []

    async def start(self, incarnation: int) -> WorkerProcess:
        await self.store.put(keys.grant(TENANT, 0, incarnation), stored(Grant(revision=1, host="h")))
        lock = self.folder / TENANT / "0" / f"{incarnation}.lock"
        lock.parent.mkdir(parents=True, exist_ok=True)
        named = (f"--instance={TENANT}/0/{incarnation}", "--instance-revision=1", f"--instance-lock={lock}")
        process = WorkerProcess(self.folder / f"{incarnation}.log", *self.options, *named)
        self.processes.append(process)
        return process

    async def fleet(self, min_ready: float) -> None:
        fleet = {"spec": {"minReadySeconds": min_ready}}
        await self.store.put(keys.fleet(TENANT), json.dumps(fleet).encode())

    async def says(self, incarnation: int, **expected: Any) -> dict[str, Any]:
        """Its registration and what it says of its configuration, once they say that."""
        async with asyncio.timeout(patient(90)):
            while True:
                said = await self._said(incarnation)
                if expected.items() <= said.items():
                    return said
                await asyncio.sleep(0.1)

    async def _said(self, incarnation: int) -> dict[str, Any]:
        registration = (await self.store.get(keys.instance(TENANT, "0", incarnation))).kv
        status = (await self.store.get(keys.config_status(TENANT, "0", incarnation))).kv
        if registration is None or status is None:
            return {}
        config = ConfigStatusRecord.model_validate_json(status.value).model_dump()
        record = InstanceRecord.model_validate_json(registration.value).model_dump()
        return {"registered_at": registration.mod_revision, **record, **config}

    async def proven(self, process: WorkerProcess) -> None:
        async with asyncio.timeout(patient(90)):
            while await asyncio.to_thread(proofs, process) != 1:
                await asyncio.sleep(0.2)

    async def set(self, value: dict[str, Any], *more: str) -> None:
        words = ("config", "set", "log", "--target", f"tenant/{TENANT}", "--value", json.dumps(value), *more)
        assert await asyncio.to_thread(run, [*words, self.options[0]]) == 0


def proofs(process: WorkerProcess) -> float:
    """How many values it has proven; a process that stands still does not answer."""
    with suppress(OSError):
        return process.metrics().get('wharfinger_config_updates_total{kind="log",result="proven"}', 0)
    return 0


@pytest.fixture
async def slot(etcd_server: EtcdServer, temporal_server: TemporalServer, tmp_path: Path) -> AsyncIterator[Slot]:
    store = await EtcdStore.connect(EtcdSettings(endpoints=(etcd_server.url,)))
    # A long lease: an instance that stood still for a while would register anew, which the test would notice.
    options = (f"--etcd={etcd_server.url}", f"--temporal={temporal_server.address}", "--lease-ttl=15")
    slot = Slot(store, tmp_path, options)
    await slot.fleet(SOON)
    try:
        yield slot
    finally:
        for process in slot.processes:
            process.end()
        said = (keys.INSTANCES, keys.CONFIG_STATUS)  # of those that were killed: until their leases are over
        for prefix in (keys.FLEETS, keys.GRANTS, keys.CONFIG, keys.CONFIG_HISTORY, *said):
            async for page in store.list(prefix):
                for kv in page.items:
                    await store.delete(kv.key)
        await store.close()


async def test_deadly_value_is_tried_once_and_the_last_good_one_stays_in_force(slot: Slot) -> None:
    first = await slot.start(1)
    registered_at = (await slot.says(1, state="ready"))["registered_at"]
    await slot.set(GOOD)
    await slot.says(1, in_force={"log": digest(GOOD)}, registered_at=registered_at)
    await slot.proven(first)
    await slot.fleet(NEVER)  # so that it is killed in time, and stopped in time
    await slot.set(DEADLY)
    await slot.says(1, in_force={"log": digest(DEADLY)})
    first.process.kill()
    first.process.wait()

    for incarnation in (2, 3):
        process = await slot.start(incarnation)
        record = await slot.says(incarnation, state="ready", in_force={"log": digest(GOOD)})
        assert record["problems"] == {
            "log": "a process ended before it had proven this value; the last good one is in force"
        }
        assert process.metrics()['wharfinger_config_problems{kind="log"}'] == 1
        process.process.kill()
        process.process.wait()

    last = await slot.start(4)
    await slot.says(4, state="ready", in_force={"log": digest(GOOD)})
    await slot.set(DEADLY, "--again")
    await slot.says(4, in_force={"log": digest(DEADLY)}, problems={})
    assert last.stop(patient(60)) == 0  # a planned end, which fails no trial
    await slot.start(5)
    await slot.says(5, state="ready", in_force={"log": digest(DEADLY)}, problems={})


async def test_both_lives_of_a_slot_may_try_the_same_value(slot: Slot) -> None:
    """A newcomer beside a former one that is still trying: no process has died of it."""
    await slot.fleet(NEVER)
    await slot.set(GOOD)
    await slot.start(1)
    await slot.says(1, in_force={"log": digest(GOOD)})
    await slot.start(2)

    await slot.says(2, in_force={"log": digest(GOOD)}, problems={})


async def test_deadly_value_is_taken_back_for_a_worker_without_a_slot(slot: Slot) -> None:
    options = (*slot.options, f"--tenant={TENANT}", f"--state-dir={slot.folder}")

    def start(number: int) -> WorkerProcess:
        process = WorkerProcess(slot.folder / f"hand-{number}.log", *options)
        slot.processes.append(process)
        return process

    await slot.set(GOOD)
    first = start(1)
    await slot.proven(first)
    await slot.fleet(NEVER)
    await slot.set(DEADLY)
    async with asyncio.timeout(patient(90)):
        while f"result=applied kind=log value={digest(DEADLY)[:12]}" not in first.said:
            await asyncio.sleep(0.1)
    first.process.kill()
    first.process.wait()

    second = start(2)
    await asyncio.to_thread(second.wait_ready)
    assert "a process ended before it had proven this value; the last good one is in force" in second.said
    assert second.metrics()['wharfinger_config_problems{kind="log"}'] == 1
