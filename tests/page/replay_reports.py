"""Reports of replay for the page: small ones that are quickly made, and those of the archive that is checked in."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from wharfinger.replay.report.kept_reports import keep

ARCHIVE = Path(__file__).resolve().parents[1] / "replay" / "demo.archive"
MOST = "NodeResourcesFit.scoringStrategy.type=MostAllocated"
MADE = "2026-03-02T10:00:00+00:00"
NAMES = ("shadow-most", "shadow-plain", "rerun-most", "rerun-plain")
FEW = "0/3 nodes are available: 3 Insufficient cpu."


def counts(**found: int) -> dict[str, int]:
    """Of every verdict."""
    names = ("same", "figures", "elsewhere", "refused", "evicted", "placed", "otherwise", "unreplayable")
    return dict.fromkeys(names, 0) | found


def _said(node: str = "", total: int | None = None, message: str = "", **scores: int) -> dict[str, Any]:
    return {
        "node": node, "total": total, "scores": scores, "message": message, "rejectors": [], "nominatedNode": "",
        "victims": [], "domain": "",
    }  # fmt: skip


def _usual(*change: str) -> dict[str, Any]:
    return {
        "change": list(change), "since": "2026-03-01T10:00:00+00:00", "until": None, "seconds": 3.5, "runs": 90,
        "revision": 1200, "gaps": [], "profiles": {},
    }  # fmt: skip


def shadow(*change: str, **more: Any) -> dict[str, Any]:
    """A report of two namespaces: of web all is the same, of batch nothing."""
    batch = counts(elsewhere=20, refused=5, unreplayable=5)
    refused = {"verdict": "refused", "message": FEW, "decisions": 5, "namespaces": {"batch": 5}}
    pod = {
        "pod": "batch/sweep-1", "verdict": "refused", "differs": ["node", "message"], "apart": 0, "revision": 1300,
        "profile": "default-scheduler", "workflowId": "w", "runId": "r",
        "recorded": _said("n1", 300, NodeResourcesFit=90), "again": _said(message=FEW),
    }  # fmt: skip
    elsewhere = pod | {"pod": "web/front-1", "verdict": "elsewhere", "again": _said("n2", 310, NodeResourcesFit=100)}
    return _usual(*change) | {
        "mode": "shadow", "decisions": 100, "summary": counts(same=70, elsewhere=20, refused=5, unreplayable=5),
        "sameShare": 0.7368, "differs": {"node": 25},
        "unreplayable": [
            {"lack": "overlay", "decisions": 5, "namespaces": {"batch": 5},
             "examples": [{"pod": "batch/sweep-9", "detail": "two pods are missing"}]},
        ],
        "profiles": {"default-scheduler": counts(same=70, elsewhere=20, refused=5, unreplayable=5)},
        "workloads": [
            {"workload": "batch: Job/sweep", **batch}, {"workload": "web: ReplicaSet/front", **counts(same=70)},
        ],
        "namespaces": [
            {"namespace": "batch", **batch, "packing": {"recorded": 0.5, "again": 0.9}},
            {"namespace": "web", **counts(same=70), "packing": {"recorded": 0.3, "again": 0.3}},
        ],
        "reasons": [refused], "packing": {"recorded": 0.35, "again": 0.6},
        "packingOverTime": [
            {"time": f"2026-03-01T{at // 60:02d}:{at % 60:02d}:00Z", "recorded": 0.3, "again": 0.3 + at / 4000}
            for at in range(1200)
        ],
        "pods": [pod, elsewhere],
        "builds": [{"digest": "d", "build": "1.2.0", "packages": {"my-plugins": "3"}, "decisions": 100}],
    } | more  # fmt: skip


def rerun(*change: str, **more: Any) -> dict[str, Any]:
    """A report of 40 moments."""

    def figures(cpu: float, lost: float) -> dict[str, Any]:
        return {"use": {"cpu": cpu, "memory": cpu / 2}, "fragmentation": {"cpu": lost}}

    found = counts(same=60, elsewhere=30, refused=4, placed=1, otherwise=5)
    pod = {
        "pod": "batch/sweep-1", "verdict": "refused", "recorded": "n1", "again": "", "message": FEW,
        "recordedMessage": "", "recordedTotal": 300, "recordedScores": {"NodeResourcesFit": 90}, "againTotal": None,
        "evicted": False,
    }  # fmt: skip
    return _usual(*change) | {
        "mode": "rerun", "decisions": 100, "summary": found, "profiles": {"default-scheduler": found},
        "workloads": [{"workload": "batch: Job/sweep", **found}], "namespaces": [{"namespace": "batch", **found}],
        "reasons": [{"verdict": "refused", "message": FEW, "decisions": 4, "namespaces": {"batch": 4}}],
        "evictions": [{"victim": "batch/low", "preemptor": "web/high"}], "evictionCount": 1, "stopped": False,
        "overTime": [
            {"revision": 1200 + 10 * at, "time": f"2026-03-01T10:{at:02d}:00Z", "recorded": figures(at, 0.1),
             "again": figures(1.2 * at, 0.2)}
            for at in range(40)
        ],
        "pods": [pod],
    } | more  # fmt: skip


def ends(**where: str) -> dict[str, Any]:
    """Where pods of the namespace batch ended."""
    nodes = sorted({node for node in where.values() if node})
    return {
        "nodes": nodes,
        "pods": [[f"batch/{pod}", 7, nodes.index(node) if node else -1] for pod, node in where.items()],
    }


def kept(folder: Path, name: str, report: Mapping[str, Any], age: int = 0, **more: Any) -> Path:
    """Keep a report under this name. `age`: seconds by which it is older than the newest."""
    told = {
        "made": MADE, "build": "1.2.0", "cluster": "wharfinger", "archive": "", "command": "wharfinger replay",
        "report": report, "ends": None,
    }  # fmt: skip
    path = keep(folder, name, told | more)
    os.utime(path, (1_770_000_000 - age, 1_770_000_000 - age))
    return path


def filled_folder(folder: Path) -> Path:
    """One report of each kind, and a file that is none."""
    folder.mkdir(exist_ok=True)
    kept(folder, "shadow-most", shadow(MOST))
    kept(folder, "shadow-plain", shadow(pods=[], reasons=[]), 1)
    plain = {"a": "n1", "b": "n2", "c": "", "d": "n1"}
    kept(folder, "rerun-most", rerun(MOST), 2, ends=ends(**plain | {"b": "n1", "c": "n2", "d": ""}))
    kept(folder, "rerun-plain", rerun(), 3, ends=ends(**plain))
    (folder / "notes.json").write_text("{}")
    os.utime(folder / "notes.json", (1, 1))
    return folder


async def replayed(folder: Path) -> Path:
    """The same names, of the archive that is checked in, replayed by the command: for pictures."""
    folder.mkdir(exist_ok=True)
    for name in NAMES:
        mode, change = name.split("-")
        options = ("--mode", mode, "--keep-in", str(folder), *(("--set", MOST) if change == "most" else ()))
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "wharfinger", "replay", "--archive", str(ARCHIVE), *options,
            stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.PIPE,
        )  # fmt: skip
        _, said = await process.communicate()
        assert process.returncode == 0, said.decode()
        Path(said.decode().rpartition("kept as ")[2].strip()).rename(folder / f"{name}.json")
    return folder
