"""What what-if questions cost: `wharfinger simulate` on a file, as a process of its own.

    python benchmarks/simulate.py [--pods 8152] [--format json|yaml]                        the whole openb trace
    python benchmarks/simulate.py --compare [--nodes 5000] [--pods 10000] [--format kubernetes|rk8s]

With `--compare`, every pod of a cluster is bound to a random node, so most of them differ. One JSON line a format: wall
and CPU seconds of the process, reading the file and starting Python included.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import objects

from wharfinger.dev.demo import openb
from wharfinger.objects.model.formats import ClusterFormat

CPU = ("100m", "250m", "1", "2", "4")


def cluster(format_: ClusterFormat, nodes: int, pods: int) -> str:
    """A file with so many nodes, and so many pods bound to them."""
    made, rng = objects.OBJECTS[format_], random.Random(1)
    documents = [made.node(f"node-{number}").decode() for number in range(nodes)]
    for number in range(pods):
        node, cpu = f"node-{rng.randrange(nodes)}", rng.choice(CPU)
        text = made.pod(f"pod-{number}").decode().replace("100m", cpu)
        if format_ is ClusterFormat.RK8S:
            text = text.replace("node_name: null", f"node_name: {node}")
        else:
            text = text.replace('"containers"', f'"nodeName": "{node}", "containers"')
        documents.append(text)
    if format_ is ClusterFormat.RK8S:
        return "---\n".join(documents)
    return f'{{"apiVersion": "v1", "kind": "List", "items": [{",".join(documents)}]}}'


def measure(path: Path, *options: str) -> dict[str, Any]:
    """Run the command once on the file; its times and its summary."""
    command = [sys.executable, "-m", "wharfinger", "simulate", *options, "-f", str(path), "-o", "json"]
    began, used = time.perf_counter(), os.times()
    done = subprocess.run(command, capture_output=True, check=False)
    seconds, now = time.perf_counter() - began, os.times()
    # 1: some pods do not fit, and they do not; there is no such answer to a comparison.
    if done.returncode not in ((0,) if "--compare" in options else (0, 1)):
        raise SystemExit(done.stderr.decode())
    cpu = now.children_user + now.children_system - used.children_user - used.children_system
    return {"seconds": round(seconds, 2), "cpu_seconds": round(cpu, 2), **json.loads(done.stdout)["summary"]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--compare", action="store_true", help="compare where the pods of a cluster are")
    parser.add_argument("--nodes", type=int, default=5000, help="with --compare (5000)")
    parser.add_argument("--pods", type=int, help=f"({openb.TOTAL}; with --compare 10000)")
    parser.add_argument("--format", choices=["json", "yaml", *ClusterFormat], action="append")
    given = parser.parse_args()
    formats = [str(one) for one in ClusterFormat] if given.compare else ["json", "yaml"]
    if not set(given.format or ()) <= set(formats):
        parser.error(f"--format is one of {', '.join(formats)} here")
    with tempfile.TemporaryDirectory() as folder:
        for name in given.format or formats:
            if given.compare:
                format_ = ClusterFormat(name)
                path = Path(folder) / f"{format_}.{'yaml' if format_ is ClusterFormat.RK8S else 'json'}"
                path.write_text(cluster(format_, given.nodes, given.pods or 10_000))
                figures = measure(path, "--compare", "--format", format_)
            else:
                path = Path(folder) / f"openb.{name}"
                openb.write(path, given.pods or openb.TOTAL)
                found = measure(path)
                figures = {key: found[key] for key in ("seconds", "cpu_seconds", "pods", "placed")}
            print(json.dumps({"format": name, **figures}), flush=True)


if __name__ == "__main__":
    main()
