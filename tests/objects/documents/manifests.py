"""Manifests to begin with: a test states only what it is about."""

from __future__ import annotations

import json
from typing import Any


def pod_manifest(*, metadata: dict[str, Any] | None = None, status: Any = None, **spec: Any) -> dict[str, Any]:
    """A pod that asks for 100m and 1Mi; keywords go into its spec."""
    container = {"name": "main", "resources": {"requests": {"cpu": "100m", "memory": "1Mi"}}}
    manifest: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "web", "namespace": "default", "uid": "u-1", **(metadata or {})},
        "spec": {"containers": [container], **spec},
    }
    return manifest if status is None else {**manifest, "status": status}


def node_manifest(*, metadata: dict[str, Any] | None = None, status: Any = None, **spec: Any) -> dict[str, Any]:
    """A node of 4 cores, 8Gi and 110 pods; keywords go into its spec."""
    room = {"cpu": "4", "memory": "8Gi", "pods": "110"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "n1", **(metadata or {})},
        "spec": spec,
        "status": {"allocatable": room} if status is None else status,
    }


def raw(manifest: Any) -> bytes:
    """As stored."""
    return json.dumps(manifest).encode()
