"""What an attempt must have seen goes on from each failed one to the next, and what a taken name is told."""

from __future__ import annotations

import random

import pytest
from temporalio.exceptions import ApplicationError

from wharfinger.errors import UsageError
from wharfinger.placement.contracts import placement_keys
from wharfinger.placement.contracts.placement_records import HubRecord
from wharfinger.placement.contracts.placements import StreamRevisions, required_seen
from wharfinger.process.parts import ProcessParts
from wharfinger.process.registration import LeasedName, Registration
from wharfinger.settings import LeaseSettings
from wharfinger.testing.memory_store import MemoryStore
from wharfinger.workflows.schedule_placement import _ending

SEEN = StreamRevisions(members=1, hub=12)


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (ApplicationError("behind", type="Behind"), "Behind"),
        (ApplicationError("no answer", "a detail", type="Unavailable"), "Unavailable"),
        (RuntimeError("amiss"), "SchedulerError"),
    ],
)
def test_every_failure_tells_what_the_next_attempt_must_have_seen(error: Exception, kind: str) -> None:
    ends_as, outcome = _ending(error, SEEN)
    assert isinstance(ends_as, ApplicationError)
    assert (ends_as.type, outcome) == (kind, "error")
    assert required_seen(ends_as.details) == SEEN


def test_a_contended_attempt_ends_as_it_is() -> None:
    error = ApplicationError("moved", SEEN.model_dump(), type="Contended")
    assert _ending(error, StreamRevisions()) == (error, "contended")
    assert required_seen(error.details) == SEEN


@pytest.mark.parametrize("details", [(), ("text",), ({"members": "many"},), (None,)])
def test_details_of_other_failures_require_nothing(details: tuple[object, ...]) -> None:
    assert required_seen(details) == StreamRevisions()


async def test_a_taken_name_of_a_hub_is_no_agents(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("wharfinger.process.registration.SLACK", -99.0)
    store = MemoryStore()
    await store.put(placement_keys.hub("dev"), HubRecord(pid=1, time="now").to_bytes())
    named = LeasedName("hub", "dev", placement_keys.hub("dev"), "name")
    process = ProcessParts(store, clock=lambda: 0.0, rng=random.Random(1))
    registration = Registration(process, named, HubRecord(pid=2), LeaseSettings())
    with pytest.raises(UsageError, match=r"hub dev runs already \(pid 1 since now\): choose another --name"):
        await registration.claim()
