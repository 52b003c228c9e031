"""What comparing a whole cluster costs: `wharfinger simulate --compare` on a file, as a process of its own.

    python benchmarks/compare.py [--nodes 5000] [--pods 10000] [--format kubernetes|rk8s]

Every pod is bound to a random node, so most of them differ. One JSON line a format: wall and CPU seconds of the
process, reading the file and starting Python included.
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

import objects

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


def measure(path: Path, format_: ClusterFormat) -> dict[str, object]:
    """Run the command once on the file."""
    command = [sys.executable, "-m", "wharfinger", "simulate", "--compare", "-f", str(path), "-o", "json"]
    began, used = time.perf_counter(), os.times()
    done = subprocess.run([*command, "--format", format_], capture_output=True, check=False)
    seconds, now = time.perf_counter() - began, os.times()
    if done.returncode:
        raise SystemExit(done.stderr.decode())
    cpu = now.children_user + now.children_system - used.children_user - used.children_system
    return {"seconds": round(seconds, 1), "cpu_seconds": round(cpu, 1), **json.loads(done.stdout)["summary"]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--pods", type=int, default=10_000)
    parser.add_argument("--format", choices=list(ClusterFormat), action="append")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        for name in options.format or ClusterFormat:
            format_ = ClusterFormat(name)
            path = Path(folder) / f"{format_}.{'yaml' if format_ is ClusterFormat.RK8S else 'json'}"
            path.write_text(cluster(format_, options.nodes, options.pods))
            print(json.dumps({"format": format_, **measure(path, format_)}), flush=True)


if __name__ == "__main__":
    main()
