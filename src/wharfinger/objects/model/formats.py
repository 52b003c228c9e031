"""In which format a cluster keeps its pods and nodes. It is fixed at the first start, in the installation record."""

from __future__ import annotations

from enum import StrEnum

from wharfinger.errors import UsageError


class ClusterFormat(StrEnum):
    """Names a format. `documents.formats` reads and writes its documents, `etcd` knows its keys."""

    KUBERNETES = "kubernetes"
    """`v1` objects in JSON, under `/registry/pods/<namespace>/<name>`."""
    RK8S = "rk8s"
    """rk8s' documents in YAML, under `/registry/pods/<name>`: pods have no namespace."""


def known_format(name: ClusterFormat | str) -> ClusterFormat:
    """The format of that name. Raises `UsageError`."""
    try:
        return ClusterFormat(name)
    except ValueError:
        raise UsageError(f"format {name!r} is none of {', '.join(ClusterFormat)}") from None
