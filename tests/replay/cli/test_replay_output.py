"""Conditions of `--fail-on`."""

from __future__ import annotations

import pytest

from wharfinger.errors import UsageError
from wharfinger.replay.cli.replay_output import FailCondition, tell
from wharfinger.replay.report.report import Report
from wharfinger.replay.report.rerun_report import RerunReport


def report(**counts: int) -> Report:
    made = Report()
    made.counts.update(counts)
    made.packing.add(0.5, 0.75)
    return made


@pytest.mark.parametrize(
    ("text", "holds"),
    [
        ("refused > 0", True),
        ("refused>1", False),
        ("same < 100%", True),
        ("same<50%", False),
        ("unreplayable == 1", True),
        ("unreplayable >= 10 %", True),
        ("placed != 0", False),
        ("decisions <= 9", False),
        ("packing < 0.8", True),
        ("packing < 0.7", False),
    ],
)
def test_a_figure_is_compared_with_a_number_or_a_share(text: str, holds: bool) -> None:
    made = report(same=8, refused=1, unreplayable=1)

    assert bool(FailCondition.parse(text).failure(made)) is holds


def test_nothing_decided_is_no_share_of_the_same() -> None:
    assert FailCondition.parse("same < 100%").failure(Report()) == "same < 100%"
    assert not FailCondition.parse("refused > 0%").failure(Report())


@pytest.mark.parametrize("text", ["packing < 0.6", "packing > 0.6"])
def test_packing_that_does_not_exist_fails_in_its_own_words(text: str) -> None:
    assert FailCondition.parse(text).failure(Report()) == f"{text}: there is no packing, as nothing was placed"


@pytest.mark.parametrize(("mode", "lacks"), [("rerun", "figures"), ("shadow", "evicted")])
def test_a_figure_that_the_mode_lacks_is_refused(mode: str, lacks: str) -> None:
    other = {"rerun": "shadow", "shadow": "rerun"}[mode]

    assert FailCondition.parse(f"{lacks} > 0", other).figure == lacks
    with pytest.raises(UsageError, match=f"figures with --mode {mode} are same"):
        FailCondition.parse(f"{lacks} > 0", mode)


@pytest.mark.parametrize(
    "text", ["", "refused", "refused > many", "nothing > 0", "packing > 5%", "refused > -1", "> 3"]
)
def test_what_is_no_condition_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="--fail-on"):
        FailCondition.parse(text)


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
