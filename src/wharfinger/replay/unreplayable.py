"""Why a recorded decision cannot be made again. It is counted apart, and never as the same."""

from __future__ import annotations

from enum import StrEnum


class Lack(StrEnum):
    """What is missing."""

    COMPACTED = "compacted"
    """Etcd keeps the state no more."""
    FUTURE = "future"
    """Etcd has not got so far: it was restored from a backup since."""
    PROFILE = "profile"
    """The configuration by which was decided is gone, or its plugins are not installed here."""
    OVERLAY = "overlay"
    """What the worker had assumed is not recorded, or cannot be told from its digest."""
    MEMBERSHIP = "membership"
    """Nobody knows which workers shared the nodes."""
    STATE = "state"
    """Etcd's state is not the one that was decided on: it was changed behind wharfinger's back."""
    VERDICT = "verdict"
    """A plugin refused the node at Reserve or Permit, and an earlier release did not record where."""
    CLOCK = "clock"
    """The time of day had a say, and an earlier release did not record it."""
    EXTENDER = "extender"
    """An extender would have to be asked, and it is not."""
    PLUGIN = "plugin"
    """A plugin failed."""
    RECORD = "record"
    """What the run recorded cannot be read, or was taken by retention while it was read."""


class Unreplayable(Exception):
    """A decision cannot be made again; `lack` says what is missing, the text what exactly."""

    def __init__(self, lack: Lack, detail: str) -> None:
        super().__init__(detail)
        self.lack = lack
        self.detail = detail
