"""Plugins of the Temporal SDK that users name: for example one whose data converter has a payload codec.

The SDK lets a plugin of the client take part in its workers, too. What reads histories itself decodes them here first.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from importlib import import_module

from google.protobuf.message import Message
from temporalio.api.common.v1 import Payload, Payloads, SearchAttributes
from temporalio.api.failure.v1 import Failure
from temporalio.client import Client, Plugin
from temporalio.converter import PayloadCodec

from wharfinger.errors import ConfigurationError, ServerError
from wharfinger.settings import TemporalSettings


def plugins_of(settings: TemporalSettings) -> list[Plugin]:
    """The plugins that the settings name, made anew. Raises `ConfigurationError`."""
    return [_made(name) for name in settings.plugins]


def _made(name: str) -> Plugin:
    module, colon, attribute = name.partition(":")
    if not (module and colon and attribute):
        raise ConfigurationError(f"--temporal-plugin {name!r} is no MODULE:NAME")
    try:
        made = getattr(import_module(module), attribute)()
    except Exception as error:
        raise ConfigurationError(f"--temporal-plugin {name}: {type(error).__name__}: {error}") from error
    if not isinstance(made, Plugin):
        raise ConfigurationError(f"--temporal-plugin {name}: a {type(made).__name__} is no temporalio.client.Plugin")
    return made


async def decode(client: Client, messages: Iterable[Message], of: str) -> None:
    """Decode all payloads in these messages, where they lie, by the codec of the client's data converter, if any.

    Also the texts of failures, where the converter encodes them. `of`: whose they are, for the error: raises
    `ServerError` where the codec cannot decode one.
    """
    codec = client.data_converter.payload_codec
    if codec is None:
        return
    try:
        for message in messages:
            for found in _coded(message):
                await _decoded(codec, found)
    except Exception as error:  # a codec is anybody's code, and its key may be another one
        raise ServerError(f"what Temporal has of {of} cannot be decoded: {type(error).__name__}: {error}") from error


async def _decoded(codec: PayloadCodec, found: Payloads | Payload | Failure) -> None:
    if isinstance(found, Payloads):
        await codec.decode_wrapper(found)
    elif isinstance(found, Payload):
        found.CopyFrom((await codec.decode([found]))[0])
    else:  # after its payload: see `_coded`
        texts = json.loads(found.encoded_attributes.data or b"{}")
        found.message = texts.get("message", found.message)
        found.stack_trace = texts.get("stack_trace", found.stack_trace)


def _coded(message: Message) -> Iterator[Payloads | Payload | Failure]:
    """The outermost messages that hold payloads, and failures with encoded texts, each after what it holds.

    Temporal indexes search attributes, so no codec encodes them.
    """
    if isinstance(message, Payloads | Payload):
        yield message
    elif not isinstance(message, SearchAttributes):
        for field, value in message.ListFields():
            if field.message_type is None:
                continue
            if field.message_type.GetOptions().map_entry:
                values = value.values() if field.message_type.fields_by_name["value"].message_type is not None else ()
            else:
                values = value if field.is_repeated else (value,)
            for each in values:
                yield from _coded(each)
        if isinstance(message, Failure) and message.HasField("encoded_attributes"):
            yield message
