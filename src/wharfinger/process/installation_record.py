"""What the installation record says of a cluster: its format, and whether a Kubernetes API is the store.

Where one is, the kinds that the importer copies belong to the API. The importer would remove what clients write to the
copies in etcd, so clients write to the API instead.
"""

from __future__ import annotations

from pydantic import ValidationError

from wharfinger.errors import InstallationMismatch, UsageError
from wharfinger.etcd import keys
from wharfinger.etcd.rk8s_keys import store_of
from wharfinger.etcd.store import Store
from wharfinger.objects.documents.kinds import Kind
from wharfinger.objects.model.formats import ClusterFormat
from wharfinger.objects.model.placement_kinds import CLUSTER_GROUP, PLACEMENT_GROUP
from wharfinger.process.records import InstallationRecord


async def installation_of(store: Store) -> InstallationRecord | None:
    """The record that the first worker or agent has written; None before that.

    Raises `InstallationMismatch` for one that cannot be read, and the store's errors.
    """
    found = (await store.get(keys.INSTALLATION)).kv
    return None if found is None else installation_in(found.value)


def installation_in(value: bytes) -> InstallationRecord:
    """The record as stored. Raises `InstallationMismatch` for what cannot be read."""
    try:
        return InstallationRecord.model_validate_json(value)
    except ValidationError as error:
        raise InstallationMismatch(f"{keys.INSTALLATION} cannot be read: is this etcd wharfinger's?") from error


async def in_its_format(store: Store, asked: ClusterFormat | None = None) -> Store:
    """The store with the keys of its cluster's format.

    The first worker writes the format. An etcd without the record has the format that is asked for; None = Kubernetes'.

    Raises `InstallationMismatch` when the record has another format than is asked for, or cannot be read, and the
    store's errors.
    """
    found = await installation_of(store)
    if found is None:
        return store_of(store, asked or ClusterFormat.KUBERNETES)
    format_ = found.format
    if asked not in (None, format_):
        raise InstallationMismatch(
            f"the pods and nodes of this etcd are kept in the format {format_}, not {asked}: leave out the format, or "
            "check --etcd"
        )
    return store_of(store, format_)


_NOT_THE_APIS = frozenset({"wharfinger.dev", CLUSTER_GROUP, PLACEMENT_GROUP})
"""API groups of kinds that only wharfinger has."""


async def has_copies(store: Store) -> bool:
    """Whether the pods and nodes in etcd are copies of a Kubernetes API's. Raises as `installation_of`."""
    installation = await installation_of(store)
    return installation is not None and bool(installation.upstream)


def belongs_to_api(kind: Kind) -> bool:
    """Whether objects of the kind belong to the Kubernetes API, where there is one."""
    return kind.group not in _NOT_THE_APIS


def written_elsewhere(verb: str, kind: Kind) -> str:
    """Why objects of the kind are not written here, and what to do. `verb`: of kubectl, `apply` or `delete`."""
    return (
        f"{kind.plural} of this cluster belong to its Kubernetes API, and etcd has copies of them: use kubectl {verb}, "
        f"or `wharfinger kubernetes {verb}`"
    )


def check_written_here(copies: bool, verb: str, kind: Kind) -> None:
    """Raise `UsageError` for a kind that belongs to the Kubernetes API. `copies`: whether etcd has copies of one."""
    if copies and belongs_to_api(kind):
        raise UsageError(written_elsewhere(verb, kind))
