"""In which format a cluster keeps its pods and nodes. It is fixed at the first start, in the installation record."""

from __future__ import annotations

from enum import StrEnum


class ClusterFormat(StrEnum):
    """Names a format. `manifests.formats` reads and writes its documents, `registry` knows its keys."""

    KUBERNETES = "kubernetes"
    """`v1` objects in JSON, under `/registry/pods/<namespace>/<name>`."""
    RK8S = "rk8s"
    """rk8s' documents in YAML, under `/registry/pods/<name>`: pods have no namespace."""
