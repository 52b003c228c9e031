"""Holding the Lease of the API by client-go's rules, for a whole installation of wharfinger.

The Lease is the installation's: any of its workers may hold it on behalf of all, under one identity, and all bind. A
holder that is another one keeps it until its record has not *changed* for the Lease's duration by our own clock; the
times in the record are never compared with ours. kube-scheduler, with the same name of the Lease, is our standby.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from enum import StrEnum
from typing import Any

from wharfinger.apiserver import client
from wharfinger.apiserver.client import CONFLICT, NOT_FOUND, ApiAnswer, ApiClient, revision_of
from wharfinger.apiserver.events import micro_time
from wharfinger.kubernetes.effects.copying import ApiWentBack
from wharfinger.settings import ElectionSettings

RELEASED_FOR = 1
"""Seconds in a released Lease, as client-go writes them."""


class HoldState(StrEnum):
    """What a try to take or renew the Lease came to."""

    HELD = "held"
    ANOTHERS = "another's"
    MOVED = "moved"
    """Something wrote the Lease at the same moment; the next look shows who holds it."""
    REFUSED = "refused"
    """The API does not let us; `Election.trouble` says why."""


class Election:
    """One worker's tries to hold the Lease for its installation."""

    def __init__(
        self,
        apiserver: ApiClient,
        terms: ElectionSettings,
        identity: str,
        *,
        clock: Callable[[], float],
        utc_now: Callable[[], datetime],
    ) -> None:
        """`terms`: with the Lease's name; `identity`: `<cluster>_<etcd cluster id>`, the same for all workers of an
        installation; `clock`: monotonic seconds.
        """
        self._apiserver = apiserver
        self._terms = terms
        self._identity = identity
        self._clock = clock
        self._utc_now = utc_now
        self._seen: Mapping[str, Any] | None = None
        self._seen_at = 0.0
        self._revision = 0
        self.holder = ""
        """Who holds it, as the last look showed."""
        self.trouble = ""
        """Why the API did not let us; empty when it did."""

    async def attempt(self) -> HoldState:
        """Take the Lease, or renew it. Raises `UpstreamError`, and `ApiWentBack` for a Lease of the past."""
        answer = await self._get()
        if answer.code == NOT_FOUND:
            return self._settled(await self._create())
        if answer.object is None:
            return self._refused(answer)
        before, self._revision = self._revision, revision_of(answer.object)
        if self._revision < before:
            raise ApiWentBack(f"the Lease is at revision {self._revision} and was at {before}")
        spec = answer.object.get("spec") or {}
        self._observe(spec)
        self.holder = str(spec.get("holderIdentity") or "")
        duration = float(spec.get("leaseDurationSeconds") or self._terms.lease_duration)
        if self.holder not in ("", self._identity) and self._clock() - self._seen_at < duration:
            self.trouble = ""
            return HoldState.ANOTHERS
        return self._settled(await self._replace(answer.object, self._ours(spec)))

    async def release(self) -> None:
        """Give it back, so that another scheduler takes over within its retry period. Raises `UpstreamError`."""
        answer = await self._get()
        spec = (answer.object or {}).get("spec") or {}
        if answer.object is None or spec.get("holderIdentity") != self._identity:
            return
        now = micro_time(self._utc_now())
        given_back = {
            **spec,
            "holderIdentity": "",
            "leaseDurationSeconds": RELEASED_FOR,
            "renewTime": now,
            "acquireTime": now,
        }
        await self._replace(answer.object, given_back)

    def _observe(self, spec: Mapping[str, Any]) -> None:
        if self._seen != spec:
            self._seen, self._seen_at = spec, self._clock()

    def _ours(self, spec: Mapping[str, Any]) -> dict[str, Any]:
        now = micro_time(self._utc_now())
        renewed = {
            **spec,
            "holderIdentity": self._identity,
            "leaseDurationSeconds": int(self._terms.lease_duration),
            "renewTime": now,
        }
        if spec.get("holderIdentity") != self._identity:
            renewed["acquireTime"] = now
            renewed["leaseTransitions"] = int(spec.get("leaseTransitions") or 0) + 1
        return renewed

    def _settled(self, answer: ApiAnswer) -> HoldState:
        if answer.done and answer.object is not None:
            self._observe(answer.object.get("spec") or {})
            self._revision = max(self._revision, revision_of(answer.object))
            self.holder, self.trouble = self._identity, ""
            return HoldState.HELD
        if answer.code == CONFLICT:
            return HoldState.MOVED
        return self._refused(answer)

    def _refused(self, answer: ApiAnswer) -> HoldState:
        self.trouble = f"the Lease {self._terms.namespace}/{self._terms.name} cannot be held: {answer.words}"
        return HoldState.REFUSED

    async def _get(self) -> ApiAnswer:
        return await self._apiserver.get(client.LEASES, self._terms.name, namespace=self._terms.namespace)

    async def _create(self) -> ApiAnswer:
        now = micro_time(self._utc_now())
        spec = {**self._ours({}), "acquireTime": now, "leaseTransitions": 0}
        body = {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": self._terms.name, "namespace": self._terms.namespace},
            "spec": spec,
        }
        return await self._apiserver.create(client.LEASES, body, namespace=self._terms.namespace)

    async def _replace(self, lease: Mapping[str, Any], spec: Mapping[str, Any]) -> ApiAnswer:
        body = {**lease, "spec": spec}
        return await self._apiserver.replace(client.LEASES, self._terms.name, body, namespace=self._terms.namespace)
