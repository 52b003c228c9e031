from __future__ import annotations

from datetime import timedelta

import pytest

from wharfinger.cli.processes.process_options import duration_of
from wharfinger.errors import UsageError


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("30d", timedelta(days=30)),
        ("12h", timedelta(hours=12)),
        ("90s", timedelta(seconds=90)),
        ("1d12h30m", timedelta(days=1, hours=12, minutes=30)),
    ],
)
def test_a_duration_is_read(text: str, expected: timedelta) -> None:
    assert duration_of(text) == expected


@pytest.mark.parametrize("text", ["", "30", "d", "3 d", "-1d", "0s", "1w", "1.5h"])
def test_what_is_no_duration_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(UsageError):
        duration_of(text)
