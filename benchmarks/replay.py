"""Whether the demo's decisions are the same when they are made again, and what that takes.

Runs the demo (a flood, a killed worker) on servers of its own, then a preemption, a gang that is placed and one that is
refused. Or, with `--flood`, so many plain pods at once on 5,000 nodes. Writes an archive of it by `wharfinger archive`,
and replays that by `wharfinger replay`, each in a process of its own. Prints one JSON object: `pods`, `decisions`,
`same`, `unreplayable`, `archive_bytes_per_pod`, and of both processes the seconds and the most memory (`archive_s`,
`archive_cpu_s`, `archive_mib`, `replay_s`, `replay_cpu_s`, `replay_mib`). With `--rerun` the span is lived again, too:
`rerun_pods`, `rerun_s`, `rerun_cpu_s`, `rerun_mib`. Exit code 1 unless every decision is the same, an archive of a
flood takes at most 1 KiB a pod, and its rerun at most a quarter more memory than its replay.

    python benchmarks/replay.py --pods 8152 --workers 2
    python benchmarks/replay.py --pods 1200 --archive tests/replay/demo.archive
    python benchmarks/replay.py --flood 100000 --memory-limit 1Gi
    python benchmarks/replay.py --flood 20000 --nodes 2000 --rerun
    python benchmarks/replay.py --pods 8152 --set NodeResourcesFit.scoringStrategy.type=MostAllocated

With `--set`, decisions differ, and only the time counts.
"""

from __future__ import annotations

import argparse
import asyncio
import functools
import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

import etcd_side
import real_cluster
from objects import OBJECTS

from wharfinger.dev.demo.story import Story
from wharfinger.dev.demo.view import DemoView
from wharfinger.dev.settings import Servers
from wharfinger.dev.tree import DevTree
from wharfinger.etcd import keys
from wharfinger.etcd.etcd import EtcdStore
from wharfinger.objects.documents.documents import to_json
from wharfinger.objects.model.formats import ClusterFormat
from wharfinger.testing import node_manifest, pod_manifest

NAMESPACE = "beside"
GROUP = "pod-group.scheduling.sigs.k8s.io/"
MOST_BYTES = 1024
"""A pod of a flood, in its archive."""
MOST_OF_RERUN = 1.25
"""Memory of a flood's rerun, which has the state twice: of what a replay takes that stands in for two workers."""


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


class Run(NamedTuple):
    """One command that ran to its end."""

    output: bytes
    seconds: float
    cpu_s: float
    mib: float
    """Memory that it held, at most."""

    def used(self, name: str) -> dict[str, float]:
        """Its figures, under its name."""
        return {
            f"{name}_s": round(self.seconds, 1),
            f"{name}_cpu_s": round(self.cpu_s, 1),
            f"{name}_mib": round(self.mib),
        }


MEASURED = """
import json, resource, subprocess, sys
code = subprocess.call(sys.argv[2:])
used = resource.getrusage(resource.RUSAGE_CHILDREN)
with open(sys.argv[1], "w") as file:
    json.dump([code, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024], file)
"""
"""A small process between: the most memory of a child begins with what its parent held when it was forked."""


async def command(*arguments: str) -> Run:
    """Run `wharfinger` with these arguments. Raises `SystemExit` when it fails."""
    program = Path(sys.executable).with_name("wharfinger")
    began = time.perf_counter()
    with tempfile.NamedTemporaryFile() as used:
        line = [sys.executable, "-c", MEASURED, used.name, program, *arguments]
        process = await asyncio.create_subprocess_exec(*line, stdout=asyncio.subprocess.PIPE)
        output, _ = await process.communicate()
        code, cpu_s, mib = json.load(used)
    if code:
        raise SystemExit(f"wharfinger {arguments[0]} ended with {code}")
    return Run(output, time.perf_counter() - began, cpu_s, mib)


async def demo(tree: DevTree, store: EtcdStore, view: DemoView, given: argparse.Namespace) -> None:
    """The demo, and what its trace has not."""
    with view:
        await Story(tree, store, view, given.pods, given.workers).tell()
    await beside(store)


async def flood(store: EtcdStore, view: DemoView, given: argparse.Namespace) -> None:
    """Plain pods, put as fast as etcd takes them, on nodes that have room for all."""
    objects = OBJECTS[ClusterFormat.KUBERNETES]
    names = [f"node-{number:05}" for number in range(given.nodes)]
    await etcd_side.put_all(store, {keys.node(name): objects.node(name) for name in names})
    seconds = await etcd_side.flood(store, "flood", given.flood)
    view.say(f"{given.flood:,} pods are bound: {given.flood / seconds:,.0f} a second.")


async def recorded(servers: Servers, folder: Path, file: Path, given: argparse.Namespace) -> Run:
    """Make the record, and archive it."""
    workers = given.workers if given.flood else 1
    settings, view = etcd_side.tree_settings(folder, workers), DemoView(sys.stderr)
    async with etcd_side.tree_with_store(settings, servers, view.say) as (tree, store):
        await (flood(store, view, given) if given.flood else demo(tree, store, view, given))
        where = ("--etcd", tree.etcd.url, "--temporal", tree.temporal.address)
        return await command("archive", str(file), "--since", "7d", *where, *limited(given))


def limited(given: argparse.Namespace) -> tuple[str, ...]:
    """The option of both commands."""
    return ("--memory-limit", given.memory_limit) if given.memory_limit else ()


async def measure(given: argparse.Namespace, servers: Servers, folder: Path) -> int:
    """All of it; the exit code."""
    file = Path(given.archive) if given.archive else folder / "archive"
    file.unlink(missing_ok=True)
    archive = await recorded(servers, folder / "data", file, given)
    changes = [text for setting in given.set for text in ("--set", setting)]
    asked = "replay", "--archive", str(file), "-o", "json", *changes, *limited(given)
    replay = await command(*asked)
    lived: dict[str, Any] = {}
    if given.rerun:
        rerun = await command(*asked, "--mode", "rerun")
        lived = {"rerun_pods": json.loads(rerun.output)["decisions"], **rerun.used("rerun")}
    report, pods = json.loads(replay.output), given.flood or given.pods
    figures = lived | {
        "pods": pods,
        "decisions": report["decisions"],
        "same": report["summary"]["same"],
        "unreplayable": report["summary"]["unreplayable"],
        "archive_bytes_per_pod": round(file.stat().st_size / pods),
        **archive.used("archive"),
        **replay.used("replay"),
    }
    print(json.dumps(figures), flush=True)
    return int(not passed(figures, given))


def passed(figures: dict[str, Any], given: argparse.Namespace) -> bool:
    """Whether the bars are held."""
    if given.flood and figures["archive_bytes_per_pod"] > MOST_BYTES:
        return False
    if given.flood and given.rerun and figures["rerun_mib"] > MOST_OF_RERUN * figures["replay_mib"]:
        return False
    return bool(figures["decisions"]) and (bool(given.set) or figures["same"] == figures["decisions"])


def main() -> None:
    """Parse, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pods", type=int, default=8152, help="of the trace (8152)")
    parser.add_argument("--workers", type=int, default=2, help="of the flood, or in the demo's second part (2)")
    parser.add_argument("--flood", type=int, default=0, metavar="PODS", help="a flood of plain pods, and no demo")
    parser.add_argument("--nodes", type=int, default=5000, help="of a flood (5000)")
    parser.add_argument("--rerun", action="store_true", help="live the span again, too")
    parser.add_argument("--memory-limit", default="", metavar="SIZE", help="of `archive` and `replay` (their own)")
    parser.add_argument("--set", action="append", default=[], metavar="FIELD=VALUE", help="as of `replay`; repeat")
    parser.add_argument("--archive", default="", metavar="FILE", help="where the archive is kept (it is not)")
    real_cluster.run(functools.partial(measure, parser.parse_args()))


if __name__ == "__main__":
    main()
