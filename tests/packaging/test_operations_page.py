"""The pages about operations, backups and symptoms name metrics, limits and files that there are."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from wharfinger.replay.archive.archiving import ArchiveMetrics
from wharfinger.settings import WorkerSettings
from wharfinger.telemetry import Metrics

ROOT = Path(__file__).parents[2]
PAGES = [(ROOT / "docs" / f"{name}.md").read_text() for name in ("operations", "backup", "troubleshooting")]
PAGE = "\n".join(PAGES)


def test_the_metrics_to_alert_on_exist() -> None:
    named = set(re.findall(r"\b(?:wharfinger|scheduler)_[a-z_]+", PAGE))
    metrics = [*Metrics().registry.collect(), *ArchiveMetrics(Path("archive")).registry.collect()]
    suffixes = {"counter": ("_total",), "histogram": ("_bucket", "_count", "_sum")}
    shown = {metric.name + suffix for metric in metrics for suffix in suffixes.get(metric.type, ("",))}

    assert named
    assert named <= shown


@pytest.mark.parametrize(
    ("told", "setting"),
    [
        ("After 10 s workers withdraw", WorkerSettings().lease.temporal_unreachable == 10),
        ("within eight minutes", WorkerSettings().dispatching.restart_every * 1.5 < 8 * 60),
        ("parks 1,000 chains at most", WorkerSettings().dispatching.parked_chains == 1000),
    ],
)
def test_the_times_and_limits_are_those_of_the_settings(told: str, setting: bool) -> None:
    assert told in PAGE
    assert setting


def test_what_it_points_to_is_there() -> None:
    for path in re.findall(r"`(tests/[a-z_/.]+)`", PAGE):
        assert (ROOT / path).exists(), path
    for page in PAGES:
        headings = {re.sub(r"[^a-z -]", "", line.lstrip("# ").lower()).replace(" ", "-") for line in page.splitlines()}
        for anchor in re.findall(r"\]\(#([a-z-]+)\)", page):
            assert anchor in headings
