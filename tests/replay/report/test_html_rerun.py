"""A rerun as one file: plots of both clusters, where pods ended, and every text of the cluster is only text."""

from __future__ import annotations

from typing import Any

import pytest

from tests.page.replay_reports import MOST, rerun
from tests.replay.report.test_html_report import ELSEWHERE, Checked
from wharfinger.replay.report.html_parts import PlotLine, plot
from wharfinger.replay.report.html_report import page, plotted
from wharfinger.replay.report.rerun_report import RerunReport

HOSTILE = "<img src=x onerror=alert(1)>\u202e"


def test_the_file_is_whole_and_shows_both_clusters() -> None:
    content = page(rerun(MOST))
    found = Checked(content)

    assert found.open == []
    assert "script" not in found.tags
    assert not found.attributes & ELSEWHERE
    assert f"Replay: {MOST}" in found.said
    assert "100 pods of 90 runs lived again" in found.said
    assert content.count("<polyline") == 6, "cpu and memory in use, and how fragmented cpu is, of both"
    assert "39.0 %46.8 %" in found.said, "cpu in use at the end"
    assert "batch/sweep-1: bound in the record only, n1 (300) → no node" in found.said
    assert "NodeResourcesFit 90" in found.said, "why it went there"
    assert "3 Insufficient cpu" in found.said, "and why it is refused"
    assert "Evicted for others: 1" in found.said


def test_a_rerun_of_nothing_is_a_report_too() -> None:
    plain = {"since": None, "runs": 0} | RerunReport().to_plain()

    found = Checked(page(plain))

    assert found.open == []
    assert "0 pods of 0 runs" in found.said


def test_pods_that_were_left_undecided_are_told() -> None:
    assert "went on waking each other" in page(rerun(stopped=True))
    assert "went on waking each other" not in page(rerun())


def test_hostile_texts_of_a_rerun_are_only_text() -> None:
    told = {"pod": HOSTILE, "message": HOSTILE, "again": HOSTILE}
    pod: dict[str, Any] = rerun()["pods"][0] | told | {"recordedScores": {HOSTILE: 1}}
    moment = {"use": {HOSTILE: 50.0}, "fragmentation": {HOSTILE: 0.5}}
    times = [{"revision": at, "time": HOSTILE, "recorded": moment, "again": moment} for at in (1, 2)]

    content = page(rerun(HOSTILE, pods=[pod], overTime=times, evictions=[{"victim": HOSTILE, "preemptor": HOSTILE}]))

    assert Checked(content).open == []
    assert "<img" not in content
    assert "\u202e" not in content
    assert content.count("&lt;img src=x onerror=alert(1)&gt;\\u202e") > 10


def test_resources_that_nobody_uses_are_not_plotted() -> None:
    def moment(**use: float) -> dict[str, Any]:
        return {side: {"use": use, "fragmentation": {}} for side in ("recorded", "again")}

    assert plotted([moment(cpu=1.0, gpu=0.0), moment(cpu=0.0, memory=2.0)]) == ["cpu", "memory"]
    assert len(plotted([moment(**{f"r{number}": 1.0 for number in range(20)})])) == 8


@pytest.mark.parametrize(("highest", "top"), [(0.03, "4 %"), (0.15, "20 %"), (0.7, "100 %"), (1.4, "100 %")])
def test_a_plot_ends_above_its_lines(highest: float, top: str) -> None:
    content = plot("x", [PlotLine("red", [0.0, None, highest])], ("a", "b"))

    assert f">{top}</text>" in content
    assert "nan" not in content
