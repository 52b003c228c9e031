"""Pictures of the page before a filled cluster: `python -m tests.page.pictures FOLDER`, as `make pictures` does.

Those of the documents; with `--all` every view, light and dark, wide and on a phone, to look at. Needs `make browser`.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import tempfile
from pathlib import Path
from typing import Any

from tests.page.browser import launched
from tests.page.cluster import SUBJECT, MemoryCluster, filled, served, stir, with_history
from tests.page.replay_reports import replayed
from wharfinger.page.options import PageOptions

POD = f"/pods/{SUBJECT.namespace}/{SUBJECT.name}"
VIEWS = {
    "overview": "/",
    "map": "/map?group=pool",
    "map-fragmentation": "/map?group=topology.kubernetes.io/zone&by=fits&cpu=16&memory=32Gi",
    "node": "/nodes/gpu-c-00008?group=topology.kubernetes.io/rack",
    "pending": "/pending/Unschedulable~NodeResourcesFit",
    "pods": "/pods?state=waiting",
    "pod": POD,
    "explorer": f"{POD}?tab=explorer&attempt=4",
    "difference": f"{POD}?tab=difference&first=1&second=2",
    "what-if": f"{POD}?tab=what-if",
    "gang": "/gangs/training/mpi-solve",
    "gangs": "/gangs",
    "fleets": "/fleets",
    "placements": "/placements",
    "kubernetes": "/kubernetes",
    "alerts": "/alerts",
    "replays": "/replays",
    "replay": "/replays/shadow-most",
    "replay-beside": "/replays/rerun-most?beside=rerun-plain",
}
TEMPORAL_UI = "http://127.0.0.1:8233"
SETTLING = 180.0
"""Seconds in which pods come and go before the first picture, so that charts have something to show."""
SIZES = {"": (1440, 900), "-phone": (390, 844)}
DOCUMENTS = {
    ("overview", "", "light"): "ui-overview.png",
    ("map", "", "dark"): "ui-map.png",
    ("explorer", "", "light"): "ui-explorer.png",
    ("replay-beside", "", "dark"): "ui-replay.png",
}
"""The pictures of the documents, by view, size and colours."""


async def take(folder: Path, nodes: int, pods: int, *, settle: float, everything: bool, only: set[str]) -> None:
    """Take the pictures."""
    cluster = await filled(nodes, pods)
    with tempfile.TemporaryDirectory() as replays:
        options = PageOptions(0, temporal_ui=TEMPORAL_UI, replays_dir=await replayed(Path(replays)))
        await _taken(folder, cluster, options, settle=settle, everything=everything, only=only)


async def _taken(
    folder: Path, cluster: MemoryCluster, options: PageOptions, *, settle: float, everything: bool, only: set[str]
) -> None:
    async with served(cluster, options) as page, launched() as browser:
        await with_history(cluster, page.parts)
        stirring = asyncio.create_task(stir(cluster))
        await asyncio.sleep(settle)
        for theme, (suffix, (width, height)) in itertools.product(("light", "dark"), SIZES.items()):
            wanted = {
                view: f"{view}{suffix}-{theme}.png" if everything else DOCUMENTS[view, suffix, theme]
                for view in VIEWS
                if (everything and (not only or view in only))
                or (not everything and (view, suffix, theme) in DOCUMENTS)
            }
            if not wanted:
                continue
            size = {"width": width, "height": height}
            context = await browser.new_context(viewport=size, color_scheme=theme, device_scale_factor=1)
            tab = await context.new_page()
            tab.on("console", lambda said: print(f"{said.type}: {said.text}"))
            await tab.goto(page.link)
            for view, name in wanted.items():
                await tab.goto(page.server.url + VIEWS[view])
                await tab.wait_for_selector("#view > *")
                await _settle(tab, view)
                await tab.screenshot(path=folder / name)
                print(folder / name, flush=True)
            await context.close()
        stirring.cancel()
        await asyncio.gather(stirring, return_exceptions=True)


async def _settle(tab: Any, name: str) -> None:
    """Wait for what comes later."""
    if name == "explorer":
        await tab.wait_for_selector(".vbody .pill", timeout=60_000)
    elif name.startswith("replay"):
        await tab.wait_for_selector(".card", timeout=20_000)
    elif name == "difference":
        await tab.wait_for_selector(".compare", timeout=90_000)
    elif name == "what-if":
        await tab.wait_for_selector("summary >> text=Weights", timeout=20_000)
        await tab.fill("fieldset:first-of-type .pairs:nth-of-type(1) input:nth-of-type(2)", "4")
        await tab.get_by_role("button", name="Decide again").click()
        await tab.wait_for_selector(".compare", timeout=20_000)
    await tab.wait_for_timeout(900)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("views", nargs="*", help="with --all: only these")
    parser.add_argument("--all", action="store_true", dest="everything")
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--pods", type=int, default=50_000)
    parser.add_argument("--settle", type=float, default=SETTLING)
    told = parser.parse_intermixed_args()
    told.folder.mkdir(parents=True, exist_ok=True)
    asyncio.run(
        take(told.folder, told.nodes, told.pods, settle=told.settle, everything=told.everything, only=set(told.views))
    )
