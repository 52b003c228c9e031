"""apply's write under contention, against the shipped store in memory."""

from __future__ import annotations

import json
from typing import Any

from wharfinger.cli.files import Manifest
from wharfinger.cli.objects.writing import write
from wharfinger.etcd import keys
from wharfinger.objects.documents.kinds import reference
from wharfinger.testing.memory_store import MemoryStore

KEY = keys.pod("default", "web")


def pod(**spec: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web", "namespace": "default"}, "spec": spec}


async def test_a_write_that_was_overtaken_is_laid_over_what_is_there_now() -> None:
    store = MemoryStore()

    async def overtake(*_: object) -> None:
        store.before_txn = None
        await store.put(KEY, json.dumps(pod(nodeName="n1")).encode())

    store.before_txn = overtake
    given = pod(priority=3)

    applied = await write(store, Manifest("f", reference(given, "default"), given), uid="u", now="t")

    kv = (await store.get(KEY)).kv
    assert applied.result == "configured"
    assert kv is not None
    assert json.loads(kv.value)["spec"] == {"priority": 3, "nodeName": "n1"}
