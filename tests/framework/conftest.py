"""A profile made of plugins written for one test."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from wharfinger.framework.catalog import Enabled
from wharfinger.framework.interface import Plugin
from wharfinger.framework.plugins.node_independent import DefaultBinder, PrioritySort
from wharfinger.framework.profile import Profile

MakeProfile = Callable[..., Profile]


@pytest.fixture
def profile_of() -> MakeProfile:
    """The given plugins, and the two that every profile needs."""

    def make(*plugins: Plugin, weights: dict[str, int] | None = None) -> Profile:
        everyone: Sequence[Plugin] = (PrioritySort(), *plugins, DefaultBinder())
        return Profile("default-scheduler", Enabled.everywhere(everyone, weights or {}))

    return make
