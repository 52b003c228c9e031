"""`wharfinger agent`: one host's agent, which starts, watches and ends scheduler instances, and looks after fleets.

`InstanceOptions` are the options of `dev`, too. `dev` checks them as its agent will, so that a mistake is one line at
the start, and passes them on.
"""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Coroutine, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from wharfinger.cli.options import ConnectionOptions, configured
from wharfinger.cli.processes.process_options import (
    KubernetesOptions,
    SchedulingOptions,
    ServingChoices,
    check_alone,
    kubernetes_arguments,
)
from wharfinger.cli.processes.running import run_process
from wharfinger.errors import UsageError
from wharfinger.fleet.spec.agent_settings import INSTANCES_PANEL, AgentSettings
from wharfinger.objects.model.names import is_dns_subdomain
from wharfinger.options import arguments, setting
from wharfinger.settings import EtcdSettings

_VERSION = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")


def installs(values: Iterable[str]) -> tuple[tuple[str, Path], ...]:
    """What `--install` names. Raises `UsageError`."""
    found: dict[str, Path] = {}
    for value in values:
        name, equals, path = value.partition("=")
        if not equals or not _VERSION.fullmatch(name):
            raise UsageError(f"--install: {value!r} is no NAME=PATH, such as v2=/opt/wharfinger-2/bin/wharfinger")
        if name in found:
            raise UsageError(f"--install: {name} is named more than once")
        if not os.access(path, os.X_OK) or not Path(path).is_file():
            raise UsageError(f"--install: {path} is no executable")
        found[name] = Path(path).absolute()
    return tuple(found.items())


def secrets_folder(path: Path | None) -> Path | None:
    """What `--secrets-dir` names. Raises `UsageError`."""
    if path is not None and not path.is_dir():
        raise UsageError(f"--secrets-dir: there is no folder {path}")
    return path.resolve() if path is not None else None


def variables(values: Iterable[str]) -> frozenset[str]:
    """What `--allow-env` names. Raises `UsageError`."""
    found = frozenset(values)
    for name in found:
        if not _VARIABLE.fullmatch(name):
            raise UsageError(f"--allow-env: {name!r} is no name of a variable")
    return found


@dataclass(frozen=True, slots=True)
class InstanceOptions:
    """What instances may have."""

    install: tuple[tuple[str, Path], ...] = setting(
        (),
        "A version that templates may name, and its executable; repeat for more.",
        "NAME=PATH",
        panel=INSTANCES_PANEL,
        read=installs,
    )
    secrets_dir: Path | None = setting(
        None, "Secrets of templates: files DIR/<name>/<version>.", "DIR", panel=INSTANCES_PANEL, read=secrets_folder
    )
    allow_env: frozenset[str] = setting(
        frozenset(),
        "An environment variable that instances may get, from the template or else from the agent; repeat for more. No "
        "other passes, but PYTHONPATH to instances of the agent's own version.",
        "NAME",
        panel=INSTANCES_PANEL,
        read=variables,
    )


@dataclass(frozen=True, slots=True)
class InstanceLogin:
    """As which user of etcd instances log in."""

    user: str = setting(
        "",
        "User of etcd for the instances; needs --instance-etcd-password-file. Without: the agent's own.",
        "NAME",
        name="instance-etcd-user",
        shown=False,
        panel=INSTANCES_PANEL,
    )
    password_file: Path | None = setting(
        None,
        "File with that user's password.",
        "FILE",
        name="instance-etcd-password-file",
        panel=INSTANCES_PANEL,
        exists=True,
    )

    def etcd(self, own: EtcdSettings) -> EtcdSettings | None:
        """How instances log in; None = as the agent does. Raises `UsageError`."""
        if bool(self.user) != (self.password_file is not None):
            raise UsageError("--instance-etcd-user and --instance-etcd-password-file need each other")
        return replace(own, user=self.user, password_file=self.password_file) if self.user else None


@configured
def agent(
    *,
    instances: InstanceOptions,
    login: InstanceLogin,
    settings: AgentSettings,
    scheduling: SchedulingOptions,
    kubernetes: KubernetesOptions,
    serving: ServingChoices,
    connection: ConnectionOptions,
) -> None:
    """Run scheduler instances on this host, as fleets want them: one agent a host.

    Instances outlive it: SIGTERM or Ctrl-C stops the agent alone, unless --stop-instances is given. The next agent on
    the same folder adopts them. Instances get the agent's own options (etcd, Temporal, --config, --eviction, ...), but
    log in to etcd as --instance-etcd-user where that is given. A template may replace --config by its
    schedulerConfiguration, and etcd's password and certificates by secrets.
    """
    api = kubernetes.settings()
    check_alone(api, scheduling.format, node_evictions=scheduling.node_evictions.given)
    etcd = replace(connection.etcd, max_txn_ops=scheduling.max_txn_ops)
    settings = replace(
        settings,
        host=host_name(settings.host),
        etcd=etcd,
        instance_etcd=login.etcd(etcd),
        temporal=connection.temporal,
        cluster=connection.cluster,
        format=scheduling.format,
        installs=instances.install,
        secrets_dir=instances.secrets_dir,
        allow_env=instances.allow_env,
        config=scheduling.config,
        all_plugins=scheduling.all_plugins,
        worker_options=(
            *scheduling.handed_on(),
            f"--log-level={settings.log_level}",
            *([f"--end-with={settings.end_with}"] if settings.end_with else []),
            *arguments(serving),
            *kubernetes_arguments(api),
        ),
        kubernetes=api,
    )

    def main() -> Coroutine[Any, Any, int]:
        from wharfinger.programs.agent import run_agent

        return run_agent(settings, serving.at(settings.bind_address, settings.health_port))

    run_process(main, end_with=settings.end_with, log_level=settings.log_level, log_format=serving.logging_format)


def host_name(given: str) -> str:
    """The host's name; by default the machine's. Raises `UsageError`."""
    name = given or socket.gethostname().lower()
    if not is_dns_subdomain(name):
        raise UsageError(f"--host: {name!r} is no name of a host (lower case letters, digits, dashes, dots)")
    return name
