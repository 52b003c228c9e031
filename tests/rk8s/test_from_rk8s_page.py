"""`docs/from-rk8s.md`: its commands on the example's documents print what the page shows."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from typer.main import get_command

from tests.cli.shell import Shell, outside
from tests.rk8s.test_commands import Etcd, etcd
from wharfinger.cli.main import command_line
from wharfinger.etcd import keys
from wharfinger.objects.rk8s.applying import documents
from wharfinger.objects.rk8s.pods import GATES, PRIORITY
from wharfinger.telemetry import Metrics

__all__ = ["etcd", "outside"]

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "from-rk8s.md").read_text()
EXAMPLE = sorted((ROOT / "examples" / "rk8s" / "libscheduler").glob("*.yaml"))
BEFORE_THE_SWITCH = PAGE.partition("\n## 3. ")[0]
PASSING = re.compile(r"\b\d+(?:s|m|h|d)\d*\w*\b|revision \d+")
"""Ages, and the revision of the state."""


class Printed(NamedTuple):
    """A command of the page."""

    arguments: tuple[str, ...]
    shown: list[str]
    """The lines below it."""


def printed(page: str) -> Iterator[Printed]:
    """The commands of wharfinger that a page shows with what they print."""
    for block in re.findall(r"^```\n(.*?)^```", page, flags=re.M | re.S):
        for part in re.split(r"^\$ ", block, flags=re.M):
            command, _, shown = part.partition("\n")
            if command.startswith("wharfinger ") and shown.strip():
                arguments = command.partition("#")[0].split()[1:]
                yield Printed(tuple(arguments), shown.strip("\n").splitlines())


def words(lines: list[str]) -> list[list[str]]:
    return [PASSING.sub("~", line).split() for line in lines]


@pytest.fixture
def cluster(etcd: Etcd, outside: Shell, monkeypatch: pytest.MonkeyPatch) -> Etcd:
    """The example's documents, applied to an etcd that no worker has claimed."""
    etcd.clean()
    monkeypatch.setenv("WHARFINGER_FORMAT", "rk8s")
    monkeypatch.setenv("COLUMNS", "140")
    assert outside("apply", "-f", str(EXAMPLE[0].parent)).code == 0
    return etcd


@pytest.mark.servers
def test_looking_and_rehearsing_print_what_the_page_shows(cluster: Etcd, outside: Shell) -> None:
    found = list(printed(BEFORE_THE_SWITCH))
    assert len(found) == 6
    for command in found:
        answer = outside(*command.arguments)
        shown = command.shown[:-1] if command.shown[-1] == "..." else command.shown
        assert words((answer.out or answer.err).splitlines())[: len(shown)] == words(shown), command.arguments
    assert cluster.get(keys.INSTALLATION) is None


@pytest.mark.servers
def test_apply_creates_pods_in_the_order_of_their_files(cluster: Etcd) -> None:
    given = [one.tree for path in EXAMPLE for one in documents(path.read_text()) if one.tree["kind"] == "Pod"]
    names = [pod["metadata"]["name"] for pod in given]
    created = [cluster.get(f"/registry/pods/{name}") for name in names]
    revisions = [kv.create_revision for kv in created if kv is not None]
    assert len(revisions) == len(names) > 5
    assert revisions == sorted(revisions)


def test_the_example_is_compared_from_its_files(outside: Shell) -> None:
    (live,) = (one for one in printed(BEFORE_THE_SWITCH) if "--compare" in one.arguments)
    answer = outside("simulate", "--compare", "--format", "rk8s", "-f", str(EXAMPLE[0].parent))
    assert words(answer.out.splitlines())[1:] == words(live.shown)[1:]
    what_if = (ROOT / "docs" / "what-if.md").read_text()
    (there,) = (one for one in printed(what_if) if "--compare" in one.arguments)
    assert words(answer.out.splitlines()) == words(there.shown)


def test_options_of_the_commands_exist() -> None:
    group = get_command(command_line())
    for name, rest in re.findall(r"(?:^\$ |`)wharfinger ([a-z-]+)([^`\n#|)]*)", PAGE, flags=re.M):
        command: Any = group.commands[name]  # type: ignore[attr-defined]
        command = getattr(command, "commands", {}).get(rest.split()[0] if rest.split() else "", command)
        options = {option for each in command.params for option in each.opts}
        assert {word for word in rest.split() if word.startswith("-")} <= options, name


def test_keys_annotations_and_metrics_of_the_page_exist() -> None:
    assert keys.OURS in PAGE
    assert keys.ASIDE in PAGE
    assert PRIORITY in PAGE
    assert GATES in PAGE
    for key in (keys.bound_by("a", "p"), keys.attempt("a", "p"), keys.binding("n"), keys.requeued.below("n")):
        assert f"`{key.removeprefix(keys.OURS).partition('/')[0]}/" in PAGE
    assert f"`{keys.INSTALLATION.removeprefix(keys.OURS)}`" in PAGE
    shown = {f"{metric.name}{end}" for metric in Metrics().registry.collect() for end in ("", "_total")}
    assert set(re.findall(r"wharfinger_[a-z_]+", PAGE)) <= shown
