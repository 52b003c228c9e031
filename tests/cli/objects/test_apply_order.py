"""The order in which `apply` creates objects, and that it changes those that are there."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tests.cli.shell import Shell

pytestmark = pytest.mark.servers

ORDER = [(number * 29) % 40 for number in range(40)]
"""Numbers of pods in the order of their file; it is not the order of their names."""


def created(shell: Shell, names: Sequence[str]) -> list[str]:
    """The pods of these names, the oldest first."""
    stored = shell("get", "pods", "-n", shell.namespace, "-o", "json").json["items"]
    revisions = {pod["metadata"]["name"]: int(pod["metadata"]["resourceVersion"]) for pod in stored}
    return sorted(names, key=lambda name: revisions[name])


def test_apply_creates_pods_in_the_order_of_the_file(shell: Shell) -> None:
    names = [f"p-{number:02d}" for number in ORDER]
    answer = shell("apply", "-f", shell.file([shell.pod(name) for name in names]))
    assert answer.code == 0
    assert answer.out.splitlines() == [f"pod/{shell.namespace}/{name} created" for name in names]
    assert created(shell, names) == names


def test_apply_keeps_the_order_of_new_pods_among_those_it_changes(shell: Shell) -> None:
    names = [f"p-{number:02d}" for number in ORDER[:16]]
    old = names[::3]
    assert shell("apply", "-f", shell.file([shell.pod(name) for name in old])).code == 0
    answer = shell("apply", "-f", shell.file([shell.pod(name, priority=7) for name in names]))
    results = [f"pod/{shell.namespace}/{name} {'configured' if name in old else 'created'}" for name in names]
    assert answer.out.splitlines() == results
    new = [name for name in names if name not in old]
    assert created(shell, new) == new
