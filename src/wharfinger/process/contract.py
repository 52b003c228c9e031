"""The base of everything that travels between workflows and activities."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

from pydantic import BaseModel, ConfigDict, SerializerFunctionWrapHandler, model_serializer

if TYPE_CHECKING:
    from _typeshed import DataclassInstance


class Contract(BaseModel):
    """Frozen; unknown fields of a newer release are ignored, and errors do not repeat what was given.

    Validators are built with the class. Releases of pydantic before 2.14 build a deferred one without a lock, and
    workflows decode payloads in threads of their own.
    """

    model_config = ConfigDict(frozen=True, extra="ignore", hide_input_in_errors=True)

    @classmethod
    def alike(cls, source: Contract | DataclassInstance, **fields: Any) -> Self:
        """A contract with these fields, and with those of the source that have the same names and are not given."""
        theirs = type(source).model_fields if isinstance(source, Contract) else type(source).__dataclass_fields__
        shared = (name for name in cls.model_fields if name in theirs and name not in fields)
        return cls(**{name: getattr(source, name) for name in shared}, **fields)


class Sparse(Contract):
    """A contract of which most fields mostly have their defaults: those are not written.

    `kind`, which tells contracts apart, is always written.
    """

    @model_serializer(mode="wrap")
    def _only_unusual(self, serialize: SerializerFunctionWrapHandler) -> dict[str, Any]:
        written: dict[str, Any] = serialize(self)
        fields = type(self).model_fields
        return {
            name: value
            for name, value in written.items()
            if name == "kind" or getattr(self, name) != fields[name].default
        }
