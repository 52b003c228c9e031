"""Plugins of other distributions: installed, found, used, named when they fail."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.framework.objects import node, pod, snapshot
from wharfinger.errors import ConfigurationError, PluginError
from wharfinger.framework.catalog import Catalog, Entry
from wharfinger.plugins.builtin import catalog
from wharfinger.plugins.node_name import NodeName
from wharfinger.profiles import load_profiles

Install = Callable[..., None]

EVEN_NAMES = """
from pydantic import BaseModel
from wharfinger.framework.status import SUCCESS, unschedulable

class EvenNames:
    name = "EvenNames"

    class Args(BaseModel):
        divisor: int = 2

    def __init__(self, args):
        self.divisor = args.divisor

    def filter_node(self, state, pod, node):
        if int(node.node.name[1:]) % self.divisor == 0:
            return SUCCESS
        return unschedulable("node(s) had an odd name")
"""


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """Installs a distribution as pip would: a module, and metadata beside it."""

    def into_path(module: str, source: str, entry_point: str) -> None:
        (tmp_path / f"{module}.py").write_text(source)
        metadata = tmp_path / f"{module}-1.0.dist-info"
        metadata.mkdir()
        (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {module}\nVersion: 1.0\n")
        (metadata / "entry_points.txt").write_text(f"[wharfinger.plugins]\n{entry_point}\n")
        monkeypatch.syspath_prepend(str(tmp_path))
        monkeypatch.delitem(sys.modules, module, raising=False)

    return into_path


NODES = snapshot(node("n1"), node("n2"), node("n3"))


def test_an_installed_plugin_takes_part_by_itself(install: Install) -> None:
    install("even_names", EVEN_NAMES, "EvenNames = even_names:EvenNames")
    evaluation = load_profiles()["default-scheduler"].evaluate(pod(cpu=9000), NODES)
    assert evaluation.verdicts()["n1"]["EvenNames"].reasons == ("node(s) had an odd name",)
    assert load_profiles()["default-scheduler"].evaluate(pod(), NODES).feasible == ("n2",)


def test_it_can_be_switched_off_by_name(install: Install) -> None:
    install("even_names", EVEN_NAMES, "EvenNames = even_names:EvenNames")
    config = {"profiles": [{"plugins": {"multiPoint": {"disabled": [{"name": "EvenNames"}]}}}]}
    assert load_profiles(config)["default-scheduler"].evaluate(pod(), NODES).feasible == ("n1", "n2", "n3")


def test_its_arguments_are_checked_by_its_own_model(install: Install) -> None:
    install("even_names", EVEN_NAMES, "EvenNames = even_names:EvenNames")

    def config(divisor: object) -> dict[str, object]:
        return {"profiles": [{"pluginConfig": [{"name": "EvenNames", "args": {"divisor": divisor}}]}]}

    assert load_profiles(config(3))["default-scheduler"].evaluate(pod(), NODES).feasible == ("n3",)
    with pytest.raises(ConfigurationError, match=r"profiles\[0\]\.pluginConfig\[0\]\.args\.divisor: .*integer"):
        load_profiles(config("many"))


def test_its_arguments_are_part_of_the_profiles_digest(install: Install) -> None:
    without = load_profiles()["default-scheduler"].digest
    install("even_names", EVEN_NAMES, "EvenNames = even_names:EvenNames")
    assert load_profiles()["default-scheduler"].digest != without


def test_one_that_raises_is_named(install: Install) -> None:
    install("fragile", EVEN_NAMES.replace("EvenNames", "Fragile").replace("[1:]", "[9:]"), "Fragile = fragile:Fragile")
    with pytest.raises(PluginError, match="plugin Fragile failed in Filter: ValueError"):
        load_profiles()["default-scheduler"].evaluate(pod(), NODES)


def test_one_that_cannot_be_imported_is_named_with_its_distribution(install: Install) -> None:
    install("gone", "import nothing_of_this_name", "Gone = gone:Gone")
    with pytest.raises(ConfigurationError, match=r"plugin Gone \(of gone\) cannot be loaded"):
        load_profiles()


def test_one_that_calls_itself_otherwise_is_refused(install: Install) -> None:
    install("even_names", EVEN_NAMES, "Even = even_names:EvenNames")
    with pytest.raises(ConfigurationError, match="both names must be the same"):
        load_profiles()


def test_a_name_is_given_once() -> None:
    with pytest.raises(ConfigurationError, match="two plugins are called NodeName"):
        Catalog([*catalog(), Entry("NodeName", NodeName)])


@pytest.mark.parametrize(
    ("answer", "reason"),
    [("[1]", "not an EventHint"), ("1 / 0", "cannot tell its queueing hints"), ("3", "cannot tell")],
)
def test_one_with_senseless_queueing_hints_is_named(install: Install, answer: str, reason: str) -> None:
    install(
        "even_names",
        f"{EVEN_NAMES}\n    def queueing_hints(self):\n        return {answer}\n",
        "EvenNames = even_names:EvenNames",
    )
    with pytest.raises(ConfigurationError, match=f"plugin EvenNames .*{reason}"):
        load_profiles()
