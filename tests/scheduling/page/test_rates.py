"""The rates of namespaces: how many are kept, which one makes room for another, and since when that one is known."""

from __future__ import annotations

from wharfinger.page.follow.rings import SLOT_SECONDS, SLOTS
from wharfinger.scheduling.page.rates import NamespaceRates, Rates

SHOWN = SLOTS * SLOT_SECONDS
BEGAN = 1000.0


def created(rates: Rates | None, now: float) -> int:
    assert rates is not None
    return sum(filter(None, rates.created.series(now)))


def test_what_happens_is_counted_for_all_and_for_its_namespace() -> None:
    rates = NamespaceRates(BEGAN, lambda _: True)
    rates.count("created", "a", BEGAN)
    rates.count("created", "b", BEGAN)
    rates.count("bound", "a", BEGAN)

    assert (created(rates.of(""), BEGAN), created(rates.of("a"), BEGAN)) == (2, 1)
    assert sum(filter(None, rates.whole.bound.series(BEGAN))) == 1
    assert rates.of("c") is None
    assert rates.note("c") is None, "there is room"


def test_where_there_is_no_room_only_the_whole_is_counted() -> None:
    rates = NamespaceRates(BEGAN, lambda _: True, most=1)
    rates.count("created", "a", BEGAN)
    rates.count("created", "b", BEGAN)

    assert created(rates.whole, BEGAN) == 2
    assert rates.of("b") is None
    assert rates.note("b") == "rates are kept of 1 namespaces, and there are more"
    assert rates.note("a") is None
    assert rates.note("") is None


def test_a_namespace_with_pods_keeps_its_rates_however_old() -> None:
    rates = NamespaceRates(BEGAN, lambda _: True, most=1)
    rates.count("created", "a", BEGAN)
    rates.count("created", "b", BEGAN + 2 * SHOWN)
    assert list(rates.by_namespace) == ["a"]


def test_an_empty_namespace_gives_up_what_is_too_old_to_be_shown() -> None:
    rates = NamespaceRates(BEGAN, lambda _: False, most=1)
    rates.count("created", "a", BEGAN)
    rates.count("created", "b", BEGAN + SHOWN)
    assert list(rates.by_namespace) == ["a"], "it is still shown"

    later = BEGAN + SHOWN + SLOT_SECONDS
    rates.count("created", "b", later)
    assert list(rates.by_namespace) == ["b"]
    kept = rates.of("b")
    assert kept is not None
    assert kept.created.series(later)[:-1] == [None] * (SLOTS - 1), "what was before is unknown, not 0"


def test_room_is_looked_for_once_a_slot_only() -> None:
    asked: list[str] = []

    def has_pods(namespace: str) -> bool:
        asked.append(namespace)
        return True

    rates = NamespaceRates(BEGAN, has_pods, most=1)
    rates.count("created", "a", BEGAN)
    later = BEGAN + 2 * SHOWN
    for _ in range(3):
        rates.count("created", "b", later)
    assert asked == ["a"]
    rates.count("created", "b", later + SLOT_SECONDS)
    assert asked == ["a", "a"]
