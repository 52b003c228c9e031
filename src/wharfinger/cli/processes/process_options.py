"""The options that commands share which run schedulers: `worker`, `agent` (which passes most of them on) and `dev`.

Each is also an environment variable, as the connection options are (`cli.options`). Defaults are those of
`wharfinger.settings`; a command whose help has to say more than this declares its own.
"""

from __future__ import annotations

import hashlib
import os
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from wharfinger.cli.options import option, variable
from wharfinger.config.durations import parse
from wharfinger.errors import UsageError
from wharfinger.model.formats import ClusterFormat
from wharfinger.settings import (
    COMPATIBLE,
    BindSettings,
    EtcdSettings,
    LeaseSettings,
    NodeEvictionSettings,
    WorkerSettings,
)

HealthPort = Annotated[
    int,
    option(
        "health-port", "Port of its /livez, /readyz and /metrics. 0: any free one, -1: none.", "PORT", min=-1, max=65535
    ),
]
BindAddress = Annotated[
    str, option("bind-address", "Where health endpoints listen: its own, and those of what it starts.", "ADDRESS")
]

DEFAULT_LEASE_TTL = round(LeaseSettings().ttl)
LeaseTtl = Annotated[
    int,
    option(
        "lease-ttl",
        "How long after a worker's death its pods go to the others. A short lease expires while etcd's disk is busy.",
        "SECONDS",
        min=2,  # etcd grants no less
        max=60,
    ),
]


FORMAT_HELP = (
    "In which format the cluster keeps its pods and nodes: Kubernetes' objects, or the documents of rk8s. Fixed at the "
    "cluster's first start."
)
FormatOption = Annotated[ClusterFormat, option("format", FORMAT_HELP)]


class EvictionChoice(StrEnum):
    """How a pod leaves that is preempted."""

    IMMEDIATE = "immediate"
    GRACEFUL = "graceful"


_EVICTION = (
    "Preempted pods are deleted at once (`immediate`: no kubelet runs them), or marked as terminating and deleted "
    "by the kubelet that runs them (`graceful`). Pods of rk8s carry no mark: there, always `immediate`."
)
EvictionMode = Annotated[
    EvictionChoice | None, option("eviction", _EVICTION, shown="graceful, or immediate with --format rk8s")
]
DevEvictionMode = Annotated[EvictionChoice, option("eviction", _EVICTION)]


def eviction_of(format_: ClusterFormat, chosen: EvictionChoice | None) -> EvictionChoice:
    """How a preempted pod leaves in a cluster of this format. Raises `UsageError`."""
    if format_ is ClusterFormat.KUBERNETES:
        return chosen or EvictionChoice.GRACEFUL
    if chosen is EvictionChoice.GRACEFUL:
        raise UsageError(f"--eviction graceful: pods of {format_} carry no mark of an eviction; leave the option out")
    return EvictionChoice.IMMEDIATE


class LostPodsChoice(StrEnum):
    """What happens to pods that are bound to a node that does not exist."""

    REPORT = "report"
    REQUEUE = "requeue"


LostPodsOption = Annotated[
    LostPodsChoice | None,
    option(
        "lost-pods",
        "Pods bound to a node that does not exist: `report` them only, or `requeue` them: delete them once the node "
        "was absent for --lost-after, and make those without a controller anew. The same for all workers of a cluster.",
        shown="report, or requeue with --format rk8s",
    ),
]


def format_arguments(format_: ClusterFormat) -> tuple[str, ...]:
    """The format for another process, which may be of an earlier release: the default is left out."""
    return () if format_ is ClusterFormat.KUBERNETES else (f"--format={format_}",)


LostAfter = Annotated[
    str | None,
    option(
        "lost-after",
        "How long a node must be absent before its pods are requeued: 1s to 24h. At most 10 % of the nodes, and always "
        "one, may be cleared within this time.",
        "DURATION",
        shown="5m, or 30s with --format rk8s",
    ),
]
TaintEviction = Annotated[
    bool,
    typer.Option(
        "--taint-eviction/--no-taint-eviction",
        envvar=variable("taint-eviction"),
        show_envvar=False,
        help="Evict pods that do not tolerate a NoExecute taint of their node. Leave it off where a Kubernetes "
        "controller evicts them.",
    ),
]


_USUAL_NODE_EVICTIONS = {
    ClusterFormat.KUBERNETES: NodeEvictionSettings(),
    # rk8s puts the pods of a deleted node back into its queue, and deletes no node by itself.
    ClusterFormat.RK8S: NodeEvictionSettings(LostPodsChoice.REQUEUE.value, 30.0),
}


def node_evictions(
    format_: ClusterFormat, lost_pods: LostPodsChoice | None, lost_after: str | None, taint_eviction: bool
) -> NodeEvictionSettings:
    """What these options say in a cluster of this format. Raises `UsageError`."""
    usual = _USUAL_NODE_EVICTIONS[format_]
    return NodeEvictionSettings(
        usual.lost_pods if lost_pods is None else lost_pods.value,
        usual.lost_after if lost_after is None else seconds_of("--lost-after", lost_after, "1s", "24h"),
        taint_eviction,
    )


def seconds_of(option_name: str, text: str, least: str, most: str) -> float:
    """A duration within two others, as Go writes them. Raises `UsageError`, which names the option."""
    try:
        duration = parse(text)
    except ValueError as error:
        raise UsageError(f"{option_name}: {text!r} {error}") from None
    if not parse(least) <= duration <= parse(most):
        raise UsageError(f"{option_name}: {text!r} is not between {least} and {most}")
    return duration / 1e9


def node_eviction_arguments(
    format_: ClusterFormat, lost_pods: LostPodsChoice | None, lost_after: str | None, taint_eviction: bool
) -> tuple[str, ...]:
    """The same options for another process, which may be of an earlier release: defaults are left out.

    Raises `UsageError`.
    """
    chosen, usual = node_evictions(format_, lost_pods, lost_after, taint_eviction), _USUAL_NODE_EVICTIONS[format_]
    return (
        *([f"--lost-pods={chosen.lost_pods}"] if chosen.lost_pods != usual.lost_pods else []),
        *([f"--lost-after={lost_after}"] if chosen.lost_after != usual.lost_after else []),
        *(["--taint-eviction"] if taint_eviction else []),
    )


class Level(StrEnum):
    """How much a process says."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


LogLevel = Annotated[Level, option("log-level", "The lowest level that is logged.")]


class CohortChoice(StrEnum):
    """Whether many pods may share a workflow."""

    AUTO = "auto"
    OFF = "off"


CohortsOption = Annotated[
    CohortChoice,
    option(
        "cohorts",
        "`auto`: place pods that arrive together in one workflow. `off`: every pod has its own attempt. "
        "Gangs are placed as gangs in any case.",
    ),
]

DEFAULT_MAX_TXN_OPS = EtcdSettings().max_txn_ops
MaxTxnOps = Annotated[
    int,
    option(
        "max-txn-ops",
        "Operations that etcd takes in each list of a transaction: its own --max-txn-ops. A gang is "
        "bound in one transaction, so this bounds its size.",
        "N",
        min=16,
        max=10_000,
    ),
]

DEFAULT_OWN_NODE_MARGIN = BindSettings().own_node_margin
OwnNodeMargin = Annotated[
    int,
    option(
        "own-node-margin",
        "How many points below the best score one of the worker's preferred nodes may be and still be chosen, so that "
        "several workers seldom contend. 0: always the best node.",
        "POINTS",
        min=0,
        max=100,
    ),
]

CompatibleOption = Annotated[
    bool,
    option(
        "compatible",
        "Choose nodes by kube-scheduler's rules alone: always the best node (as with --own-node-margin 0 of a worker), "
        "and no runner-up when its room was taken. Nodes are sampled where the configuration sets "
        "percentageOfNodesToScore.",
    ),
]


def bind_settings(own_node_margin: int, *, compatible: bool) -> BindSettings:
    """How placements are chosen and committed. Raises `UsageError` where the options contradict each other."""
    if not compatible:
        return BindSettings(own_node_margin=own_node_margin)
    if own_node_margin not in (0, DEFAULT_OWN_NODE_MARGIN):
        raise UsageError(f"--compatible chooses the best node always: leave out --own-node-margin {own_node_margin}")
    return COMPATIBLE


StateDir = Annotated[
    Path | None,
    option(
        "state-dir",
        "Where workers of this host that no agent started remember which dynamic configuration was good, and which one "
        "a process died of. Default: wharfinger in $XDG_STATE_HOME or ~/.local/state.",
        "DIR",
    ),
]


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


DEFAULT_TENANT_LABEL = WorkerSettings().tenant_label
TenantLabel = Annotated[
    str,
    option("tenant-label", "The label of pods that names their tenant; the same for all workers of a cluster.", "KEY"),
]
