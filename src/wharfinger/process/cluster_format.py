"""Whose etcd it is, and in which format it keeps pods and nodes: as the installation record says."""

from __future__ import annotations

from pydantic import ValidationError

from wharfinger.errors import InstallationMismatch
from wharfinger.etcd import keys
from wharfinger.etcd.rk8s_keys import store_of
from wharfinger.etcd.store import Store
from wharfinger.objects.model.formats import ClusterFormat
from wharfinger.process.records import InstallationRecord


async def installation_of(store: Store) -> InstallationRecord | None:
    """The record that the first worker or agent has written; None before that.

    Raises `InstallationMismatch` for one that cannot be read, and the store's errors.
    """
    found = (await store.get(keys.INSTALLATION)).kv
    if found is None:
        return None
    try:
        return InstallationRecord.model_validate_json(found.value)
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
