"""A work on a member where objects cannot be read or written, or others delete them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from typing import Any

import pytest

from tests.placement.member.member_scene import (
    CONFIG,
    HIDDEN,
    NAMESPACE,
    POD,
    SECRET,
    SETTINGS,
    WEB,
    Member,
    P,
    Q,
    bound,
    obj,
    pod,
)
from wharfinger.errors import AccessDenied
from wharfinger.etcd.store import Condition, Operation
from wharfinger.placement.contracts import placement_keys
from wharfinger.placement.contracts.delivery_records import AppliedRecord, MarkRecord


def deny(member: Member, *denied: str) -> None:
    """The member lets these keys not be written, or nothing at all."""

    def refuse(_: Sequence[Condition], operations: Sequence[Operation]) -> None:
        if any(type(one).__name__ != "Get" and (one.key in denied or not denied) for one in operations):
            raise AccessDenied("permission denied")

    member.store.before_txn = refuse


# --- deletions by others --------------------------------------------------------------------------


@pytest.mark.parametrize("contents", [pod(), pod("2")], ids=["the same", "another"])
async def test_a_pod_that_is_evicted_gracefully_is_not_cut_off(member: Member, contents: dict[str, Any]) -> None:
    await bound(member)
    metadata = (await member.there())[POD]["metadata"]
    leaving = {"deletionTimestamp": "2026-01-01T00:00:30Z", "deletionGracePeriodSeconds": 30}
    await member.change(POD, metadata={**metadata, **leaving})
    for _ in range(2):
        result = await member.bring([WEB, contents])
        assert (await member.there())[POD]["metadata"]["uid"] == "before"
        assert (result.available, result.failed, result.told[0].reason) == (False, False, "BeingDeleted")
    await member.store.delete(POD)
    assert (await member.bring([WEB, contents])).applied
    assert (await member.there())[POD]["metadata"]["uid"] != "before"


async def test_a_deletion_of_ours_allows_no_later_one_of_others(member: Member) -> None:
    await bound(member, finalizers=["x/y"])
    await member.bring([WEB, pod("2")])
    live = (await member.there())[POD]
    metadata = {"name": "p", "namespace": "web", "uid": "next"}
    await member.store.put(POD, json.dumps({**live, "metadata": metadata}).encode())
    evicted = {**live, "metadata": {**metadata, "deletionTimestamp": "2026-01-01T00:09:00Z"}}
    await member.store.put(POD, json.dumps(evicted).encode())
    assert (await member.bring([WEB, pod("2")])).told[0].reason == "BeingDeleted"
    assert (await member.there())[POD]["metadata"]["uid"] == "next"


async def test_a_removal_that_is_taken_back_is_completed_by_us(member: Member) -> None:
    config = obj("ConfigMap", "c", metadata={"finalizers": ["x/y"]})
    await member.bring([WEB, config])
    await member.bring([WEB])
    assert (await member.bring([WEB, SETTINGS])).told[0].reason == "BeingDeleted"
    dying = (await member.there())[CONFIG]
    dying["metadata"].pop("finalizers")
    await member.store.put(CONFIG, json.dumps(dying).encode())
    assert (await member.bring([WEB, SETTINGS])).applied
    assert "deletionTimestamp" not in (await member.there())[CONFIG]["metadata"]


async def test_the_mark_forgets_a_deletion_that_is_over(member: Member) -> None:
    await bound(member, finalizers=["x/y"])
    await member.bring([WEB, pod("2")])
    await member.store.put(POD, json.dumps(pod("2")).encode())
    await member.bring([WEB, pod("2")])
    kv = (await member.store.get(placement_keys.mark(POD))).kv
    assert kv is not None
    assert MarkRecord.model_validate_json(kv.value).removing == ""


# --- objects that cannot be read ------------------------------------------------------------------


async def test_an_unreadable_object_loses_its_mark_and_is_told(member: Member) -> None:
    await member.bring([WEB, SETTINGS])
    await member.store.put(CONFIG, b"{broken")
    result = await member.bring(want="absent")
    assert result.gone
    assert result.reason == "v1 ConfigMap web/c cannot be read, and was left to others"
    assert [(one.object, one.reason) for one in result.told] == [("v1 ConfigMap web/c", "Unreadable")]
    kv = (await member.store.get(CONFIG)).kv
    assert kv is not None
    assert kv.value == b"{broken"
    assert (await member.marks(), await member.recorded()) == ({}, None)


async def test_an_unreadable_leftover_loses_its_mark_and_is_told(member: Member) -> None:
    await member.bring([WEB, SETTINGS])
    await member.store.put(CONFIG, b"[]")
    result = await member.bring([WEB])
    assert (result.applied, [one.reason for one in result.told]) == (True, ["Unreadable"])
    assert await member.marks() == {NAMESPACE: P}
    assert (await member.bring([WEB])).told == ()


async def test_an_unreadable_object_refuses_no_later_placement(member: Member) -> None:
    await member.bring([SETTINGS], counter=1)
    await member.store.put(CONFIG, b"{broken")
    await member.bring(want="absent", counter=2)
    await member.store.put(CONFIG, json.dumps(SETTINGS).encode())
    assert (await member.bring([SETTINGS], placement=Q, counter=1)).applied
    assert await member.marks() == {CONFIG: Q}


async def test_an_unreadable_object_is_released_with_the_others(member: Member) -> None:
    await member.bring([WEB, SETTINGS])
    await member.store.put(CONFIG, b"{broken")
    assert (await member.bring(want="release")).gone
    assert (await member.marks(), (await member.store.get(CONFIG)).kv is not None) == ({}, True)


async def test_an_unreadable_object_fails_alone(member: Member) -> None:
    await member.bring([WEB, SETTINGS])
    await member.store.put(CONFIG, b"{broken")
    result = await member.bring([WEB, SETTINGS, HIDDEN])
    assert (result.failed, [one.object for one in result.told]) == (True, ["v1 ConfigMap web/c"])
    assert (await member.marks()).keys() == {NAMESPACE, CONFIG, SECRET}


# --- what the member refuses ----------------------------------------------------------------------


async def test_an_object_that_is_denied_fails_alone(member: Member) -> None:
    deny(member, SECRET)
    result = await member.bring([WEB, SETTINGS, HIDDEN])
    assert (await member.there()).keys() == {NAMESPACE, CONFIG}
    assert (result.failed, [one.message for one in result.told]) == (True, ["permission denied"])


@pytest.mark.parametrize("want", ["present", "absent"])
async def test_a_removal_that_is_denied_is_told_and_the_rest_removed(member: Member, want: Any) -> None:
    await member.bring([WEB, SETTINGS, HIDDEN])
    deny(member, SECRET)
    result = await member.bring([], want=want)
    assert (await member.there()).keys() == {SECRET}
    assert not result.gone
    assert [one.message for one in result.told] == ["cannot be removed: permission denied"]
    member.store.before_txn = None
    await member.bring([], want=want)
    assert await member.there() == {}


async def test_a_member_that_denies_everything_fails_no_object(member: Member, monkeypatch: pytest.MonkeyPatch) -> None:
    async def denied(*_: Any) -> Any:
        raise AccessDenied("invalid auth token")

    await member.bring([WEB, SETTINGS])
    monkeypatch.setattr(member.agent, "get", denied)
    monkeypatch.setattr(member.agent, "revision", denied)
    with pytest.raises(AccessDenied):
        await member.bring([WEB, SETTINGS])


def named(number: int) -> tuple[str, str, str, str, str]:
    digest = hashlib.sha256(str(number).encode()).hexdigest()
    return "", "v1", "ConfigMap", f"{'n' * 50}-{number % 40}", f"{'a-long-name-' * 12}{digest}"


async def test_ten_thousand_objects_with_long_names_are_recorded(member: Member) -> None:
    record = AppliedRecord(counter=1, identity=7, objects=tuple(named(number) for number in range(10_000)))
    there = await member.agent.record(P, await member.agent.applied(P), record)
    assert there is not None
    assert (await member.agent.applied(P)).record == record
    assert await member.agent.placements() == {P: record}


async def test_a_record_of_an_earlier_release_is_read(member: Member) -> None:
    record = AppliedRecord(counter=1, identity=7, objects=tuple(named(number) for number in range(1_000)))
    await member.store.put(placement_keys.applied(P), record.model_dump_json().encode())
    assert (await member.agent.applied(P)).record == record
