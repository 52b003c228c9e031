"""The options of a worker whose pods are a Kubernetes API's, and `schedules_kubernetes`, which gives them to a command.

Without `--kubeconfig` there is no such API: the cluster's objects are in etcd itself. The command `kube-scheduler` has
kube-scheduler's own options instead.
"""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from wharfinger.cli.option_groups import grouped
from wharfinger.cli.options import option, variable
from wharfinger.errors import UsageError
from wharfinger.model.formats import ClusterFormat
from wharfinger.settings import ElectionSettings, UpstreamSettings

PANEL = "Kubernetes API"
"""Panel of these options in a command's help."""
IN_CLUSTER = "in-cluster"
"""In the place of a file: the service account of the pod that the process runs in."""
_USUAL = UpstreamSettings()
_LEASE = ElectionSettings()


class EventsChoice(StrEnum):
    """Which events are written to the API."""

    ALL = "all"
    FAILURES = "failures"
    NONE = "none"


class TornGangs(StrEnum):
    """What happens to the bound members of a gang that cannot be completed."""

    KEEP = "Keep"
    EVICT = "Evict"


def kubeconfig_file(named: str) -> Path | None:
    """The file of `--kubeconfig`; None for a pod's service account. Raises `UsageError` when there is no such file."""
    if named == IN_CLUSTER:
        return None
    path = Path(named)
    if not path.is_file():
        raise UsageError(f"--kubeconfig: there is no file {path}")
    return path


def upstream_from(
    *,
    kubeconfig: str = "",
    kube_context: str = "",
    kube_api_qps: float = _USUAL.qps,
    kube_api_burst: int = _USUAL.burst,
    allow_insecure_upstream: bool = False,
    leader_elect: bool = _LEASE.enabled,
    leader_elect_resource_name: str = _LEASE.name,
    leader_elect_resource_namespace: str = _LEASE.namespace,
    events: EventsChoice = EventsChoice.ALL,
    torn_gangs: TornGangs = TornGangs.KEEP,
) -> UpstreamSettings | None:
    """The settings that the options make; None without a Kubernetes API. Raises `UsageError`."""
    if not kubeconfig:
        if kube_context:
            raise UsageError("--kube-context needs --kubeconfig")
        return None
    return UpstreamSettings(
        kubeconfig=kubeconfig_file(kubeconfig),
        context=kube_context,
        allow_insecure=allow_insecure_upstream,
        qps=kube_api_qps,
        burst=kube_api_burst,
        election=ElectionSettings(
            enabled=leader_elect,
            name=leader_elect_resource_name,
            namespace=leader_elect_resource_namespace,
        ),
        events=events.value,
        torn_gangs=torn_gangs.value,
    )


def upstream_arguments(upstream: UpstreamSettings | None) -> tuple[str, ...]:
    """The same options for another process here; defaults are left out."""
    if upstream is None:
        return ()
    election = upstream.election
    names = {
        "resource-name": (election.name, _LEASE.name),
        "resource-namespace": (election.namespace, _LEASE.namespace),
    }
    return (
        f"--kubeconfig={upstream.kubeconfig.resolve() if upstream.kubeconfig is not None else IN_CLUSTER}",
        *([f"--kube-context={upstream.context}"] if upstream.context else []),
        *([f"--kube-api-qps={upstream.qps:g}"] if upstream.qps != _USUAL.qps else []),
        *([f"--kube-api-burst={upstream.burst}"] if upstream.burst != _USUAL.burst else []),
        *(["--allow-insecure-upstream"] if upstream.allow_insecure else []),
        *([] if election.enabled else ["--no-leader-elect"]),
        *(f"--leader-elect-{name}={value}" for name, (value, usual) in names.items() if value != usual),
        *([f"--events={upstream.events}"] if upstream.events != _USUAL.events else []),
        *([f"--torn-gangs={upstream.torn_gangs}"] if upstream.torn_gangs != _USUAL.torn_gangs else []),
    )


def check_alone(upstream: UpstreamSettings | None, format_: ClusterFormat, *, node_evictions: bool) -> None:
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


def _flag(name: str, text: str) -> Any:
    return typer.Option(
        f"--{name}/--no-{name}", envvar=variable(name), help=text, show_envvar=False, rich_help_panel=PANEL
    )


KUBE_CONTEXT: tuple[Any, Any] = (
    Annotated[str, option("kube-context", "Context of the kubeconfig.", "NAME", shown="its current", panel=PANEL)],
    "",
)
"""The option by which every command names a context, and its default."""
ALLOW_INSECURE: tuple[Any, Any] = (
    Annotated[
        bool,
        typer.Option(
            "--allow-insecure-upstream",
            envvar=variable("allow-insecure-upstream"),
            help="Accept a kubeconfig that switches off the verification of the server's certificate, or that "
            "sends credentials over plain HTTP.",
            show_envvar=False,
            rich_help_panel=PANEL,
        ),
    ],
    False,
)
"""The option by which every command lets a kubeconfig be unsafe, and its default."""

_OPTIONS: dict[str, tuple[Any, Any]] = {
    "kubeconfig": (
        Annotated[
            str,
            option(
                "kubeconfig",
                f"Schedule the pods of the Kubernetes API that this file names; `{IN_CLUSTER}`: of the API that "
                "the pod's service account belongs to. etcd then has copies of its objects.",
                f"FILE|{IN_CLUSTER}",
                shown=False,
                panel=PANEL,
            ),
        ],
        "",
    ),
    "kube_context": KUBE_CONTEXT,
    "kube_api_qps": (
        Annotated[
            float,
            option(
                "kube-api-qps",
                "Requests a second of one worker to the API, and as many events besides. Negative: no limit.",
                "NUMBER",
                panel=PANEL,
            ),
        ],
        _USUAL.qps,
    ),
    "kube_api_burst": (
        Annotated[int, option("kube-api-burst", "Requests that may go at once.", "NUMBER", min=1, panel=PANEL)],
        _USUAL.burst,
    ),
    "allow_insecure_upstream": ALLOW_INSECURE,
    "leader_elect": (
        Annotated[
            bool,
            _flag("leader-elect", "Bind only while this installation holds the Lease; all of its workers bind then."),
        ],
        _LEASE.enabled,
    ),
    "leader_elect_resource_name": (
        Annotated[
            str,
            option(
                "leader-elect-resource-name",
                "Name of the Lease.",
                "NAME",
                shown="kube-scheduler for the profile default-scheduler, else the cluster's",
                panel=PANEL,
            ),
        ],
        _LEASE.name,
    ),
    "leader_elect_resource_namespace": (
        Annotated[str, option("leader-elect-resource-namespace", "Namespace of the Lease.", "NAME", panel=PANEL)],
        _LEASE.namespace,
    ),
    "events": (
        Annotated[
            EventsChoice,
            option("events", "Events that are written to the API. `failures`: all but Scheduled.", panel=PANEL),
        ],
        EventsChoice.ALL,
    ),
    "torn_gangs": (
        Annotated[
            TornGangs,
            option(
                "torn-gangs",
                "What happens to the bound members of a gang of which others were deleted or changed while it was "
                "being bound.",
                panel=PANEL,
            ),
        ],
        TornGangs.KEEP,
    ),
}

schedules_kubernetes = grouped("upstream", _OPTIONS, upstream_from)
"""Gives a command these options, and its function `UpstreamSettings | None` as its parameter `upstream`."""
