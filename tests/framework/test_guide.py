"""The example of docs/plugins.md works as the guide says."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from wharfinger.framework.profiles import load_profiles
from wharfinger.objects.model.events import node_event
from wharfinger.objects.model.node import Node
from wharfinger.objects.model.pod import Pod
from wharfinger.testing import node_manifest, pod_manifest
from wharfinger.whatif.simulator.simulator import Simulator

GUIDE = Path(__file__).parents[2] / "docs" / "plugins.md"
BLOCK = re.compile(r"^( *)```(\w+)\n(.*?)^ *```", re.MULTILINE | re.DOTALL)


def blocks(language: str, guide: Path = GUIDE) -> list[str]:
    found = BLOCK.findall(guide.read_text())
    return [re.sub(f"^{indent}", "", text, flags=re.MULTILINE) for indent, kind, text in found if kind == language]


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The guide's package, as pip would install it."""
    (tmp_path / "rack_aware.py").write_text(blocks("python")[0])
    metadata = tmp_path / "rack_aware-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: rack-aware\nVersion: 1.0\n")
    (entry_point,) = re.findall(r'^(RackAware) = "(.*)"$', blocks("toml")[0], re.MULTILINE)
    (metadata / "entry_points.txt").write_text("[wharfinger.plugins]\n{} = {}\n".format(*entry_point))
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "rack_aware", raising=False)


def node(name: str, rack: str) -> dict[str, Any]:
    return node_manifest(name, labels={"rack": rack})


def pod(rack: str, scheduler: str = "default-scheduler") -> dict[str, Any]:
    return pod_manifest("web", "100m", labels={"example.com/rack": rack}, schedulerName=scheduler)


@pytest.mark.usefixtures("installed")
def test_the_example_takes_part_once_it_is_installed_and_named() -> None:
    simulator = Simulator(yaml.safe_load(blocks("yaml")[0]))
    simulator.add(node("n1", "a"))
    simulator.add(node("n2", "b"))
    assert simulator.decide(pod("b")).feasible == ["n2"]
    message = re.findall(r"# '(0/.*)'", blocks("python")[1])[0]
    assert simulator.decide(pod("c")).message == message


@pytest.mark.usefixtures("installed")
def test_the_configuration_weighs_it_and_switches_it_off() -> None:
    simulator = Simulator(yaml.safe_load(blocks("yaml")[1]))
    for name in ("n1", "n2"):
        simulator.add(node(name, "a"))
    assert simulator.decide(pod("a")).scores["n1"]["RackAware"] == 500
    assert simulator.decide(pod("b")).node is None
    assert simulator.decide(pod("b", "anywhere")).feasible == ["n1", "n2"]


@pytest.mark.usefixtures("installed")
def test_its_hints_wake_the_pods_it_refused() -> None:
    profile = load_profiles(yaml.safe_load(blocks("yaml")[0]))["default-scheduler"]
    waiting = Pod("default", "web", "u")
    labelled = node_event(Node("n1"), Node("n1", labels={"rack": "b"}), 1)
    grown = node_event(Node("n1"), Node("n1", allocatable={"cpu": 1}), 1)
    assert labelled is not None
    assert grown is not None
    assert profile.may_help(labelled, waiting, ("RackAware",)) == "RackAware"
    assert profile.may_help(grown, waiting, ("RackAware",)) is None


def test_example_has_the_length_that_the_guide_names() -> None:
    code = [line for line in blocks("python")[0].splitlines() if line.strip() and not line.startswith("#")]
    assert len(code) <= 20
