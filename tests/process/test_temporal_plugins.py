"""Plugins of the Temporal SDK are found by name, and histories are decoded by the codec that one brings."""

from __future__ import annotations

import json
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest
from temporalio.api.common.v1 import Payload, Payloads, SearchAttributes
from temporalio.api.history.v1 import HistoryEvent
from temporalio.converter import PayloadCodec
from temporalio.plugin import SimplePlugin

from wharfinger.errors import ConfigurationError, ServerError
from wharfinger.process.temporal_plugins import decode, plugins_of
from wharfinger.settings import TemporalSettings


class Named(SimplePlugin):
    """A plugin that a test names."""

    def __init__(self) -> None:
        super().__init__("named")


class Broken:
    """No plugin: it cannot even be made."""

    def __init__(self) -> None:
        raise OSError("no key")


def test_plugins_are_made_in_order() -> None:
    first, second = plugins_of(TemporalSettings(plugins=(f"{__name__}:Named", f"{__name__}:Named")))
    assert (first.name(), second.name()) == ("named", "named")
    assert first is not second


@pytest.mark.parametrize(
    ("plugin", "says"),
    [
        ("named", "is no MODULE:NAME"),
        (":Named", "is no MODULE:NAME"),
        ("nowhere:Named", "No module named 'nowhere'"),
        (f"{__name__}:Missing", "has no attribute 'Missing'"),
        (f"{__name__}:Broken", "OSError: no key"),
        ("pathlib:Path", "is no temporalio.client.Plugin"),
    ],
)
def test_a_plugin_that_cannot_be_had_is_named_in_one_line(plugin: str, says: str) -> None:
    with pytest.raises(ConfigurationError, match="--temporal-plugin ") as refused:
        plugins_of(TemporalSettings(plugins=(plugin,)))
    assert says in str(refused.value)


class Backwards(PayloadCodec):
    """Turns data around."""

    async def encode(self, payloads: Sequence[Payload]) -> list[Payload]:
        return [Payload(data=one.data[::-1]) for one in payloads]

    decode = encode


async def test_all_payloads_of_an_event_are_decoded_but_search_attributes() -> None:
    client: Any = SimpleNamespace(data_converter=SimpleNamespace(payload_codec=Backwards()))
    event = HistoryEvent()
    started = event.workflow_execution_started_event_attributes
    started.input.CopyFrom(Payloads(payloads=[Payload(data=b"eno"), Payload(data=b"owt")]))
    started.memo.fields["a"].data = b"omem"
    started.search_attributes.CopyFrom(SearchAttributes(indexed_fields={"a": Payload(data=b"indexed")}))
    failure = started.continued_failure
    failure.cause.encoded_attributes.data = json.dumps({"message": "deep", "stack_trace": "where"}).encode()[::-1]
    failure.application_failure_info.details.payloads.add(data=b"liated")

    await decode(client, [event], "a run")

    assert [one.data for one in started.input.payloads] == [b"one", b"two"]
    assert started.memo.fields["a"].data == b"memo"
    assert started.search_attributes.indexed_fields["a"].data == b"indexed"
    assert (failure.cause.message, failure.cause.stack_trace) == ("deep", "where")
    assert failure.application_failure_info.details.payloads[0].data == b"detail"


async def test_without_a_codec_events_stay_as_they_are() -> None:
    client: Any = SimpleNamespace(data_converter=SimpleNamespace(payload_codec=None))
    event = HistoryEvent()
    event.workflow_execution_started_event_attributes.input.payloads.add(data=b"plain")
    await decode(client, [event], "a run")
    assert event.workflow_execution_started_event_attributes.input.payloads[0].data == b"plain"


class Locked(Backwards):
    """Has another key."""

    async def decode(self, payloads: Sequence[Payload]) -> list[Payload]:
        raise ValueError("wrong key")


async def test_what_cannot_be_decoded_is_named() -> None:
    client: Any = SimpleNamespace(data_converter=SimpleNamespace(payload_codec=Locked()))
    event = HistoryEvent()
    event.workflow_execution_started_event_attributes.input.payloads.add(data=b"ciphertext")
    with pytest.raises(ServerError, match="what Temporal has of run 7 cannot be decoded: ValueError: wrong key"):
        await decode(client, [event], "run 7")
