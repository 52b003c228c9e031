"""A work on a member ends: absent, released, refused; and goes on after crashes, fences, rejoins and lost answers."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import pytest

from tests.placement.member.member_scene import (
    ALL,
    CONFIG,
    CONTENTS,
    HIDDEN,
    NAMESPACE,
    NOW,
    POD,
    SECRET,
    SETTINGS,
    WEB,
    Member,
    Object,
    P,
    Q,
    bound,
    obj,
    pod,
)
from wharfinger.errors import Unavailable
from wharfinger.etcd.store import Condition, Operation, Put
from wharfinger.placement.contracts import placement_keys
from wharfinger.placement.contracts.delivery_records import MarkRecord, WorkRecord
from wharfinger.placement.member.applying import WorkOnMember
from wharfinger.placement.member.member_store import AgentFenced

# --- absent, released -----------------------------------------------------------------------------


async def test_what_is_absent_is_deleted_the_last_wave_first(member: Member) -> None:
    await member.bring()
    gone: list[str] = []
    member.store.before_txn = lambda _, operations: gone.extend(
        one.key for one in operations if type(one).__name__ == "Delete" and one.key in ALL
    )
    result = await member.bring(want="absent")
    assert result.gone
    assert (gone[0], set(gone[1:3]), gone[3]) == (POD, {CONFIG, SECRET}, NAMESPACE)
    assert (await member.there(), await member.marks(), await member.recorded()) == ({}, {}, None)


async def test_what_is_absent_awaits_finalizers_of_others(member: Member) -> None:
    await member.bring([WEB, obj("ConfigMap", "c", metadata={"finalizers": ["x/y"]})])
    for _ in range(2):
        result = await member.bring(want="absent")
        assert (result.gone, result.objects, result.reason) == (False, 1, "v1 ConfigMap web/c waits for its finalizers")
    assert (await member.there()).keys() == {CONFIG}
    await member.store.delete(CONFIG)
    assert (await member.bring(want="absent")).gone
    assert (await member.marks(), await member.recorded()) == ({}, None)


async def test_what_is_released_keeps_its_objects_and_loses_its_marks(member: Member) -> None:
    await member.bring()
    before = await member.there()
    assert (await member.bring(want="release")).gone
    assert await member.there() == before
    assert (await member.marks(), await member.recorded()) == ({}, None)


async def test_what_others_deleted_or_took_is_left_to_them(member: Member) -> None:
    await member.bring([WEB, SETTINGS, HIDDEN])
    await member.store.delete(CONFIG)
    await member.store.put(placement_keys.mark(SECRET), MarkRecord(placement=Q, life="hub/east/7").to_bytes())
    assert (await member.bring(want="absent")).gone
    assert (await member.there()).keys() == {SECRET}
    assert await member.marks() == {SECRET: Q}


async def test_a_member_without_the_placement_is_gone_at_once(member: Member) -> None:
    before = member.store.revision
    assert (await member.bring(want="absent")).gone
    assert member.store.revision == before


# --- counters, fences, lives ----------------------------------------------------------------------


@pytest.mark.parametrize("want", ["present", "absent", "release"])
async def test_a_lower_counter_is_refused_and_reported(member: Member, want: Any) -> None:
    await member.bring(counter=9)
    before = member.store.revision
    result = await member.bring([WEB], counter=8, want=want)
    assert (result.counter, result.applied, result.available, result.gone) == (9, False, False, False)
    assert "counter 9" in result.reason
    assert member.store.revision == before
    assert (await member.bring([WEB], counter=10)).applied


async def test_an_agent_that_was_replaced_writes_nothing_more(member: Member) -> None:
    first = member.agent
    await member.bring([WEB])
    await member.take_over()
    before = member.store.revision
    for want in ("present", "absent", "release"):
        work = WorkRecord(counter=5, since=5, identity=7, want=want)
        with pytest.raises(AgentFenced):
            await WorkOnMember(first, P, work, "hub/east/7", NOW).bring(CONTENTS)
    assert member.store.revision == before
    assert (await member.bring()).applied


@pytest.mark.parametrize("at", range(6))
async def test_an_agent_that_is_replaced_between_two_writes_stops(member: Member, at: int) -> None:
    first, writes = member.store, 0

    async def replace(_: Sequence[Condition], operations: Sequence[Operation]) -> None:
        nonlocal writes
        if any(isinstance(one, Put) for one in operations):
            if writes == at:
                await member.take_over()
            writes += 1

    first.before_txn = replace
    if at == 5:  # five writes bring it all
        assert (await member.bring()).applied
        return
    with pytest.raises(AgentFenced):
        await member.bring()
    await asyncio.sleep(0)
    left = await member.there()
    assert len(left) <= at
    assert (await member.bring()).applied
    assert (await member.there()).keys() == ALL


async def test_after_a_rejoin_what_is_there_counts_as_pre_existing(member: Member) -> None:
    await member.bring(counter=9)
    await member.change(CONFIG, data={"a": "2"})
    result = await member.bring(identity=8, counter=1, strategy={"whenToTakeOver": "IfNoDiff"})
    assert [one.reason for one in result.told[:1]] == ["FailedToTakeOver"]
    result = await member.bring(identity=8, counter=2, strategy={"whenToTakeOver": "Never"})
    assert (result.failed, result.passing) == (True, False)
    result = await member.bring([WEB, SETTINGS], identity=8, counter=3)
    assert (result.applied, (await member.there()).keys()) == (True, {NAMESPACE, CONFIG})
    assert (await member.there())[CONFIG]["data"] == {"a": "1"}


async def test_after_a_rejoin_nothing_of_the_earlier_life_is_removed(member: Member) -> None:
    await member.bring()
    assert (await member.bring(identity=8, counter=1, want="absent")).gone
    assert (await member.there()).keys() == ALL


async def test_an_object_of_two_placements_stays_with_the_first(member: Member) -> None:
    await member.bring([WEB, SETTINGS])
    other = obj("ConfigMap", "c", data={"a": "9"})
    result = await member.bring([other, HIDDEN], placement=Q, counter=1)
    assert (result.failed, [one.reason for one in result.told]) == (True, ["OwnedByOtherPlacement"])
    assert result.passing
    assert P in result.reason
    assert (await member.there())[CONFIG]["data"] == {"a": "1"}
    assert (await member.bring(placement=Q, counter=2, want="absent")).gone
    assert (await member.there()).keys() == {NAMESPACE, CONFIG}


async def test_the_second_placement_gets_the_object_when_the_first_goes(member: Member) -> None:
    await member.bring([SETTINGS], counter=1)
    other = obj("ConfigMap", "c", data={"a": "9"})
    assert not (await member.bring([other], placement=Q, counter=1)).applied
    await member.bring(counter=2, want="release")
    assert (await member.bring([other], placement=Q, counter=1)).applied
    assert await member.marks() == {CONFIG: Q}


# --- crashes --------------------------------------------------------------------------------------


class Crash(Exception):
    """The agent's process ends."""


def stripped(there: dict[str, Object]) -> dict[str, Object]:
    """Objects without what differs between two creations."""
    return {
        key: {**one, "metadata": {name: value for name, value in one["metadata"].items() if name != "uid"}}
        for key, one in there.items()
    }


CHANGED = (pod("2"), obj("ConfigMap", "d"), HIDDEN, WEB)


@pytest.mark.parametrize("applied", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("at", range(12))
@pytest.mark.parametrize("want", ["present", "absent", "release"])
async def test_after_a_crash_at_any_write_nothing_is_lost_or_doubled(want: Any, at: int, *, applied: bool) -> None:
    """The second work replaces the pod, removes one object and adds another."""
    expected: list[dict[str, Object]] = []
    for crashes in (False, True):
        member = Member()
        await member.take_over()
        await bound(member)
        await member.bring()
        writes = 0

        def crash(_: Sequence[Condition], operations: Sequence[Operation]) -> None:
            nonlocal writes
            if any(type(one).__name__ != "Get" for one in operations):
                writes += 1
                if writes > at:
                    raise Crash

        if crashes:
            if applied:
                member.store.after_txn = crash
            else:
                member.store.before_txn = crash
            with suppress(Crash):
                await member.bring(CHANGED, want=want, counter=9)
            for _ in range(9):  # what else was under way
                await asyncio.sleep(0)
            record = await member.recorded()
            known = {one[4] for one in record.objects} if record is not None else set()
            assert {key.rpartition("/")[2] for key in await member.marks()} <= known
            await member.take_over()
        result = await member.bring(CHANGED, want=want, counter=9)
        assert (result.applied, result.gone) == (want == "present", want != "present")
        expected.append(stripped(await member.there()))
        assert (await member.marks()).keys() == ((await member.there()).keys() if want == "present" else set())
        before = member.store.revision
        await member.bring(CHANGED, want=want, counter=9)
        assert member.store.revision == before
    assert expected[0] == expected[1]


@pytest.mark.parametrize("applied", [True, False])
@pytest.mark.parametrize("lost", range(5))
async def test_a_lost_answer_is_no_conflict_with_itself(member: Member, lost: int, *, applied: bool) -> None:
    await member.bring()
    writes = 0

    def lose(_: Sequence[Condition], operations: Sequence[Operation]) -> None:
        nonlocal writes
        if any(isinstance(one, Put) for one in operations):
            if writes == lost:
                member.store.fail_next(applied=applied)
            writes += 1

    member.store.before_txn = lose
    contents = [{**one, "metadata": {**one["metadata"], "labels": {"new": "1"}}} for one in CONTENTS]
    with pytest.raises(Unavailable):
        await member.bring(contents)
    member.store.before_txn = None
    assert (await member.bring(contents)).applied
    assert all(one["metadata"]["labels"] == {"new": "1"} for one in (await member.there()).values())


async def test_an_object_that_others_write_all_the_time_is_tried_again_later(member: Member) -> None:
    await member.bring([WEB, SETTINGS])
    number = 0

    async def change(_: Sequence[Condition], operations: Sequence[Operation]) -> None:
        nonlocal number
        if any(isinstance(one, Put) and one.key == CONFIG for one in operations):
            number += 1
            await member.store.client().put(CONFIG, json.dumps(obj("ConfigMap", "c", data={"n": str(number)})).encode())

    member.store.before_txn = change
    result = await member.bring([WEB, obj("ConfigMap", "c", data={"a": "2"})])
    assert (result.applied, result.failed, result.told[0].reason) == (False, False, "Contended")
    member.store.before_txn = None
    assert (await member.bring([WEB, obj("ConfigMap", "c", data={"a": "2"})])).applied
