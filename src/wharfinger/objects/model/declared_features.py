"""Features of a node that it declares in its status, and that some pods cannot run without.

The names are Kubernetes' own. A node may declare others, which mean nothing to scheduling.
"""

from __future__ import annotations

RESTART_ALL_CONTAINERS = "RestartAllContainersOnContainerExits"
"""A container's end may restart all containers of the pod."""
HOST_NETWORK_IN_USER_NAMESPACE = "UserNamespacesHostNetworkSupport"
"""A pod may be on the host's network and in a user namespace of its own."""
NO_FEATURES: frozenset[str] = frozenset()
