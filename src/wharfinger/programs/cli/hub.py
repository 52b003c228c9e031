"""`wharfinger hub`: decides which member clusters placements get, and delivers them."""

from __future__ import annotations

from collections.abc import Coroutine
from dataclasses import replace
from typing import Any

from wharfinger.cli.options import ConnectionOptions, configured
from wharfinger.cli.processes.process_options import ServingChoices
from wharfinger.cli.processes.running import run_process
from wharfinger.errors import UsageError
from wharfinger.objects.model.names import is_dns_subdomain
from wharfinger.programs.process_settings import HubSettings


@configured
def hub(*, settings: HubSettings, serving: ServingChoices, connection: ConnectionOptions) -> None:
    """Decide which member clusters placements get, and deliver them; several hubs share the work.

    It follows member clusters, placements and what they select in etcd. It starts an attempt where a decision would
    change, a rollout where a member must change, and update runs. SIGTERM or Ctrl-C lets running activities finish; a
    second one ends it at once.
    """
    if settings.name and not is_dns_subdomain(settings.name):
        raise UsageError(f"--name: {settings.name[:80]!r} is no name (lower case letters, digits, dashes, dots)")

    def main() -> Coroutine[Any, Any, int]:
        from wharfinger.programs.hub import run_hub

        at = connection
        chosen = replace(settings, etcd=at.etcd, temporal=at.temporal, cluster=at.cluster)
        return run_hub(chosen, serving.at(settings.bind_address, settings.health_port))

    run_process(main, end_with=settings.end_with, log_level=settings.log_level, log_format=serving.logging_format)
