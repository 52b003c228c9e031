"""Search attributes that a start carries only where Temporal knows them: an older installation may not.

A start with an unknown attribute is refused. It is then repeated without the attribute, and so are the starts after it.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable

from temporalio.service import RPCError, RPCStatusCode

from wharfinger.contracts.names import SEARCH_ATTRIBUTES, SEARCH_BUILDS, SEARCH_PODS

log = logging.getLogger(__name__)

RETRY = 300.0
"""Seconds after which `WharfingerPods` is sent again: the attribute may be registered while the worker runs."""


class OptionalAttributes:
    """Which of them starts carry now."""

    def __init__(self, namespace: str, clock: Callable[[], float]) -> None:
        """`namespace`: Temporal's, for the log."""
        self._namespace = namespace
        self._clock = clock
        self._rejected: dict[str, float] = {}
        """When each was rejected last (clock seconds)."""

    def carried(self, name: str) -> bool:
        """Whether starts carry the attribute now."""
        rejected = self._rejected.get(name)
        return rejected is None or (name == SEARCH_PODS and self._clock() - rejected >= RETRY)

    async def start(self, call: Callable[[], Awaitable[object]], *names: str) -> None:
        """Call until no attribute is rejected; `call` asks `carried` each time. Raises `RPCError` as it does."""
        while True:
            sent = [name for name in names if self.carried(name)]
            try:
                await call()
            except RPCError as error:
                rejected = next((name for name in sent if _rejects(error, name)), None)
                if rejected is None:
                    raise
                self._reject(rejected)
            else:
                return

    def _reject(self, name: str) -> None:
        if name not in self._rejected:
            if name == SEARCH_BUILDS:
                log.warning("build_id_rejected effect=one_more_visibility_write_per_run")
            else:
                log.warning(
                    "search_attribute_rejected name=%s effect=cohorts_are_not_found_by_pod_name register=%r",
                    name,
                    f"temporal operator search-attribute create --namespace {self._namespace} "
                    f"--name {name} --type {SEARCH_ATTRIBUTES[name]}",
                )
        self._rejected[name] = self._clock()


def _rejects(error: RPCError, name: str) -> bool:
    """Whether the server refuses the start for this attribute's sake. Other names may begin with this one."""
    words = error.message.replace(",", " ").replace(".", " ").split()
    return error.status is RPCStatusCode.INVALID_ARGUMENT and name in words
