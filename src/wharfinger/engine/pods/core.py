"""What deciding and committing share on one worker."""

from __future__ import annotations

from dataclasses import dataclass

from wharfinger.engine.parts import Identity, Pool, ProcessParts
from wharfinger.engine.pods.eligibility import Eligibility
from wharfinger.engine.pods.tally import Tally
from wharfinger.engine.pods.verification import Verification
from wharfinger.engine.transactions import Limits
from wharfinger.engine.upstream.writers import UpstreamWriters
from wharfinger.settings import BindSettings


@dataclass(frozen=True, slots=True)
class Core:
    """The parts that every activity of one worker uses."""

    process: ProcessParts
    pool: Pool
    identity: Identity
    settings: BindSettings
    limits: Limits
    """Of etcd's transactions."""
    eligibility: Eligibility
    verification: Verification
    tally: Tally
    upstream: UpstreamWriters | None = None
    """What writes to the Kubernetes API, where one is the store."""

    @classmethod
    def of(
        cls,
        process: ProcessParts,
        pool: Pool,
        identity: Identity,
        settings: BindSettings,
        limits: Limits,
        *,
        upstream: UpstreamWriters | None = None,
    ) -> Core:
        """Made once for a worker. `upstream`: where a Kubernetes API is the store."""
        store, cache = process.store, pool.cache
        return cls(
            process=process,
            pool=pool,
            identity=identity,
            settings=settings,
            limits=limits,
            eligibility=Eligibility(store=store, cache=cache, ownership=pool.ownership),
            verification=Verification(cache=cache, profiles=pool.profiles),
            tally=Tally(process.metrics, tenant=pool.ownership.tenant, fleet_revision=identity.fleet_revision),
            upstream=upstream,
        )
