"""`wharfinger dev --members`: a newcomer's first placement, on three clusters of their own."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.dev_tree import DevTree, end_all, processes_of, wait_until
from tests.integration.gateway import NODES, node

pytestmark = [pytest.mark.servers, pytest.mark.timeout(300)]
EXAMPLE = Path(__file__).parents[2] / "examples" / "placement-live"


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DevTree]:
    folder = tmp_path_factory.mktemp("members")
    tree = DevTree(folder, workers=0)
    try:
        tree.start("--members", "3")
        yield tree
        assert tree.stop() == 0
    finally:
        tree.end()
        end_all(folder)


def chosen(tree: DevTree, name: str) -> list[str]:
    told = tree.cli("placement", "status", name, "-o", "json", check=False).stdout
    return [one["cluster"] for one in json.loads(told)["members"]] if told else []


def states(tree: DevTree) -> dict[str, str]:
    listed = json.loads(tree.cli("cluster", "list", "-o", "json").stdout)
    return {one["name"]: ",".join(one["state"]) for one in listed}


def test_members_are_online_and_placements_are_decided(tree: DevTree) -> None:
    wait_until(lambda: list(states(tree).values()) == ["Ready"] * 3, 30, "the members are online")
    tree.cli("apply", "-f", str(EXAMPLE))
    wait_until(lambda: chosen(tree, "monitoring") == ["member-1", "member-2", "member-3"], 30, "all are chosen")
    before = chosen(tree, "web")
    assert len(before) == 2
    assert "member-3" in before  # it is the only one of its region
    assert "the same" in tree.cli("placement", "explain", "web").stdout

    other = next(name for name in ("member-1", "member-2") if name in before)
    tree.cli("cluster", "drain", other)
    wait_until(lambda: other not in chosen(tree, "web") and len(chosen(tree, "web")) == 2, 30, "it is exchanged")
    tree.cli("cluster", "uncordon", other)
    history = json.loads(tree.cli("placement", "history", "web", "-o", "json").stdout)
    assert [one["outcome"] for one in history["attempts"] if one["outcome"] != "running"][:1] == ["fulfilled"]


def test_what_a_member_has_is_reported_also_after_its_agent_died(tree: DevTree) -> None:
    etcd = tree.members["member-1"]
    etcd.put(f"{NODES}n1", node("n1", cpu="7"))

    def cpu() -> str:
        """Of all nodes: two of four cores are there from the beginning."""
        listed = json.loads(tree.cli("cluster", "list", "-o", "json").stdout)
        return str(next(one["cpu"] for one in listed if one["name"] == "member-1")).partition("/")[2]

    wait_until(lambda: cpu() == "15", 30, "its node is reported")
    (agents,) = [
        pid for pid, line in processes_of(tree.folder).items() if " member " in f" {line} " and "--members-dir" in line
    ]
    os.kill(agents, signal.SIGKILL)
    etcd.put(f"{NODES}n2", node("n2", cpu="3"))
    wait_until(lambda: cpu() == "18", 60, "its successor reports")
