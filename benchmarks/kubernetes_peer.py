"""kube-scheduler, a Kubernetes API server and an etcd under the flood of `throughput.py`.

The nodes and pods are the same. The pods are created as fast as the API server takes them while kube-scheduler runs;
the rate is measured from the first request to the last bind that a watch shows, as that of wharfinger is from the first
put to the last bind in etcd. All processes work in batch, because those of wharfinger's tree do.
"""

from __future__ import annotations

import json
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attempts
from kubernetes_children import Children, quiet, up
from kubernetes_pods import BenchmarkFailed, PodWatch, load_nodes, load_pods
from kubernetes_sides import ApiServer, KubeScheduler, missing

from wharfinger.upstream.client import Upstream

__all__ = ["BenchmarkFailed", "measure", "missing"]

ROOM = 110
"""Pods that a node of the flood has room for."""


async def measure(etcd: Path, nodes: int, pods: int, warm: int, say: Callable[[str], None]) -> dict[str, Any]:
    """`pods_per_s`, and `cpu_ms_per_pod` of each process. `warm`: pods bound before the measured ones.

    Raises `BenchmarkFailed` when something does not come up, or a pod is not bound.
    """
    folder = Path(tempfile.mkdtemp(prefix="wharfinger-bench-"))
    try:
        async with Children(folder / "logs", batch=True) as children:
            api = await ApiServer.start(children, etcd, folder)
            client = api.client()
            try:
                say(f"kube-apiserver: creating {nodes} nodes")
                await load_nodes(client, (json.loads(attempts.node(f"node-{number:05}")) for number in range(nodes)))
                scheduler = KubeScheduler(children, api, folder / "kube-scheduler")
                await up(await scheduler.start(), scheduler.is_up)

                def cpu() -> dict[str, float]:
                    return {part.name: part.cpu_seconds for part in (*api.parts, *scheduler.parts)}

                async with PodWatch.open(client, ROOM) as watch:
                    await _flood(client, watch, "warm", warm)
                    before = await quiet(cpu)
                    seconds = await _flood(client, watch, "flood", pods)
                    after = await quiet(cpu)
            finally:
                await client.close()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    used = {name: round((after[name] - before[name]) / pods * 1000, 3) for name in after}
    return {"pods_per_s": round(pods / seconds, 1), "cpu_ms_per_pod": used}


async def _flood(client: Upstream, watch: PodWatch, name: str, count: int) -> float:
    """Seconds from the first request to the last bind."""
    names = [f"{name}-{number}" for number in range(count)]
    watch.expect(names)
    began = time.perf_counter()
    await load_pods(client, (json.loads(attempts.pod(one)) for one in names))
    await watch.all_bound()
    return max(watch.bound[one] for one in names) - began
