"""`/metrics` as Prometheus text: our instruments, then those of the Temporal SDK, which its own exporter has."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from typing import Any

import aiohttp
from prometheus_client import generate_latest
from prometheus_client.metrics_core import Metric
from prometheus_client.parser import text_string_to_metric_families

from wharfinger.serving.content import Content
from wharfinger.serving.metric_filters import filtered
from wharfinger.serving.options import ExpositionOptions

log = logging.getLogger(__name__)

MEDIA_TYPE = "text/plain; version=0.0.4; charset=utf-8"
SDK_TIMEOUT = aiohttp.ClientTimeout(total=2)


class _Collected:
    """A registry, as far as writing the text needs one."""

    def __init__(self, metrics: Iterable[Metric]) -> None:
        self._metrics = metrics

    def collect(self) -> Iterator[Metric]:
        return iter(self._metrics)


class Exposition:
    """Writes the metrics of one process."""

    def __init__(self, content: Content, options: ExpositionOptions) -> None:
        self._content = content
        self._options = options
        self._filters = bool(options.disabled or options.allowed_labels)
        self._session: aiohttp.ClientSession | None = None

    async def text(self) -> bytes:
        """All metrics as they are now. The SDK's may be missing."""
        self._content.refresh()
        ours = self._content.registry.collect()
        return self._written(ours) + self._sdk(await self._sdk_text())

    async def close(self) -> None:
        """Close the connection to the SDK's exporter. Idempotent."""
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    def _written(self, metrics: Iterable[Metric]) -> bytes:
        collected: Any = _Collected(filtered(metrics, self._options) if self._filters else metrics)
        return generate_latest(collected)

    def _sdk(self, text: bytes) -> bytes:
        """The SDK's text, which is only read where something may have to be left out."""
        if not (text and self._filters):
            return text
        try:
            return self._written(list(text_string_to_metric_families(text.decode())))
        except ValueError as error:  # better none than what was to be left out
            log.warning("sdk_metrics_unreadable error=%r", str(error))
            return b""

    async def _sdk_text(self) -> bytes:
        if not self._content.sdk_metrics_url:
            return b""
        if self._session is None:
            self._session = aiohttp.ClientSession(
                timeout=SDK_TIMEOUT, headers={"Accept-Encoding": "identity"}, auto_decompress=False
            )
        try:
            async with self._session.get(self._content.sdk_metrics_url) as answer:
                return await answer.read()
        except (aiohttp.ClientError, TimeoutError) as error:
            log.debug("sdk_metrics_unreadable error=%r", str(error))
            return b""
