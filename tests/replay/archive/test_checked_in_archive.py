"""The archive that is checked in: 1,200 pods of the demo, a killed worker, a preemption and two gangs.

A change of how is decided shows here first. If it is meant, `make replay-archive` writes the archive anew.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from tests.replay.archive.test_archive import from_archive
from wharfinger.replay.archive.archived import Archive
from wharfinger.scheduling.contracts.scheduling import Refused

FILE = Path(__file__).parents[1] / "demo.archive"
MIB = 1 << 20


async def test_every_decision_is_the_same() -> None:
    replayed = await from_archive(FILE)

    assert replayed.strange == []
    assert replayed.report.counts["same"] == replayed.report.decisions > 1200


def test_it_is_small_and_has_decisions_of_all_kinds() -> None:
    runs = list(Archive.open(FILE).runs())

    assert FILE.stat().st_size < MIB
    kinds = Counter(run.kind for run in runs)
    assert kinds["lone"] > 5
    assert kinds["cohort"] > 5
    assert {bool(run.many and run.many.seats) for run in runs if run.kind == "gang"} == {True, False}
    assert any(run.lone.victims for run in runs if isinstance(run.lone, Refused))
