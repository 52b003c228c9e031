"""Who changed a fleet last, and why, beside who wrote its revisions: going back to one writes none."""

from __future__ import annotations

import pytest

from tests.fleet.fleet_records import NOW, Records
from wharfinger.fleet.cli.output import history_list, history_rows, status_mapping
from wharfinger.fleet.cli.status import status_text
from wharfinger.fleet.reading.fleet_status import status_of
from wharfinger.fleet.state.fleet_reading import estate_of

WHO, WHY = "wharfinger.dev/changed-by", "wharfinger.dev/change-cause"


def told(records: Records) -> list[str]:
    """The lines of `fleet status`."""
    estate = estate_of(records.stored(), 100)
    return status_text(status_of(estate, estate.fleet(records.tenant), NOW), NOW).splitlines()


def test_author_of_an_undo_is_shown_beside_the_author_of_the_revision() -> None:
    records = Records().fleet(annotations={WHO: "root@vm", WHY: "no secret\x1b[31m"})
    records.actor(target=1).revision(1, "completed").revision(2)
    estate = estate_of(records.stored(), 100)
    picture = estate.fleet(records.tenant)

    assert told(records)[2:4] == [
        "Revision:         1 (written by who-1 90m ago: why-1)",
        "Changed:          by root@vm: no secret\\x1b[31m",
    ]
    assert [cells[-1] for cells in history_rows(picture, NOW)] == [
        "why-1 (since-1) (last change by root@vm: no secret\x1b[31m)",
        "why-2",
    ]
    change = {"who": "root@vm", "why": "no secret\x1b[31m"}
    assert status_mapping(status_of(estate, picture, NOW))["lastChange"] == change
    assert [entry["lastChange"] for entry in history_list(picture)] == [change, None]


@pytest.mark.parametrize(
    ("annotations", "expected"),
    [
        (None, []),
        ({WHO: "who-2", WHY: "why-2"}, []),
        ({WHO: "who-2"}, ["Changed:          by who-2"]),
        ({WHY: "less"}, ["Changed:          less"]),
    ],
)
def test_last_change_is_shown_where_the_revision_does_not_have_it(
    annotations: dict[str, str] | None, expected: list[str]
) -> None:
    records = Records().fleet(annotations=annotations).actor(target=2).revision(2)

    assert [line for line in told(records) if line.startswith("Changed:")] == expected
