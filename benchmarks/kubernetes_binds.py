"""How many promised binds one process sends in a second, and what one costs it. Run by `kubernetes.py`.

Each pending pod of the benchmark's namespace gets a promise in etcd, and `Promises.keep` sends all of them: one POST
each. It knows the promises, as a worker does that has just put them; `--read` has it read each one from etcd first, as
the sweep of old promises does. Nothing is placed, and no copies are written. Prints one JSON object: `per_s`, `cpu_ms`
(milliseconds of this process a bind, all of its threads), and `kept`.

    python benchmarks/kubernetes_binds.py --kubeconfig FILE --etcd URL --nodes 5000
"""

from __future__ import annotations

import argparse
import asyncio
import json
import time
from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import uvloop
from kubernetes_pods import NAMESPACE, node_name

from wharfinger.apiserver.client import PODS, revision_of, uid_of
from wharfinger.apiserver.kubeconfig import read_access
from wharfinger.apiserver.transport import ApiLimits, HttpApiClient
from wharfinger.etcd import keys
from wharfinger.etcd.etcd import EtcdStore
from wharfinger.etcd.store import Put
from wharfinger.kubernetes.effects.adopting import Adopter
from wharfinger.kubernetes.effects.promising import Promises
from wharfinger.objects.documents.times import rfc3339
from wharfinger.objects.model.pod import PodKey
from wharfinger.scheduling.contracts import promise_records
from wharfinger.scheduling.effects.binding.right_to_bind import RightToBind
from wharfinger.scheduling.effects.binding.writers import KeptKind
from wharfinger.scheduling.model.promises import MayBind, Promise
from wharfinger.settings import EtcdSettings

AT_ONCE = 60
"""Promises that are being kept: more than are sent at once, so that reads of etcd overlap with requests."""
PUTS_AT_ONCE = 100
"""In one transaction."""


def now() -> datetime:
    return datetime.now(UTC)


async def promised(store: EtcdStore, api: HttpApiClient, nodes: int) -> list[tuple[PodKey, Promise]]:
    """Promise all pending pods, each node in turn."""
    puts: list[Put] = [Put(keys.ACTIVE, promise_records.stored(MayBind("bench", rfc3339(now()))))]
    pods: list[tuple[PodKey, Promise]] = []
    async for page, _ in api.list(PODS, namespace=NAMESPACE, field_selector="spec.nodeName="):
        for one in page:
            name = str(one["metadata"]["name"])
            promise = Promise(
                uid_of(one), revision_of(one), node_name(len(pods) % nodes), f"{name}@bench", since=rfc3339(now())
            )
            puts.append(Put(keys.promise(NAMESPACE, name), promise_records.stored(promise)))
            pods.append((PodKey(NAMESPACE, name), promise))
    revision = 0
    for at in range(0, len(puts), PUTS_AT_ONCE):
        revision = (await store.txn((), puts[at : at + PUTS_AT_ONCE])).revision
    return [(pod, replace(promise, mod_revision=revision)) for pod, promise in pods]  # newer than `active`


async def measure(kubeconfig: Path, etcd: str, nodes: int, *, read: bool = False) -> dict[str, float]:
    """Keep them all. `read`: each promise is read first."""
    api = HttpApiClient(read_access(kubeconfig), ApiLimits(qps=-1))
    try:
        async with EtcdStore(EtcdSettings(endpoints=(etcd,))) as store:
            adopter = Adopter(store, utc_now=now)
            promises = Promises(api, adopter, RightToBind(store, clock=time.monotonic))
            left = await promised(store, api, nodes)
            count = len(left)
            ended: Counter[KeptKind] = Counter()

            async def keep() -> None:
                while left:
                    pod, promise = left.pop()
                    outcome = await promises.keep(pod, known=None if read else promise)
                    ended[outcome.kind] += 1

            cpu, began = time.process_time(), time.perf_counter()
            await asyncio.gather(*(keep() for _ in range(AT_ONCE)))
            seconds, used = time.perf_counter() - began, time.process_time() - cpu
    finally:
        await api.close()
    return {"per_s": count / seconds, "cpu_ms": used / max(count, 1) * 1000, "kept": ended[KeptKind.KEPT]}


def main() -> None:
    """Parse, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kubeconfig", type=Path, required=True, help="the API server")
    parser.add_argument("--etcd", required=True, metavar="URL", help="an etcd that no worker uses")
    parser.add_argument("--nodes", type=int, default=5000, help="nodes that the API server has (5000)")
    parser.add_argument("--read", action="store_true", help="read each promise from etcd before it is sent")
    given = parser.parse_args()
    figures = uvloop.run(measure(given.kubeconfig, given.etcd, given.nodes, read=given.read))
    print(json.dumps(figures), flush=True)


if __name__ == "__main__":
    main()
