"""One rule for every way out: what ends is signalled, forgotten, and leaves no record."""

from __future__ import annotations

from tests.scheduling.stage import Stage, pod_bytes
from wharfinger.etcd import keys
from wharfinger.etcd.store import Put
from wharfinger.objects.model.pod import PodKey
from wharfinger.process.records import AttemptRecord
from wharfinger.scheduling.state.queue.entry import Part


async def record(stage: Stage, name: str) -> bool:
    return (await stage.store.get(keys.attempt("default", name))).kv is not None


async def test_a_waiting_pod_that_is_deleted_ends_its_chain_and_its_record() -> None:
    async with Stage() as stage:
        await stage.waiting("p")
        await stage.store.delete(keys.pod("default", "p"))
        await stage.until(lambda: not stage.loops.scheduling.view.records)

        assert [(name, wake.revision, wake.event) for name, wake in stage.attempts.woken] == [("p", 0, "PodGone")]
        assert not await record(stage, "p")
        assert len(stage.queue) == 0


async def test_waiting_pod_bound_elsewhere_ends_its_chain_and_its_record() -> None:
    async with Stage() as stage:
        await stage.waiting("p")
        await stage.put_pod("p", node="n")
        await stage.until(lambda: not stage.loops.scheduling.view.records)

        assert stage.attempts.woken_names == ["p"]


async def test_a_bind_of_ours_needs_no_signal() -> None:
    async with Stage() as stage:
        await stage.waiting("p")
        await stage.bind("p", "n")
        await stage.caught_up()

        assert stage.attempts.woken == []
        assert len(stage.queue) == 0


async def test_pod_being_deleted_is_signalled_at_once_and_loses_its_record() -> None:
    async with Stage() as stage:
        await stage.waiting("p")
        await stage.put_pod("p", deleted="2026-01-01T00:00:00Z")
        await stage.until(lambda: stage.attempts.woken)
        assert stage.part("p") is None

        await stage.store.delete(keys.pod("default", "p"))
        await stage.until(lambda: not stage.loops.scheduling.view.records)


async def test_a_record_written_for_a_pod_just_deleted_is_removed() -> None:
    async with Stage() as stage:
        await stage.put_pod("p")
        await stage.until(lambda: stage.part("p"))
        put = (await stage.store.get(keys.pod("default", "p"))).kv
        assert put is not None
        await stage.refuse("p")
        await stage.store.delete(keys.pod("default", "p"))
        await stage.until(lambda: not stage.loops.scheduling.view.records and not stage.cache.pods)

        assert not await record(stage, "p")


async def test_record_of_an_earlier_life_is_removed_and_its_chain_ended() -> None:
    """All workers were off duty while a waiting pod was deleted and made again."""
    async with Stage() as stage:
        left = AttemptRecord(attempt=1, create_revision=1, workflow_id="wharfinger/pod/default/p/rev-1")
        await stage.store.txn(
            [], [Put(keys.pod("default", "p"), pod_bytes("p")), Put(keys.attempt("default", "p"), left.to_bytes())]
        )
        await stage.until(lambda: stage.attempts.woken and not stage.loops.scheduling.view.records)

        assert stage.attempts.woken_names == ["p"]
        assert not await record(stage, "p")
        assert stage.part("p") is Part.IN_FLIGHT


async def test_a_record_rewritten_since_is_left_alone() -> None:
    """The pod was made anew and refused again before the old record could be removed."""
    async with Stage() as stage:
        await stage.waiting("p")
        stage.attempts.failing.add("p")
        await stage.store.delete(keys.pod("default", "p"))
        await stage.put_pod("p")
        await stage.refuse("p")
        await stage.caught_up()
        stage.attempts.failing.clear()
        await stage.until(lambda: stage.attempts.woken)
        await stage.caught_up()

        assert await record(stage, "p")
        assert stage.part("p") is Part.WAITING


async def test_a_pod_that_turns_to_another_scheduler_is_let_go() -> None:
    async with Stage() as stage:
        await stage.waiting("p")
        await stage.put_pod("p", scheduler="somebody-else")
        await stage.until(lambda: stage.attempts.woken)

        assert stage.part("p") is None


async def test_pods_of_others_are_not_queued_but_count_once_bound() -> None:
    async with Stage() as stage:
        await stage.put_pod("theirs", scheduler="somebody-else")
        await stage.put_pod("done", phase="Succeeded")
        await stage.put_pod("going", deleted="2026-01-01T00:00:00Z")
        await stage.caught_up()
        assert len(stage.queue) == 0

        await stage.put_node("n", cpu="4")
        await stage.put_pod("theirs", scheduler="somebody-else", cpu="3", node="n")
        await stage.caught_up()
        assert stage.cache.snapshot().requested("cpu").tolist() == [3000]


async def test_gates_removed_let_the_pod_go() -> None:
    async with Stage() as stage:
        await stage.put_pod("p", gates=("wait",))
        await stage.caught_up()
        assert stage.part("p") is Part.GATED

        await stage.put_pod("p")
        await stage.until(lambda: stage.attempts.names == ["p"])


async def test_the_time_from_seen_to_bound_is_measured() -> None:
    async with Stage() as stage:
        await stage.put_pod("p")
        await stage.until(lambda: stage.part("p"))
        stage.clock.advance(3)
        await stage.bind("p", "n")
        await stage.until(lambda: stage.part("p") is None)

        assert stage.metrics.sli_duration.labels("1")._sum.get() == 3
        assert stage.metrics.pod_scheduling_attempts._sum.get() == 1
        assert PodKey("default", "p") in stage.cache.pods
