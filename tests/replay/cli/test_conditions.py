"""Conditions of `--fail-on`."""

from __future__ import annotations

import pytest

from wharfinger.errors import UsageError
from wharfinger.replay.cli.replay_output import FailCondition
from wharfinger.replay.report.report import Report


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
