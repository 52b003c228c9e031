"""A worker with a configuration of its own."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path

import pytest

from tests.programs.conftest import Site
from wharfinger.etcd import keys
from wharfinger.framework.profiles import load_configuration, load_profiles
from wharfinger.programs.worker import backoff
from wharfinger.scheduling.contracts.attempts import chain_retry


def write(folder: Path, name: str, **config: object) -> Path:
    path = folder / name
    path.write_text(json.dumps(config))
    return path


PACKING = {
    "plugins": {"score": {"disabled": [{"name": "*"}], "enabled": [{"name": "NodeResourcesFit"}]}},
    "pluginConfig": [{"name": "NodeResourcesFit", "args": {"scoringStrategy": {"type": "MostAllocated"}}}],
}


async def test_worker_places_pods_by_the_rules_and_backoff_of_their_profile(site: Site, tmp_path: Path) -> None:
    profiles = [{"schedulerName": "packing", **PACKING}, {"schedulerName": "default-scheduler"}]
    config = write(tmp_path, "two", profiles=profiles, podInitialBackoffSeconds=7, podMaxBackoffSeconds=70)
    await site.node("full", cpu="2")
    await site.node("empty", cpu="64")
    await site.worker(config=config)
    await site.pod("a", cpu="1", scheduler="packing")
    assert await site.all_bound(["a"]) == {"a": "full"}
    await site.pod("b")
    assert await site.all_bound(["b"]) == {"b": "empty"}

    workflow = (await site.stored("a"))["metadata"]["annotations"]["wharfinger.dev/attempt"].partition("@")[0]
    history = await site.client.get_workflow_handle(workflow).fetch_history()
    policy = history.events[0].workflow_execution_started_event_attributes.retry_policy
    assert (policy.initial_interval.seconds, policy.maximum_interval.seconds) == (7, 70)


async def test_workers_with_other_profiles_share_pods_and_record_both_digests(site: Site, tmp_path: Path) -> None:
    await site.node("n", cpu="4")
    one = await site.worker()
    other = await site.worker(config=write(tmp_path, "packing", profiles=[PACKING]))
    await site.until(lambda: all(len(each.loops.scheduling.shards.members) == 2 for each in (one, other)))
    pods = [f"web-{number}" for number in range(10)]
    for pod in pods:
        await site.pod(pod)

    await site.all_bound(pods)
    kept = {load_profiles(each)["default-scheduler"].digest for each in (None, tmp_path / "packing")}
    for digest in kept:
        assert (await site.store.get(keys.profile(digest))).kv is not None
    assert len(kept) == 2


@pytest.mark.parametrize(("initial", "longest"), [(1, 86_400), (86_400, 86_400)])
def test_every_backoff_that_a_configuration_may_ask_for_can_be_had(initial: int, longest: int) -> None:
    read = load_configuration({"podInitialBackoffSeconds": initial, "podMaxBackoffSeconds": longest})
    timings = backoff(read.configuration)
    assert timings is not None
    policy = chain_retry(timings)
    assert (policy.initial_interval, policy.maximum_interval) == (
        timedelta(seconds=initial),
        timedelta(seconds=longest),
    )


def test_the_usual_backoff_is_not_repeated_in_every_input() -> None:
    assert backoff(load_configuration().configuration) is None
