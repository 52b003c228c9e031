"""Lives and seeds shared out: `make check` plays the first ones, `make test` all of them."""

from __future__ import annotations

from typing import Any

import pytest


def shared_out(count: int, *, quick: int) -> list[Any]:
    """For `parametrize`: numbers below `count`, of which those from `quick` on are marked as long."""
    return [pytest.param(number, marks=[] if number < quick else pytest.mark.long) for number in range(count)]
