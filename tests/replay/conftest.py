"""A world in memory whose decisions are recorded."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.replay.replay_stage import Stage
from tests.scheduling.world import World


@pytest.fixture
async def stage() -> AsyncIterator[Stage]:
    world = World()
    made = Stage(world)
    await made.keep_profiles()
    yield made
    await world.close()
