"""Arguments of InterPodAffinity."""

from __future__ import annotations

from pydantic import Field

from wharfinger.framework.args import Boolean, Integer, PluginArgs


class InterPodAffinityArgs(PluginArgs):
    """What the terms of pods that are placed already count when nodes are scored."""

    hard_pod_affinity_weight: Integer = Field(default=1, ge=0, le=100)
    """What it counts that a placed pod's required affinity selects the pod to be placed."""
    ignore_preferred_terms_of_existing_pods: Boolean = False
    """Leave out the placed pods' terms, unless the pod to be placed prefers something itself."""
