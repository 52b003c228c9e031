"""Reports as files: written whole, read with limits, and what is no report is told in one line."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tests.replay.replay_stage import Stage
from tests.scheduling.world import pod_object
from wharfinger.errors import UsageError
from wharfinger.etcd import keys
from wharfinger.replay.archive.spool import Spool
from wharfinger.replay.changes import ProfileChange, Setting
from wharfinger.replay.cli.replay_output import AskedReplay, keep_report
from wharfinger.replay.kept_form import KeptReport, RerunFigures, ShadowFigures
from wharfinger.replay.recorded import Unit, units
from wharfinger.replay.report import kept_reports
from wharfinger.replay.report.kept_reports import (
    NoReport,
    ReportFile,
    folder_for,
    keep,
    listed,
    read_report,
    report_name,
    report_of,
)
from wharfinger.replay.report.report import Report
from wharfinger.replay.reruns import rerun

MADE = datetime(2026, 3, 2, 9, 30, tzinfo=UTC)
PACKED = Setting.parse("NodeResourcesFit.scoringStrategy.type=MostAllocated")
MORE: dict[str, Any] = {
    "cluster": "wharfinger", "since": None, "until": None, "seconds": 1.5, "runs": 2, "revision": 7, "gaps": [],
}  # fmt: skip
BUILDS = [{"digest": "d", "build": "1.0", "packages": {"mine": "2"}, "decisions": 2}]


def asked(mode: str, folder: Path) -> AskedReplay:
    return AskedReplay(mode, "", "", None, ("X.weight=1 2",), ("m:P",), folder / "day.archive")


async def two_pods(stage: Stage) -> None:
    """Two pods of a deployment that would lie together if nodes were filled."""
    world = stage.world
    for name in ("a", "b"):
        await world.put_node(name, cpu="8")
    await world.put_pod("there", cpu="4", spec={"nodeName": "b"})
    for name in ("web", "next"):
        obj = pod_object(name)
        obj["metadata"]["ownerReferences"] = [{"kind": "ReplicaSet", "name": "web", "controller": True}]
        await world.store.put(keys.pod("default", name), json.dumps(obj).encode())
    await world.put_pod("huge", cpu="99")
    hand = await world.hand()
    await stage.together(hand, "web", "next", "huge")


def read(folder: Path) -> list[KeptReport | NoReport]:
    return [read_report(folder, file) for file in listed(folder).files]


async def test_a_shadow_report_is_read_back_as_it_was_printed(stage: Stage, tmp_path: Path) -> None:
    await two_pods(stage)
    report = (await stage.replay(ProfileChange(settings=(PACKED,)))).report
    report.told = ("NodeResourcesFit.x=Most/Allocated",)
    plain = MORE | {"builds": BUILDS} | report.to_plain()

    path = keep_report(tmp_path, report, plain, MADE, asked("shadow", tmp_path))

    assert path.name == "20260302T093000Z-shadow-NodeResourcesFit.x-Most-Allocated.json"
    [kept] = read(tmp_path)
    assert isinstance(kept, KeptReport)
    told = kept.report.model_dump(by_alias=True, exclude_unset=True)
    assert {name: plain[name] for name in plain if name != "cluster"} == told, "no field is lost"
    assert isinstance(kept.report, ShadowFigures)
    first = kept.report.pods[0]
    assert (first.pod, first.recorded.node, first.again.node) == ("default/web", "a", "b")
    assert kept.report.workloads[0].workload == "default: ReplicaSet/web"
    assert (kept.made, kept.cluster, kept.archive) == (MADE, "wharfinger", "day.archive")
    typed = f"wharfinger replay --archive {tmp_path}/day.archive --set 'X.weight=1 2' --plugin m:P"
    assert kept.command == typed, "it can be typed again"
    part = asked("shadow", tmp_path)._replace(since="a", until="b").command()
    assert part == typed.replace(" --set", " --since a --until b --set")


async def test_a_rerun_is_read_back_with_where_each_pod_ended(stage: Stage, tmp_path: Path) -> None:
    await two_pods(stage)
    spool, found = Spool(), list[Unit]()
    for run in stage.runs:
        found += units(run, spool.add(run))
    report = await rerun(stage.world.store, spool, found, ProfileChange(settings=(PACKED,)))
    plain = MORE | report.to_plain()

    keep_report(tmp_path, report, plain, MADE, asked("rerun", tmp_path))

    [kept] = read(tmp_path)
    assert isinstance(kept, KeptReport)
    assert kept.report.model_dump(by_alias=True, exclude_unset=True) == {
        name: plain[name] for name in plain if name != "cluster"
    }
    assert isinstance(kept.report, RerunFigures)
    assert kept.ends is not None
    ends = {pod: kept.ends.nodes[node] if node >= 0 else "" for pod, _, node in kept.ends.pods}
    assert ends == {"default/web": "b", "default/next": "b", "default/huge": ""}
    assert kept.report.namespaces[0].elsewhere == kept.report.summary.elsewhere > 0
    [reason] = kept.report.reasons
    assert (reason.verdict, reason.namespaces) == ("otherwise", {"default": 1})
    explained = {one.pod: one for one in kept.report.pods}
    moved = explained["default/web"]
    assert (moved.recorded, moved.again) == ("a", "b")
    assert moved.recorded_scores, "the record says why it went there"
    assert "Insufficient cpu" in explained["default/huge"].recorded_message
    assert kept.report.over_time[-1].time == "1970-01-01T00:00:00Z"
    assert kept.command.startswith("wharfinger replay --mode rerun --archive")


def test_the_command_says_which_span_is_replayed_again() -> None:
    asked = AskedReplay("rerun", "2026-03-01T00:00:00+00:00", "2026-03-02T00:00:00+00:00", Path("a b"), (), (), None)

    assert asked.command() == (
        "wharfinger replay --mode rerun --since 2026-03-01T00:00:00+00:00 --until 2026-03-02T00:00:00+00:00 "
        "--config 'a b'"
    )


def written(folder: Path, name: str = "r", **more: Any) -> Path:
    report = MORE | {"builds": []} | Report().to_plain()
    return keep(folder, name, {"made": MADE.isoformat(), "report": report, "ends": None} | more)


def test_two_of_one_name_are_both_kept_and_nothing_else_is_left(tmp_path: Path) -> None:
    names = [written(tmp_path).name for _ in range(3)]

    assert names == ["r.json", "r-2.json", "r-3.json"]
    assert sorted(one.name for one in tmp_path.iterdir()) == sorted(names)


def test_names_are_of_the_time_and_the_change_and_harmless() -> None:
    change = ("../../etc/passwd", "A.weight=3", "\u202e\n" * 100)

    assert report_name(MADE, "shadow", ()) == "20260302T093000Z-shadow-unchanged"
    assert report_name(MADE, "rerun", change) == "20260302T093000Z-rerun-etc-passwd-A.weight-3"
    assert len(report_name(MADE, "rerun", ("x" * 5000,))) < 110


def test_text_that_is_none_is_spelt_out(tmp_path: Path) -> None:
    written(tmp_path, cluster="a\udc80b")

    [kept] = read(tmp_path)
    assert isinstance(kept, KeptReport)
    assert kept.cluster == "a\\udc80b"


def damaged(**more: Any) -> bytes:
    report = MORE | {"builds": []} | Report().to_plain() | more
    return json.dumps({"kind": "ReplayReport", "version": 1, "made": MADE.isoformat(), "report": report}).encode()


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "not a report"),
        (b"{}", "not a report"),
        (b"[" * 100_000, "not a report"),
        (b'{"kind": "ReplayReport", "version": 2}', "written by a later release"),
        (damaged(decisions=-1), "damaged at report.shadow.decisions"),
        (damaged(pods=[{"pod": "a"}]), "damaged at report.shadow.pods.0.verdict"),
        (damaged(mode="other"), "damaged at report"),
        (damaged(sameShare=float("nan")), "damaged at report"),
        (damaged(summary="no"), "damaged at report.shadow.summary"),
        (b'{"kind": "ReplayReport", "version": 1, "made": "yesterday"}', "damaged at"),
    ],
)
def test_what_is_no_report_is_told_in_one_line(content: bytes, why: str) -> None:
    found = report_of(content)

    assert isinstance(found, NoReport)
    assert found.why.startswith(why)
    assert len(found.why) < 400
    assert "\n" not in found.why


def test_fields_of_a_later_release_are_left_out() -> None:
    found = report_of(damaged(novelty=[1, 2]))

    assert isinstance(found, KeptReport)


def test_only_regular_files_are_listed_the_newest_first(tmp_path: Path) -> None:
    outside = tmp_path / "outside.txt"
    outside.write_text("secret")
    folder = folder_for(tmp_path / "reports")
    for number, name in enumerate(("old", "new")):
        os.utime(written(folder, name), (100 + number, 100 + number))
    (folder / "link.json").symlink_to(outside)
    (folder / "folder.json").mkdir()
    os.mkfifo(folder / "pipe.json")
    (folder / ".hidden.json").write_text("{}")
    (folder / "notes.txt").write_text("{}")

    assert [file.name for file in listed(folder).files] == ["new", "old"]


def test_a_file_that_becomes_something_else_is_not_followed(tmp_path: Path) -> None:
    """Between the listing and the reading."""
    file = written(tmp_path)
    [seen] = listed(tmp_path).files
    file.unlink()
    gone = read_report(tmp_path, seen)
    (tmp_path / "target").write_text("secret")
    file.symlink_to(tmp_path / "target")
    link = read_report(tmp_path, seen)
    file.unlink()
    os.mkfifo(file)
    pipe = read_report(tmp_path, seen)

    assert [one.why for one in (gone, link, pipe) if isinstance(one, NoReport)] == [
        "cannot be read: No such file or directory",
        "cannot be read: Too many levels of symbolic links",
        "no regular file",
    ]


def test_large_files_are_not_read(tmp_path: Path) -> None:
    with (tmp_path / "large.json").open("wb") as file:
        file.truncate(kept_reports.MOST_BYTES + 1)
    [seen] = listed(tmp_path).files

    assert read_report(tmp_path, seen) == NoReport("larger than 16 MiB")
    grown = ReportFile(seen.name, 10, seen.stamp, seen.modified)
    assert read_report(tmp_path, grown) == NoReport("larger than 16 MiB"), "it grew after it was listed"


def test_what_would_be_too_large_goes_without_the_ends(tmp_path: Path) -> None:
    ends = {"nodes": ["n" * 100], "pods": [["default/" + "p" * 200, 1, 0]] * 90_000}

    assert written(tmp_path, ends=ends).stat().st_size < kept_reports.MOST_BYTES
    [kept] = read(tmp_path)
    assert isinstance(kept, KeptReport)
    assert kept.ends is None


def test_of_many_files_the_newest_are_listed(tmp_path: Path) -> None:
    for number in range(kept_reports.MOST_REPORTS + 3):
        path = tmp_path / f"{number:04d}.json"
        path.write_text("{}")
        os.utime(path, (number, number))

    found = listed(tmp_path)

    assert (len(found.files), found.omitted) == (kept_reports.MOST_REPORTS, 3)
    assert found.files[-1].name == "0003"


def test_a_folder_that_is_not_there_is_empty_and_another_file_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    assert listed(tmp_path / "none").files == ()
    assert listed(tmp_path / "none").problem == ""
    assert "cannot be read" in listed(tmp_path / "file").problem


def test_where_nothing_can_be_kept_is_told_before_the_replay(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    for folder in (tmp_path / "file", tmp_path / "none" / "deep"):
        with pytest.raises(UsageError, match="--keep-in"):
            folder_for(folder)
    assert folder_for(tmp_path / "made").is_dir()
