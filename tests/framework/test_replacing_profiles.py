"""The profiles that decide now: what a holder sees before and after they are replaced."""

from __future__ import annotations

import pytest

from wharfinger.framework.profile import InForce
from wharfinger.framework.profiles import load_configuration
from wharfinger.telemetry import PointDurations


def test_a_holder_sees_the_profiles_that_took_their_place() -> None:
    before, after = load_configuration().profiles, load_configuration().profiles
    profiles = InForce(before)
    assert dict(profiles) == before

    profiles.replace(after)
    assert dict(profiles) == after
    assert (len(profiles), [*profiles]) == (len(after), [*after])
    assert all(profiles[name] is not before[name] for name in profiles)


def test_profiles_are_measured_also_after_a_change() -> None:
    times = PointDurations()
    profiles = InForce(load_configuration().profiles, times)
    profiles.replace(load_configuration().profiles)

    assert [profile.times for profile in profiles.values()] == [times]


def test_other_scheduler_names_are_refused() -> None:
    profiles = InForce(load_configuration().profiles)
    before = dict(profiles)
    with pytest.raises(ValueError, match="other scheduler names"):
        profiles.replace({})
    assert dict(profiles) == before
