"""Keys that no component of wharfinger writes: one of them must never stop a loop, let alone all workers."""

from __future__ import annotations

import pytest

from tests.scheduling.stage import Stage
from wharfinger.etcd import keys
from wharfinger.process.records import AttemptRecord, InstanceRecord

RECORD = AttemptRecord(attempt=1, workflow_id="wharfinger/pod/default/gone/uid")


async def test_record_under_an_undecodable_key_is_removed_and_ends_no_worker() -> None:
    async with Stage() as stage:
        bad = keys.attempt("default", "\udcff")
        await stage.store.put(bad, RECORD.to_bytes())
        await stage.until(lambda: stage.attempts.woken)
        await stage.until(lambda: not stage.loops.scheduling.view.records)

        assert (await stage.store.get(bad)).kv is None
        assert stage.attempts.woken[0][1].object == "default/\\xff"


@pytest.mark.parametrize("incarnation", ["1" * 5000, "²", "-1", ""])
async def test_registration_with_an_invalid_incarnation_is_ignored(incarnation: str) -> None:
    record = InstanceRecord(state="ready", host="h", pid=1)
    async with Stage() as stage:
        await stage.store.put(f"{keys.INSTANCES}common/x/{incarnation}", record.to_bytes())
        await stage.caught_up()

        assert len(stage.loops.scheduling.shards.members) == 1


async def test_an_ending_that_fails_for_good_keeps_no_other_from_its_end() -> None:
    async with Stage() as stage:
        await stage.store.put(
            keys.attempt("default", "odd"), RECORD.model_copy(update={"workflow_id": "odd"}).to_bytes()
        )
        await stage.waiting("p")
        await stage.store.delete(keys.pod("default", "p"))
        await stage.until(lambda: stage.attempts.woken_names == ["p"])
