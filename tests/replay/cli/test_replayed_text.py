"""The report as text for people."""

from __future__ import annotations

from wharfinger.replay.cli.replay_output import tell
from wharfinger.replay.report.report import Report
from wharfinger.replay.report.rerun_report import RerunReport

GAPS = [{"after": 1200, "before": 1500}, {"after": 9, "before": 12}]
TOLD = {"runs": 0, "seconds": 1.0, "revision": 0, "gaps": GAPS}


def test_gaps_of_an_archive_are_told() -> None:
    for text in (tell(TOLD | Report().to_plain()), tell(TOLD | RerunReport().to_plain())):
        assert "no changes of these revisions: from 1,200 to 1,500, from 9 to 12." in text


def test_without_gaps_nothing_is_told_of_them() -> None:
    assert "revisions" not in tell(TOLD | {"gaps": []} | Report().to_plain())


def test_of_many_gaps_the_first_are_told_and_how_many_more() -> None:
    gaps = [{"after": number, "before": number + 1} for number in range(25)]

    assert "from 19 to 20, and 5 more." in tell(TOLD | {"gaps": gaps} | Report().to_plain())


def test_a_changed_rerun_says_what_it_is_to_be_compared_with() -> None:
    changed, plain = (tell(TOLD | RerunReport(told).to_plain()) for told in (("A.weight=2",), ()))

    assert "Compare this with a rerun without a change" in changed
    assert "Compare" not in plain
