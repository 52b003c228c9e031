"""A work on a member: objects are applied in waves, drifts corrected, and what cannot be applied is told."""

from __future__ import annotations

import json
from collections.abc import Sequence
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
    bound,
    obj,
    pod,
)
from wharfinger.etcd.store import Condition, Operation, Put
from wharfinger.placement.contracts import placement_keys
from wharfinger.placement.contracts.delivery_records import WorkRecord
from wharfinger.placement.spec.placement_fields import ApplyStrategyFields

# --- present --------------------------------------------------------------------------------------


async def test_objects_are_applied_in_waves_after_they_were_recorded(member: Member) -> None:
    written: list[str] = []

    def note(_: Sequence[Condition], operations: Sequence[Operation]) -> None:
        written.extend(
            one.key for one in operations if isinstance(one, Put) and not one.key.startswith(placement_keys.MARKS)
        )

    member.store.before_txn = note
    result = await member.bring()
    assert written[:2] == [placement_keys.applied(P), NAMESPACE]
    assert set(written[2:4]) == {CONFIG, SECRET}
    assert written[4:] == [POD]
    assert (result.applied, result.available, result.failed, result.objects) == (True, False, False, 4)
    assert [one.object for one in result.told] == ["v1 Pod web/p"]
    assert await member.marks() == dict.fromkeys(ALL, P)


async def test_a_pod_is_available_when_the_member_has_bound_it(member: Member) -> None:
    await member.bring()
    spec = (await member.there())[POD]["spec"]
    await member.change(POD, spec={**spec, "nodeName": "n1"})
    result = await member.bring()
    assert (result.available, result.told, result.drifted) == (True, (), ())


@pytest.mark.parametrize(
    ("want", "strategy"),
    [("present", {}), ("present", {"type": "ReportDiff"}), ("absent", {}), ("release", {})],
    ids=["present", "reported", "absent", "release"],
)
async def test_bringing_again_writes_nothing_at_rest(member: Member, want: Any, strategy: Object) -> None:
    await member.bring()
    first = await member.bring(want=want, strategy=strategy)
    before = member.store.revision
    work = WorkRecord(
        counter=member.counter,
        since=member.counter,
        identity=7,
        want=want,
        strategy=ApplyStrategyFields.model_validate(strategy).complete,
    )
    assert await member.again(CONTENTS, work) == first
    assert await member.again(CONTENTS, work) == first
    assert member.store.revision == before


async def test_objects_that_are_no_longer_wanted_are_removed(member: Member) -> None:
    await member.bring()
    result = await member.bring([WEB, HIDDEN])
    assert (await member.there()).keys() == (await member.marks()).keys() == {NAMESPACE, SECRET}
    assert (result.available, result.objects) == (True, 2)
    record = await member.recorded()
    assert record is not None
    assert [one[2] for one in record.objects] == ["Namespace", "Secret"]


async def test_a_leftover_with_finalizers_is_awaited(member: Member) -> None:
    await member.bring([WEB, obj("ConfigMap", "c", metadata={"finalizers": ["x/y"]})])
    result = await member.bring([WEB])
    assert [(one.object, one.reason) for one in result.told] == [("v1 ConfigMap web/c", "LeftOver")]
    config = (await member.there())[CONFIG]
    assert config["metadata"]["deletionTimestamp"] == NOW
    await member.change(CONFIG, metadata={"name": "c", "namespace": "web", "deletionTimestamp": NOW})
    assert (await member.bring([WEB])).told == ()
    assert CONFIG not in await member.there()


async def test_a_drift_is_corrected_and_told_once(member: Member) -> None:
    await member.bring()
    await member.change(CONFIG, data={"a": "2"})
    result = await member.bring()
    assert [(one.object, one.diffs) for one in result.drifted] == [("v1 ConfigMap web/c", (("/data/a", '"1"', '"2"'),))]
    assert (await member.there())[CONFIG]["data"] == {"a": "1"}
    assert (await member.bring()).drifted == ()


async def test_a_secret_is_applied_and_its_values_are_never_told(member: Member) -> None:
    await member.bring()
    assert (await member.there())[SECRET]["data"] == {"password": "aHVuZ2Vy"}
    for strategy in ({}, {"whenToApply": "IfNotDrifted"}, {"type": "ReportDiff"}, {"type": "ServerSideApply"}):
        await member.change(SECRET, data={"password": "dGhpcnN0"})
        result = await member.bring(strategy=strategy)
        assert result.drifted or result.told or result.failed
        assert b"aHVuZ2Vy" not in result.to_bytes()
        assert b"dGhpcnN0" not in result.to_bytes()


async def test_reporting_writes_no_object_and_removes_none(member: Member) -> None:
    await member.bring([WEB, SETTINGS])
    before = await member.there()
    result = await member.bring([WEB, HIDDEN], strategy={"type": "ReportDiff"})
    assert await member.there() == before
    assert (result.reported, result.applied, result.available, result.failed) == (True, False, False, False)
    assert [(one.object, one.reason) for one in result.told] == [("v1 Secret web/s", "FoundDiff")]


async def test_what_is_refused_is_told_once_and_the_rest_applied(member: Member) -> None:
    await member.store.put(CONFIG, json.dumps(obj("ConfigMap", "c", data={"a": "9"})).encode())
    result = await member.bring(strategy={"whenToTakeOver": "IfNoDiff"})
    assert (await member.there()).keys() == ALL
    assert (result.applied, result.failed) == (False, True)
    assert [one.reason for one in result.told] == ["FailedToTakeOver", "NotYetAvailable"]
    assert result.reason.startswith("v1 ConfigMap web/c: FailedToTakeOver: ")


async def test_an_unknown_kind_fails_the_work_and_changes_nothing(member: Member) -> None:
    await member.bring()
    before = member.store.revision
    result = await member.bring([WEB, obj("Gadget", "g")])
    assert (result.failed, member.store.revision) == (True, before)
    assert "'Gadget' is not known here" in result.reason


@pytest.mark.parametrize(
    "strange",
    [
        obj("ConfigMap", "c", ""),
        obj("Namespace", "other", "web"),
        obj("ConfigMap", "a/b"),
        obj("ConfigMap", "c", "a/b"),
    ],
    ids=["no namespace", "a namespace too many", "a slash in the name", "a slash in the namespace"],
)
async def test_an_object_that_would_lie_elsewhere_fails_the_work(member: Member, strange: Object) -> None:
    result = await member.bring([WEB, strange])
    assert result.failed
    assert await member.there() == {}


async def test_an_object_that_is_too_large_fails_alone(member: Member) -> None:
    large = obj("ConfigMap", "c", data={"a": "x" * 1_000_000})
    result = await member.bring([WEB, large, HIDDEN])
    assert (await member.there()).keys() == {NAMESPACE, SECRET}
    assert (result.failed, [one.object for one in result.told]) == (True, ["v1 ConfigMap web/c"])


async def test_overrides_and_envelopes_are_resolved_on_the_member(member: Member) -> None:
    envelope = {
        "apiVersion": "placement.kubernetes-fleet.io/v1beta1",
        "kind": "ResourceEnvelope",
        "metadata": {"name": "e", "namespace": "web"},
        "data": {"pod": pod(), "secret": HIDDEN},
    }
    resolved = (
        {
            "source": "o",
            "delete": False,
            "patches": [["add", "/metadata/labels", {"on": "east"}]],
            "objects": [["", "v1", "Pod", "web", "p"], ["", "v1", "ConfigMap", "web", "c"]],
        },
        {"source": "web/d", "delete": True, "patches": [], "objects": [["", "v1", "Secret", "web", "s"]]},
    )
    await member.bring([WEB, SETTINGS, envelope], resolved=resolved)
    there = await member.there()
    assert there.keys() == {NAMESPACE, CONFIG, POD}
    assert [there[key]["metadata"].get("labels") for key in (NAMESPACE, CONFIG, POD)] == [None, *[{"on": "east"}] * 2]


async def test_an_override_that_cannot_be_applied_fails_the_work(member: Member) -> None:
    resolved = (
        {
            "source": "o",
            "delete": False,
            "patches": [["remove", "/data/b", None]],
            "objects": [["", "v1", "ConfigMap", "web", "c"]],
        },
    )
    result = await member.bring(resolved=resolved)
    assert (result.failed, await member.there()) == (True, {})
    assert result.reason.startswith("override o cannot change v1 ConfigMap web/c")


async def test_workloads_cannot_be_tracked_where_nothing_runs_them(member: Member) -> None:
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j", "namespace": "web"}, "spec": {}}
    result = await member.bring([WEB, job])
    assert (result.available, result.untrackable) == (True, True)


# --- pods that are replaced -----------------------------------------------------------------------


async def test_a_bound_pod_that_changes_is_deleted_and_created(member: Member) -> None:
    await bound(member)
    result = await member.bring([WEB, pod("2")])
    now = (await member.there())[POD]
    assert (result.applied, result.available) == (True, False)
    assert "nodeName" not in now["spec"]
    assert now["metadata"]["uid"] != "before"


async def test_a_bound_pod_with_finalizers_is_replaced_when_they_are_gone(member: Member) -> None:
    await bound(member, finalizers=["x/y"])
    for _ in range(2):
        result = await member.bring([WEB, pod("2")])
        assert (result.applied, result.failed, result.told[0].reason) == (False, False, "BeingDeleted")
    now = (await member.there())[POD]
    assert (now["metadata"]["uid"], now["metadata"]["deletionTimestamp"]) == ("before", NOW)
    await member.store.delete(POD)
    assert (await member.bring([WEB, pod("2")])).applied


async def test_what_is_let_go_by_its_finalizers_is_made_anew(member: Member) -> None:
    await bound(member, finalizers=["x/y"])
    await member.bring([WEB, pod("2")])
    dying = (await member.there())[POD]
    dying["metadata"].pop("finalizers")
    await member.store.put(POD, json.dumps(dying).encode())
    assert (await member.bring([WEB, pod("2")])).applied
    assert "deletionTimestamp" not in (await member.there())[POD]["metadata"]


async def test_a_pod_that_others_create_while_it_is_replaced_is_merged(member: Member) -> None:
    await bound(member)
    other = pod("2", metadata={"uid": "theirs", "labels": {"their": "label"}})

    async def create(_: Sequence[Condition], operations: Sequence[Operation]) -> None:
        if any(one.key == POD and not isinstance(one, Put) for one in operations if not hasattr(one, "lease")):
            deleted = (await member.store.get(POD)).kv is None
            if deleted:
                member.store.after_txn = None
                await member.store.client().put(POD, json.dumps(other).encode())

    member.store.after_txn = create
    assert (await member.bring([WEB, pod("2")])).applied
    assert (await member.there())[POD]["metadata"] == other["metadata"]
