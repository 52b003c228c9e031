"""The base of everything that travels between workflows and activities."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Contract(BaseModel):
    """Frozen; unknown fields of a newer release are ignored."""

    model_config = ConfigDict(frozen=True, extra="ignore")
