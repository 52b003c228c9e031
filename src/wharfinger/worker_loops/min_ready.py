"""How long an instance must be ready until what it does counts as good: what its fleet says, as it stands now."""

from __future__ import annotations

import logging

from wharfinger.config.fleet_fields import LONGEST_TIME
from wharfinger.errors import InvalidObject, StoreError
from wharfinger.manifests import documents
from wharfinger.registry import keys
from wharfinger.registry.store import Store

log = logging.getLogger(__name__)


async def min_ready(store: Store, tenant: str, usual: float) -> float:
    """Seconds: the fleet's `minReadySeconds`, or the usual ones where it says none, or nobody can tell."""
    try:
        kv = (await store.get(keys.fleet(tenant))).kv
        written = documents.parse(kv.value) if kv is not None else None
    except (StoreError, InvalidObject) as error:
        log.debug("the fleet's minReadySeconds is not known error=%r", str(error))
        return usual
    spec = written.get("spec") if isinstance(written, dict) else None
    said = spec.get("minReadySeconds") if isinstance(spec, dict) else None
    if not isinstance(said, int | float) or isinstance(said, bool) or not 0 <= said <= LONGEST_TIME:
        return usual  # the fleet's actor does not take that either
    return float(said)
