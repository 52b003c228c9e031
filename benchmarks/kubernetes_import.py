"""What only wharfinger does: copying a cluster into its etcd, and sending the binds that it has promised.

`import.fresh_s` is the time from the start of a worker on an empty etcd until `imported` is written for the first time,
Python's own start included. `import.restart_s` is the time from the start of the next worker until it has written
`imported` and is ready. The lag is the time from the API server's answer to a pod's creation until its copy is seen in
etcd, while pods that are already bound are created at a rate.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from etcd_side import first_event
from kubernetes_pods import NAMESPACE, SILENCE, BenchmarkFailed, load_at_rate, load_pods, node_name, pod
from kubernetes_sides import ApiServer, Wharfinger, start_etcd
from processes import Child, Children, quiet, up
from report import percentile, say
from streams import beside

from wharfinger.apiserver.client import ApiClient
from wharfinger.etcd import keys
from wharfinger.etcd.etcd import EtcdStore
from wharfinger.settings import EtcdSettings

LAG_RATE = 300.0
"""Pods a second."""
LAG_PODS = 3000
"""At most, for the lag; a smaller import has fewer."""
COPIED_WITHIN = 300.0
"""Seconds after which an import is given up."""


async def importing(api: ApiServer, client: ApiClient, fresh: Wharfinger, nodes: int, pods: int) -> dict[str, float]:
    """Measure an import on an empty etcd, a restart, and the lag. `fresh` is not open yet, and is closed here."""
    say(f"creating {pods} bound pods")
    await load_pods(client, (pod(f"import-{number}", on=node_name(number % nodes)) for number in range(pods)))
    await fresh.open()
    assert fresh.etcd is not None

    def cpu() -> dict[str, float]:
        return {part.name: part.cpu_seconds for part in (*api.parts, *fresh.parts)}

    figures: dict[str, float] = {}
    async with EtcdStore(EtcdSettings(endpoints=(fresh.etcd.url,))) as store:
        for name in ("fresh", "restart"):
            before = await quiet(cpu)
            async with _next_put(store, keys.IMPORTED) as imported:
                began = time.perf_counter()
                worker = await fresh.start()
                at = await _within(imported, worker)
                await up(worker, fresh.is_up)
                ready = time.perf_counter()
            after = await quiet(cpu)
            figures |= {f"{name}_s": at - began, f"{name}_ready_s": ready - began}
            figures[f"{name}_cpu_s"] = sum(after.values()) - sum(before.values())
            if name == "fresh":
                await fresh.stop()
        figures["restart_s"] = max(figures["restart_s"], figures["restart_ready_s"])
        lags = await _lags(client, store, nodes, min(pods, LAG_PODS))
    await fresh.close()
    figures |= {"lag_p50_ms": percentile(lags, 50) * 1000, "lag_p99_ms": percentile(lags, 99) * 1000}
    return {f"import.{name}": value for name, value in figures.items()}


async def binds(
    children: Children, api: ApiServer, client: ApiClient, etcd: Path, folder: Path, nodes: int, pods: int
) -> dict[str, float]:
    """Bind pods by promises alone, from a process that does nothing else, with an etcd that has nothing else."""
    say(f"binding {pods} pods by promises alone")
    await load_pods(client, (pod(f"promised-{number}") for number in range(pods)))
    server, storing = await start_etcd(children, "binds-etcd", etcd, folder / "binds")
    command = [sys.executable, str(Path(__file__).with_name("kubernetes_binds.py")), f"--kubeconfig={api.kubeconfig}"]
    child = await children.start("binds", [*command, f"--etcd={server.url}", f"--nodes={nodes}"])
    await child.process.wait()
    if child.process.returncode:
        raise BenchmarkFailed(f"the binds have failed; {child.last_words}")
    children.running.remove(child)
    await children.stop(storing)
    found = json.loads(child.log.read_text(encoding="utf-8").splitlines()[-1])
    kept = found.pop("kept")
    if kept != pods:
        raise BenchmarkFailed(f"{kept} of {pods} promises were kept")
    return {f"binds.{name}": value for name, value in found.items()}


@asynccontextmanager
async def _next_put(store: EtcdStore, key: str) -> AsyncIterator[asyncio.Task[float]]:
    """When the key is next put, by `time.perf_counter`."""
    first = (await store.get(key)).revision + 1
    async with store.watch(key, first) as batches, beside(first_event(batches)) as (task,):
        yield task


async def _within(imported: asyncio.Task[float], worker: Child) -> float:
    async with beside(worker.process.wait()) as (ended,):
        await asyncio.wait({imported, ended}, timeout=COPIED_WITHIN, return_when=asyncio.FIRST_COMPLETED)
    if not imported.done():
        raise BenchmarkFailed(f"nothing is imported by {worker.name}; {worker.last_words}")
    return imported.result()


async def _lags(client: ApiClient, store: EtcdStore, nodes: int, count: int) -> list[float]:
    """Seconds until the copy of each pod of a stream is seen."""
    bodies = [pod(f"lag-{number}", on=node_name(number % nodes)) for number in range(count)]
    prefix = keys.pod(NAMESPACE, "lag-")
    answered: dict[str, float] = {}
    seen: dict[str, float] = {}
    first = (await store.get(keys.IMPORTED)).revision + 1
    async with store.watch(prefix, first) as batches:

        async def follow() -> None:
            async for batch in batches:
                now = time.perf_counter()
                for event in batch.events:
                    seen.setdefault("lag-" + event.kv.key.removeprefix(prefix), now)
                if len(seen) == count:
                    return

        def answer(name: str, _: float) -> None:
            answered[name] = time.perf_counter()

        async with beside(follow()) as (following,):
            await load_at_rate(client, bodies, LAG_RATE, answer)
            await asyncio.wait({following}, timeout=SILENCE)
            if not following.done():
                raise BenchmarkFailed(f"{count - len(seen)} of {count} pods are not copied")
            await following
    # Where the watches were quicker than the answer, there is no lag.
    return [max(0.0, seen[name] - at) for name, at in answered.items()]
