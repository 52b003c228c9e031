"""The fleet that `wharfinger dev` runs: written once, then its user's; only a named number of workers changes it."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

from wharfinger.errors import ServerError
from wharfinger.etcd import keys
from wharfinger.etcd.store import Compare, Put, Store
from wharfinger.fleet.spec.fleet import is_deleting
from wharfinger.objects.documents.times import rfc3339
from wharfinger.process.names import COMMON

MIN_READY = 1
"""Seconds that an instance must have been ready: in dev a person waits for it."""
SOAK = 5
"""Seconds for which an updated slot is observed: enough for a configuration that ends an instance at its start."""
TRIES = 5


async def want(store: Store, workers: int | None) -> bool:
    """Put the fleet when there is none (one instance unless `workers` says otherwise); else set its replicas.

    Without `workers`, a fleet that exists stays as it is. Returns False for one that is being deleted: it may not
    be changed, and can be made again when it is gone.
    """
    key = keys.fleet(COMMON)
    for _ in range(TRIES):
        found = (await store.get(key)).kv
        if found is None:
            written, revision = _fleet(1 if workers is None else workers), 0
        else:
            written, revision = json.loads(found.value), found.mod_revision
            if is_deleting(written):
                return False
            if workers is None or written.setdefault("spec", {}).get("replicas", 1) == workers:
                return True
            written["spec"]["replicas"] = workers
        put = Put(key, json.dumps(written, separators=(",", ":")).encode())
        if (await store.txn([Compare(key, "mod", revision)], [put])).succeeded:
            return True
    raise ServerError("another client is changing the common fleet: try again")


def _fleet(replicas: int) -> dict[str, Any]:
    return {
        "apiVersion": "wharfinger.dev/v1",
        "kind": "SchedulerFleet",
        "metadata": {
            "name": COMMON,
            "uid": str(uuid4()),
            "creationTimestamp": rfc3339(datetime.now(UTC)),
            "annotations": {"wharfinger.dev/changed-by": "wharfinger dev"},
        },
        "spec": {
            "replicas": replicas,
            "minReadySeconds": MIN_READY,
            "strategy": {"rollingUpdate": {"soakSeconds": SOAK}},
        },
    }
