"""`wharfinger config`, and what a worker does with a configuration that is wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.shell import Shell
from wharfinger.cli.options import variable
from wharfinger.framework.profiles import load_profiles

WRONG = """
parallelism: 0
profiles:
- schedulerName: a
  plugins: {filter: {enabled: [{name: Nobody}]}}
"""


def test_valid_file_is_reported_with_its_profiles(outside: Shell) -> None:
    answer = outside("config", "validate", outside.file("profiles: [{schedulerName: a}, {schedulerName: b}]"))

    assert (answer.code, answer.out, answer.err) == (0, "valid: a, b\n", "")


def test_fields_without_effect_are_noted_once_each(outside: Shell) -> None:
    text = (
        "parallelism: 3\nleaderElection: {leaderElect: true}\nprofiles: [{plugins: {score: {disabled: [{name: X}]}}}]"
    )
    answer = outside("config", "validate", outside.file(text))

    assert (answer.code, answer.err) == (0, "")
    assert answer.out.splitlines() == [
        "valid: default-scheduler",
        "note: leaderElection has no effect: all workers are active, and share the pods by leases in etcd",
        "note: parallelism has no effect: a decision looks at all nodes at once",
        "note: profiles[0].plugins.score.disabled[0] has no effect: no profile has a plugin X",
    ]


def test_an_older_file_gets_the_list_of_what_to_change(outside: Shell) -> None:
    text = "apiVersion: kubescheduler.config.k8s.io/v1beta2\nhealthzBindAddress: 0.0.0.0:10251\n"
    answer = outside("config", "validate", outside.file(text))

    assert answer.code == 1
    first, second, *weights = answer.out.splitlines()
    assert first == "apiVersion: write kubescheduler.config.k8s.io/v1: Kubernetes 1.28 removed v1beta2"
    assert second.startswith("healthzBindAddress: remove it: ")
    assert len(weights) == 3


def test_show_names_where_each_plugin_comes_from(outside: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("Named", "Unnamed"):
        information = outside.folder / f"{name}-2.1.dist-info"
        information.mkdir()
        source = f"class {name}:\n    name = '{name}'\n    def filter_node(self, state, pod, node): ...\n"
        (outside.folder / f"of_{name}.py").write_text(source)
        (information / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 2.1\n")
        (information / "entry_points.txt").write_text(f"[wharfinger.plugins]\n{name} = of_{name}:{name}\n")
    monkeypatch.syspath_prepend(str(outside.folder))
    file = outside.file("profiles: [{plugins: {multiPoint: {enabled: [{name: Named}]}}}]")

    shown = outside("config", "show", file)
    comments = [line for line in shown.out.splitlines() if line.startswith("#")]
    assert "# NodeResourcesFit: built in" in comments
    assert comments[-2:] == ["# Named: Named 2.1", "# Unnamed: Unnamed 2.1, installed and not enabled"]
    again = outside("config", "show", outside.file(shown.out, "again"))
    assert again.out == shown.out
    as_json = outside("config", "show", file, "-o", "json")
    assert as_json.json["profiles"]
    assert as_json.err.splitlines() == comments[-2:]
    every = outside("config", "show", file, "--plugins=all")
    assert "# Unnamed: Unnamed 2.1" in every.out.splitlines()
    line = "profiles: [{schedulerName: default-scheduler, plugins: {multiPoint: {enabled: [{name: Unnamed}]}}}]"
    noted = outside("config", "validate", file).out.splitlines()[-1]
    assert noted == f"note: plugin Unnamed of Unnamed 2.1 is installed and not named; to enable it: {line}"


def test_every_problem_has_a_line(outside: Shell) -> None:
    answer = outside("config", "validate", outside.file(WRONG))

    assert answer.code == 1
    first, second = answer.out.splitlines()
    assert first.startswith("parallelism: ")
    assert second.startswith("profiles[0].plugins.filter.enabled[0].name: there is no plugin Nobody")


@pytest.mark.parametrize("command", ["worker", "dev"])
def test_worker_with_a_wrong_configuration_exits_with_a_line_a_problem(
    command: str, outside: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable("config"), outside.file(WRONG))
    answer = outside(command)

    assert answer.code == 2
    first, second = answer.err.splitlines()
    assert first.startswith("error: parallelism: ")
    assert second.startswith("error: profiles[0].plugins.filter")


def test_text_in_a_file_has_no_power_over_the_terminal(outside: Shell) -> None:
    answer = outside("config", "validate", outside.file('"\\e[2J": 1'))

    assert answer.out == "\\x1b[2J: unknown field\n"


@pytest.mark.parametrize("output", ["yaml", "json"])
def test_what_is_shown_is_a_configuration_that_means_the_same(output: str, outside: Shell) -> None:
    given = outside.file(
        "percentageOfNodesToScore: 0\n"
        "profiles: [{schedulerName: a, plugins: {score: {disabled: [{name: '*'}]}}}, {schedulerName: b}]"
    )
    shown = outside("config", "show", given, "-o", output)
    again = outside("config", "show", outside.file(shown.out, "again"), "-o", output)

    assert shown.code == 0
    assert again.out == shown.out
    digests = [
        {p.name: p.digest for p in load_profiles(Path(file)).values()} for file in (given, outside.folder / "again")
    ]
    assert digests[0] == digests[1]


def test_config_without_a_file_shows_the_environments_or_the_defaults(
    outside: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable("config"), outside.file("parallelism: 3"))

    assert outside("config", "show", "-o", "json").json["parallelism"] == 3
    assert outside("config", "show", "--defaults", "-o", "json").json["parallelism"] == 16
    assert outside("config", "show", outside.file("parallelism: 4", "other"), "-o", "json").json["parallelism"] == 4
