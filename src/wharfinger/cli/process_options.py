"""The options that commands share which run schedulers: `worker`, `agent` (which passes most of them on) and `dev`.

Each is also an environment variable, as the connection options are (`cli.options`). Defaults are those of
`wharfinger.settings`; a command whose help has to say more than this declares its own.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from wharfinger.cli.options import option
from wharfinger.settings import BindSettings, EtcdSettings, LeaseSettings, WorkerSettings

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
        "How long after a worker's death its pods go to the others. Short ones are lost to a busy disk.",
        "SECONDS",
        min=2,  # etcd grants no less
        max=60,
    ),
]


class Eviction(StrEnum):
    """How a pod leaves that is preempted."""

    IMMEDIATE = "immediate"
    GRACEFUL = "graceful"


EvictionMode = Annotated[
    Eviction,
    option(
        "eviction",
        "Preempted pods are deleted at once (`immediate`: nobody runs them), or marked as terminating and deleted "
        "by whoever runs them (`graceful`).",
    ),
]


class Level(StrEnum):
    """How much a process says."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


LogLevel = Annotated[Level, option("log-level", "How much is said.")]


class Cohorts(StrEnum):
    """Whether many pods may share a workflow."""

    AUTO = "auto"
    OFF = "off"


CohortsOption = Annotated[
    Cohorts,
    option(
        "cohorts",
        "`auto`: place many pods in one workflow while the backlog is deep. `off`: every pod has its own attempt. "
        "Gangs are placed as gangs in any case.",
    ),
]

DEFAULT_MAX_TXN_OPS = EtcdSettings().max_txn_ops
MaxTxnOps = Annotated[
    int,
    option(
        "max-txn-ops",
        "Operations that etcd takes in each list of a transaction: what its own --max-txn-ops says. A gang is "
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
        "How much worse than the best a node of a worker's own may score to go first, so that several workers seldom "
        "contend. 0: the best node always.",
        "POINTS",
        min=0,
        max=100,
    ),
]

DEFAULT_TENANT_LABEL = WorkerSettings().tenant_label
TenantLabel = Annotated[
    str,
    option("tenant-label", "The label of pods that names their tenant; the same for all workers of a cluster.", "KEY"),
]
