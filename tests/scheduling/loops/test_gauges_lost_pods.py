"""The gauge of pods whose node does not exist."""

from __future__ import annotations

from tests.scheduling.stage import Stage, node_bytes
from wharfinger.etcd import keys
from wharfinger.testing.memory_store import MemoryStore


def lost(stage: Stage) -> float:
    stage.loops.refresh_metrics()
    found = stage.metrics.registry.get_sample_value("wharfinger_lost_pods")
    assert found is not None
    return found


async def test_pods_of_a_deleted_node_are_counted_until_the_node_returns() -> None:
    async with Stage() as stage:
        await stage.put_node("n")
        await stage.put_pod("runs", node="n")
        await stage.put_pod("done", node="n", phase="Succeeded")
        await stage.put_pod("waits")
        await stage.caught_up()
        assert lost(stage) == 0

        await stage.store.delete(keys.node("n"))
        await stage.caught_up()
        assert lost(stage) == 1

        await stage.put_node("n")
        await stage.caught_up()
        assert lost(stage) == 0


async def test_pods_of_a_node_that_cannot_be_read_are_not_lost() -> None:
    async with Stage() as stage:
        await stage.put_pod("runs", node="n")
        await stage.store.put(keys.node("n"), node_bytes("n").replace(b"allocatable", b"Allocatable"))
        await stage.caught_up()

        assert stage.loops.scheduling.view.invalid.reasons
        assert lost(stage) == 0


async def test_each_lost_pod_is_counted_by_one_of_several_workers() -> None:
    store = MemoryStore()
    async with Stage(store, slot="one") as one, Stage(store, slot="two") as two:
        await one.until(lambda: all(len(each.loops.scheduling.shards.members) == 2 for each in (one, two)))
        for number in range(8):
            await one.put_pod(f"lost-{number}", node=f"gone-{number}")
        await one.caught_up()
        await two.caught_up()

        assert lost(one) + lost(two) == 8
        assert lost(one) > 0 < lost(two)


async def test_workers_of_tenants_count_only_while_the_common_pool_has_no_worker() -> None:
    store = MemoryStore()
    async with Stage(store, slot="t", tenant="gold") as gold:
        await gold.put_pod("lost", node="gone")
        await gold.caught_up()
        assert lost(gold) == 1

        async with Stage(store, slot="c") as common:
            await common.caught_up()
            await gold.caught_up()

            assert (lost(common), lost(gold)) == (1, 0)
