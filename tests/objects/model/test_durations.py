"""Durations as Go reads and writes them."""

from __future__ import annotations

import pytest

from wharfinger.objects.model.durations import parse_duration, written_duration

SECOND = 10**9


@pytest.mark.parametrize(
    ("text", "nanoseconds", "again"),
    [
        ("15s", 15 * SECOND, "15s"),
        ("1m30s", 90 * SECOND, "1m30s"),
        ("90s", 90 * SECOND, "1m30s"),
        ("2h", 7200 * SECOND, "2h0m0s"),
        ("1.5s", 3 * SECOND // 2, "1.5s"),
        (".5s", SECOND // 2, "500ms"),
        ("1.5us", 1500, "1.5µs"),
        ("7ns", 7, "7ns"),
        ("-1m", -60 * SECOND, "-1m0s"),
        ("0", 0, "0s"),
    ],
)
def test_what_is_written_is_understood_and_written_in_gos_way(text: str, nanoseconds: int, again: str) -> None:
    assert parse_duration(text) == nanoseconds
    assert written_duration(nanoseconds) == again
    assert parse_duration(again) == nanoseconds


@pytest.mark.parametrize("text", ["", "15", "s", "1d", "1s ", ".s", "-", "1 s", "9999999h", 15, None, "1" * 200 + "s"])
def test_what_go_refuses_is_refused(text: object) -> None:
    with pytest.raises(ValueError, match="duration"):
        parse_duration(text)
