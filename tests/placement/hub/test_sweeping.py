"""The parts of a sweep: everything once in five minutes, and about as much each second."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from itertools import islice

from wharfinger.process.controller import SWEEP, TICK, sweep_parts


class Swept:
    """A sweep of references that may change, whose pauses end at once."""

    def __init__(self, *references: str) -> None:
        self.references = set(references)
        self.seconds = 0.0
        self._parts: AsyncIterator[Sequence[str]] = sweep_parts(lambda: self.references, pause=self._pause)

    async def _pause(self, seconds: float) -> None:
        self.seconds += seconds

    async def until(self, seconds: float) -> list[list[str]]:
        """The parts until so many seconds have passed."""
        found: list[list[str]] = []
        while self.seconds < seconds:
            found.append(list(await anext(self._parts)))
        return found


async def test_each_comes_once_in_a_sweep_in_equal_parts() -> None:
    swept = Swept(*(f"p{number}" for number in range(900)))
    parts = await swept.until(SWEEP)

    assert {len(part) for part in parts} == {3}
    assert sorted(one for part in parts for one in part) == sorted(swept.references)


async def test_few_references_come_one_a_second_and_then_again() -> None:
    parts = await Swept("a", "b").until(4 * TICK)
    assert sorted(islice(parts, 2)) == sorted(islice(parts, 2, None)) == [["a"], ["b"]]


async def test_a_new_reference_comes_in_the_next_sweep() -> None:
    swept = Swept()
    assert await swept.until(2 * TICK) == [[], []]
    swept.references.add("a")
    assert await swept.until(3 * TICK) == [["a"]]
