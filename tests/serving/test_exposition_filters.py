"""Metrics that are left out, and label values that are not shown."""

from __future__ import annotations

from pathlib import Path

import pytest
from aiohttp import web

from tests.serving.serving import content, get, serving
from wharfinger.errors import UsageError
from wharfinger.serving.exposition import exposition
from wharfinger.serving.options import ExpositionOptions, ServingOptions
from wharfinger.telemetry import Metrics


async def metrics_with(options: ExpositionOptions, sdk: str = "") -> str:
    metrics = Metrics()
    pages = content(sdk_metrics_url=sdk)
    pages.registry = metrics.registry
    for profile, times in (("one", 1), ("two", 2), ("three", 3)):
        metrics.schedule_attempts.labels(result="scheduled", profile=profile).inc(times)
        metrics.attempt_duration.labels(result="scheduled", profile=profile).observe(times)
    async with serving(ServingOptions(open=True, exposition=options), pages) as server:
        return (await get(server, "/metrics"))[1]


@pytest.mark.parametrize("name", ["scheduler_schedule_attempts_total", "scheduler_scheduling_attempt_duration_seconds"])
async def test_disabled_metrics_are_left_out(name: str) -> None:
    text = await metrics_with(exposition([f"{name},no_such_metric"]))

    assert name not in text
    assert "scheduler_pending_pods" in text


async def test_label_values_that_are_not_allowed_are_added_up() -> None:
    text = await metrics_with(exposition(allow_labels=["scheduler_schedule_attempts_total,profile=one"]))

    assert 'scheduler_schedule_attempts_total{profile="one",result="scheduled"} 1.0' in text
    assert 'scheduler_schedule_attempts_total{profile="unexpected",result="scheduled"} 5.0' in text
    assert 'scheduler_schedule_attempts_total{profile="two"' not in text


async def test_buckets_of_histograms_are_added_up() -> None:
    name = "scheduler_scheduling_attempt_duration_seconds"
    text = await metrics_with(exposition(allow_labels=[f"{name},profile=one"]))

    assert f'{name}_bucket{{le="2.048",profile="unexpected",result="scheduled"}} 1.0' in text
    assert f'{name}_bucket{{le="+Inf",profile="unexpected",result="scheduled"}} 2.0' in text
    assert f'{name}_sum{{profile="unexpected",result="scheduled"}} 5.0' in text


async def test_metrics_of_the_sdk_are_filtered_too() -> None:
    async def page(_request: web.Request) -> web.Response:
        lines = ["# TYPE temporal_request counter", 'temporal_request{operation="a"} 1', "# TYPE temporal_x gauge"]
        return web.Response(text="\n".join([*lines, "temporal_x 5", ""]))

    app = web.Application()
    app.add_routes([web.get("/metrics", page)])
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    text = await metrics_with(exposition(["temporal_x"]), f"http://127.0.0.1:{runner.addresses[0][1]}/metrics")
    await runner.cleanup()

    assert 'temporal_request{operation="a"} 1' in text.replace("_total", "")
    assert "temporal_x" not in text


def test_options_are_read_as_kube_scheduler_reads_them(tmp_path: Path) -> None:
    manifest = tmp_path / "labels.yaml"
    manifest.write_text('"metric,label": "v1,v2"\n')
    several = '"metric,label=\'v1,v2\'","metric,other=v3"'

    assert exposition(allow_labels=["metric,label=v1,v2"]).allowed_labels == {("metric", "label"): {"v1", "v2"}}
    assert exposition(allow_labels=[several]).allowed_labels == {
        ("metric", "label"): {"v1", "v2"},
        ("metric", "other"): {"v3"},
    }
    assert exposition(manifest=manifest).allowed_labels == {("metric", "label"): {"v1", "v2"}}
    assert exposition(allow_labels=["a,b=c"], manifest=manifest).allowed_labels == {("a", "b"): {"c"}}


def test_wrong_options_are_one_clear_line(tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.yaml"
    wrong.write_text("- a\n")
    with pytest.raises(UsageError, match="--disabled-metrics: 'a-b' is no full name"):
        exposition(["a-b"])
    with pytest.raises(UsageError, match="--allow-metric-labels: 'metric' is no METRIC,LABEL"):
        exposition(allow_labels=["metric=v"])
    with pytest.raises(UsageError, match=r"--allow-metric-labels-manifest: .* does not map"):
        exposition(manifest=wrong)
    with pytest.raises(UsageError, match="--allow-metric-labels-manifest: cannot read"):
        exposition(manifest=tmp_path / "no")
