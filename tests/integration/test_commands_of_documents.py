"""The commands of the README, of getting started and of the tour of fleets run as they are printed.

Those of the tour of placements: `tests/dev/test_placement_tour.py`.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.integration.dev_tree import DevTree, end_all
from tests.integration.printed_commands import Terminal, document, section

pytestmark = [pytest.mark.servers, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def terminal(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Terminal]:
    """Beside `wharfinger dev --workers 2`."""
    folder = tmp_path_factory.mktemp("documents")
    tree = DevTree(folder, 2, cohorts="auto", guarded=True)
    try:
        tree.start()
        yield Terminal(tree)
        assert tree.stop() == 0
    finally:
        tree.end()
        end_all(folder)


def test_quick_start_of_the_readme_is_that_of_getting_started() -> None:
    started = [one.command.partition("#")[0].strip() for one in document("docs/getting-started.md")]
    quick = [one.command.partition("#")[0].strip() for one in section("README.md", "Quick start")]
    pods = quick[: quick.index("wharfinger explain pod default/big-1") + 1]

    assert [one for one in started if one in pods] == pods


def test_placements_of_the_readme_are_those_of_the_tour() -> None:
    toured = {one.command.split(" --why")[0] for one in document("docs/placement-tour.md")}
    quick = [one.command.partition("#")[0].strip() for one in section("README.md", "Quick start")]

    assert set(quick[quick.index("wharfinger explain pod default/big-1") + 1 :]) <= toured


def test_getting_started(terminal: Terminal) -> None:
    terminal.runs(document("docs/getting-started.md"))


def test_first_history_goes_on_from_it(terminal: Terminal) -> None:
    terminal.runs(document("docs/first-history.md"))


def test_tour_of_fleets(terminal: Terminal) -> None:
    terminal.runs(document("docs/fleet-tour.md"))
