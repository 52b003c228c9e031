"""The scenarios of benchmarks/rollout.py end within the time that the benchmark watches them."""

from __future__ import annotations

from random import Random

import pytest

from benchmarks.rollout import KINDS, play_ours, scenario


@pytest.mark.parametrize("kind", KINDS)
def test_rollout_of_each_scenario_ends_without_an_empty_fleet(kind: str) -> None:
    """`play_ours` raises when a rollout is still open at the end, or when a rule of the simulated fleets is broken."""
    _, outage = play_ours(scenario(kind, Random(kind)), 1)

    assert outage == 0.0
