"""Texts within bounds."""

from __future__ import annotations

from wharfinger.objects.model.texts import one_line, shortened


def test_a_text_that_fits_stays_as_it_is() -> None:
    assert shortened("no\nroom", 7) == "no\nroom"


def test_cut_text_is_marked_and_within_its_limit() -> None:
    assert shortened("no rooms", 7) == "no roo…"


def test_a_line_has_no_breaks_and_is_measured_without_them() -> None:
    assert one_line("no\n\n  room \t", 7) == "no room"
    assert one_line("no\n\n  rooms", 7) == "no roo…"
