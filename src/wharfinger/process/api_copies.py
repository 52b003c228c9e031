"""What is not written here, because a Kubernetes API is the store.

There, pods, nodes and the other kinds that the importer copies belong to the API. Clients read the copies; what they
write there the importer would take away again, so they write to the API instead.
"""

from __future__ import annotations

from wharfinger.errors import UsageError
from wharfinger.etcd.store import Store
from wharfinger.objects.documents.kinds import Kind
from wharfinger.objects.model.placement_kinds import CLUSTER_GROUP, PLACEMENT_GROUP
from wharfinger.process.cluster_format import installation_of

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
