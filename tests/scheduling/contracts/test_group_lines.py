"""Lines about a group in the Temporal UI: within the server's limits, whatever the names."""

from __future__ import annotations

from tests.scheduling.contracts.test_group_payloads import PLACED, seat
from wharfinger.objects.model.texts import listed, within
from wharfinger.scheduling.contracts.cohort_scheduling import BoundMany, BoundPod, PlacedMany
from wharfinger.scheduling.contracts.group_lines import DETAILS, LINE, details, seats_line, title, waiting_line

SUMMARY = 400
"""Bytes of a summary that the server takes, as JSON."""


def test_few_pods_are_named_and_more_are_counted() -> None:
    assert title([("default", "web-1")]) == "default/web-1"
    assert title([("default", "a"), ("prod", "b")]) == "default/a, prod/b"
    many = title([("default", f"web-{number}") for number in range(200)])

    assert many.startswith("default/web-0, default/web-1, ")
    assert many.endswith(" more")
    named = many.count("default/")
    assert f"and {200 - named} more" in many


def test_seats_and_reasons_have_a_line_each() -> None:
    assert seats_line(PLACED).startswith("default/11 → node-1, default/12 → node-2")
    assert waiting_line(PLACED) == "default/15: 0/5 nodes are available: 5 Insufficient cpu."


def test_lines_stay_within_what_the_server_takes() -> None:
    name = "ü" * 253
    long = PLACED.model_copy(update={"seats": tuple(seat("11", name) for _ in range(200))})
    reasons = tuple(one.model_copy(update={"message": "ж" * 1000}) for one in PLACED.reasons)

    waiting = waiting_line(PLACED.model_copy(update={"reasons": reasons}))
    for line in (title([(name, name)] * 9), seats_line(long), waiting):
        assert len(line.encode()) <= LINE + 24 < SUMMARY
    assert len(details(long, BoundMany()).encode()) <= DETAILS + 40


def test_details_have_a_line_for_each_pod() -> None:
    note = "its runner-up"
    bound = BoundMany(bound=(BoundPod(namespace="default", name="11", node="node-8", revision=9, notes=(note,)),))

    lines = details(PLACED, bound).splitlines()
    assert lines[0] == "- default/11 → node-8 (one of 3 that fit, score 90); its runner-up"
    assert lines[1] == "- default/12: not bound (was to go to node-2)"
    assert lines[-1] == "- default/15 waits: 0/5 nodes are available: 5 Insufficient cpu."
    assert details(PlacedMany(), BoundMany()) == ""


def test_text_is_cut_between_characters() -> None:
    assert within("üüü", 6) == "üüü"
    assert within("üüüü", 6) == "ü…"
    assert listed([], 10) == ""
    assert listed(["one", "two", "three"], 12) == "one, two and 1 more"
