"""`/metrics` as Prometheus text: our instruments, then those of the Temporal SDK, which its own exporter has.

The options `--disabled-metrics`, `--allow-metric-labels` and its manifest leave metrics out. A label value that is not
allowed becomes `unexpected`, as in kube-scheduler. Series that become equal by that are added up.
"""

from __future__ import annotations

import csv
import logging
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import aiohttp
from prometheus_client import generate_latest
from prometheus_client.metrics_core import Metric
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from wharfinger.errors import UsageError
from wharfinger.serving.content import Content
from wharfinger.serving.options import ExpositionOptions

UNEXPECTED = "unexpected"
SUFFIXES = ("", "_total", "_created", "_bucket", "_sum", "_count", "_info")
"""What samples of a metric have behind its name, in the order in which they are looked for."""

_NAME = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
_LABEL = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")


def exposition(
    disabled: Iterable[str] = (), allow_labels: Sequence[str] = (), manifest: Path | None = None
) -> ExpositionOptions:
    """Read the options as given. The manifest counts only without `allow_labels`. Raises `UsageError`.

    Args:
        disabled: Full names of metrics; each may be several, with commas between.
        allow_labels: `metric,label=value,value` each; one may be several, then each is quoted as CSV.
        manifest: YAML: `metric,label` to `value,value`.
    """
    names = frozenset(name.strip() for text in disabled for name in text.split(",") if name.strip())
    wrong = next((name for name in sorted(names) if not _NAME.fullmatch(name)), None)
    if wrong is not None:
        raise UsageError(f"--disabled-metrics: {wrong!r} is no full name of a metric")
    if allow_labels:
        pairs = [pair for text in allow_labels for pair in _pairs(text)]
        return ExpositionOptions(names, _allowed(pairs, "--allow-metric-labels"))
    return ExpositionOptions(names, _manifest(manifest) if manifest is not None else {})


def _pairs(text: str) -> list[tuple[str, str]]:
    parts = [text.strip('"')] if text.count("=") == 1 else next(csv.reader([text]), [])
    return [(key.strip(), value) for key, _, value in (part.partition("=") for part in parts)]


def _manifest(path: Path) -> Mapping[tuple[str, str], frozenset[str]]:
    import yaml

    option = "--allow-metric-labels-manifest"
    try:
        found = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"{option}: cannot read {path} ({error.strerror or error})") from error
    except (UnicodeDecodeError, yaml.YAMLError) as error:
        raise UsageError(f"{option}: {path} is no YAML") from error
    if not isinstance(found, dict) or not all(isinstance(text, str) for pair in found.items() for text in pair):
        raise UsageError(f"{option}: {path} does not map METRIC,LABEL to VALUE,... as text")
    return _allowed(found.items(), option)


def _allowed(pairs: Iterable[tuple[str, str]], option: str) -> Mapping[tuple[str, str], frozenset[str]]:
    allowed: dict[tuple[str, str], frozenset[str]] = {}
    for key, values in pairs:
        metric, comma, label = (part.strip() for part in key.partition(","))
        if not comma or not _NAME.fullmatch(metric) or not _LABEL.fullmatch(label):
            raise UsageError(f"{option}: {key!r} is no METRIC,LABEL, as in METRIC,LABEL=VALUE,VALUE")
        allowed[metric, label] = frozenset(value.strip(" '\"") for value in values.split(","))
    return allowed


def filtered(metrics: Iterable[Metric], options: ExpositionOptions) -> Iterable[Metric]:
    """The metrics without what the options leave out."""
    for metric in metrics:
        names = {metric.name, *(metric.name + suffix for suffix in SUFFIXES[:2])}
        if not names.isdisjoint(options.disabled):
            continue
        limits = {label: values for (name, label), values in options.allowed_labels.items() if name in names}
        yield _limited(metric, limits) if limits else metric


def _limited(metric: Metric, limits: Mapping[str, frozenset[str]]) -> Metric:
    """The metric with unexpected label values under one name, and equal series added up."""
    sums: dict[tuple[str, tuple[tuple[str, str], ...]], float] = {}
    for sample in metric.samples:
        labels = tuple(
            (label, value if label not in limits or value in limits[label] else UNEXPECTED)
            for label, value in sample.labels.items()
        )
        sums[sample.name, labels] = sums.get((sample.name, labels), 0.0) + sample.value
    limited = Metric(metric.name, metric.documentation, metric.type, metric.unit)
    limited.samples = [Sample(name, dict(labels), value) for (name, labels), value in sums.items()]
    return limited


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
