"""`wharfinger worker`: one scheduler process."""

from __future__ import annotations

import re
from collections.abc import Coroutine
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import typer

from wharfinger.cli.options import ConnectionOptions, configured
from wharfinger.cli.processes.process_options import (
    KubernetesOptions,
    SchedulingOptions,
    ServingChoices,
    check_alone,
    eviction_of,
    state_dir,
)
from wharfinger.cli.processes.running import run_process
from wharfinger.errors import ServerError, UsageError
from wharfinger.options import setting
from wharfinger.process.names import check_tenant
from wharfinger.settings import DispatchSettings, GrantSettings, LogLevel, WorkerSettings, log_level_option

_NUMBER = re.compile(r"0|[1-9][0-9]{0,17}")
_instance = partial(setting, panel="Instance (set by an agent)", variable=False, shown=False)
LOCKED = 4
"""Exit code when another process is this instance."""


@dataclass(frozen=True, slots=True)
class WorkerOptions:
    """What a worker of its own decides, and what an agent says of an instance."""

    state_dir: Path | None = setting(
        None,
        "Where workers of this host that no agent started remember which dynamic configuration was good, and which one "
        "a process died of. Default: wharfinger in $XDG_STATE_HOME or ~/.local/state.",
        "DIR",
    )
    log_level: LogLevel = log_level_option()
    instance: str = _instance(
        "",
        "Which incarnation of which slot this process is. It runs only under that grant: exit code 3 when the grant is "
        "gone.",
        "TENANT/SLOT/INCARNATION",
    )
    instance_revision: int = _instance(0, "The fleet's revision that this process runs.", "N", min=0)
    instance_lock: Path | None = _instance(
        None,
        "File that the process keeps locked: exit code 4 when another process has locked it.",
        "FILE",
        shown=True,
    )
    end_with: int = _instance(0, "End at once when the process with this id has ended.", "PID", min=0)

    def granted(self) -> tuple[str, GrantSettings | None]:
        """The tenant and the grant that `--instance` names; empty and None without it. Raises `UsageError`."""
        if not self.instance:
            if self.instance_revision or self.instance_lock is not None:
                raise UsageError("--instance-revision and --instance-lock need --instance")
            return "", None
        tenant, *numbers = self.instance.split("/")
        if len(numbers) != 2 or not all(_NUMBER.fullmatch(number) for number in numbers):
            raise UsageError(f"--instance: {self.instance!r} is no TENANT/SLOT/INCARNATION, such as common/0/1")
        slot, incarnation = map(int, numbers)
        return check_tenant(tenant), GrantSettings(slot, incarnation, self.instance_revision, self.instance_lock)


@configured
def worker(
    *,
    settings: WorkerSettings,
    scheduling: SchedulingOptions,
    own: WorkerOptions,
    kubernetes: KubernetesOptions,
    serving: ServingChoices,
    connection: ConnectionOptions,
) -> None:
    """Place pods: run one scheduler process until a signal stops it.

    Any number may run beside each other; they divide the pods among themselves. The first SIGTERM or Ctrl-C drains the
    worker, the second ends the process at once.

    If the configuration is wrong, each mistake is printed on a line of its own, and the exit code is 2.
    """
    granted, grant = own.granted()
    tenant = granted or check_tenant(settings.tenant)
    if own.instance_lock is not None:  # before anything else: a look must find this process alive
        _lock(own.instance_lock)
    format_, api = scheduling.format, kubernetes.settings()
    check_alone(api, format_, node_evictions=scheduling.node_evictions.given)
    settings = replace(
        settings,
        etcd=replace(connection.etcd, max_txn_ops=scheduling.max_txn_ops),
        kubernetes=api,
        temporal=connection.temporal,
        cluster=connection.cluster,
        format=format_,
        tenant=tenant,
        config=scheduling.config,
        all_plugins=scheduling.all_plugins,
        grant=grant,
        state_dir=state_dir(own.state_dir, connection.etcd, connection.cluster, tenant),
        tenant_label=scheduling.tenant_label,
        binding=scheduling.binding.settings(),
        eviction=eviction_of(format_, scheduling.eviction),
        node_evictions=scheduling.node_evictions.settings(format_),
        dispatching=DispatchSettings(cohorts=scheduling.cohorts, take_turns=not scheduling.binding.compatible),
    )

    def main() -> Coroutine[Any, Any, int]:
        from wharfinger.programs.worker_process import run_worker

        return run_worker(settings, serving.at(settings.bind_address, settings.health_port))

    run_process(main, end_with=own.end_with, log_level=own.log_level, log_format=serving.logging_format)


def _lock(path: Path) -> None:
    """Lock the file until this process has ended."""
    from wharfinger.process.children.locks import hold

    try:
        hold(path)
    except ServerError as error:
        typer.echo(f"error: {error}", err=True)
        raise typer.Exit(LOCKED) from None
