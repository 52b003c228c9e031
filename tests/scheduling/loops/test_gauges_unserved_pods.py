"""The gauge of pods whose scheduler name no live instance serves."""

from __future__ import annotations

from tests.scheduling.stage import Stage
from wharfinger.etcd import keys
from wharfinger.process.records import InstanceRecord
from wharfinger.testing.memory_store import MemoryStore


def unserved(stage: Stage) -> float:
    stage.loops.refresh_metrics()
    found = stage.metrics.registry.get_sample_value("wharfinger_unserved_pods")
    assert found is not None
    return found


async def register(stage: Stage, record: InstanceRecord) -> None:
    lease = await stage.store.grant_lease(60)
    await stage.store.put(keys.instance("common", "two", 1), record.to_bytes(), lease=lease.id)
    await stage.caught_up()


async def test_worker_registers_the_scheduler_names_of_its_profiles() -> None:
    async with Stage(slot="one") as stage:
        kv = (await stage.store.get(keys.instance("common", "one", 1))).kv

    assert kv is not None
    assert InstanceRecord.model_validate_json(kv.value).scheduler_names == ("default-scheduler",)


async def test_unserved_pod_is_counted_by_one_of_several_workers() -> None:
    store = MemoryStore()
    async with Stage(store, slot="one") as one, Stage(store, slot="two") as two:
        await one.until(lambda: all(len(each.loops.scheduling.shards.members) == 2 for each in (one, two)))
        for number in range(8):
            await one.put_pod(f"foreign-{number}", scheduler="volcano")
        await one.put_pod("ours")
        await one.caught_up()
        await two.caught_up()

        assert unserved(one) + unserved(two) == 8
        assert unserved(one) > 0 < unserved(two)

        await one.put_pod("foreign-0", scheduler="volcano", node="n")
        await one.store.delete(keys.pod("default", "foreign-1"))
        await one.caught_up()
        await two.caught_up()

        assert unserved(one) + unserved(two) == 6


async def test_name_that_another_instance_of_the_pool_serves_is_not_counted() -> None:
    async with Stage(slot="one") as stage:
        await stage.put_pod("foreign", scheduler="volcano")
        await stage.caught_up()
        assert unserved(stage) == 1

        await register(stage, InstanceRecord(state="starting", host="h", pid=1, scheduler_names=("volcano",)))

        assert unserved(stage) == 0


async def test_nothing_is_counted_while_an_earlier_release_is_registered() -> None:
    async with Stage(slot="one") as stage:
        await stage.put_pod("foreign", scheduler="volcano")
        await register(stage, InstanceRecord(state="ready", host="h", pid=1, dispatches=False))

        assert unserved(stage) == 0
