"""The views of the page, each with its wing: a subclass of `page.parts.PageView` by its dotted name."""

VIEWS = (
    "wharfinger.scheduling.page.view:SchedulingView",
    "wharfinger.fleet.page.view:FleetsView",
    "wharfinger.kubernetes.page.view:KubernetesView",
    "wharfinger.placement.page.view:PlacementView",
    "wharfinger.replay.page.view:ReplayView",
)
"""In the order in which they are made: a view may ask the page for those before it."""
