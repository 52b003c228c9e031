"""The views of the page, each with its wing, and what a view says of its entries in the menu."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

VIEWS = (
    "wharfinger.scheduling.page.view:SchedulingView",
    "wharfinger.fleet.page.view:FleetsView",
    "wharfinger.kubernetes.page.view:KubernetesView",
    "wharfinger.placement.page.view:PlacementView",
    "wharfinger.replay.page.view:ReplayView",
)
"""Subclasses of `page.parts.PageView` by dotted name, in the order in which they are made: a view may ask the page for
those before it.
"""


class MenuEntry(NamedTuple):
    """An entry of the menu, and the addresses below it."""

    title: str
    order: int
    """Entries are sorted by it."""
    views: Mapping[str, str]
    """The browser's module for each address: a file in the folder of the `PageView`. Names in braces stand for one
    part each, as `/pods/{namespace}/{name}`. The entry leads to the first address, which has no names.
    """
    icon: str
    """Data of an SVG path in a box of 24 by 24, drawn as a line."""
    key: str = ""
    """Opens the entry when it is typed after `g`."""
    needs: str = ""
    """A field of the page's status that must be true for the entry to be shown; empty = it is always shown."""
    counts: str = ""
    """A field of the page's status that is shown beside the title. At most one entry has one."""
