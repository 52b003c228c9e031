"""Lives, seeds and examples shared out: `make check` plays the first ones, `make test` all of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import settings


def shared_out(count: int, *, quick: int) -> list[Any]:
    """For `parametrize`: numbers below `count`, of which those from `quick` on are marked as long."""
    return [pytest.param(number, marks=[] if number < quick else pytest.mark.long) for number in range(count)]


def in_quarters(examples: int) -> Callable[[Callable[..., object]], Any]:
    """For a test by `@given` with a parameter `quarter`: `make check` tries a quarter of so many, `make test` all."""

    def shared(test: Callable[..., object]) -> Any:
        quarters = pytest.mark.parametrize("quarter", shared_out(4, quick=1))
        return quarters(settings(max_examples=(examples + 3) // 4)(test))

    return shared
