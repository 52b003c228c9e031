"""The documented import path of `objects.model.events`."""

from wharfinger.objects.model.events import Action, ClusterEvent, Resource

__all__ = ["Action", "ClusterEvent", "Resource"]
