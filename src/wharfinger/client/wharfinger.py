"""The typed client: a wharfinger cluster, as a program sees it.

::

    async with Wharfinger.connect() as wharfinger:
        result = await wharfinger.schedule("default", "web-1", timeout=60)
        print(result.outcome, result.node)

Neighbours: `client.starts` starts attempts, `observe.attempts` reads what became of them.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from temporalio.client import Client
from temporalio.service import RPCError

from wharfinger.client.starts import AttemptHandle, outcome_of, start_attempt, temporal_configuration
from wharfinger.contracts.attempts import AttemptResult
from wharfinger.contracts.conversion import data_converter
from wharfinger.contracts.names import COMMON, DEFAULT_CLUSTER, TENANT_LABEL, check_cluster, check_tenant_label
from wharfinger.errors import NotFound, ServerError
from wharfinger.model.pod import Pod, PodKey
from wharfinger.observe import attempts as recorded
from wharfinger.observe.explanation import Explanation
from wharfinger.observe.history import Attempt
from wharfinger.registry import keys
from wharfinger.registry.etcd import EtcdStore
from wharfinger.registry.store import Store
from wharfinger.settings import EtcdSettings, TemporalSettings


class Wharfinger:
    """A wharfinger cluster, as a program sees it: have a pod placed, and ask about attempts.

    `connect` opens and closes everything; with a Temporal client (`contracts.conversion.data_converter`) and a store
    of your own, make it directly. A worker must be running, or attempts wait for one.
    """

    def __init__(
        self, client: Client, store: Store, *, cluster: str = DEFAULT_CLUSTER, tenant_label: str = TENANT_LABEL
    ) -> None:
        self._client = client
        self._store = store
        self._cluster = check_cluster(cluster)
        self._tenant_label = check_tenant_label(tenant_label)

    @classmethod
    @asynccontextmanager
    async def connect(
        cls,
        *,
        etcd: EtcdSettings | None = None,
        temporal: str | None = None,
        temporal_namespace: str | None = None,
        cluster: str = DEFAULT_CLUSTER,
        tenant_label: str = TENANT_LABEL,
    ) -> AsyncIterator[Wharfinger]:
        """Open connections, and close them behind the block.

        Args:
            etcd: Where etcd is; default 127.0.0.1:2379.
            temporal: `host:port`; default the SDK's environment configuration, else 127.0.0.1:7233.
            temporal_namespace: Default the SDK's environment configuration, else `default`.
            cluster: The name that the workers were started with.
            tenant_label: The label that the workers were started with.

        Raises `ServerError` without Temporal, `Unavailable` or `AccessDenied` without etcd, and
        `ConfigurationError` when the SDK's environment configuration is malformed.
        """
        target = temporal_configuration(TemporalSettings(temporal or None, temporal_namespace or None))
        try:
            client = await Client.connect(**target, data_converter=data_converter)
        except (RuntimeError, OSError) as error:
            raise ServerError(f"cannot reach Temporal at {target.get('target_host')}") from error
        store = await EtcdStore.connect(etcd or EtcdSettings())
        try:
            yield cls(client, store, cluster=cluster, tenant_label=tenant_label)
        finally:
            await store.close()

    async def schedule(self, namespace: str, name: str, *, timeout: float | None = None) -> AttemptResult:
        """Have the pod placed, and wait until it is bound or gone.

        Starts the pod's attempts or joins those that run already. A pod that fits nowhere waits until
        it does: `timeout` (seconds, None = for ever) ends the wait with `TimeoutError`, not the attempts.

        Raises `NotFound` when there is no such pod, `WharfingerError` when its attempts ended without
        an outcome (cancelled, terminated, started with a wrong id), `ServerError` when Temporal is away.
        """
        return await outcome_of(await self.start(namespace, name), f"{namespace}/{name}", timeout)

    async def start(self, namespace: str, name: str) -> AttemptHandle:
        """Start the pod's attempts, or join those that run, without waiting; raises as `schedule` does."""
        pod = await self._pod(PodKey(namespace, name))
        try:
            return await start_attempt(
                self._client,
                cluster=self._cluster,
                namespace=namespace,
                name=name,
                uid=pod.uid,
                tenant=await self._tenant_of(pod),
                revision=pod.mod_revision,
                woken_by="asked for by a client",
                eager=False,
            )
        except RPCError as error:
            raise ServerError(f"Temporal did not start an attempt of pod {namespace}/{name}: {error}") from error

    async def attempts(self, namespace: str, name: str, *, limit: int = recorded.LIMIT) -> list[Attempt]:
        """The newest recorded attempts of the pod, oldest first; those of earlier pods of the name too."""
        return list((await self.explain(namespace, name, limit=limit)).attempts)

    async def explain(self, namespace: str, name: str, *, limit: int = recorded.LIMIT) -> Explanation:
        """Why the pod is where it is, or still waits; works for deleted pods as long as Temporal keeps them."""
        key = PodKey(namespace, name)
        return await recorded.explain_pod(self._client, self._store, cluster=self._cluster, key=key, limit=limit)

    async def _pod(self, key: PodKey) -> Pod:
        read = await self._store.get(keys.pod(*key))
        if read.kv is None:
            raise NotFound(f"there is no pod {key}")
        return recorded.decoded(read.kv, key)

    async def _tenant_of(self, pod: Pod) -> str:
        """Whose workers schedule the pod: its label's, while that tenant exists."""
        tenant = pod.labels.get(self._tenant_label, "")
        if tenant and (await self._store.get(keys.tenant(tenant))).kv is not None:
            return tenant
        return COMMON
