"""What activities fail with: one known type, one line, and a size that a history can hold."""

from __future__ import annotations

import asyncio
import logging
from datetime import timedelta
from typing import NoReturn

import pytest
from temporalio.api.failure.v1 import Failure
from temporalio.exceptions import ApplicationError

from tests.scheduling.intercepted import execute
from wharfinger.errors import InvalidObject, RequestTooLarge, Unavailable
from wharfinger.fleet.effects.fencing import FLEETS
from wharfinger.framework.status import call
from wharfinger.process.connecting import data_converter
from wharfinger.process.failures import MESSAGE_LIMIT


async def encoded(error: ApplicationError) -> Failure:
    failure = Failure()
    await data_converter.encode_failure(error, failure)
    return failure


def chatty() -> None:
    raise ValueError("all I know: " + "x" * 5_000_000)


async def chatty_plugin() -> None:
    call("Chatty", "Filter", chatty)


async def raising(error: Exception) -> NoReturn:
    raise error


async def test_whatever_a_plugin_raises_its_failure_fits_a_history(caplog: pytest.LogCaptureFixture) -> None:
    """A message beyond 4 MiB gets the run terminated by Temporal, and so its chain, without a reason that users see."""
    caplog.set_level(logging.WARNING)
    with pytest.raises(ApplicationError) as raised:
        await execute(chatty_plugin)

    assert len(raised.value.message) == MESSAGE_LIMIT
    assert (await encoded(raised.value)).ByteSize() < 8192
    [record] = caplog.records
    assert record.exc_info is not None
    assert "Chatty" in caplog.text


async def test_unresponsive_store_is_unavailable_without_a_traceback(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with pytest.raises(ApplicationError) as raised:
        await execute(raising, Unavailable("no answer"))

    assert (raised.value.type, raised.value.non_retryable) == ("Unavailable", False)
    assert caplog.records == []


async def test_what_etcd_will_never_take_is_not_tried_without_end() -> None:
    with pytest.raises(ApplicationError) as raised:
        await execute(raising, RequestTooLarge("etcdserver: request is too large"))

    assert (raised.value.type, raised.value.non_retryable) == ("SchedulerError", True)


async def test_what_fails_an_attempt_unexpectedly_is_not_tried_again() -> None:
    with pytest.raises(ApplicationError) as raised:
        await execute(raising, KeyError("node"))

    assert (raised.value.type, raised.value.non_retryable) == ("SchedulerError", True)
    assert raised.value.message == "KeyError: 'node'"


async def test_what_fails_a_fleet_unexpectedly_is_tried_again(caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(ApplicationError) as raised:
        await execute(raising, KeyError("slot"), failures=FLEETS)

    assert (raised.value.type, raised.value.non_retryable) == ("FleetError", False)
    assert raised.value.message == "KeyError: 'slot'"
    assert caplog.records[0].exc_info


async def test_fleet_error_with_a_message_costs_no_traceback_a_try(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with pytest.raises(ApplicationError) as raised:
        await execute(raising, InvalidObject("the grant is no JSON"), failures=FLEETS)

    assert (raised.value.type, raised.value.message) == ("FleetError", "the grant is no JSON")
    [record] = caplog.records
    assert not record.exc_info


async def test_application_error_passes_the_interceptor_unchanged() -> None:
    own = ApplicationError("no room", type="Behind", next_retry_delay=timedelta(seconds=3))
    with pytest.raises(ApplicationError) as raised:
        await execute(raising, own)

    assert raised.value is own


async def test_cancellation_passes_the_interceptor() -> None:
    async def cancelled() -> None:
        raise asyncio.CancelledError

    with pytest.raises(asyncio.CancelledError):
        await execute(cancelled)


async def test_cause_of_an_error_does_not_travel() -> None:
    with pytest.raises(ApplicationError) as raised:
        await execute(raising, KeyError("node"))

    assert not (await encoded(raised.value)).HasField("cause")
