"""Draws how fragmented the cluster becomes in several reruns, from their JSON.

python examples/replay/plot.py example.com/gpu-milli least.json most.json less.json > fragmentation.svg
"""

from __future__ import annotations

import html
import json
import sys
from pathlib import Path
from typing import Any

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 860, 320, 56, 250, 16, 40
COLORS = ("#3b76c4", "#c0392b", "#2f8f5b", "#c98a1b")


def plot(resource: str, reports: dict[str, list[dict[str, Any]]]) -> str:
    """One line a report: the share of the free resource that pods cannot use, over etcd's revisions."""
    first = min(points[0]["revision"] for points in reports.values())
    last = max(points[-1]["revision"] for points in reports.values())
    wide, high = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM
    parts = []
    for percent in (0, 25, 50, 75, 100):
        y = TOP + high * (1 - percent / 100)
        parts.append(f'<line x1="{LEFT}" x2="{LEFT + wide}" y1="{y:.1f}" y2="{y:.1f}" stroke="#8886"/>')
        parts.append(f'<text x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{percent} %</text>')
    for number, (name, points) in enumerate(reports.items()):
        color, y = COLORS[number % len(COLORS)], TOP + 20 * number + 12
        line = " ".join(
            f"{LEFT + wide * (one['revision'] - first) / max(1, last - first):.1f},"
            f"{TOP + high * (1 - one['again']['fragmentation'].get(resource, 0.0)):.1f}"
            for one in points
        )
        parts.append(f'<polyline points="{line}" fill="none" stroke="{color}" stroke-width="2"/>')
        parts.append(f'<rect x="{LEFT + wide + 16}" y="{y - 10}" width="12" height="12" fill="{color}"/>')
        parts.append(f'<text x="{LEFT + wide + 34}" y="{y}">{html.escape(name)}</text>')
    axis = f"etcd's revisions {first:,} to {last:,}"
    parts.append(f'<text x="{LEFT + wide / 2}" y="{HEIGHT - 10}" text-anchor="middle">{axis}</text>')
    style = "text{font:13px system-ui,sans-serif;fill:#7a828c}"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
        f'aria-label="Free {html.escape(resource)} that pods cannot use"><style>{style}</style>{"".join(parts)}</svg>\n'
    )


def main(arguments: list[str]) -> None:
    """The resource, then files; a line is called as its rerun's change, or as nothing."""
    resource, *files = arguments
    reports = {}
    for file in files:
        report = json.loads(Path(file).read_text(encoding="utf-8"))
        name = ", ".join(report["change"]).rpartition(":")[2].rpartition("=")[2]
        reports[name or "LeastAllocated (the default)"] = report["overTime"]
    sys.stdout.write(plot(resource, reports))


if __name__ == "__main__":
    main(sys.argv[1:])
