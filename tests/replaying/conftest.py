"""A world in memory whose decisions are recorded."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.engine.conftest import World
from tests.replaying.replay_stage import Stage


@pytest.fixture
async def stage() -> AsyncIterator[Stage]:
    world = World()
    made = Stage(world)
    await made.keep_profiles()
    yield made
    await world.close()
