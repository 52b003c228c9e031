"""Which extension points a plugin serves: by the methods that it has, however it has them."""

from __future__ import annotations

from typing import Any

import pytest

from tests.framework.conftest import MakeProfile
from tests.framework.doubles import ColumnRefuser, Refuser
from wharfinger.framework.catalog import points_of
from wharfinger.framework.interface import Filter, NodeFilter, Plugin, offers
from wharfinger.framework.status import unschedulable
from wharfinger.framework.verdicts import Verdicts
from wharfinger.testing.builders import node, pod, snapshot


class Forwarding:
    """Has what another plugin has."""

    def __init__(self, to: object) -> None:
        self._to = to

    def __getattr__(self, name: str) -> Any:
        return getattr(self._to, name)


class Numbered:
    def __init__(self, number: int) -> None:
        self.number = number


class Nominal(Numbered, NodeFilter):
    name = "Nominal"

    def filter_node(self, *_: object) -> Any:
        raise NotImplementedError


REFUSED = {"a": unschedulable("no")}


@pytest.mark.parametrize("plugin", [Refuser("R", REFUSED), ColumnRefuser("R", Verdicts.of({0: REFUSED["a"]}, 1))])
def test_a_plugin_that_forwards_to_another_refuses_as_it_does(plugin: Plugin, profile_of: MakeProfile) -> None:
    forwarding = Forwarding(plugin)

    assert points_of(forwarding) == points_of(plugin) == ("filter",)
    for each in (plugin, forwarding):
        assert profile_of(each).evaluate(pod("p"), snapshot(node("a"))).rejectors == ("R",)


def test_a_method_that_is_none_is_not_offered() -> None:
    plugin = Nominal(7)
    assert (plugin.number, offers(plugin, NodeFilter), offers(plugin, Filter)) == (7, True, False)

    plugin.filter_node = None  # type: ignore[assignment]
    assert not offers(plugin, NodeFilter)
    assert points_of(plugin) == ()
