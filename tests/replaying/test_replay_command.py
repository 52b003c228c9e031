"""`wharfinger replay` as it is typed, on the archive that is checked in."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.cli.conftest import Answer, Shell, outside
from wharfinger.cli.understand.replay import moment
from wharfinger.errors import UsageError

__all__ = ["outside"]

FILE = Path(__file__).with_name("demo.archive")
NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


@pytest.fixture(autouse=True)
def _log_level() -> Iterator[None]:
    """The command logs errors only, for as long as its process lives."""
    log = logging.getLogger("wharfinger")
    before = log.level
    yield
    log.setLevel(before)


def replayed(outside: Shell, *more: str) -> Answer:
    return outside("replay", "--archive", str(FILE), *more)


@pytest.mark.parametrize("mode", ["shadow", "rerun"])
def test_a_gate_does_not_pass_on_nothing(outside: Shell, mode: str) -> None:
    nothing = "--until", "2000-01-01", "--mode", mode, "-o", "json"

    judged = replayed(outside, *nothing, "--fail-on", "refused > 0")
    told = replayed(outside, *nothing)

    assert judged.code == 3
    assert judged.err.endswith("failed: nothing was replayed, so no condition can be judged\n")
    assert told.code == 0
    report = told.json
    assert (report["decisions"], report["until"]) == (0, "2000-01-01T00:00:00Z")
    assert report.get("sameShare") is None


def test_a_change_at_fault_is_refused_before_runs_are_read(outside: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("wharfinger.replaying.spool.Spool.add", None)

    found = replayed(outside, "--set", "NodeResourcesFit.typo=1")

    assert found.code != 0
    assert "args.typo: unknown field" in found.err


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90s", 90),
        ("1.5h", 5400),
        ("2026-03-01T11:00:00Z", 3600),
        ("2026-03-01T12:00:00+02:00", 7200),
        ("2026-03-01 11:59", 60),
        ("2026-03-01", 43_200),
    ],
)
def test_a_time_is_a_duration_or_rfc_3339_in_utc(text: str, seconds: int) -> None:
    found = moment(text, NOW)

    assert (NOW - found).total_seconds() == seconds
    assert found.tzinfo is UTC


@pytest.mark.parametrize("text", ["99999999999d", "20261126T160000", "2026-W10", "0001-01-01T00:00+09:00", "soon", ""])
def test_what_is_no_time_is_refused_in_one_line(text: str) -> None:
    with pytest.raises(UsageError, match="is no time: give a duration"):
        moment(text, NOW)


def test_a_span_that_is_still_to_come_is_refused(outside: Shell) -> None:
    found = replayed(outside, "--since", "2999-01-01")

    assert (found.code, found.out) == (2, "")
    assert "--since 2999-01-01 is still to come" in found.err
