"""In which format a cluster keeps its pods and nodes: as its installation record in etcd says."""

from __future__ import annotations

from wharfinger.client.installations import installation_of
from wharfinger.errors import InstallationMismatch
from wharfinger.model.formats import ClusterFormat
from wharfinger.registry.rk8s_keys import store_of
from wharfinger.registry.store import Store


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
