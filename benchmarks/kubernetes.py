"""wharfinger as the scheduler of a real Kubernetes API, beside kube-scheduler on the same API server.

One API server with an etcd of its own; the schedulers take turns on it, both without client throttle and without
leader election, with their other defaults. Each turn: lone pods, a steady stream, and a backlog that was created while
no scheduler ran (`kubernetes_turns.py` says what is measured). Then what only wharfinger does: binds by promises alone,
and the import of a large cluster (`kubernetes_import.py`). Prints one JSON object a turn and side, and at the end a
table of medians, of ratios (wharfinger divided by kube-scheduler, the median over the turns), and whether they reach
the bars, which are meant for the default sizes.

    python benchmarks/kubernetes.py                                            all of it: about half an hour
    python benchmarks/kubernetes.py --turns 1 --nodes 500 --backlog 500 --import 0
    python benchmarks/kubernetes.py --turns 1 --nodes 50 --backlog 200 --arrivals 50 --seconds 4 --import 500

Where kube-apiserver or kube-scheduler cannot be run, one line says so, and nothing is measured.
"""

from __future__ import annotations

import argparse
import functools
import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import real_cluster
from kubernetes_import import binds, importing
from kubernetes_pods import PodWatch, clear, load_nodes, node
from kubernetes_sides import OURS, PEER, ApiServer, KubeScheduler, Side, Wharfinger
from kubernetes_turns import Sizes, Turn
from processes import Children, quiet
from report import Bar, Figures, Row, compared, judged, say

from wharfinger.dev.settings import Servers

BARS: Mapping[str, Bar] = {
    "backlog.pods_per_s": Bar(2.0, most=False),
    "backlog.cpu_ms_per_pod": Bar(0.85, most=True),
    "backlog.whole_cpu_ms_per_pod": Bar(0.85, most=True),
    "backlog.first_bind_s": Bar(5.0, most=True, wanted=2.5),
    "arrivals.cpu_ms_per_pod": Bar(1.45, most=True, wanted=1.2),
    "arrivals.p50_ms": Bar(110.0, most=True, ratio=False, wanted=80.0),
    "arrivals.p99_ms": Bar(250.0, most=True, ratio=False),
    "lone.p50_ms": Bar(3.3, most=True, wanted=2.8),
    "binds.per_s": Bar(1000.0, most=False, ratio=False),
    "import.fresh_s": Bar(15.0, most=True, ratio=False),
    "import.restart_s": Bar(8.0, most=True, ratio=False),
    "import.lag_p99_ms": Bar(100.0, most=True, ratio=False),
}
"""For the sizes that are the benchmark's defaults; figures without a bar are printed only."""


async def measure(given: argparse.Namespace, servers: Servers, folder: Path) -> int:
    """Measure what was asked for, and print it; the exit code."""
    async with Children(folder / "logs") as children:
        api = await ApiServer.start(children, servers.etcd, folder)
        async with api.client() as client:
            say(f"creating {given.nodes} nodes")
            await load_nodes(client, map(node, range(given.nodes)))
            turns: list[dict[str, Figures]] = []
            alone: dict[str, float] = {}
            ours = Wharfinger(children, api, folder / OURS, servers)
            if given.turns and (given.backlog or given.arrivals or given.lone):
                await ours.open()
                sides: dict[str, Side] = {PEER: KubeScheduler(children, api, folder / PEER), OURS: ours}
                async with PodWatch.open(client) as watch:
                    sizes = Sizes(given.backlog, given.arrivals, given.seconds, given.lone)
                    for number in range(given.turns):
                        figures: dict[str, Figures] = {}
                        # who begins changes, so that what one leaves behind meets both
                        for name in (PEER, OURS) if number % 2 == 0 else (OURS, PEER):
                            await quiet(children.cpu)
                            turn = Turn(api, client, watch, sides[name], sizes)
                            figures[name] = await turn.run()
                            _print({"turn": number + 1, "side": name}, figures[name])
                        turns.append(figures)
                await ours.close()
            if given.binds:
                found = await binds(children, api, client, servers.etcd, folder, given.nodes, given.binds)
                _print({}, found)
                alone |= found
                await clear(client)
            if given.imported:
                fresh = Wharfinger(children, api, folder / "import", servers, name="import")
                found = await importing(api, client, fresh, given.nodes, given.imported)
                _print({}, found)
                alone |= found
    print(judged(rows(turns, alone), PEER, OURS), flush=True)
    return 0


def rows(turns: Sequence[Mapping[str, Figures]], ours_alone: Figures) -> list[Row]:
    """Judge all figures, `<workload>.<figure>`. `ours_alone`: those that kube-scheduler has no equal of."""
    return [*compared(turns, PEER, OURS, BARS), *(_alone(figure, value) for figure, value in ours_alone.items())]


def _alone(figure: str, value: float) -> Row:
    bar = BARS.get(figure)
    return Row(figure, None, value, None, bar, bar.verdict(value) if bar is not None else "")


def _print(named: Mapping[str, object], figures: Figures) -> None:
    print(json.dumps({**named, **{name: round(value, 3) for name, value in figures.items()}}), flush=True)


def main() -> None:
    """Parse, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=5000, help="nodes in the cluster (5000)")
    parser.add_argument("--turns", type=int, default=5, help="turns of each scheduler (5)")
    parser.add_argument(
        "--backlog", type=int, default=2000, help="pods that wait when a scheduler starts; 0: none (2000)"
    )
    parser.add_argument("--arrivals", type=float, default=100.0, help="pods a second, steadily; 0: none (100)")
    parser.add_argument("--seconds", type=float, default=20.0, help="how long pods arrive (20)")
    parser.add_argument("--lone", type=int, default=50, help="pods one after another; 0: none (50)")
    parser.add_argument("--binds", type=int, default=3000, help="pods bound by promises alone; 0: none (3000)")
    parser.add_argument(
        "--import", type=int, default=50000, dest="imported", metavar="PODS", help="pods imported; 0: none (50000)"
    )
    parser.add_argument("--keep", action="store_true", help="keep the folder with logs and data, and print its path")
    given = parser.parse_args()
    real_cluster.run(functools.partial(measure, given), keep=given.keep, kubernetes=True)


if __name__ == "__main__":
    main()
