"""Arguments and options that the commands of `wharfinger fleet` share."""

from __future__ import annotations

from typing import Annotated

import typer

from wharfinger.contracts.names import check_tenant

FleetArgument = Annotated[
    str, typer.Argument(help="Whose fleet: a tenant's, or `common`.", metavar="T", callback=check_tenant)
]
"""One that no fleet can have, such as a script's empty variable, is refused whatever the command would do."""

ReasonOption = Annotated[
    str,
    typer.Option(
        "--reason", help="Why: kept with the object; `fleet status` and `fleet history` tell it.", metavar="TEXT"
    ),
]
"""Of commands that write; without it no reason is kept."""

TimeoutOption = Annotated[str, typer.Option("--timeout", help="How long to wait: 90s, 5m, 1h.", metavar="DURATION")]
