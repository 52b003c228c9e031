"""What a worker makes sure of in etcd and Temporal before it serves: whose they are, and what it needs there."""

from __future__ import annotations

import logging
from asyncio import sleep
from collections.abc import Iterable
from uuid import uuid4

from temporalio.api.enums.v1 import IndexedValueType
from temporalio.api.operatorservice.v1 import AddSearchAttributesRequest, ListSearchAttributesRequest
from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

from wharfinger.errors import InstallationMismatch, Unavailable
from wharfinger.etcd import keys
from wharfinger.etcd.store import Compare, Get, Put, Store
from wharfinger.framework.profile import Profile
from wharfinger.pressure import delays
from wharfinger.process.installation_record import installation_in
from wharfinger.process.names import SEARCH_ATTRIBUTES
from wharfinger.process.parts import ProcessParts
from wharfinger.process.records import ConfigStatusRecord, InstallationRecord, SoftwareRecord

log = logging.getLogger(__name__)

_PASSING = frozenset(
    {
        RPCStatusCode.UNAVAILABLE,
        RPCStatusCode.DEADLINE_EXCEEDED,
        RPCStatusCode.RESOURCE_EXHAUSTED,
        RPCStatusCode.NOT_FOUND,  # the namespace: perhaps it is being made
    }
)

_TYPES = {
    "Keyword": IndexedValueType.INDEXED_VALUE_TYPE_KEYWORD,
    "KeywordList": IndexedValueType.INDEXED_VALUE_TYPE_KEYWORD_LIST,
}


async def claim(store: Store, *, cluster: str, namespace: str, kubernetes_uid: str = "") -> None:
    """Write whose etcd this is, at the first start; later, check it. Raises `InstallationMismatch`.

    `kubernetes_uid`: uid of the Kubernetes cluster whose pods are scheduled; empty = its objects are in etcd itself.
    """
    ours = InstallationRecord(
        cluster=cluster,
        temporal_namespace=namespace,
        format=store.format,
        upstream=kubernetes_uid,
        id=uuid4().hex[:12] if kubernetes_uid else "",
    )
    if kubernetes_uid and await _has_own_pods(store):
        raise InstallationMismatch(
            "this etcd has pods or nodes that were written to it directly: the copies of a Kubernetes API need an "
            "etcd, or a prefix, of their own; check --etcd"
        )
    result = await store.txn(
        [Compare(keys.INSTALLATION, "create", 0)],
        [Put(keys.INSTALLATION, ours.to_bytes())],
        [Get(keys.INSTALLATION)],
    )
    found = result.reads[0] if not result.succeeded and result.reads else None
    if found is None:
        return
    theirs = installation_in(found.value)
    if theirs.format is not ours.format:
        raise InstallationMismatch(
            f"the pods and nodes of this etcd are kept in the format {theirs.format}, not {ours.format}: "
            f"start with --format {theirs.format}, or check --etcd"
        )
    if theirs.upstream != ours.upstream:
        raise InstallationMismatch(_other_cluster(theirs.upstream, ours.upstream))
    if theirs.model_copy(update={"id": ours.id}) != ours:
        raise InstallationMismatch(
            f"this etcd belongs to cluster {theirs.cluster!r} with Temporal namespace {theirs.temporal_namespace!r}, "
            f"not to {cluster!r} with {namespace!r}: check --cluster, --temporal-namespace and --etcd"
        )


async def _has_own_pods(store: Store) -> bool:
    """Whether a cluster is in this etcd that no worker has claimed for a Kubernetes API."""
    if (await store.get(keys.INSTALLATION)).kv is not None:
        return False
    return any([(await store.first(prefix)).items for prefix in (keys.PODS, keys.NODES)])


def _other_cluster(theirs: str, ours: str) -> str:
    if not theirs:
        return "the pods and nodes of this etcd are its own, not copies of a Kubernetes API's: check --etcd"
    if not ours:
        return "this etcd has the copies of a Kubernetes API: start its workers with --kubeconfig, or check --etcd"
    return (
        f"this etcd has the copies of another Kubernetes cluster (uid {theirs} of kube-system, here {ours}): "
        "check --kubeconfig and --etcd"
    )


async def keep_profiles(store: Store, profiles: Iterable[Profile]) -> None:
    """Put each configuration under its digest, if it is not there: decisions name the digest."""
    for digest, configuration in {profile.digest: profile.configuration for profile in profiles}.items():
        key = keys.profile(digest)
        await store.txn([Compare(key, "create", 0)], [Put(key, configuration)])


async def keep_software(store: Store, software: SoftwareRecord) -> None:
    """Put what decides under its digest, if it is not there: decisions name the digest."""
    key = keys.software(software.digest)
    await store.txn([Compare(key, "create", 0)], [Put(key, software.to_bytes())])


async def register_search_attributes(client: Client) -> None:
    """Make our search attributes known to the namespace, those that are missing.

    Where that is not allowed (another team administers the namespace) a warning is logged, and starts
    fail if they really are missing.
    """
    operator = client.operator_service
    try:
        known = await operator.list_search_attributes(ListSearchAttributesRequest(namespace=client.namespace))
        missing = [name for name in SEARCH_ATTRIBUTES if name not in known.custom_attributes]
        if missing:
            types = {name: _TYPES[SEARCH_ATTRIBUTES[name]] for name in missing}
            await operator.add_search_attributes(
                AddSearchAttributesRequest(namespace=client.namespace, search_attributes=types)
            )
            log.info("search_attributes_registered names=%s", ",".join(missing))
    except RPCError as error:
        if error.status in _PASSING:
            raise
        if error.status is not RPCStatusCode.ALREADY_EXISTS:
            log.warning(
                "search_attributes_not_registered action=an_administrator_must_register_them error=%r", str(error)
            )


async def prepare(
    process: ProcessParts,
    client: Client,
    *,
    cluster: str,
    profiles: Iterable[Profile] = (),
    software: SoftwareRecord | None = None,
    kubernetes_uid: str = "",
) -> None:
    """All of the above, until both servers answer. `software`: where it decides; `kubernetes_uid`: as for `claim`."""
    store, said = process.store, False
    for delay in delays(0.2, 3.0, process.rng):
        try:
            await claim(store, cluster=cluster, namespace=client.namespace, kubernetes_uid=kubernetes_uid)
            await keep_profiles(store, profiles)
            if software is not None:
                await keep_software(store, software)
            await register_search_attributes(client)
        except (Unavailable, RPCError) as error:
            if isinstance(error, RPCError) and error.status not in _PASSING:
                raise
            if not said:
                said = True
                log.warning("waiting_for_servers error=%r", str(error))
            await sleep(delay)
        else:
            return


async def stored_configurations(store: Store) -> dict[str, bytes]:
    """Every configuration that workers have decided by, by its digest; the oldest first. Raises `StoreError`."""
    found = sorted((await store.whole(keys.PROFILES)).items, key=lambda one: one.create_revision)
    return {kv.key.removeprefix(keys.PROFILES): kv.value for kv in found}


async def digests_in_force(store: Store) -> dict[tuple[str, str], str]:
    """Place of a worker (`tenant/slot/incarnation`) and scheduler name -> digest of the configuration that decides."""
    found: dict[tuple[str, str], str] = {}
    async for place, record in keys.config_status.records(store, ConfigStatusRecord.model_validate_json):
        found |= {("/".join(place), name): digest for name, digest in record.profiles.items()}
    return found
