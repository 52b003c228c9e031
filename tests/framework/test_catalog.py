"""Plugins of other distributions: installed, found, used, named when they fail."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from wharfinger.errors import ConfigurationError, PluginError
from wharfinger.framework.catalog import Catalog, CatalogEntry
from wharfinger.framework.config.notes import enabling, origins
from wharfinger.framework.plugins.builtin import catalog
from wharfinger.framework.plugins.node_fields import NodeName
from wharfinger.framework.profiles import load_configuration, load_profiles
from wharfinger.testing.builders import node, pod, snapshot

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


def naming(plugin: str, **profile: object) -> dict[str, object]:
    """A configuration that enables it."""
    return {"profiles": [{"plugins": {"multiPoint": {"enabled": [{"name": plugin}]}}, **profile}]}


NODES = snapshot(node("n1"), node("n2"), node("n3"))


def test_an_installed_plugin_takes_part_where_a_configuration_names_it(install: Install) -> None:
    install("even_names", EVEN_NAMES, "EvenNames = even_names:EvenNames")
    profile = load_profiles(naming("EvenNames"))["default-scheduler"]
    evaluation = profile.evaluate(pod(cpu=9000), NODES)
    assert evaluation.verdicts()["n1"]["EvenNames"].reasons == ("node(s) had an odd name",)
    assert profile.evaluate(pod(), NODES).feasible == ("n2",)


def test_installed_plugin_that_is_not_named_is_not_imported_or_run(install: Install) -> None:
    plain = load_profiles()["default-scheduler"].digest
    install("broken", "raise RuntimeError('imported')", "Broken = broken:Broken")
    configured = load_configuration()
    assert configured.profiles["default-scheduler"].digest == plain
    assert configured.profiles["default-scheduler"].evaluate(pod(), NODES).feasible == ("n1", "n2", "n3")
    assert [(plugin.name, plugin.origin, plugin.version) for plugin in configured.not_enabled] == [
        ("Broken", "broken", "1.0")
    ]


def test_a_profile_that_does_not_name_it_is_without_it(install: Install) -> None:
    install("even_names", EVEN_NAMES, "EvenNames = even_names:EvenNames")
    named = {"schedulerName": "even", "plugins": {"filter": {"enabled": [{"name": "EvenNames"}]}}}
    configured = load_configuration({"profiles": [named, {"schedulerName": "any"}]})
    assert configured.profiles["even"].evaluate(pod(), NODES).feasible == ("n2",)
    assert configured.profiles["any"].evaluate(pod(), NODES).feasible == ("n1", "n2", "n3")
    assert configured.not_enabled == ()


def test_all_plugins_take_part_when_that_is_asked_for(install: Install) -> None:
    install("even_names", EVEN_NAMES, "EvenNames = even_names:EvenNames")
    configured = load_configuration(all_plugins=True)
    assert configured.profiles["default-scheduler"].evaluate(pod(), NODES).feasible == ("n2",)
    assert configured.not_enabled == ()


def test_it_can_be_switched_off_by_name(install: Install) -> None:
    install("even_names", EVEN_NAMES, "EvenNames = even_names:EvenNames")
    config = {"profiles": [{"plugins": {"multiPoint": {"disabled": [{"name": "EvenNames"}]}}}]}
    configured = load_configuration(config, all_plugins=True)
    assert configured.profiles["default-scheduler"].evaluate(pod(), NODES).feasible == ("n1", "n2", "n3")
    assert load_configuration(config).not_enabled == ()  # who disables it knows of it


def test_the_line_that_enables_it_is_a_configuration(install: Install) -> None:
    install("even_names", EVEN_NAMES, "EvenNames = even_names:EvenNames")
    (plugin,) = load_configuration().not_enabled
    line = enabling(plugin, "mine")
    assert "\n" not in line
    configured = load_configuration(yaml.safe_load(line))
    assert configured.profiles["mine"].evaluate(pod(), NODES).feasible == ("n2",)
    assert origins(configured.configuration, configured.catalog)["EvenNames"] == "even_names 1.0"
    assert origins(configured.configuration, configured.catalog)["NodeName"] == "built in"


def test_its_arguments_are_checked_by_its_own_model(install: Install) -> None:
    install("even_names", EVEN_NAMES, "EvenNames = even_names:EvenNames")

    def config(divisor: object) -> dict[str, object]:
        return naming("EvenNames", pluginConfig=[{"name": "EvenNames", "args": {"divisor": divisor}}])

    assert load_profiles(config(3))["default-scheduler"].evaluate(pod(), NODES).feasible == ("n3",)
    with pytest.raises(ConfigurationError, match=r"profiles\[0\]\.pluginConfig\[0\]\.args\.divisor: .*integer"):
        load_profiles(config("many"))


def test_its_arguments_are_part_of_the_profiles_digest(install: Install) -> None:
    without = load_profiles()["default-scheduler"].digest
    install("even_names", EVEN_NAMES, "EvenNames = even_names:EvenNames")
    named = load_profiles(naming("EvenNames"))["default-scheduler"].digest
    config = naming("EvenNames", pluginConfig=[{"name": "EvenNames", "args": {"divisor": 3}}])
    assert len({without, named, load_profiles(config)["default-scheduler"].digest}) == 3


def test_one_that_raises_is_named(install: Install) -> None:
    install("fragile", EVEN_NAMES.replace("EvenNames", "Fragile").replace("[1:]", "[9:]"), "Fragile = fragile:Fragile")
    with pytest.raises(PluginError, match="plugin Fragile failed in Filter: ValueError"):
        load_profiles(naming("Fragile"))["default-scheduler"].evaluate(pod(), NODES)


def test_one_that_cannot_be_imported_is_named_with_its_distribution(install: Install) -> None:
    install("gone", "import nothing_of_this_name", "Gone = gone:Gone")
    with pytest.raises(ConfigurationError, match=r"plugin Gone \(of gone\) cannot be loaded"):
        load_profiles(naming("Gone"))


def test_one_that_calls_itself_otherwise_is_refused(install: Install) -> None:
    install("even_names", EVEN_NAMES, "Even = even_names:EvenNames")
    with pytest.raises(ConfigurationError, match="both names must be the same"):
        load_profiles(naming("Even"))


def test_a_name_is_given_once() -> None:
    with pytest.raises(ConfigurationError, match="two plugins are called NodeName"):
        Catalog([*catalog(), CatalogEntry("NodeName", NodeName)])


@pytest.mark.parametrize(
    ("answer", "reason"),
    [("[1]", "not an EventHint"), ("1 / 0", "cannot return its queueing hints"), ("3", "cannot return")],
)
def test_one_with_senseless_queueing_hints_is_named(install: Install, answer: str, reason: str) -> None:
    install(
        "even_names",
        f"{EVEN_NAMES}\n    def queueing_hints(self):\n        return {answer}\n",
        "EvenNames = even_names:EvenNames",
    )
    with pytest.raises(ConfigurationError, match=f"plugin EvenNames .*{reason}"):
        load_profiles(naming("EvenNames"))
