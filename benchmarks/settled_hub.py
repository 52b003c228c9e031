"""A hub's etcd as hubs, rollouts and agents leave it: members, placements, and a settled decision of each."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from typing import Any

from etcd_side import put_all

from wharfinger.etcd.store import Store
from wharfinger.placement.contracts import placement_keys
from wharfinger.placement.contracts.placement_records import MemberRecord, MemberStatusRecord
from wharfinger.placement.contracts.placements import CommitDecisionInput, DecideInput
from wharfinger.placement.effects.committing import commit, draft
from wharfinger.placement.reading.observe_placements import read_all

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
