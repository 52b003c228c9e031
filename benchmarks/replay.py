"""Whether the demo's decisions are the same when they are made again, and what that takes.

Runs the demo (a flood, a killed worker) on servers of its own, then a preemption, a gang that is placed and one that is
refused. Writes an archive of it, and replays that. Prints one
JSON object: `pods`, `decisions`, `same`, `unreplayable`, `archive_bytes_per_pod`, `archive_s`, `replay_s`. Exit code 1
unless every decision is the same.

    python benchmarks/replay.py --pods 8152 --workers 2
    python benchmarks/replay.py --pods 1200 --archive tests/replaying/demo.archive
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import shutil
import sys
import tempfile
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import uvloop
from temporalio.client import Client

from wharfinger.contracts.conversion import data_converter
from wharfinger.contracts.names import DEFAULT_CLUSTER
from wharfinger.demo.story import Story
from wharfinger.demo.view import DemoView
from wharfinger.dev.ports import free_port
from wharfinger.dev.progress import progress_for
from wharfinger.dev.settings import DevSettings, Servers, prepare
from wharfinger.dev.tree import running
from wharfinger.manifests.documents import to_json
from wharfinger.registry import keys
from wharfinger.registry.etcd import EtcdStore
from wharfinger.replaying.archived import Archive
from wharfinger.replaying.archiving import ArchiveFile
from wharfinger.replaying.changes import ProfileChange
from wharfinger.replaying.histories import read_runs, span_query
from wharfinger.replaying.recorded import DecidedRun, Unit, units
from wharfinger.replaying.report import Report
from wharfinger.replaying.shadow import Shadow
from wharfinger.replaying.spool import Spool
from wharfinger.settings import EtcdSettings
from wharfinger.testing import node_manifest, pod_manifest

NAMESPACE = "beside"
GROUP = "pod-group.scheduling.sigs.k8s.io/"


async def beside(store: EtcdStore) -> None:
    """What the demo's trace has not: a preemption, and gangs."""
    await store.put(keys.node("small"), to_json(node_manifest("small", "2", labels={"pool": "small"})))
    await put(store, "low", "2", priority=0, nodeSelector={"pool": "small"})
    await until(store, bound("low"))
    await put(store, "high", "2", priority=1000, nodeSelector={"pool": "small"})
    await put(store, "huge", "2000")
    for number in range(4):
        await put(store, f"team-{number}", "1", gang="team")
        await put(store, f"giants-{number}", "2000", gang="giants")
    placed = [bound(name) for name in ("high", *(f"team-{number}" for number in range(4)))]
    refused = [keys.attempt(NAMESPACE, name) for name in ("huge", "giants-0")]
    await until(store, *placed, *((key, b"") for key in refused))


async def put(store: EtcdStore, name: str, cpu: str, *, gang: str = "", **spec: Any) -> None:
    """A pod, perhaps of a gang that needs three."""
    labels = {f"{GROUP}name": gang, f"{GROUP}min-available": "3"} if gang else {}
    pod = pod_manifest(name, cpu, namespace=NAMESPACE, labels=labels, **spec)
    await store.put(keys.pod(NAMESPACE, name), to_json(pod))


def bound(name: str) -> tuple[str, bytes]:
    """What the key of a bound pod holds."""
    return keys.pod(NAMESPACE, name), b'"nodeName":'


async def until(store: EtcdStore, *wanted: tuple[str, bytes]) -> None:
    """Until each key is there and holds that. Raises TimeoutError after a minute."""
    async with asyncio.timeout(60):
        for key, part in wanted:
            while (kv := (await store.get(key)).kv) is None or part not in kv.value:  # noqa: ASYNC110
                await asyncio.sleep(0.1)


async def recorded(servers: Servers, folder: Path, file: Path, pods: int, workers: int) -> float:
    """Run the demo and archive it; seconds that the archive took."""
    settings = DevSettings(folder, 1, *(free_port() for _ in range(4)))
    began = datetime.now(UTC) - timedelta(minutes=1)
    view = DemoView(sys.stderr)
    async with (
        running(settings, servers, say=view.say) as tree,
        EtcdStore(EtcdSettings(endpoints=(tree.etcd.url,))) as store,
    ):
        with view:
            await Story(tree, store, view, pods, workers).tell()
        await beside(store)
        client = await Client.connect(tree.temporal.address, data_converter=data_converter)
        started = time.perf_counter()
        runs: list[DecidedRun] = [run async for run in read_runs(client, span_query(DEFAULT_CLUSTER, began, None))]
        first = min(computation.revision for run in runs for computation in run.computations())

        async def given() -> Any:
            for run in runs:
                yield run

        await ArchiveFile(file, DEFAULT_CLUSTER).write(
            store, given(), first=lambda: first, until=datetime.now(UTC).timestamp()
        )
        return time.perf_counter() - started


async def replayed(file: Path) -> tuple[Report, float]:
    """Make the archive's decisions again; the report and the seconds that it took."""
    began, report, spool = time.perf_counter(), Report(), Spool()
    archive, found = Archive.open(file), list[Unit]()
    for run in archive.runs():
        found += units(run, spool.add(run))
    for store, part in archive.split(sorted(found)):
        await Shadow(store, spool, part, ProfileChange(), archive.cluster).run(report.add)
    spool.close()
    return report, time.perf_counter() - began


async def measure(servers: Servers, folder: Path, given: argparse.Namespace) -> dict[str, Any]:
    """All of it."""
    file = Path(given.archive) if given.archive else folder / "archive"
    file.unlink(missing_ok=True)
    archive_s = await recorded(servers, folder / "data", file, given.pods, given.workers)
    report, replay_s = await replayed(file)
    return {
        "pods": given.pods,
        "decisions": report.decisions,
        "same": report.counts["same"],
        "unreplayable": report.counts["unreplayable"],
        "archive_bytes_per_pod": round(file.stat().st_size / given.pods),
        "archive_s": round(archive_s, 1),
        "replay_s": round(replay_s, 1),
    }


def main() -> None:
    """Parse, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pods", type=int, default=8152, help="of the trace (8152)")
    parser.add_argument("--workers", type=int, default=2, help="in the demo's second part (2)")
    parser.add_argument("--archive", default="", metavar="FILE", help="where the archive is kept (it is not)")
    given = parser.parse_args()
    servers = prepare(progress_for(sys.stderr))
    folder = Path(tempfile.mkdtemp(prefix="wharfinger-bench-"))
    try:
        figures = uvloop.run(measure(servers, folder, given))
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    print(json.dumps(figures), flush=True)
    sys.stdout.flush()
    os._exit(0 if figures["same"] == figures["decisions"] > 0 else 1)  # the SDK's threads may abort an interpreter


if __name__ == "__main__":
    main()
