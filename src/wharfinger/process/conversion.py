"""How contracts become payloads: as `temporalio.contrib.pydantic` does it, with type adapters kept.

The SDK makes a payload converter for every context it converts in, several times a workflow task, and each
of the library's forgets the type adapters of the one before. Building those of our unions anew would cost
more than the conversion. What is written is the same, so that any client with a JSON converter understands.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pydantic import ValidationError
from temporalio.api.common.v1 import Payload
from temporalio.contrib.pydantic import PydanticPayloadConverter
from temporalio.converter import CompositePayloadConverter, DataConverter

_SHARED = tuple(PydanticPayloadConverter().converters.values())


class ContractPayloadConverter(CompositePayloadConverter):
    """A `PydanticPayloadConverter` whose parts are shared by all; they keep no state but caches."""

    def __init__(self) -> None:
        super().__init__(*_SHARED)

    def from_payloads(self, payloads: Sequence[Payload], type_hints: list[type] | None = None) -> list[Any]:
        """The values; an invalid one is reported in one line instead of several of the library's."""
        try:
            return super().from_payloads(payloads, type_hints)
        except ValidationError as error:
            first = error.errors(include_url=False, include_context=False, include_input=False)[0]
            where = ".".join(map(str, first["loc"]))
            raise ValueError(f"what was sent cannot be read: {f'{where}: ' if where else ''}{first['msg']}") from None
        except RuntimeError as error:  # of protobuf's converters; a workflow would repeat its task for ever
            raise ValueError(f"what was sent cannot be read: {error}") from error


data_converter = DataConverter(payload_converter_class=ContractPayloadConverter)
"""For every Temporal client of ours."""
