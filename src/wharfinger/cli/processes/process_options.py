"""The options that several commands of processes share.

How pods are scheduled (`worker`, `agent`, which passes most of them on, and `dev`), how pages are served (every
process), and which Kubernetes API has the pods. Without an option for serving, health pages and metrics are plain HTTP,
and metrics are readable on loopback only; without `--kubeconfig`, the cluster's objects are in etcd itself. The command
`kube-scheduler` has kube-scheduler's own options instead.
"""

from __future__ import annotations

import hashlib
import os
import re
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Literal

from wharfinger.cli.options import config_option, plugins_option
from wharfinger.errors import UsageError
from wharfinger.objects.model.formats import ClusterFormat
from wharfinger.options import arguments, nested, setting
from wharfinger.process.names import check_tenant_label
from wharfinger.serving.options import ServingOptions, of_process
from wharfinger.settings import (
    COMPATIBLE,
    KUBERNETES_PANEL,
    BindSettings,
    EtcdSettings,
    KubernetesSettings,
    NodeEvictionSettings,
    WorkerSettings,
    format_option,
)

Eviction = Literal["immediate", "graceful"]
eviction_option = partial(
    setting,
    help="Preempted pods are deleted at once (`immediate`: no kubelet runs them), or marked as terminating and deleted "
    "by the kubelet that runs them (`graceful`). Pods of rk8s carry no mark: there, always `immediate`.",
)
cohorts_option = partial(
    setting,
    True,
    "`auto`: place pods that arrive together in one workflow. `off`: every pod has its own attempt. Gangs are placed "
    "as gangs in any case.",
    words={"auto": True, "off": False},
)
max_txn_ops_option = partial(
    setting,
    EtcdSettings().max_txn_ops,
    "Operations that etcd takes in each list of a transaction: its own --max-txn-ops. A gang is bound in one "
    "transaction, so this bounds its size.",
    "N",
    min=16,
    max=10_000,
)
compatible_option = partial(
    setting,
    False,
    "Choose nodes by kube-scheduler's rules alone: always the best node (as with --own-node-margin 0 of a worker), and "
    "no runner-up when its room was taken. Nodes are sampled where the configuration sets percentageOfNodesToScore. Of "
    "pods of equal priority the first goes first, whatever its namespace.",
)
"""Fields of several classes."""


@dataclass(frozen=True, slots=True)
class BindOptions:
    """How nodes are chosen, and placements committed."""

    own_node_margin: int = setting(
        BindSettings().own_node_margin,
        "How many points below the best score one of the worker's preferred nodes may be and still be chosen, so that "
        "several workers seldom contend. 0: always the best node.",
        "POINTS",
        min=0,
        max=100,
    )
    compatible: bool = compatible_option()

    def settings(self) -> BindSettings:
        """What these options mean. Raises `UsageError` where they contradict each other."""
        if not self.compatible:
            return BindSettings(own_node_margin=self.own_node_margin)
        if self.own_node_margin not in (0, BindSettings().own_node_margin):
            raise UsageError(
                f"--compatible chooses the best node always: leave out --own-node-margin {self.own_node_margin}"
            )
        return COMPATIBLE


_USUAL_NODE_EVICTIONS = {
    ClusterFormat.KUBERNETES: NodeEvictionSettings(),
    # rk8s puts the pods of a deleted node back into its queue, and deletes no node by itself.
    ClusterFormat.RK8S: NodeEvictionSettings("requeue", 30.0),
}


@dataclass(frozen=True, slots=True)
class NodeEvictionOptions:
    """What happens to pods on nodes that do not exist, or that have a NoExecute taint."""

    lost_pods: Literal["report", "requeue"] | None = setting(
        None,
        "Pods bound to a node that does not exist: `report` them only, or `requeue` them: delete them once the node "
        "was absent for --lost-after, and make those without a controller anew. The same for all workers of a cluster.",
        shown="report, or requeue with --format rk8s",
    )
    lost_after: str | None = setting(
        None,
        "How long a node must be absent before its pods are requeued: 1s to 24h. At most 10 % of the nodes, and always "
        "one, may be cleared within this time.",
        "DURATION",
        shown="5m, or 30s with --format rk8s",
    )
    taint_eviction: bool = setting(
        False,
        "Evict pods that do not tolerate a NoExecute taint of their node. Leave it off where a Kubernetes controller "
        "evicts them.",
        negatable=True,
    )

    @property
    def given(self) -> bool:
        """Whether any of them asks for something."""
        return bool(self.lost_pods or self.lost_after or self.taint_eviction)

    def settings(self, format_: ClusterFormat) -> NodeEvictionSettings:
        """What these options mean in a cluster of this format. Raises `UsageError`."""
        usual = _USUAL_NODE_EVICTIONS[format_]
        return NodeEvictionSettings(
            self.lost_pods or usual.lost_pods,
            usual.lost_after if self.lost_after is None else seconds_of("--lost-after", self.lost_after, "1s", "24h"),
            self.taint_eviction,
        )

    def handed_on(self, format_: ClusterFormat) -> NodeEvictionOptions:
        """The same for another process: without what is usual in a cluster of this format. Raises `UsageError`."""
        chosen, usual = self.settings(format_), _USUAL_NODE_EVICTIONS[format_]
        return NodeEvictionOptions(
            None if chosen.lost_pods == usual.lost_pods else self.lost_pods,
            None if chosen.lost_after == usual.lost_after else self.lost_after,
            self.taint_eviction,
        )


@dataclass(frozen=True, slots=True)
class SchedulingOptions:
    """How a worker schedules; an agent hands them on to its instances."""

    format: ClusterFormat = format_option(ClusterFormat.KUBERNETES)
    config: Path | None = config_option()
    all_plugins: bool = plugins_option()
    eviction: Eviction | None = eviction_option(None, shown="graceful, or immediate with --format rk8s")
    cohorts: bool = cohorts_option()
    node_evictions: NodeEvictionOptions = nested(NodeEvictionOptions)
    max_txn_ops: int = max_txn_ops_option()
    binding: BindOptions = nested(BindOptions)
    tenant_label: str = setting(
        WorkerSettings().tenant_label,
        "The label of pods that names their tenant; the same for all workers of a cluster.",
        "KEY",
        read=check_tenant_label,
    )

    def handed_on(self) -> tuple[str, ...]:
        """The same for an instance, but for what the agent itself decides about each. Raises `UsageError`."""
        eviction_of(self.format, self.eviction)
        self.binding.settings()
        others = replace(self, config=None, max_txn_ops=EtcdSettings().max_txn_ops)
        return arguments(replace(others, node_evictions=self.node_evictions.handed_on(self.format)))


def eviction_of(format_: ClusterFormat, chosen: Eviction | None) -> Eviction:
    """How a preempted pod leaves in a cluster of this format. Raises `UsageError`."""
    if format_ is ClusterFormat.KUBERNETES:
        return chosen or "graceful"
    if chosen == "graceful":
        raise UsageError(f"--eviction graceful: pods of {format_} carry no mark of an eviction; leave the option out")
    return "immediate"


def seconds_of(option_name: str, text: str, least: str, most: str) -> float:
    """A duration within two others, as Go writes them. Raises `UsageError`, which names the option."""
    from wharfinger.objects.model.durations import parse_duration

    try:
        duration = parse_duration(text)
    except ValueError as error:
        raise UsageError(f"{option_name}: {text!r} {error}") from None
    if not parse_duration(least) <= duration <= parse_duration(most):
        raise UsageError(f"{option_name}: {text!r} is not between {least} and {most}")
    return duration / 1e9


def state_dir(chosen: Path | None, etcd: EtcdSettings, cluster: str, tenant: str) -> Path | None:
    """The folder that workers on the same etcd, of the same cluster and tenant, share; None where there is no home."""
    base = chosen
    if base is None:
        try:
            base = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state") / "wharfinger"
        except RuntimeError:
            return None
    endpoints = hashlib.sha256(" ".join(sorted(etcd.endpoints)).encode()).hexdigest()
    return base / f"{cluster}-{endpoints[:12]}" / tenant


_serving = partial(setting, panel="Serving")


@dataclass(frozen=True, slots=True)
class ServingChoices:
    """How a process serves its pages."""

    metrics_open: bool = _serving(
        False, "Serve /metrics without credentials also where --bind-address is not loopback."
    )
    allowed_host: tuple[str, ...] = _serving(
        (),
        "Let plain HTTP be called by this name, too: others are refused, because a web page may be behind them; repeat "
        "for more.",
        "NAME",
        shown="addresses, names without a dot, and names of private networks",
    )
    tls_cert_file: Path | None = _serving(
        None,
        "Serve over TLS with this certificate and its chain (PEM), and require credentials for all pages but health.",
        "FILE",
    )
    tls_private_key_file: Path | None = _serving(None, "Private key of --tls-cert-file (PEM).", "FILE")
    client_ca_file: Path | None = _serving(
        None, "Callers with a certificate of these authorities (PEM) may read metrics; turns TLS on.", "FILE"
    )
    static_token_file: Path | None = _serving(
        None,
        "Callers with a token of this file may read metrics; turns TLS on. Lines: TOKEN,USER,UID.",
        "FILE",
    )
    logging_format: Literal["text", "json"] = _serving(
        "text", "Log lines as text, or as JSON in the form of Kubernetes."
    )

    def at(self, address: str, port: int) -> ServingOptions:
        """How the process serves on this address. Raises `UsageError`."""
        return of_process(
            address,
            port,
            metrics_open=self.metrics_open,
            allowed_hosts=self.allowed_host,
            cert_file=self.tls_cert_file,
            key_file=self.tls_private_key_file,
            client_ca_file=self.client_ca_file,
            static_token_file=self.static_token_file,
        )


IN_CLUSTER = "in-cluster"
"""In the place of a file: the service account of the pod that the process runs in."""


@dataclass(frozen=True, slots=True)
class KubernetesOptions:
    """Which Kubernetes API has the pods of a worker, and how it is reached."""

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


def kubernetes_arguments(kubernetes: KubernetesSettings | None) -> tuple[str, ...]:
    """The same options for another process here; defaults are left out."""
    if kubernetes is None:
        return ()
    file = kubernetes.kubeconfig
    return (f"--kubeconfig={IN_CLUSTER if file is None else file.resolve()}", *arguments(kubernetes))


def check_alone(kubernetes: KubernetesSettings | None, format_: ClusterFormat, *, node_evictions: bool) -> None:
    """Raise `UsageError` for what a Kubernetes API as the store excludes.

    `node_evictions`: whether an option was given by which wharfinger itself evicts the pods of nodes.
    """
    if kubernetes is None:
        return
    if format_ is not ClusterFormat.KUBERNETES:
        raise UsageError("--kubeconfig and --format rk8s exclude each other: a Kubernetes API has Kubernetes' objects")
    if node_evictions:
        raise UsageError(
            "--lost-pods, --lost-after and --taint-eviction exclude --kubeconfig: the controllers of the Kubernetes "
            "cluster evict the pods of nodes that are gone or tainted; leave these options out"
        )


_UNITS = {"d": "days", "h": "hours", "m": "minutes", "s": "seconds"}
_PART = r"(\d+)([dhms])"


def duration_of(text: str) -> timedelta:
    """The duration; raises `UsageError` when the text is none, or is zero."""
    if not re.fullmatch(f"(?:{_PART})+", text):
        raise UsageError(f"{text!r} is no duration, such as 90s, 45m, 12h or 1d12h")
    parts = re.findall(_PART, text)
    duration = sum((timedelta(**{_UNITS[unit]: int(count)}) for count, unit in parts), timedelta())
    if not duration:
        raise UsageError(f"{text!r} is no time at all")
    return duration
