"""What tables show."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from wharfinger.cli.objects.tables import age, table_of
from wharfinger.cli.output import Columns
from wharfinger.objects.documents.kinds import FLEET, POD_GROUP
from wharfinger.objects.documents.times import duration
from wharfinger.objects.model.pod import Pod
from wharfinger.scheduling.cli.rows import pod_reason, pod_status
from wharfinger.scheduling.reading.pods_and_nodes import Usage

NOW = datetime(2026, 1, 2, 12, 0, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [(0, "0s"), (119, "119s"), (120, "2m"), (190, "3m10s"), (3600, "60m"), (5 * 3600, "5h"), (72 * 3600, "3d")],
)
def test_durations_are_short(seconds: int, shown: str) -> None:
    assert duration(seconds) == shown


@pytest.mark.parametrize(
    ("stamp", "shown"),
    [("2026-01-02T11:59:30Z", "30s"), ("2027-01-01T00:00:00Z", "0s"), ("", "<unknown>"), ("x", "<unknown>"),
     ("2026-01-02T11:59:30", "<unknown>"), ("2026-01-02T12:59:30+01:00", "30s")],
)  # fmt: skip
def test_ages_are_computed_from_any_time_with_a_zone(stamp: str, shown: str) -> None:
    assert age(stamp, NOW) == shown


def test_usage_follows_the_pods_and_returns_the_changed_nodes() -> None:
    usage = Usage()
    pod = Pod("ns", "a", "u", requests={"cpu": 100}, node_name="n1")

    assert usage.set_pod(pod.key, pod) == ("n1",)
    assert usage.set_pod(pod.key, pod) == ()
    assert usage.on("n1") == {"pods": 1, "cpu": 100}
    assert usage.set_pod(pod.key, None) == ("n1",)
    assert usage.on("n1") == {"pods": 0, "cpu": 0}


def test_one_word_names_the_state_of_a_pod() -> None:
    pods = [
        Pod("ns", "a", "u"),
        Pod("ns", "a", "u", node_name="n"),
        Pod("ns", "a", "u", scheduling_gates=("g",)),
        Pod("ns", "a", "u", node_name="n", phase="Running"),
        Pod("ns", "a", "u", deletion_timestamp="t", phase="Running"),
    ]

    assert [pod_status(pod) for pod in pods] == ["Pending", "Bound", "Gated", "Running", "Terminating"]


def test_victim_of_preemption_is_marked() -> None:
    victim = Pod("ns", "a", "u", node_name="n1", deletion_timestamp="2026-01-02T12:00:00Z", disruption_target=True)

    assert (pod_status(victim), pod_reason(victim)) == ("Terminating", "PreemptionByScheduler")


def test_a_pod_that_is_held_back_is_gated_and_has_the_reason() -> None:
    refused = Pod("ns", "a", "u", condition=("False", "Unschedulable", "no room"))
    bound = Pod("ns", "a", "u", node_name="n1")

    assert (pod_status(refused), pod_reason(refused)) == ("Pending", "Unschedulable")
    assert (pod_status(refused, "its gang"), pod_reason(refused, "its gang")) == ("Gated", "its gang")
    assert (pod_status(bound, "its gang"), pod_reason(bound, "its gang")) == ("Bound", "")


def test_columns_are_as_wide_as_their_widest_cell_and_stay_so() -> None:
    table = Columns("A", "B")

    assert table.render([("long", "x")]) == "A      B\nlong   x"
    assert table.render([("s", "y")], headings=False) == "s      y"


def test_what_others_wrote_cannot_break_a_line_or_speak_to_the_terminal() -> None:
    table = Columns("A", "B")

    assert table.render([("\x1b[31mred", "two\nlines"), ("byte \udcff", "\u00e4")], headings=False) == (
        "\\x1b[31mred   two\\nlines\nbyte \\xff     \u00e4"
    )


def test_only_kinds_that_lie_in_namespaces_show_one() -> None:
    assert table_of(FLEET).columns().render([]).split() == ["NAME", "AGE"]
    assert table_of(POD_GROUP).columns().render([]).split() == ["NAMESPACE", "NAME", "AGE"]
