"""How contracts become payloads: as `temporalio.contrib.pydantic` does it, with what it knows kept.

The SDK makes a payload converter for every context it converts in, several times a workflow task, and each
of the library's forgets the type adapters of the one before. Building those of our unions anew would cost
more than the conversion. What is written is the same, so that any client with a JSON converter understands.
"""

from __future__ import annotations

from temporalio.contrib.pydantic import PydanticPayloadConverter
from temporalio.converter import CompositePayloadConverter, DataConverter

_SHARED = tuple(PydanticPayloadConverter().converters.values())


class ContractPayloadConverter(CompositePayloadConverter):
    """A `PydanticPayloadConverter` whose parts are shared by all; they keep no state but caches."""

    def __init__(self) -> None:
        super().__init__(*_SHARED)


data_converter = DataConverter(payload_converter_class=ContractPayloadConverter)
"""For every Temporal client of ours."""
