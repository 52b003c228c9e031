"""`wharfinger kubernetes status`: how the installation on a Kubernetes API does."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from wharfinger.cli.options import ConnectionOptions, configured
from wharfinger.cli.output import Columns, Output, OutputOption, plain, show_answer
from wharfinger.errors import InstallationMismatch, UpstreamError
from wharfinger.kubernetes.cli.api import ApiOptions, open_api
from wharfinger.options import setting
from wharfinger.settings import KUBERNETES_PANEL, ElectionSettings

if TYPE_CHECKING:
    from wharfinger.apiserver.access_checks import LeaseName
    from wharfinger.apiserver.client import ApiResource
    from wharfinger.etcd.store import Store
    from wharfinger.kubernetes.reading.status import KubernetesStatus
    from wharfinger.process.records import InstallationRecord


@dataclass(frozen=True, slots=True)
class LeaseOptions:
    """The Lease that workers hold."""

    leader_elect_resource_name: str = setting(
        ElectionSettings().name,
        "Name of the workers' Lease.",
        "NAME",
        shown="as workers choose it, by the profiles that they serve",
        panel=KUBERNETES_PANEL,
    )
    leader_elect_resource_namespace: str = setting(
        ElectionSettings().namespace, "Namespace of the Lease.", "NAME", panel=KUBERNETES_PANEL
    )


@configured
async def status(
    *,
    lease: LeaseOptions,
    output: OutputOption = Output.TABLE,
    apiserver: ApiOptions,
    connection: ConnectionOptions,
) -> None:
    """Show the importer, the age of the copies, the Lease, the promises, and which permissions are missing.

    Permissions are those of the kubeconfig that is given: give the workers' to see theirs. Name the namespace of the
    workers' Lease where it is not kube-system. The exit code is 0 whatever is shown; `warnings` of -o json has what is
    wrong.
    """
    from wharfinger.kubernetes.reading.status import to_plain

    election = ElectionSettings(name=lease.leader_elect_resource_name, namespace=lease.leader_elect_resource_namespace)
    found = await _status(connection, apiserver, election)
    show_answer(output, lambda: to_plain(found), lambda: "\n".join(_lines(found)))


async def _status(connection: ConnectionOptions, apiserver: ApiOptions, election: ElectionSettings) -> KubernetesStatus:
    from wharfinger.kubernetes.loops.connecting import COPIED_KINDS, cluster_uid, copied_kinds
    from wharfinger.kubernetes.reading.status import read_status

    async with connection.store() as store, open_api(apiserver) as api:
        installation = await installed(store)
        uid, trouble = "", ""
        kinds: Sequence[ApiResource] = COPIED_KINDS
        try:
            uid, kinds = await cluster_uid(api), await copied_kinds(api)
        except UpstreamError as error:
            trouble = str(error)
        return await read_status(
            store,
            api,
            installation,
            cluster_uid=uid,
            trouble=trouble,
            kinds=kinds,
            lease=await lease_of(store, election, installation.cluster),
            now=datetime.now(UTC),
        )


async def installed(store: Store) -> InstallationRecord:
    """The record of an etcd that has copies. Raises `InstallationMismatch` for another one."""
    from wharfinger.process.installation_record import installation_of

    found = await installation_of(store)
    if found is None or not found.upstream:
        raise InstallationMismatch(
            "this etcd has no copies of a Kubernetes API: no worker has been started on it with --kubeconfig; check "
            "--etcd"
        )
    return found


async def lease_of(store: Store, election: ElectionSettings, cluster: str) -> LeaseName:
    """The Lease that the installation's workers hold, by the profiles that the live ones serve."""
    from wharfinger.apiserver.access_checks import LeaseName
    from wharfinger.kubernetes.loops.connecting import lease_name
    from wharfinger.scheduling.reading.held_back import served_profiles

    return LeaseName(election.namespace, lease_name(election, cluster, await served_profiles(store)))


def _lines(found: KubernetesStatus) -> Iterator[str]:
    lease, importer, imported = found.lease, found.importer, found.imported
    ours = f" (this installation, {found.installation.cluster})" if lease.ours else ""
    held = f"held by {lease.holder}{ours}" if lease.holder else "not held"
    hindered = f"no: {found.hindered}" if found.hindered else "no"
    rows = [
        ("API server", f"{found.server} {found.version}".strip()),
        ("Cluster", found.installation.upstream),
        ("Importer", f"{importer.holder}, epoch {found.epoch}, since {importer.time}" if importer else "none"),
        ("Imported", _imported(found.imported_seconds, imported.generation)),
        ("Lease", f"{lease.name.namespace}/{lease.name.name}, {held}"),
        ("May bind", f"yes, since {found.active.time}" if found.active else hindered),
        ("Promises", _promises(found)),
    ]
    yield from (f"{name + ':':<12} {plain(value)}" for name, value in rows)
    yield ""
    kinds = [(one.plural, str(one.copies), str(one.revision or "never")) for one in found.kinds]
    yield Columns("KIND", "COPIES", "UP TO").render(kinds)
    for key, promise in sorted(found.promises.items()):
        if promise.withdrawn:
            yield plain(f"withdrawn: {key} from {promise.node}: {promise.withdrawn}")
    for warning in found.warnings():
        yield plain(f"warning: {warning}")


def _imported(seconds: float | None, generation: int) -> str:
    if seconds is None:
        return "never"
    restored = f", restored {generation} times" if generation else ""
    return f"{max(seconds, 0.0):.1f} s ago{restored}"


def _promises(found: KubernetesStatus) -> str:
    if not found.promises:
        return "none"
    age = f", the oldest {found.oldest_seconds:.1f} s old" if found.oldest_seconds is not None else ""
    withdrawn = sum(bool(one.withdrawn) for one in found.promises.values())
    return f"{len(found.promises)}{age}" + (f", {withdrawn} withdrawn" if withdrawn else "")
