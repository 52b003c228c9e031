"""A plugin of a package of the user's own, found through its entry point by real workers."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.conftest import StartWorker
from tests.integration.dev_tree import DevTree, wait_until
from tests.integration.gateway import NODES, PODS, bound_pods, condition, node, pod, refusal
from tests.integration.plugin_package import put_plugin

pytestmark = pytest.mark.timeout(120)

SOURCE = '''
from wharfinger.framework.status import SUCCESS, unschedulable


class OnlyRacks:
    """Pods labelled with a rack go there; pods labelled boom=yes break it."""

    name = "OnlyRacks"

    def filter_node(self, state, pod, node):
        if pod.labels.get("boom") == "yes":
            raise RuntimeError("something the author did not think of")
        wanted = pod.labels.get("rack")
        if wanted is None or node.node.labels.get("rack") == wanted:
            return SUCCESS
        return unschedulable("node(s) stood in another rack")
'''


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """The folder with the package."""
    put_plugin(tmp_path / "site", "OnlyRacks", SOURCE)
    return tmp_path / "site"


def in_rack(name: str, rack: str) -> dict[str, object]:
    found = node(name)
    found["metadata"]["labels"]["rack"] = rack
    return found


def test_it_filters_is_explained_and_breaks_only_the_pods_it_raises_for(
    servers: DevTree, start_worker: StartWorker, site: Path, tmp_path: Path
) -> None:
    etcd = servers.etcd
    config = tmp_path / "config.yaml"
    config.write_text("profiles: [{plugins: {multiPoint: {enabled: [{name: OnlyRacks}]}}}]")
    worker = start_worker(f"--config={config}", folder=site)
    assert "plugin_not_enabled" not in worker.said
    etcd.put(f"{NODES}a", in_rack("a", "a"))
    etcd.put(f"{NODES}b", in_rack("b", "b"))
    for number in range(10):
        etcd.put(f"{PODS}plugins/broken{number}", pod(f"broken{number}", namespace="plugins", labels={"boom": "yes"}))
    for number in range(10):
        etcd.put(f"{PODS}plugins/fine{number}", pod(f"fine{number}", namespace="plugins", labels={"rack": "b"}))
    etcd.put(f"{PODS}plugins/nowhere", pod("nowhere", namespace="plugins", labels={"rack": "c"}))

    wait_until(lambda: len(bound_pods(etcd, "plugins")) == 10, 30, "others are not delayed")
    assert bound_pods(etcd, "plugins") == {f"fine{number}": "b" for number in range(10)}

    def reasons() -> set[str]:
        return {condition(etcd.get(f"{PODS}plugins/broken{number}")).get("reason", "") for number in range(10)}

    wait_until(lambda: reasons() == {"SchedulerError"}, 30, "broken pods say so")

    def said() -> dict[str, str]:
        return condition(etcd.get(f"{PODS}plugins/broken0"))

    # Each try says it again, after one that failed for another reason: the worker stood still.
    wait_until(lambda: "something the author did not think of" in said()["message"], 30, "why is told")
    assert said()["status"] == "False"
    assert "OnlyRacks" in said()["message"]

    wait_until(lambda: refusal(etcd, "nowhere", "plugins"), 30, "refused")
    words = "0/2 nodes are available: 2 node(s) stood in another rack."
    assert condition(etcd.get(f"{PODS}plugins/nowhere"))["message"].startswith(words)
    told = servers.cli("explain", "pod", "plugins/nowhere").stdout
    assert "OnlyRacks" in told
    assert "node(s) stood in another rack" in told
    assert "SchedulerError" in servers.cli("explain", "pod", "plugins/broken0").stdout

    # Every node's verdict is told where the plugin is installed, and elsewhere what is missing.
    nodes = servers.cli("explain", "pod", "plugins/nowhere", "--nodes", folder=site).stdout
    assert nodes.count("OnlyRacks: node(s) stood in another rack") == 2
    elsewhere = servers.cli("explain", "pod", "plugins/nowhere", "--nodes", check=False)
    assert elsewhere.returncode == 1
    assert "cannot be made here" in elsewhere.stderr
    assert "OnlyRacks" in elsewhere.stderr
    errors = 'scheduler_schedule_attempts_total{profile="default-scheduler",result="error"}'
    wait_until(lambda: worker.metrics()[errors] >= 10, 30, "each is counted")

    # A pod that is mended is placed without waiting for anything else to happen.
    etcd.put(f"{PODS}plugins/broken0", pod("broken0", namespace="plugins"))
    wait_until(lambda: "broken0" in bound_pods(etcd, "plugins"), 20, "the mended pod bound")


def test_unnamed_plugin_takes_no_part_and_the_log_shows_how_to_enable_it(
    servers: DevTree, start_worker: StartWorker, site: Path, tmp_path: Path
) -> None:
    etcd = servers.etcd
    worker = start_worker(folder=site)
    line = "profiles: [{schedulerName: default-scheduler, plugins: {multiPoint: {enabled: [{name: OnlyRacks}]}}}]"
    assert f"plugin_not_enabled plugin=OnlyRacks package='onlyracks 1.0' enable='{line}'" in worker.said
    etcd.put(f"{NODES}c", in_rack("c", "c"))
    etcd.put(f"{PODS}unnamed/somewhere", pod("somewhere", namespace="unnamed", labels={"rack": "of no node"}))
    wait_until(lambda: "somewhere" in bound_pods(etcd, "unnamed"), 30, "bound without the plugin")

    config = tmp_path / "config.yaml"
    config.write_text(line)
    shown = servers.cli("config", "show", str(config), folder=site).stdout
    assert "# OnlyRacks: onlyracks 1.0\n" in shown
    assert "# NodeName: built in\n" in shown
