"""Arguments and options that the commands of `wharfinger fleet` share."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

FleetArgument = Annotated[str, typer.Argument(help="Whose fleet: a tenant's, or `common`.", metavar="T")]

ReasonOption = Annotated[
    str,
    typer.Option(
        "--reason", help="Why: kept with the object; `fleet status` and `fleet history` tell it.", metavar="TEXT"
    ),
]
"""Of commands that write; without it no reason is kept."""

TimeoutOption = Annotated[str, typer.Option("--timeout", help="How long to wait: 90s, 5m, 1h.", metavar="DURATION")]


class Goal(StrEnum):
    """What is waited for."""

    COMPLETE = "complete"
    READY = "ready"
    PAUSED = "paused"
    DELETED = "deleted"
