"""Cutting into transactions: operations counted in each list, what is shared counted once, and bytes."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from wharfinger.process.transactions import PER_KEY, Limits, Load, Shape, cut, measure

KEYS = st.lists(st.sampled_from([f"key-{n}" for n in range(30)]), max_size=6, unique=True).map(tuple)
SHAPES = st.lists(st.builds(Shape, KEYS, KEYS, st.integers(0, 5000)), max_size=60)
LIMITS = st.builds(Limits, st.integers(1, 20), st.integers(500, 20_000))


def shape(number: int, *shared: str, size: int = 0) -> Shape:
    return Shape((f"pod-{number}", *shared), (f"pod-{number}",), size)


def test_shared_keys_count_once() -> None:
    load = Load(Limits(operations=4))

    assert load.takes([shape(1, "node", "terms"), shape(2, "node", "terms")])
    assert not load.takes([shape(3)])
    assert (len(load.compares), len(load.writes)) == (4, 2)


def test_a_group_is_taken_whole_or_not_at_all() -> None:
    load = Load(Limits(operations=3))

    assert not load.takes([shape(number) for number in range(4)])
    assert not load.compares


def test_bytes_count_with_their_keys() -> None:
    load = Load(Limits(size=1000 + 3 * (len("pod-1") + PER_KEY)))

    assert load.takes([shape(1, size=1000)])
    assert not load.takes([shape(2)])


@given(SHAPES, LIMITS)
def test_every_list_stays_within_the_limits_or_holds_one_alone(shapes: list[Shape], limits: Limits) -> None:
    lists = cut(shapes, limits)

    assert [number for numbers in lists for number in numbers] == list(range(len(shapes)))
    for numbers in lists:
        together = [shapes[number] for number in numbers]
        load = measure(together)
        size = sum(one.size for one in together)
        size += sum(2 * (len(key) + PER_KEY) for key in load.compares) + sum(len(key) + PER_KEY for key in load.writes)
        assert load.size == size
        fits = max(len(load.compares), len(load.writes)) <= limits.operations and size <= limits.size
        assert fits or len(numbers) == 1


@given(SHAPES, LIMITS)
def test_no_transaction_could_have_taken_the_next_one(shapes: list[Shape], limits: Limits) -> None:
    lists = cut(shapes, limits)
    for numbers, following in pairwise(lists):
        load = measure([shapes[number] for number in (*numbers, following[0])])
        assert max(len(load.compares), len(load.writes)) > limits.operations or load.size > limits.size
