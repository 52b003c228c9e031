"""From kube-scheduler's flags and its file to the settings of a worker and of what it serves.

As in kube-scheduler, a file given by `--config` outranks the deprecated flags (`--kubeconfig`, `--kube-api-*`), while
flags of leader election that are written outrank the file. Without a file, the flags are the configuration.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from wharfinger.errors import UsageError
from wharfinger.framework.config.file_fields import ClientConnection, LeaderElection
from wharfinger.framework.config.load import Configuration
from wharfinger.objects.model.durations import written_duration
from wharfinger.programs.cli.flags import KubeFlags
from wharfinger.serving.exposition import exposition
from wharfinger.serving.options import (
    AuthenticationOptions,
    AuthorizationOptions,
    ServingOptions,
    TlsOptions,
    sni_pair,
)
from wharfinger.settings import ElectionSettings, Events, KubernetesSettings, WorkerSettings

COMPONENT = "kube-scheduler"
SECOND = 1e9
_ELECTION = {
    "leader-elect": "leaderElect",
    "leader-elect-lease-duration": "leaseDuration",
    "leader-elect-renew-deadline": "renewDeadline",
    "leader-elect-retry-period": "retryPeriod",
    "leader-elect-resource-lock": "resourceLock",
    "leader-elect-resource-name": "resourceName",
    "leader-elect-resource-namespace": "resourceNamespace",
}
_SHORTEST = 8.0
"""Seconds of a Lease, at least: a shorter one leaves a holder that is cut off no time to notice."""


def with_flags(document: Mapping[str, Any], flags: KubeFlags) -> dict[str, Any]:
    """A KubeSchedulerConfiguration with what the flags say: of leader election always, else where there is no file."""
    found = dict(document)
    election = {field: _of_file(flags.given[name]) for name, field in _ELECTION.items() if name in flags.given}
    if election:
        found["leaderElection"] = {**(document.get("leaderElection") or {}), **election}
    if "config" not in flags.given:
        connection = {
            "kubeconfig": flags["kubeconfig"],
            "qps": flags["kube-api-qps"],
            "burst": flags["kube-api-burst"],
        }
        if "kube-api-content-type" in flags.given:
            connection["contentType"] = flags["kube-api-content-type"]
        found["clientConnection"] = {**(document.get("clientConnection") or {}), **connection}
        for name, field in (("profiling", "enableProfiling"), ("contention-profiling", "enableContentionProfiling")):
            if name in flags.given:
                found[field] = flags[name]
    return found


def _of_file(value: Any) -> Any:
    return written_duration(round(value * SECOND)) if isinstance(value, float) else value


def kubernetes_settings(
    configuration: Configuration, flags: KubeFlags, *, events: Events, allow_insecure: bool
) -> KubernetesSettings:
    """Which Kubernetes API, and how. Raises `UsageError`."""
    connection: ClientConnection = configuration.settings.client_connection
    election = election_settings(configuration.settings.leader_election)
    return KubernetesSettings(
        kubeconfig=Path(connection.kubeconfig) if connection.kubeconfig else None,
        master=flags["master"],
        allow_insecure=allow_insecure,
        qps=connection.qps,
        burst=connection.burst,
        election=election,
        events=events,
        importer_ttl=_importer_ttl(election),
    )


def election_settings(election: LeaderElection) -> ElectionSettings:
    """Of the file's fields."""
    return ElectionSettings(
        enabled=election.leader_elect,
        name=election.resource_name,
        namespace=election.resource_namespace,
        lease_duration=election.lease_duration / SECOND,
        renew_deadline=election.renew_deadline / SECOND,
        retry_period=election.retry_period / SECOND,
    )


def _importer_ttl(election: ElectionSettings) -> float:
    """Seconds after which another worker takes over from an importer that died: before the Lease can pass to another.

    Four seconds are those that its first request about the Lease may take. A Lease that is too short for a lease of
    `active` in etcd is refused (`scheduling.effects.binding.right_to_bind`): 2 s of that, 5 s for ends that are late, a
    read and a bind.
    """
    usual = KubernetesSettings().importer_ttl
    if not election.enabled:
        return usual
    left = election.lease_duration - election.retry_period - 4.0
    if election.lease_duration < _SHORTEST or left < 3.0:
        raise UsageError(
            f"leaseDuration {election.lease_duration:g} s is too short: it must be at least {_SHORTEST:g} s, and "
            f"at least 7 s more than retryPeriod ({election.retry_period:g} s)"
        )
    return min(usual, left)


def serving_options(flags: KubeFlags) -> ServingOptions:
    """How the process serves. Raises `UsageError`."""
    port = flags["secure-port"]
    if not 0 <= port <= 65535:
        raise UsageError(f"--secure-port {port} must be between 0 and 65535, inclusive: 0 for turning off secure port")
    return ServingOptions(
        address=flags["bind-address"],
        port=port or -1,
        component=COMPONENT,
        kubernetes=True,
        tls=TlsOptions(
            cert_file=_file(flags, "tls-cert-file"),
            key_file=_file(flags, "tls-private-key-file"),
            sni_pairs=tuple(sni_pair(text) for text in flags["tls-sni-cert-key"]),
            cert_dir=_file(flags, "cert-dir"),
            pair_name=COMPONENT,
            min_version=flags["tls-min-version"],
            cipher_suites=flags["tls-cipher-suites"],
        ),
        share_port=flags["permit-port-sharing"],
        authentication=AuthenticationOptions(
            client_ca_file=_file(flags, "client-ca-file"), token_ttl=flags["authentication-token-webhook-cache-ttl"]
        ),
        authorization=AuthorizationOptions(
            always_allow_paths=flags["authorization-always-allow-paths"],
            allowed_ttl=flags["authorization-webhook-cache-authorized-ttl"],
            denied_ttl=flags["authorization-webhook-cache-unauthorized-ttl"],
        ),
        exposition=exposition(
            flags["disabled-metrics"], flags["allow-metric-labels"], _file(flags, "allow-metric-labels-manifest")
        ),
    )


def worker_settings(
    settings: WorkerSettings, kubernetes: KubernetesSettings, serving: ServingOptions, flags: KubeFlags
) -> WorkerSettings:
    """The settings of a worker with what the flags say."""
    duration = flags["pod-max-in-unschedulable-pods-duration"]
    return replace(
        settings,
        kubernetes=kubernetes,
        bind_address=serving.address,
        health_port=serving.port,
        dispatching=replace(settings.dispatching, restart_every=duration),
    )


def reviewing_kubeconfig(flags: KubeFlags) -> Path | None:
    """The kubeconfig by which callers are reviewed; None = the scheduler's own. Raises `UsageError`."""
    names = ("authentication-kubeconfig", "authorization-kubeconfig")
    files = {flags[name] for name in names if flags[name]}
    if len(files) > 1:
        raise UsageError("--authentication-kubeconfig and --authorization-kubeconfig must be the same file here")
    return Path(files.pop()) if files else None


def _file(flags: KubeFlags, name: str) -> Path | None:
    return Path(flags[name]) if flags[name] else None
