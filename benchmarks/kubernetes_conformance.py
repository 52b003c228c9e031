"""Replay all recorded decisions of a real kube-scheduler through a real Kubernetes API, and compare what it shows.

The recordings are those of `tests/conformance/data`. Each scenario's nodes and other objects are created on the API
server, and then its pods, one after the other, each placed as recorded before the next. Compared are the node, the
condition, the nomination, the victims and the events (`tests/kubernetes/recorded_answers.py` says how).

    python benchmarks/kubernetes_conformance.py                     wharfinger: some ten minutes
    python benchmarks/kubernetes_conformance.py --beside            then kube-scheduler, on the same API server
    python benchmarks/kubernetes_conformance.py --files requeue,preemption --seeds 1,2

wharfinger runs with `--compatible`; one worker has a profile for each recorded one. kube-scheduler is started anew for
each scenario, because its search for nodes begins where the last one ended. Prints a table a scheduler, and each
difference. The exit code is 1 when less than 99.9 % of wharfinger's decisions are as recorded.

Where kube-apiserver or kube-scheduler cannot be run, one line says so, and nothing is compared.
"""

from __future__ import annotations

import argparse
import functools
import sys
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # the recordings belong to the tests

import real_cluster
import yaml
from kubernetes_sides import OURS, PEER, ApiServer, KubeScheduler, Wharfinger
from processes import Children, up
from report import say

from tests.conformance.scenarios import REQUEUE, configuration, families, scenarios
from tests.kubernetes.recorded_answers import ENOUGH, Answer, Tally, same_refusals, table, tally, total
from tests.kubernetes.recorded_changes import replay_changes
from tests.kubernetes.recorded_objects import one_configuration, scheduler_names, whole_configuration
from tests.kubernetes.recorded_replay import Replayed, Scheduler, probe_until_all_nodes, replay
from tests.kubernetes.recorded_scene import Scene
from tests.kubernetes.recorded_side import WharfingerScheduler
from tests.kubernetes.recorded_watch import RecordedWatch
from wharfinger.apiserver.client import ApiClient
from wharfinger.dev.settings import Servers

Scenarios = Sequence[Mapping[str, Any]]


class FreshKubeScheduler:
    """A kube-scheduler for each scenario, with the recorded profile."""

    def __init__(self, children: Children, api: ApiServer, folder: Path) -> None:
        self._side = KubeScheduler(children, api, folder)

    async def begin(self, scene: Scene) -> None:
        """Start it. When it is ready, it has listed all that exists; after that it follows each kind by itself."""
        profile = configuration(scene.scenario.get("profile", {}))["profiles"][0]
        # One goroutine for all nodes, as when it was recorded: several end a sampling search at varying nodes.
        self._side.configuration = {**whole_configuration([profile]), "parallelism": 1}
        self._side.gates = scene.scenario.get("gates", {})
        await up(await self._side.start(), self._side.is_up)

    async def seen_nodes(self, scene: Scene) -> None:
        """Probe until it counts all nodes."""
        await probe_until_all_nodes(scene)

    async def end(self) -> None:
        """Stop it."""
        await self._side.stop()


async def replay_all(
    children: Children, api: ApiClient, scheduler: Scheduler, chosen: Scenarios, name: str
) -> dict[str, list[Replayed]]:
    """Every scenario, in turn; what became of them, by family. Raises `BenchmarkFailed` when a process has ended."""
    found: dict[str, list[Replayed]] = defaultdict(list)
    async with RecordedWatch.open(api) as watch:
        for scenario in chosen:
            began = time.monotonic()
            run = replay_changes if scenario["family"] == REQUEUE else replay
            done = await run(Scene(api, watch, scenario), scheduler)
            children.cpu()  # raises when one has ended
            found[scenario["family"]].append(done)
            differing = sum(map(bool, done.judged))
            say(
                f"{name}: {scenario['family']}-{scenario['seed']}: {len(done.judged)} decisions, {differing} differ, "
                f"{time.monotonic() - began:.1f} s"
            )
    return found


def answers_of(found: Mapping[str, Sequence[Replayed]]) -> list[Answer]:
    """All answers of one scheduler."""
    return [answer for all_ in found.values() for done in all_ for answer in done.answers]


def report(name: str, found: Mapping[str, Sequence[Replayed]]) -> Tally:
    """Print the table of one scheduler, what differs, and what could not be asked for."""
    tallies = [
        tally(family, [one for done in all_ for one in done.judged], sum(len(done.apart) for done in all_))
        for family, all_ in found.items()
    ]
    print(f"\n{name}\n{table(tallies)}", flush=True)
    for done in (one for all_ in found.values() for one in all_):
        for difference in (each for one in done.judged for each in one):
            print(f"differs  {difference}", flush=True)
        for where, reason in done.apart:
            print(f"apart    {where}: {reason}", flush=True)
    return total(tallies)


async def measure(given: argparse.Namespace, chosen: Scenarios, servers: Servers, folder: Path) -> int:
    """Replay, print, and judge; the exit code."""
    names = scheduler_names(chosen)
    config = folder / "scheduler.yaml"
    config.write_text(yaml.safe_dump(one_configuration(names)), encoding="utf-8")
    async with Children(folder / "logs") as children, AsyncExitStack() as stack:
        api = await ApiServer.start(children, servers.etcd, folder)
        client = await stack.enter_async_context(api.client())
        options = (f"--config={config}", "--compatible")
        ours = Wharfinger(children, api, folder / OURS, servers, options=options)
        await ours.open()
        await up(await ours.start(), ours.is_up)
        assert ours.etcd is not None
        async with WharfingerScheduler.on(ours.etcd.url, names) as scheduler:
            found = await replay_all(children, client, scheduler, chosen, OURS)
        await ours.close()
        whole = report(OURS, found)
        if given.beside:
            peer = FreshKubeScheduler(children, api, folder / PEER)
            theirs = await replay_all(children, client, peer, chosen, PEER)
            report(PEER, theirs)
            same, both = same_refusals(answers_of(found), answers_of(theirs))
            print(f"\nrefusals with one text from both schedulers, unrecorded texts included: {same} of {both}")
    return 0 if whole.share >= ENOUGH else 1


def chosen_scenarios(files: str, seeds: str) -> Scenarios:
    """The scenarios of some files and seeds; empty = of all."""
    wanted = files.split(",") if files else families()
    found = [one.values[0] for one in scenarios(*wanted)]
    return [one for one in found if not seeds or str(one["seed"]) in seeds.split(",")]


def main() -> None:
    """Parse, replay, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--beside", action="store_true", help="replay with kube-scheduler, too")
    parser.add_argument("--files", default="", help="of which files, divided by commas; without: all")
    parser.add_argument("--seeds", default="", help="which scenarios of each file, divided by commas; without: all")
    parser.add_argument("--keep", action="store_true", help="keep the folder with logs and data, and print its path")
    given = parser.parse_args()
    chosen = chosen_scenarios(given.files, given.seeds)
    real_cluster.run(functools.partial(measure, given, chosen), keep=given.keep, kubernetes=True)


if __name__ == "__main__":
    main()
