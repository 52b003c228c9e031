"""A PreBind plugin that raises in a real worker: each try is recorded once, and tried again with backoff."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from temporalio.api.enums.v1 import EventType
from temporalio.client import Client

from tests.integration.conftest import StartWorker
from tests.integration.dev_tree import DevTree, wait_until
from tests.integration.gateway import ATTEMPTS, NODES, PODS, bound_pods, condition, node, pod
from tests.integration.plugin_package import put_plugin

pytestmark = pytest.mark.timeout(120)

SOURCE = '''
import os
from pathlib import Path

from wharfinger.framework.status import SUCCESS


class Licences:
    """Raises in PreBind while the file `down` is there, and notes each call in the file `calls`."""

    name = "Licences"

    def _note(self, call):
        with (Path(os.environ["LICENCES"]) / "calls").open("a") as calls:
            calls.write(call + "\\n")

    def reserve(self, state, pod, node_name):
        self._note("reserve")
        return SUCCESS

    def unreserve(self, state, pod, node_name):
        self._note("unreserve")

    def pre_bind(self, state, pod, node_name):
        self._note("pre_bind")
        if (Path(os.environ["LICENCES"]) / "down").exists():
            raise RuntimeError("the licence server is down")
        return SUCCESS
'''
WHY = "plugin Licences failed in PreBind: RuntimeError: the licence server is down"
KEY = f"{ATTEMPTS}licences/web"


async def failed_tries(tree: DevTree, pod_name: str) -> list[tuple[float, int]]:
    """Of each failed run of the pod's chain: the seconds of back-off before it, and how often it wrote a record."""
    client = await Client.connect(tree.ready["temporal"])
    workflow_id = tree.cli("workflow-id", "pod", pod_name).stdout.strip()
    found, run_id = [], (await client.get_workflow_handle(workflow_id).describe()).run_id
    while run_id:
        events = (await client.get_workflow_handle(workflow_id, run_id=run_id).fetch_history()).events
        started = events[0].workflow_execution_started_event_attributes
        scheduled = [event.activity_task_scheduled_event_attributes.activity_type.name for event in events]
        if events[-1].event_type == EventType.EVENT_TYPE_WORKFLOW_EXECUTION_FAILED:
            back_off = started.first_workflow_task_backoff.ToTimedelta().total_seconds()
            found.append((back_off, scheduled.count("record_refusal")))
        run_id = started.continued_execution_run_id
    return found[::-1]


async def test_a_pod_whose_pre_bind_raises_is_retried_until_it_is_bound(
    servers: DevTree, start_worker: StartWorker, tmp_path: Path
) -> None:
    """Each failed try is one run, one call of PreBind and one attempt record, and it releases what it reserved."""
    etcd = servers.etcd
    config = tmp_path / "config.yaml"
    config.write_text("profiles: [{plugins: {multiPoint: {enabled: [{name: Licences}]}}}]")
    (tmp_path / "down").touch()
    put_plugin(tmp_path / "site", "Licences", SOURCE)
    start_worker(f"--config={config}", env={"LICENCES": str(tmp_path)}, folder=tmp_path / "site")
    first = etcd.revision()
    etcd.put(f"{NODES}a", node("a"))
    etcd.put(f"{PODS}licences/web", pod("web", namespace="licences"))

    wait_until(lambda: (etcd.get(KEY) or {}).get("attempt", 0) >= 3, 60, "the third try failed too")
    assert condition(etcd.get(f"{PODS}licences/web"))["reason"] == "SchedulerError"
    assert WHY in servers.cli("explain", "pod", "licences/web").stdout
    assert bound_pods(etcd, "licences") == {}

    (tmp_path / "down").unlink()
    wait_until(lambda: bound_pods(etcd, "licences") == {"web": "a"}, 60, "bound once the plugin stops raising")

    tries = await failed_tries(servers, "licences/web")
    values = [value for _, key, value in etcd.history(ATTEMPTS, first, etcd.revision()) if key == KEY]
    records: list[dict[str, Any]] = [json.loads(value) for value in values if value is not None]
    assert [one["attempt"] for one in records] == list(range(1, len(tries) + 1))
    assert {(one["reason"], one["message"]) for one in records} == {("SchedulerError", WHY)}
    assert [written for _, written in tries] == [1] * len(tries)
    assert tries[0][0] == 0.0
    assert all(before < after for (before, _), (after, _) in pairwise(tries[:3])), tries
    calls = (tmp_path / "calls").read_text().split()
    assert calls == ["reserve", "pre_bind", "unreserve"] * len(tries) + ["reserve", "pre_bind"]
