"""Arguments and options that the commands of `wharfinger fleet` share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from wharfinger.cli.options import Connection
from wharfinger.contracts.names import check_tenant

if TYPE_CHECKING:
    from wharfinger.client.fleet_changes import Changed, Edit

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


async def change_here(connection: Connection, tenant: str, edit: Edit, reason: str) -> Changed:
    """`change` for a command: with its connection, by its user."""
    from wharfinger.cli.connect import open_store
    from wharfinger.client.fleet_changes import author, change
    from wharfinger.client.fleet_templates import known_plugins

    async with open_store(connection) as store:
        return await change(store, tenant, edit, author(reason), catalog=known_plugins())
