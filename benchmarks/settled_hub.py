"""A hub's etcd as hubs, rollouts and agents leave it: members, placements, and a settled decision of each.

`deliver_all` adds what rollouts and agents write next: a snapshot, works and results.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from typing import Any

from etcd_side import put_all

from wharfinger.etcd.store import Store
from wharfinger.placement.contracts import placement_keys
from wharfinger.placement.contracts.delivery_records import ResultRecord, WorkRecord
from wharfinger.placement.contracts.placement_records import MemberRecord, MemberStatusRecord
from wharfinger.placement.contracts.placement_rollouts import TakeSnapshotInput
from wharfinger.placement.contracts.placements import CommitDecisionInput, DecideInput
from wharfinger.placement.effects import snapshots
from wharfinger.placement.effects.committing import commit, draft
from wharfinger.placement.reading.observe_placements import read_all
from wharfinger.placement.state.contents_view import ContentsView
from wharfinger.placement.state.hub_view import HubView

TIME = "2026-01-01T00:00:00Z"
ONLINE = {
    "agentStatus": [
        {"type": "MemberAgent", "conditions": [{"type": kind, "status": "True"} for kind in ("Joined", "Healthy")]}
    ]
}
"""The status of a member whose agent reports."""


def member(name: str, **labels: str) -> tuple[str, bytes]:
    """Key and object of a member."""
    kind = {"apiVersion": "cluster.kubernetes-fleet.io/v1", "kind": "MemberCluster"}
    obj = {**kind, "metadata": {"name": name, "labels": labels}, "spec": {}}
    return placement_keys.member_cluster(name), json.dumps(obj).encode()


def placement(name: str, policy: Mapping[str, Any], selected: Mapping[str, str]) -> tuple[str, bytes]:
    """Key and object of a placement; `selected`: which namespaces, with all that is in them."""
    obj = {
        "apiVersion": "placement.kubernetes-fleet.io/v1",
        "kind": "ClusterResourcePlacement",
        "metadata": {"name": name, "generation": 1},
        "spec": {
            "resourceSelectors": [{"group": "", "version": "v1", "kind": "Namespace", **selected}],
            "policy": policy,
        },
    }
    return placement_keys.placement(f"cluster/{name}"), json.dumps(obj).encode()


async def identities_of(store: Store) -> dict[str, int]:
    """The members' identities by name."""
    rows = placement_keys.member_cluster.rows(store)
    return {name: kv.create_revision async for (name,), kv in rows}


async def settle(
    store: Store,
    members: Mapping[str, bytes],
    placements: Mapping[str, bytes],
    status: Callable[[], Mapping[str, Any]] = lambda: ONLINE,
) -> dict[str, int]:
    """Put members with their agents' records, and placements with their decisions; returns the members' identities."""
    await put_all(store, members)
    found = await identities_of(store)
    records = {placement_keys.member(name): MemberRecord(identity=one) for name, one in found.items()}
    await put_all(store, {key: record.to_bytes() for key, record in records.items()})
    told = {name: MemberStatusRecord(identity=one, status=dict(status())) for name, one in found.items()}
    await put_all(store, {placement_keys.member_status(name): record.to_bytes() for name, record in told.items()})
    await put_all(store, placements)
    view = await read_all(store)
    for reference in sorted(view.placements):
        request = DecideInput(placement=reference, workflow_id="w", run_id="r")
        decided = draft(view, request, clock=time.monotonic(), time=TIME, token=reference)
        wanted = CommitDecisionInput(placement=reference, decided=decided, workflow_id="w", run_id="r")
        await commit(store, wanted, TIME)
    return found


async def deliver_all(store: Store, identities: Mapping[str, int]) -> None:
    """Write the snapshot of each placement and, for each member that it chose, the work and the result."""
    view = await read_all(store)
    seen = ContentsView(time.monotonic)
    for reference, one in view.placements.items():
        seen.read(reference, one.delivery.selectors)
    for folder in seen.wanted:
        seen.listed(folder, [kv async for kv in store.each(folder)])
    for reference in sorted(view.placements):
        await _deliver(store, view, reference, seen.stamp(reference) or "", identities)


async def _deliver(store: Store, view: HubView, reference: str, stamp: str, identities: Mapping[str, int]) -> None:
    """The snapshot, and on each member the work and the result."""
    seen, decision = view.placements[reference], view.decisions[reference]
    request = TakeSnapshotInput(
        placement=reference, selected=stamp, decision=decision.revision, rollout=0, workflow_id="w", run_id="r"
    )
    taken = await snapshots.take(store, view, request, TIME)
    assert taken.outcome == "taken", taken
    strategy = dict(seen.delivery.strategy)
    result = {"applied": True, "available": True, "objects": taken.objects, "time": TIME}
    puts: dict[str, bytes] = {}
    for one in decision.chosen:
        both = {"counter": 1, "since": 1, "identity": identities[one.name]}
        work = WorkRecord(**both, placement=seen.placement.identity, snapshot=taken.number, strategy=strategy)
        puts[placement_keys.work(reference, one.name)] = work.to_bytes()
        puts[placement_keys.result(reference, one.name)] = ResultRecord(**both, **result).to_bytes()
    await put_all(store, puts)
