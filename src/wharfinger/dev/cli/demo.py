"""`wharfinger demo`: what wharfinger does, on a real cluster's pods: a flood, and a killed worker."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import shutil
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TextIO

import typer

from wharfinger.dev.cli.stopping import Stopping

if TYPE_CHECKING:
    from wharfinger.dev.demo.story import Summary
    from wharfinger.dev.demo.view import DemoView
    from wharfinger.dev.settings import DevSettings, Servers
    from wharfinger.dev.tree import DevTree

MOST = 8152
"""Pods in the trace; all of them end well within two minutes on two cores."""


def demo(
    *,
    pods: Annotated[int, typer.Option(min=1, max=MOST, metavar="N", help="How many of the trace's pods.")] = MOST,
    workers: Annotated[
        int, typer.Option(min=1, max=16, metavar="N", help="How many workers to run in the second part.")
    ] = 2,
    as_json: Annotated[bool, typer.Option("--json", help="Print the summary as JSON; the rest on stderr.")] = False,
    keep: Annotated[
        bool, typer.Option("--keep", help="Leave everything running afterwards, until Ctrl-C, and keep the data.")
    ] = False,
    write: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Only write the nodes and pods to a file, for `apply -f` or others."),
    ] = None,
) -> None:
    """Schedule the pods of a production GPU cluster (1,523 nodes): a flood first, then a killed worker.

    The first 3,000 pods (half of --pods when these are fewer than 6,000) are put at once, for one worker. Then the
    fleet is scaled up, the other pods follow one by one, and a worker is killed meanwhile.

    Starts etcd, Temporal and workers of its own, on free ports and in a temporary folder. The summary is checked
    from etcd's revision history: exit code 1 when a pod was lost or bound twice, or a node was overcommitted.
    """
    if write is not None:
        _write(write, pods)
        return
    from wharfinger.dev.demo.view import DemoView
    from wharfinger.dev.progress import progress_for
    from wharfinger.dev.settings import prepare

    servers = prepare(progress_for(sys.stderr))
    data = Path(tempfile.mkdtemp(prefix="wharfinger-demo-"))
    stopping = Stopping()
    try:
        told = asyncio.run(
            _run(
                _settings(data),
                servers,
                DemoView(_stream(as_json)),
                stopping,
                pods=pods,
                workers=workers,
                as_json=as_json,
                keep=keep,
            )
        )
    finally:
        if not keep:
            shutil.rmtree(data, ignore_errors=True)
    if told is None:
        typer.echo(f"wharfinger: interrupted by {stopping.signal_name}: everything was stopped", err=True)
        raise typer.Exit(stopping.exit_code)
    raise typer.Exit(0 if told.sound else 1)


def _settings(data: Path) -> DevSettings:
    from wharfinger.dev.settings import DevSettings
    from wharfinger.process.children.ports import free_port

    etcd, temporal, ui, health = (free_port() for _ in range(4))
    return DevSettings(data_dir=data, workers=1, etcd_port=etcd, temporal_port=temporal, ui_port=ui, health_port=health)


async def _run(
    settings: DevSettings,
    servers: Servers,
    view: DemoView,
    stopping: Stopping,
    *,
    pods: int,
    workers: int,
    as_json: bool,
    keep: bool,
) -> Summary | None:
    """Tell the story on a tree of its own; None when it was interrupted before its end."""
    from wharfinger.dev.demo.story import tell
    from wharfinger.dev.tree import running

    told: Summary | None = None
    try:
        with stopping, view:
            view.say("Starting etcd, Temporal and a worker ...")
            async with running(settings, servers, say=view.say) as tree:
                stopping.tree = tree
                view.say(f"They are up. Every attempt, live, in Temporal's UI: {tree.temporal.ui}")
                told = await tell(tree, view, pods, workers)
                _show(told, view, as_json)
                if keep:
                    _say_kept(tree, view)
                    await asyncio.Event().wait()
    except asyncio.CancelledError:
        if not stopping.asked:
            raise
    return told


def _show(told: Summary, view: DemoView, as_json: bool) -> None:
    if as_json:
        print(json.dumps(dataclasses.asdict(told)), flush=True)
        return
    rows = [
        ("pods", f"{told.pods:,}"),
        ("bound", f"{told.bound:,}"),
        ("refused", f"{sum(told.refused.values()):,}"),
        *((f"  {count:,}", reason) for reason, count in told.refused.items()),
        ("attempts", f"{told.attempts:,}"),
        ("flood", f"{told.flood:,} pods in {told.flood_seconds:.1f} s, {told.flood_pods_per_s:,.0f} pods/s"),
        ("time", f"{told.seconds:.1f} s, {told.pods_per_s:.0f} pods/s, the killed worker included"),
        ("lost", str(told.lost)),
        ("bound twice", str(told.doubled)),
        ("overcommitted", f"{told.overcommitted} nodes, at any revision"),
    ]
    for name, value in rows:
        view.say(f"{name:>14}  {value}")
    view.say("Checked from etcd's own revision history. " + ("All is well." if told.sound else "Something is WRONG."))


def _say_kept(tree: DevTree, view: DemoView) -> None:
    view.say(f"Left running. Temporal's UI: {tree.temporal.ui}   data: {tree.folder.root}")
    view.say(f"  export WHARFINGER_ETCD={tree.etcd.url} WHARFINGER_TEMPORAL={tree.temporal.address}")
    view.say("  wharfinger explain pod openb/openb-pod-0000")
    view.say("Ctrl-C stops everything; the data stays.")


def _stream(as_json: bool) -> TextIO:
    return sys.stderr if as_json else sys.stdout


def _write(path: Path, pods: int) -> None:
    from wharfinger.dev.demo import openb

    openb.write(path, pods)
    typer.echo(f"wrote all nodes and {pods:,} pods to {path}", err=True)
