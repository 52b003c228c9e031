"""The typed client: a wharfinger cluster, as a program sees it.

::

    async with Wharfinger.connect() as wharfinger:
        result = await wharfinger.submit(pod, timeout=60)
        print(result.outcome, result.node, result.reason)

Neighbours: `scheduling.effects.open_runs` starts attempts, `scheduling.reading.attempts` reads what became of them.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

from temporalio.client import Client, Plugin
from temporalio.service import RPCError

from wharfinger.errors import ServerError
from wharfinger.etcd.etcd import EtcdStore
from wharfinger.etcd.store import Store
from wharfinger.fleet.reading.fleets import Fleets
from wharfinger.objects.model.formats import ClusterFormat, known_format
from wharfinger.objects.model.pod import Pod, PodKey
from wharfinger.placement.reading.placements import Placements
from wharfinger.placement.reading.update_runs import UpdateRuns
from wharfinger.process.connecting import data_converter, temporal_configuration
from wharfinger.process.installation_record import in_its_format
from wharfinger.process.names import DEFAULT_CLUSTER, TENANT_LABEL, check_cluster, check_tenant_label
from wharfinger.process.records import AttemptRecord
from wharfinger.scheduling.contracts.attempts import AttemptResult, PermitDecision
from wharfinger.scheduling.effects.open_runs import AttemptHandle, outcome_of, start_attempt
from wharfinger.scheduling.reading import attempts as recorded
from wharfinger.scheduling.reading import signals, submitting
from wharfinger.scheduling.reading.assignments import Assignment, watch_assignments
from wharfinger.scheduling.reading.explanation import Explanation
from wharfinger.scheduling.reading.held_back import tenant_of
from wharfinger.scheduling.reading.history import Attempt
from wharfinger.scheduling.reading.pods_and_nodes import attempt_record
from wharfinger.scheduling.reading.signals import Signalled
from wharfinger.settings import EtcdSettings, TemporalSettings


class Wharfinger:
    """A wharfinger cluster, as a program sees it: have a pod placed, and ask about attempts.

    `connect` opens and closes everything; with a Temporal client (`process.connecting.data_converter`) and a store
    of your own, make it directly; the store of a cluster of rk8s is one of `etcd.rk8s_keys.store_of`. A worker must
    be running, or attempts wait for one.
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
        temporal_plugins: Sequence[Plugin] = (),
        cluster: str = DEFAULT_CLUSTER,
        tenant_label: str = TENANT_LABEL,
        format: ClusterFormat | str | None = None,
    ) -> AsyncIterator[Wharfinger]:
        """Open connections, and close them behind the block.

        Args:
            etcd: Where etcd is; default 127.0.0.1:2379.
            temporal: `host:port`; default the SDK's environment configuration, else 127.0.0.1:7233.
            temporal_namespace: Default the SDK's environment configuration, else `default`.
            temporal_plugins: The plugins of the SDK that the workers were started with (`--temporal-plugin`).
            cluster: The name that the workers were started with.
            tenant_label: The label that the workers were started with.
            format: In which format the cluster keeps its pods and nodes, `kubernetes` or `rk8s`; default as etcd says,
                where the first worker has written it.

        Raises `ServerError` without Temporal, `Unavailable` or `AccessDenied` without etcd, `ConfigurationError` when
        the SDK's environment configuration is malformed, `UsageError` for an unknown format, and
        `InstallationMismatch` when the cluster has another one.
        """
        asked = known_format(format) if format is not None else None
        target = temporal_configuration(TemporalSettings(temporal or None, temporal_namespace or None))
        try:
            client = await Client.connect(**target, data_converter=data_converter, plugins=temporal_plugins)
        except (RuntimeError, OSError) as error:
            raise ServerError(f"cannot reach Temporal at {target.get('target_host')}") from error
        store = await EtcdStore.connect(etcd or EtcdSettings())
        try:
            yield cls(client, await in_its_format(store, asked), cluster=cluster, tenant_label=tenant_label)
        finally:
            await store.close("the client is closed: use it inside `async with Wharfinger.connect()`")

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
        return await self._start(pod, await self._record(pod))

    async def _start(self, pod: Pod, record: AttemptRecord | None) -> AttemptHandle:
        try:
            return await start_attempt(
                self._client,
                cluster=self._cluster,
                namespace=pod.namespace,
                name=pod.name,
                uid=pod.uid,
                tenant=await tenant_of(self._store, pod, self._tenant_label),
                revision=pod.mod_revision,
                woken_by="asked for by a client",
                attempts_before=record.attempt if record is not None else 0,
                eager=False,
            )
        except RPCError as error:
            raise ServerError(f"Temporal did not start an attempt of pod {pod.key}: {error}") from error

    async def submit(
        self, pod: Mapping[str, Any], *, timeout: float | None = None, check_fields: bool = True
    ) -> AttemptResult:
        """Create the pod, and wait until it is bound or gone.

        The workers place the pod in their order, alone, in a cohort or with its gang. The outcome is read from etcd, so
        this works while Temporal does not answer, and `attempt` is 0. A pod of the name that is there already is waited
        for when it is the same, so a submission can be repeated. `timeout` (seconds, None = for ever) ends the wait
        with `TimeoutError`, whose text has what the pod waits for; the pod stays. `check_fields=False` ignores fields
        that Kubernetes does not have, as `wharfinger apply --validate=ignore` does. In a cluster of rk8s, `pod` is a
        document of rk8s as plain values.

        Raises `InvalidObject` for a manifest that is no valid pod, `UsageError` for one of another kind,
        `AlreadyExists` when another pod has the name, and the store's errors.
        """
        key, create_revision = await submitting.create(self._store, pod, check_fields=check_fields)
        try:
            async with asyncio.timeout(timeout):
                return await submitting.end_of(self._store, key, create_revision)
        except TimeoutError:
            why = await submitting.why_pending(self._store, key)
            raise TimeoutError(f"pod {key} is not bound after {timeout:g} s{f': {why}' if why else ''}") from None

    def watch_assignments(self, from_revision: int | None = None) -> AsyncGenerator[Assignment, None]:
        """Which pod got which node, from a revision of etcd on, without end.

        Args:
            from_revision: None = from now on; 0 = all pods that are bound now, then those that follow; else those that
                were bound at that revision or later.

        Each life of a pod comes once. The stream outlives lost connections and etcd's compaction: after one it lists
        the pods and reports those that it has not reported; a pod that was bound and deleted in between is missing.
        To resume later, take `revision + 1` of the last assignment with `complete` that you are done with.

        Raises `Compacted` at the start when etcd no longer keeps that revision, because then it is unknown which pods
        are new; `RevisionWentBack` when etcd was restored from a backup; `RevisionFuture`, `AccessDenied`, and
        `Unavailable` when etcd does not answer at the start. End it with `aclose()`, or leave it in
        `contextlib.aclosing(...)`.
        """
        return watch_assignments(self._store, from_revision)

    async def wake(self, namespace: str, name: str) -> Signalled:
        """Make the pod's waiting attempt (or its gang's) try again at once, whatever happened.

        A pod that waits without one, because it was last placed with others, gets an attempt of its own. Refused, with
        a reason in the answer, when the pod is bound or has no open attempt. Raises `NotFound`, `InvalidObject`,
        `StoreError` and `ServerError`.
        """
        pod = await self._pod(PodKey(namespace, name))
        record = await self._record(pod)
        if record is not None and not record.parked and not pod.bound:
            handle = await self._start(pod, record)
            return Signalled(True, handle.id)
        return await signals.wake(self._client, record, cluster=self._cluster, pod=pod)

    async def permit(self, namespace: str, name: str, *, allowed: bool = True, reason: str = "") -> Signalled:
        """Allow or refuse the bind of a pod that a Permit plugin holds; `reason` becomes the pod's condition.

        It counts for the attempt that is open now, also when that comes to its hold later. Refused, with a reason in
        the answer, when the pod is bound or has no open attempt. Raises as `wake` does.
        """
        pod = await self._pod(PodKey(namespace, name))
        permission = PermitDecision(allowed=allowed, reason=reason)
        return await signals.permit(self._client, cluster=self._cluster, pod=pod, permission=permission)

    async def permit_now(self, namespace: str, name: str, *, allowed: bool = True, reason: str = "") -> Signalled:
        """The same for a pod that a Permit plugin holds now: once it is delivered, this answer counts, and no other.

        Refused, with a reason in the answer, when no plugin waits for one. Raises as `wake` does, `ServerError` also
        when no worker takes the answer within ten seconds.
        """
        pod = await self._pod(PodKey(namespace, name))
        permission = PermitDecision(allowed=allowed, reason=reason)
        return await signals.answer(self._client, cluster=self._cluster, pod=pod, permission=permission)

    @property
    def fleets(self) -> Fleets:
        """The fleets of scheduler instances: apply, plan, status, wait, undo, scale, and what steers a rollout."""
        return Fleets(self._store)

    @property
    def placements(self) -> Placements:
        """Which member clusters placements get: decide, explain, plan, attempts."""
        return Placements(self._client, self._store, cluster=self._cluster)

    @property
    def update_runs(self) -> UpdateRuns:
        """Staged update runs of placements: start, plan, status, approve, stop, resume, retry."""
        return UpdateRuns(self._store)

    async def attempts(self, namespace: str, name: str, *, limit: int = recorded.LIMIT) -> list[Attempt]:
        """The newest recorded attempts of the pod, oldest first; those of earlier pods of the name too."""
        return list((await self.explain(namespace, name, limit=limit)).attempts)

    async def explain(self, namespace: str, name: str, *, limit: int = recorded.LIMIT) -> Explanation:
        """Why the pod is where it is, or still waits; works for deleted pods as long as Temporal keeps them."""
        key = PodKey(namespace, name)
        return await recorded.explain_pod(self._client, self._store, cluster=self._cluster, key=key, limit=limit)

    async def _pod(self, key: PodKey) -> Pod:
        return await recorded.stored_pod(self._store, key)

    async def _record(self, pod: Pod) -> AttemptRecord | None:
        """Of the pod's last attempt; None without one. One that cannot be read counts as none, as for workers."""
        record = await attempt_record(self._store, pod.key)
        return record if record is not None and record.create_revision in (0, pod.create_revision) else None
