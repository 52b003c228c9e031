"""Pictures of Temporal's UI for the documents: `python -m tests.page.temporal_pictures FOLDER` (`make pictures`).

They show the quick start: its runs, the attempt that was refused, and the one that bound the pod. Needs `make browser`.
"""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from tests.integration.dev_tree import DevTree, wait_until
from tests.page.browser import launched

EXAMPLES = Path(__file__).parents[2] / "examples" / "quickstart"
SIZE = {"width": 1440, "height": 900}


def quick_start(tree: DevTree) -> list[dict[str, Any]]:
    """Play the quick start; the attempts of its pod that waits first."""

    def attempts() -> list[dict[str, Any]]:
        return json.loads(tree.cli("explain", "pod", "default/big-1", "-o", "json").stdout)["attempts"]  # type: ignore[no-any-return]

    tree.cli("apply", "-f", str(EXAMPLES))
    wait_until(lambda: tree.cli("pending").stdout.startswith("1 Unschedulable"), 60, "big-1 is refused")
    node = json.loads(tree.cli("get", "node", "elm-2", "-o", "json").stdout)
    del node["spec"]["taints"]
    tree.cli("apply", "-f", "-", stdin=json.dumps(node))
    wait_until(lambda: [one["outcome"] for one in attempts()] == ["refused", "bound"], 60, "big-1 is bound")
    return attempts()


async def take(folder: Path, ui: str, attempts: list[dict[str, Any]]) -> None:
    """The list of runs, the history of the first attempt, and the second one."""
    runs = f"{ui}/namespaces/default/workflows"
    refused, bound = (f"{runs}/{one['workflowId'].replace('/', '%2F')}/{one['runId']}" for one in attempts)
    async with launched() as browser:
        tab = await (await browser.new_context(viewport=SIZE, color_scheme="light")).new_page()
        for name, address, heading in (
            ("temporal-runs.png", runs, ""),
            ("temporal-refused.png", f"{refused}/history", "Event History"),
            ("temporal-bound.png", f"{bound}/timeline", ""),
        ):
            await tab.goto(address)
            await tab.wait_for_timeout(5000)
            if heading:
                await tab.get_by_role("heading", name=heading).first.evaluate("one => one.scrollIntoView()")
                await tab.wait_for_timeout(500)
            await tab.screenshot(path=folder / name)
            print(folder / name, flush=True)


def main(folder: Path) -> None:
    """Start the servers, play, and take the pictures."""
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as data:
        tree = DevTree(Path(data), 2, cohorts="auto", own_interpreter=True)
        try:
            tree.start()
            asyncio.run(take(folder, tree.ready["ui"], quick_start(tree)))
            tree.stop()
        finally:
            tree.end()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
