"""A member cluster that an agent has taken over."""

from __future__ import annotations

import pytest

from tests.placement.member.member_scene import Member


@pytest.fixture
async def member() -> Member:
    found = Member()
    await found.take_over()
    return found
