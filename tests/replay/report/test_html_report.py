"""The report as one file: whole without anything else, and every text of the cluster is only text."""

from __future__ import annotations

from html.parser import HTMLParser
from typing import Any

import pytest

from tests.page.replay_reports import MOST, rerun
from tests.replay.replay_stage import Stage
from wharfinger.replay.changes import ProfileChange, Setting
from wharfinger.replay.report.html_parts import PlotLine, plot, text
from wharfinger.replay.report.html_report import page, plotted
from wharfinger.replay.report.report import Report
from wharfinger.replay.report.rerun_report import RerunReport

VOID = {"meta", "br", "rect", "line", "polyline"}
ELSEWHERE = {"src", "href", "action", "srcset", "data", "poster"}


class Checked(HTMLParser):
    """Every tag is closed in order; what it says, and which tags there are."""

    def __init__(self, content: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.said = ""
        self.feed(content)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID:
            assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.said += data


def plain(report: Report, **more: Any) -> dict[str, Any]:
    usual = {"since": "2026-03-01T00:00:00+00:00", "runs": 1, "builds": [], "gaps": [], "seconds": 1.0}
    return usual | report.to_plain() | more


async def test_the_file_is_whole_and_names_the_pods_that_moved(stage: Stage) -> None:
    world = stage.world
    await world.put_node("a", cpu="8")
    await world.put_node("b", cpu="8")
    await world.put_pod("there", cpu="4", spec={"nodeName": "b"})
    for name in ("web", "next"):
        await world.put_pod(name)
    hand = await world.hand()
    await stage.together(hand, "web", "next")
    setting = Setting.parse("NodeResourcesFit.scoringStrategy.type=MostAllocated")
    report = (await stage.replay(ProfileChange(settings=(setting,)))).report
    over_time = [{"time": f"t{at}", "recorded": 0.2, "again": 0.4 + at / 10} for at in range(3)]

    found = Checked(page(plain(report, change=["<MostAllocated>"], packingOverTime=over_time)))

    assert found.open == []
    assert {"svg", "polyline", "table", "details"} <= found.tags
    assert "script" not in found.tags
    assert not found.attributes & ELSEWHERE
    assert "default/web: on another node, a (" in found.said
    assert "Replay: <MostAllocated>" in found.said
    assert "2 decisions of 1 runs" in found.said


def test_nothing_decided_is_a_report_too() -> None:
    found = Checked(page(plain(Report())))

    assert found.open == []
    assert "0 decisions" in found.said


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ("<script>alert(1)</script>", "&lt;script&gt;alert(1)&lt;/script&gt;"),
        ('" onload="x', "&quot; onload=&quot;x"),
        ("a\u202egnp.b", "a\\u202egnp.b"),
        ("a\x00\x1b[31m", "a\\u0000\\u001b[31m"),
        ("two\nlines", "two lines"),
    ],
)
def test_hostile_texts_are_only_text(said: str, shown: str) -> None:
    assert text(said) == shown


def test_hostile_names_stand_in_the_file_as_text() -> None:
    report = Report()
    report.reasons["refused", "<img src=x onerror=alert(1)>\u202e"] = 3

    content = page(plain(report))

    assert "<img" not in content
    assert "&lt;img src=x onerror=alert(1)&gt;\\u202e" in content
    assert "\u202e" not in content


async def test_packing_over_time_has_steps_that_grow_with_the_span(stage: Stage) -> None:
    """Nothing of it is lost when steps are joined."""
    world = stage.world
    await world.put_node("a", cpu="8")
    hand = await world.hand()
    for number in range(7):
        await world.put_pod(f"pod-{number}", cpu="1")
        await world.seen()
        await stage.alone(hand, f"pod-{number}")

    report = Report(most_steps=3)
    for outcome in (await stage.replay()).outcomes:
        report.add(outcome)

    plain = report.to_plain()
    assert [one["time"][-3:] for one in plain["packingOverTime"]] == ["00Z", "04Z"]
    assert sum(one.again_count for one in report.over_time.values()) == report.packing.again_count == 7
    assert plain["namespaces"][0]["packing"] == plain["packing"]


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
