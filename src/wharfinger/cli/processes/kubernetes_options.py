"""The options of a worker whose pods are a Kubernetes API's.

Without `--kubeconfig` there is no such API: the cluster's objects are in etcd itself. The command `kube-scheduler` has
kube-scheduler's own options instead.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from wharfinger.errors import UsageError
from wharfinger.objects.model.formats import ClusterFormat
from wharfinger.options import arguments, nested, setting
from wharfinger.settings import KUBERNETES_PANEL, KubernetesSettings

IN_CLUSTER = "in-cluster"
"""In the place of a file: the service account of the pod that the process runs in."""


@dataclass(frozen=True, slots=True)
class KubernetesOptions:
    """Which Kubernetes API, and how."""

    kubeconfig: str = setting(
        "",
        f"Schedule the pods of the Kubernetes API that this file names; `{IN_CLUSTER}`: of the API that the pod's "
        "service account belongs to. etcd then has copies of its objects.",
        f"FILE|{IN_CLUSTER}",
        shown=False,
        panel=KUBERNETES_PANEL,
    )
    others: KubernetesSettings = nested(KubernetesSettings)

    def settings(self) -> KubernetesSettings | None:
        """What these options mean; None without a Kubernetes API. Raises `UsageError`."""
        if self.kubeconfig:
            return replace(self.others, kubeconfig=kubeconfig_file(self.kubeconfig))
        if self.others.context:
            raise UsageError("--kube-context needs --kubeconfig")
        return None


def kubeconfig_file(named: str) -> Path | None:
    """The file of `--kubeconfig`; None for a pod's service account. Raises `UsageError` when there is no such file."""
    if named == IN_CLUSTER:
        return None
    path = Path(named)
    if not path.is_file():
        raise UsageError(f"--kubeconfig: there is no file {path}")
    return path


def kubernetes_arguments(upstream: KubernetesSettings | None) -> tuple[str, ...]:
    """The same options for another process here; defaults are left out."""
    if upstream is None:
        return ()
    file = upstream.kubeconfig
    return (f"--kubeconfig={IN_CLUSTER if file is None else file.resolve()}", *arguments(upstream))


def check_alone(upstream: KubernetesSettings | None, format_: ClusterFormat, *, node_evictions: bool) -> None:
    """Raise `UsageError` for what a Kubernetes API as the store excludes.

    `node_evictions`: whether an option was given by which wharfinger itself evicts the pods of nodes.
    """
    if upstream is None:
        return
    if format_ is not ClusterFormat.KUBERNETES:
        raise UsageError("--kubeconfig and --format rk8s exclude each other: a Kubernetes API has Kubernetes' objects")
    if node_evictions:
        raise UsageError(
            "--lost-pods, --lost-after and --taint-eviction exclude --kubeconfig: the controllers of the Kubernetes "
            "cluster evict the pods of nodes that are gone or tainted; leave these options out"
        )
